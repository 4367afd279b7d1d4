"""Checks of what was played: do violations decline, do they pay, are rewards on one scale, does a seed repeat?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from everystep.environments.play.batch import Batch
from everystep.environments.play.global_draws import NAMES, GlobalDraws
from everystep.training.diagnosis.finding import Finding

# --- violations -------------------------------------------------------------------------------------------------------
EARLY, LATE = 0.25, 0.5  # shares of the steps
FEWEST_EARLY, FEWEST_LATE = 3, 5  # episodes, below which nothing is reported
FEWEST_UNSAFE, LEAST_RATE = 10, 0.01  # late unsafe steps, and their share, below which nothing is reported
DECLINED = 0.5  # share of the early rate that a training which learns should reach
NOT_FEWER = 0.8  # share of it above which they do not decline at all
CERTAIN = 2.0  # standard errors


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
    """The rate R = sum_k u_k / sum_k l_k of unsafe steps over at least two episodes k, and its standard error.

    The unsafe steps of one episode depend on each other, so the error counts episodes, not steps:

        var R = n / (n - 1) sum_k (u_k - R l_k)^2 / (sum_k l_k)^2,   at least that of one unsafe step
    """
    n, total, steps = len(length), float(unsafe.sum()), float(length.sum())
    R = total / steps
    by_episode = n / (n - 1) * ((unsafe - R * length) ** 2).sum() / steps**2
    return Rate(int(total), int(steps), float(violation.sum()), math.sqrt(max(by_episode, 1 / steps**2)))


def violation_trend(columns: Mapping[str, np.ndarray], remedy: str) -> Finding | None:
    """Violations that do not decline enough, from the rows of all episodes.

    Early episodes begin in the first quarter of the steps, late ones in the second half. The late rate must be above
    half of the early one by CERTAIN standard errors of the difference, and so must the violation per step: fewer or
    smaller violations are progress.
    """
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
    if late.share - DECLINED * early.share < CERTAIN * math.hypot(late.error, DECLINED * early.error):
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


# --- endings ----------------------------------------------------------------------------------------------------------
WINDOW = 10  # steps before the end of an episode
MOST = 0.8  # share of the unsafe steps, and of the ended episodes
FEWEST_ENDED = 5  # episodes, below which nothing is reported
SHARE_ENDED = 0.25  # of the episodes that must end after an unsafe step


def early_ends(batches: Sequence[Batch]) -> Finding | None:
    """Violations that pay because they end the episode, from the last transitions.

    A terminated episode earns 0 from then on. If rewards are negative, termination is optimal, and where a violation
    terminates the episode, the agent learns to violate. The sign: most terminated episodes have an unsafe step among
    their last WINDOW steps, most unsafe steps are there, and the mean reward of all other steps is negative.

    A constant added to every reward changes only what a terminated episode loses.
    """
    episodes = [batch.rows(which) for batch in batches for which in batch.episodes()]
    ended = [bool(each.terminated[-1]) for each in episodes]
    unsafe = [np.asarray((each.costs > 0).any(1)) for each in episodes]
    ends = [each[-WINDOW:] for each, over in zip(unsafe, ended, strict=True) if over]
    by_unsafe, in_ends = sum(bool(each.any()) for each in ends), sum(int(each.sum()) for each in ends)
    total = sum(int(each.sum()) for each in unsafe)
    if total < FEWEST_UNSAFE or by_unsafe < max(FEWEST_ENDED, MOST * len(ends), SHARE_ENDED * len(episodes)):
        return None
    if in_ends < MOST * total:
        return None
    rewards = np.concatenate([each.rewards[: len(each) - over] for each, over in zip(episodes, ended, strict=True)])
    if not len(rewards) or rewards.mean() >= 0:
        return None
    constant = _rounded_up(-float(np.quantile(rewards, 0.05) + rewards.mean()))  # clearly above 0
    return Finding(
        "endings",
        f"{in_ends} of the last {total} unsafe steps were among the last {WINDOW} steps of episodes that ended, and "
        f"the mean reward of a step is {rewards.mean():.2g} while an ended episode earns 0, so it pays to violate the "
        "constraint and end early",
        "unless ending is the goal, add a constant to every reward, so that a safe step earns more than 0: "
        f"gymnasium.wrappers.TransformReward(env, lambda reward: reward + {constant:g})",
        {"unsafe": total, "unsafe_in_ends": in_ends, "mean_reward": float(rewards.mean()), "constant": constant},
    )


def _rounded_up(number: float) -> float:
    """To one digit, upward."""
    unit = 10.0 ** math.floor(math.log10(max(number, 1e-12)))
    return math.ceil(number / unit - 1e-9) * unit


# --- rewards ----------------------------------------------------------------------------------------------------------
LOWEST = 0.1  # the share of steps that outliers may have
RANGES = 10


def reward_outlier(rewards: np.ndarray) -> Finding | None:
    """One low reward that compresses the scale of all others.

    Rewards are scaled to [0, 1] by their range, so a penalty of -100 among rewards of 1 leaves them a hundredth of it.
    The lowest reward is an outlier if it is below the others (all but the lowest tenth, and 0, the reward of an ended
    episode) by more than RANGES times their range.
    """
    if not len(rewards):
        return None
    least, typical = rewards.min(), np.quantile(rewards, LOWEST, method="lower")
    low, high = min(typical, 0.0), max(rewards.max(), 0.0)
    if low == high or least >= low - RANGES * (high - low):
        return None
    share = (high - low) / (high - least)
    return Finding(
        "rewards",
        f"a reward of {least:g} compresses the others, from {low:g} to {high:g}, into {share:.1g} of [0, 1]",
        "leave what it punishes to the constraint, or set reward_range",
        {"least": float(least), "low": float(low), "high": float(high)},
    )


# --- seeds ------------------------------------------------------------------------------------------------------------
def global_draws(draws: GlobalDraws) -> Finding | None:
    """An environment that draws from a global generator, so that its seed does not repeat an episode."""
    if not draws.found:
        return None
    return Finding(
        "seeds",
        f"the environment draws from {' and '.join(NAMES[each] for each in draws.found)}, which its seed does not "
        "set, so the same seed gives different episodes",
        "let it draw from self.np_random",
    )
