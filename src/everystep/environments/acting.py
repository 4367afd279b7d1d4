"""Acting on observations nobody listed: the last plan as NumPy arrays, judged one observation (or a few) at a time.

    a = argmax_a {Q_h(x, a) - sum_i Z_i [ghat_i(x, a)]_+}                                    eq. (11)

with Q_h and ghat_h computed at x from what the plan decided. A compiled call for every step
would take longer than the step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from everystep.lsvi.choices.basic import Choice
from everystep.lsvi.choices.ties import TIE
from everystep.mdp import certificates


class Judgement(NamedTuple):
    """Of n observations: optimistic values (A, n), and the middle and half length of each cost interval (m, A, n)."""

    Q: np.ndarray
    mean: np.ndarray
    width: np.ndarray


@dataclass(frozen=True)
class Acting:
    """A plan that can be asked about any observation.

    values, costs   what the models decided; each judges what its map makes of observations
    price (m, H)    Z_h                          choice    greedy or penalised
    optimism        which end of a cost interval is believed
    decided         the action at step h that the plan has chosen already, of an observation met before
    """

    values: Any
    costs: Any
    value_map: Callable[[np.ndarray], Any]
    cost_map: Callable[[np.ndarray], Any]
    price: np.ndarray
    choice: Choice
    optimism: float
    cap: float
    decided: Callable[[int, np.ndarray], int | None] | None = None

    def judge(self, h: int, observations: np.ndarray) -> Judgement:
        """What is believed of observations met at step h."""
        seen = self.value_map(observations)
        mean, width = self.values.judge(h, seen)
        Q = np.minimum(mean + width, self.cap)  # line 7
        if self.costs is None:
            unknown = np.zeros((1, *Q.shape))
            return Judgement(Q, unknown, unknown + np.inf)
        same = self.cost_map == self.value_map
        g, g_width = self.costs.judge(h, seen if same else self.cost_map(observations))
        return Judgement(Q, g, np.broadcast_to(g_width, g.shape))

    def scores(self, h: int, observations: np.ndarray) -> np.ndarray:
        """(A, n): what the choice maximises."""
        Q, mean, width = self.judge(h, observations)
        if self.costs is None:
            return Q
        return self.choice.score(Q, mean - self.optimism * width, self.price[:, h])

    def choose(self, h: int, observations: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """An action for each observation; where several score the same, `rng` decides."""
        if self.decided is not None:
            actions = [self.decided(h, each) for each in observations]
            if None not in actions:
                return np.array(actions)
        scores = self.scores(h, observations)
        top = scores.max(0)
        tied = scores >= top - TIE * np.maximum(np.abs(top), 1)
        if (tied.sum(0) == 1).all():
            return tied.argmax(0)
        return np.where(tied, rng.random(tied.shape), -1).argmax(0)

    def labels(self, h: int, observations: np.ndarray) -> np.ndarray:
        """(n, A): which actions the cost intervals call safe (1), unsafe (-1) or neither (0)."""
        _, mean, width = self.judge(h, observations)
        return certificates.labels((mean - width)[None], (mean + width)[None])[0].T

    def reacted(self, h: int, observation: np.ndarray, a: int, cost: np.ndarray) -> Acting:
        """The same after one more cost was seen at (x, a)."""
        return replace(self, costs=self.costs.learnt(h, self.cost_map(observation), a, cost), decided=None)
