"""What a policy believes about costs along one or two coordinates of the observation, the others held.

    safe      the upper end of the cost interval is at most 0, for every constraint
    unsafe    the lower end is above 0, for some constraint
    unknown   neither, or the observation is outside of what was seen (`observed.py`)

The interval is that of `Policy.bounds` at step 1; of an agent that looks ahead it is of the harm ahead, less the
tolerance. Where observations are integers from a list, every state is shown instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from everystep.errors import EverystepError, shown
from everystep.training.agent.contract import TrainingPlan
from everystep.training.policy.observed import MARGIN
from everystep.training.policy.policy import Policy

POINTS = 49  # along each coordinate
TRIED = 21  # points along a coordinate when its effect is measured
ROWS = POINTS * 7  # that are evaluated together, so that kernels are compiled once
MOST_STATES = 500


class NothingToShowError(EverystepError):
    """There is no cost model to show, for the reason in the sentence."""


class Ranges(NamedTuple):
    """Where the observed coordinates lie: their ends with a margin, and their medians, at which they are held."""

    low: np.ndarray
    held: np.ndarray
    high: np.ndarray


class Beliefs(NamedTuple):
    """For every action at n points (A, n): 1 safe, -1 unsafe, 0 unknown; the ends of the worst interval, its centre."""

    labels: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    estimate: np.ndarray


class Slice(NamedTuple):
    """Beliefs along one or two coordinates: points (n,) along each, the beliefs (A, n, n) or (A, 1, n)."""

    along: tuple[int, ...]
    points: tuple[np.ndarray, ...]
    ranges: Ranges
    beliefs: Beliefs


# --- observations that are integers -----------------------------------------------------------------------------------
def states(policy: Policy) -> np.ndarray | None:
    """All observations, where they are integers from a list; None where they are vectors."""
    sizes, first = policy.observed.sizes, policy.observed.first
    if sizes is None or first is None or len(sizes) != 1:
        return None
    if sizes[0] > MOST_STATES:
        raise NothingToShowError(f"There are {sizes[0]:,} states, too many to show one by one.")
    return np.arange(first[0], first[0] + sizes[0])


# --- observations that are vectors ------------------------------------------------------------------------------------
def ranges(seen: dict[str, list[float]] | None) -> Ranges:
    """The ranges of what was seen."""
    if seen is None:
        raise NothingToShowError("The folder does not hold the range of the observations; that of images is not kept.")
    low, held, high = (np.array(seen[name]) for name in ("low", "median", "high"))
    margin = MARGIN * (high - low)
    return Ranges(low - margin, held, high + margin)


def check_along(along: Sequence[int], coordinates: int) -> tuple[int, ...]:
    """Two different coordinates, from 0; raises what they are not."""
    if len(along) != 2 or len(set(along)) < 2 or not all(0 <= each < coordinates for each in along):
        raise EverystepError(
            f"--along is '{shown(','.join(map(str, along)))}'; give two different coordinates from 0 to "
            f"{coordinates - 1}, such as 0,1."
        )
    return tuple(along)


def strongest(policy: Policy, where: Ranges) -> tuple[int, ...]:
    """The two coordinates along which the estimates change most, the others held; the one, if there is one."""
    effects = []
    for j in range(len(where.held)):
        x = np.tile(where.held, (TRIED, 1))
        x[:, j] = np.linspace(where.low[j], where.high[j], TRIED)
        estimate = believed(policy, x).estimate
        effects.append(float(np.ptp(estimate, axis=1).max()))
    order = np.argsort(-np.array(effects), kind="stable")[:2]
    return tuple(sorted(map(int, order)))


def along(policy: Policy, where: Ranges, which: tuple[int, ...]) -> Slice:
    """The beliefs on a grid along these coordinates."""
    points = tuple(np.linspace(where.low[j], where.high[j], POINTS) for j in which)
    grid = np.meshgrid(*points)  # the first coordinate varies along the last axis
    x = np.tile(where.held, (grid[0].size, 1))
    for j, values in zip(which, grid, strict=True):
        x[:, j] = values.ravel()
    shape = (-1, *np.atleast_2d(grid[0]).shape)
    found = believed(policy, x)
    return Slice(which, points, where, Beliefs(*(each.reshape(shape) for each in found)))


# --- the model --------------------------------------------------------------------------------------------------------
def believed(policy: Policy, observations: np.ndarray) -> Beliefs:
    """What a policy believes at some observations, at the first step of its plan."""
    plan = policy.plan
    if not plan.has_costs:
        raise NothingToShowError("This agent does not estimate costs.")
    pieces: list[Beliefs] = []
    for first in range(0, len(observations), ROWS):
        x = observations[first : first + ROWS]
        padded = np.concatenate([x, np.repeat(x[-1:], ROWS - len(x), axis=0)])
        lower, upper = plan.bounds(0, padded)
        worst = (policy.labels(padded).T, lower.max(0), upper.max(0), _estimate(plan, padded))
        pieces.append(Beliefs(*(each[:, : len(x)] for each in worst)))
    return Beliefs(*(np.concatenate(parts, 1) for parts in zip(*pieces, strict=True)))


def _estimate(plan: TrainingPlan, x: np.ndarray) -> np.ndarray:
    """(A, n): the largest mean of a constraint; of an agent that looks ahead, the mean harm less the tolerance."""
    return np.asarray(plan.ends(plan.estimates(0, x), 0.0).max(0))
