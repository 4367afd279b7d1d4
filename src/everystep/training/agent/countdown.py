"""Which step of a plan is used at which step of an episode, in training, in a policy, an evaluation and a shield.

    h(t) = max(t - (L - H), 0)   while t < L;   h(t) = 0 after that            t, h counted from 0

A plan looks H steps ahead, and an episode has at most L >= H steps. The plan of the first step is used until H steps
are left, and then the steps are counted down. An episode that continues after L steps is not about to end: it is played
by the plan of the first step again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Countdown(NamedTuple):
    """h(t), for episodes of at most `length` steps and plans that look `horizon` steps ahead.

    >>> from everystep.training.agent.countdown import Countdown
    >>> [Countdown(length=6, horizon=3)(t) for t in range(8)]
    [0, 0, 0, 0, 1, 2, 0, 0]
    """

    length: int
    horizon: int

    def __call__(self, t: int) -> int:
        """The step of the plan at step t of an episode, both from 0."""
        return max(t - (self.length - self.horizon), 0) if t < self.length else 0

    def several(self, t: np.ndarray) -> np.ndarray:
        """The same for many steps."""
        return np.where(t < self.length, np.maximum(t - (self.length - self.horizon), 0), 0)
