"""The numbers and curves that tables and figures show, from batches of seeds: not all rows need be in memory.

A batch is the columns of some seeds, (seeds, K) each. The numbers of a seed depend on that seed alone: any batches give
the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from everystep.experiments import statistics

FINAL = 100  # "final" is the mean over this many last episodes
WINDOW = 50  # episodes in a moving average
POINTS = 2000  # of a curve, at most: more cannot be seen, and resampling them takes memory
DRAWN = {
    "return": lambda curves: statistics.moving_average(curves["return"], WINDOW),
    "violation": lambda curves: statistics.moving_average(curves["violation"], WINDOW),
    "cumulative_regret": lambda curves: np.cumsum(curves["regret"], -1),
    "cumulative_violation": lambda curves: np.cumsum(curves["violation"], -1),
}

Batch = Mapping[str, np.ndarray]


class Bands(NamedTuple):
    """The curves of one agent as they are drawn: means over seeds with their intervals at some episodes."""

    episodes: np.ndarray
    curves: dict[str, statistics.Interval]


class Reduced(NamedTuple):
    """One agent: the numbers of each seed, (seeds,) each, and the curves to draw."""

    samples: dict[str, np.ndarray]
    bands: Bands


def samples(curves: Batch) -> dict[str, np.ndarray]:
    """The numbers of each seed whose means over seeds are reported.

    avoidable_violation is the total violation without what no policy avoids from the starts of the episodes; both are
    the same where there is no such column.
    """
    total = curves["violation"].sum(-1)
    return {
        "final_value": statistics.last(curves["value"], FINAL),
        "final_violation": statistics.last(curves["violation"], FINAL),
        "total_violation": total,
        "avoidable_violation": total - curves["least_violation"].sum(-1) if "least_violation" in curves else total,
        "total_regret": curves["regret"].sum(-1),
        **({"plans": curves["planned"].sum(-1)} if "planned" in curves else {}),
        **({"most_false_labels": curves["false_labels"].max(-1)} if "false_labels" in curves else {}),
    }


def shown_episodes(K: int) -> np.ndarray:
    """The episodes of K that are drawn, counted from 0."""
    return np.unique(np.linspace(0, K - 1, POINTS).astype(int)) if K > POINTS else np.arange(K)


def reduced(batches: Iterable[Batch]) -> Reduced:
    """The samples and bands of one agent; memory holds one batch, and the drawn points of all seeds."""
    numbers, points, shown = [], [], np.arange(0)
    for batch in batches:
        shown = shown_episodes(batch["value"].shape[1])
        numbers.append(samples(batch))
        points.append({name: curve(batch)[:, shown] for name, curve in DRAWN.items()})
    joined = lambda parts, name: np.concatenate([part[name] for part in parts])
    over_seeds = lambda name: statistics.mean_over_seeds(joined(points, name), np.random.default_rng(0), resamples=1000)
    return Reduced(
        {name: joined(numbers, name) for name in numbers[0]},
        Bands(shown + 1, {name: over_seeds(name) for name in DRAWN}),
    )
