"""Curves of a training over the number of steps: each seed as it went, and their mean with its interval.

Between the ends of episodes a curve is a straight line. Means of several seeds end where the first of them does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from everystep.experiments import statistics
from everystep.reports.training.results import SeedResult, TrainingResults

POINTS = 400  # of a curve
SMOOTH = 0.1  # a return is the mean of that share of the episodes
LEAST = 5  # and of at least that many


class Curve:
    """A number after each episode of a seed, over the steps until then."""

    def __init__(self, seed: SeedResult, values: np.ndarray, from_start: bool = True) -> None:
        ends = np.cumsum(seed.columns["length"])
        self.steps = np.concatenate([[0], ends]) if from_start else ends
        self.values = np.concatenate([[0.0], values]) if from_start else values

    def at(self, steps: np.ndarray) -> np.ndarray:
        """Between the ends of episodes, on a straight line."""
        return np.asarray(np.interp(steps, self.steps, self.values))


class Mean(NamedTuple):
    """The mean over seeds at some steps, and its 95 % interval."""

    steps: np.ndarray
    interval: statistics.Interval


def window(results: TrainingResults) -> int:
    """The number of episodes that a moving average is over."""
    episodes = min(each.episodes for each in results.seeds)
    return max(min(LEAST, episodes), round(SMOOTH * episodes))


def violation_so_far(results: TrainingResults) -> list[Curve]:
    return [Curve(each, np.cumsum(each.columns["violation"])) for each in results.seeds]


def unsafe_so_far(results: TrainingResults) -> list[Curve]:
    return [Curve(each, np.cumsum(each.columns["unsafe_steps"])) for each in results.seeds]


def returns(results: TrainingResults) -> list[Curve]:
    """The moving average of the return."""
    return _averaged(results, lambda seed, average: average(seed.columns["return"]))


def unsafe_share(results: TrainingResults) -> list[Curve]:
    """The share of the steps that were unsafe, in the episodes of a moving average."""
    share = lambda seed, average: average(seed.columns["unsafe_steps"]) / average(seed.columns["length"])
    return _averaged(results, share)


def _averaged(
    results: TrainingResults, of: Callable[[SeedResult, Callable[[np.ndarray], np.ndarray]], np.ndarray]
) -> list[Curve]:
    average = lambda column: statistics.moving_average(np.asarray(column, float), window(results))
    return [Curve(each, of(each, average), from_start=False) for each in results.seeds]


def mean(curves: list[Curve], points: int = POINTS) -> Mean:
    """The mean of curves where all of them are."""
    first, last = max(each.steps[0] for each in curves), min(each.steps[-1] for each in curves)
    shown = np.linspace(first, max(last, first), points)
    samples = np.stack([each.at(shown) for each in curves])
    return Mean(shown, statistics.mean_over_seeds(samples, resamples=1000))


def end(curves: list[Curve]) -> float:
    """Where the longest of them ends."""
    return max(float(each.steps[-1]) for each in curves)
