"""Do violations decline? Late episodes are compared with early ones, and little is said about few.

    early      the episodes that begin in the first quarter of the steps
    late       those that begin in the second half
    rate       unsafe steps per step, R = sum_k u_k / sum_k l_k over the episodes k; violation per step likewise
    error      of R: the unsafe steps of one episode depend on each other, so episodes are counted, not steps:
               var R = n / (n - 1) sum_k (u_k - R l_k)^2 / (sum_k l_k)^2, and at least that of one unsafe step

They do not decline enough if the late rate is above half of the early one by CERTAIN standard errors of the difference,
and the violation per step is above half of the early one, too: fewer or smaller violations are progress.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from everystep.training.diagnosis.finding import Finding

EARLY, LATE = 0.25, 0.5  # shares of the steps
FEWEST_EARLY, FEWEST_LATE = 3, 5  # episodes, below which nothing is said
FEWEST_UNSAFE, LEAST_RATE = 10, 0.01  # late unsafe steps, and their share, below which nothing is said
DECLINED = 0.5  # share of the early rate to which a training that learns should come
NOT_FEWER = 0.8  # share of it above which they do not decline at all
CERTAIN = 2.0


class Rate(NamedTuple):
    """Unsafe steps of some episodes."""

    unsafe: int
    steps: int
    violation: float
    error: float

    @property
    def share(self) -> float:
        return self.unsafe / self.steps


def rate(unsafe: np.ndarray, length: np.ndarray, violation: np.ndarray) -> Rate:
    """The rate over some episodes, at least two, and its standard error."""
    n, total, steps = len(length), float(unsafe.sum()), float(length.sum())
    R = total / steps
    by_episode = n / (n - 1) * ((unsafe - R * length) ** 2).sum() / steps**2
    return Rate(int(total), int(steps), float(violation.sum()), math.sqrt(max(by_episode, 1 / steps**2)))


def finding(columns: Mapping[str, np.ndarray], remedy: str) -> Finding | None:
    """That violations do not decline, from the rows of all episodes."""
    length = np.asarray(columns["length"], float)
    begins, total = np.cumsum(length) - length, length.sum()
    parts = [begins < EARLY * total, begins >= LATE * total]
    if parts[0].sum() < FEWEST_EARLY or parts[1].sum() < FEWEST_LATE:
        return None
    early, late = (
        rate(*(np.asarray(columns[name], float)[part] for name in ("unsafe_steps", "length", "violation")))
        for part in parts
    )
    if late.unsafe < FEWEST_UNSAFE or late.share < LEAST_RATE:
        return None
    error = math.hypot(late.error, DECLINED * early.error)
    if late.share - DECLINED * early.share < CERTAIN * error:
        return None
    if late.violation / late.steps <= DECLINED * early.violation / early.steps:
        return None
    if late.share > early.share + CERTAIN * math.hypot(late.error, early.error):
        words = "increase"
    else:
        words = "do not decline" if late.share >= NOT_FEWER * early.share else "decline little"
    return Finding(
        "violations",
        f"{late.unsafe:,} of the last {late.steps:,} steps were unsafe ({late.share:.0%}), and {early.unsafe:,} of the "
        f"first {early.steps:,} ({early.share:.0%}), so violations {words}",
        remedy,
        {
            "late_unsafe": late.unsafe,
            "late_steps": late.steps,
            "early_unsafe": early.unsafe,
            "early_steps": early.steps,
        },
    )
