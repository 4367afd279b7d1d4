"""Do agents learn to violate the constraint in order to end an episode?

An ended episode earns 0 from then on. If rewards are negative, ending is the best that can be done, and where a
violation ends an episode, the agent learns to violate: episodes are short, and their last steps unsafe. It shows in the
last transitions:

    ended       an episode whose last step is `terminated`, and not cut
    its end     the last WINDOW steps of it
    by unsafe   most ended episodes have an unsafe step in their end, and most unsafe steps lie in such ends
    negative    the mean reward of all other steps

A constant that is added to every reward changes nothing but what an ended episode loses, and makes ending expensive.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from everystep.environments.play.batch import Batch
from everystep.training.diagnosis.finding import Finding

WINDOW = 10  # steps before the end of an episode
MOST = 0.8  # share of the unsafe steps, and of the ended episodes
FEWEST_UNSAFE, FEWEST_ENDED = 10, 5  # below which nothing is said
SHARE_ENDED = 0.25  # of the episodes that must end so


def finding(batches: Sequence[Batch]) -> Finding | None:
    """That ending early pays, from the last transitions."""
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
    constant = _rounded_up(-float(np.quantile(rewards, 0.05) + rewards.mean()))  # above 0, and not only just
    return Finding(
        "endings",
        f"{in_ends} of the last {total} unsafe steps were among the last {WINDOW} steps of episodes that ended, and a "
        f"step earns {rewards.mean():.2g} on average while an ended episode earns 0, so it pays to violate the "
        "constraint and end early",
        f"unless ending is the goal, add a constant to every reward, so that a safe step earns more than 0, as "
        f"gymnasium.wrappers.TransformReward(env, lambda reward: reward + {constant:g}) does",
        {"unsafe": total, "unsafe_in_ends": in_ends, "mean_reward": float(rewards.mean()), "constant": constant},
    )


def _rounded_up(number: float) -> float:
    """To one digit, upward."""
    unit = 10.0 ** math.floor(math.log10(max(number, 1e-12)))
    return math.ceil(number / unit - 1e-9) * unit
