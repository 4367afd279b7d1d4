"""Choices: from Q, estimated costs and prices at a state to a distribution over its actions.

The action axis comes first; written so, the same lines serve one state and, with states last, all of them at once.

`belief` is what a choice makes of the cost estimate once a plan: ghat itself, here.

A deterministic choice returns a one-hot one, as booleans. Where several actions score the same, and untried ones always
do, the run's own random priorities decide: taking the first would walk into the left wall for ever.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, UInt32

from everystep.lsvi import rowwise
from everystep.lsvi.choices.ties import best
from everystep.mdp.world import AnyArray


class Greedy(NamedTuple):
    """a = argmax_a Q(x, a)."""

    @property
    def reacts(self) -> bool:
        """Whether it is made again at every step of an episode."""
        return False

    def belief(self, ghat: Float[Array, "T m A S"], cost: Any) -> Float[Array, "T m A S"]:
        return ghat

    def harm(self, ghat: AnyArray) -> AnyArray:
        return ghat

    def scored(self, Q: AnyArray, harm: AnyArray, price: AnyArray) -> AnyArray:
        """What is maximised, of one action."""
        return Q

    def __call__(
        self, Q: Float[Array, "A *S"], ghat: Float[Array, "m A *S"], price: Float[Array, " m"], tie: UInt32[Array, "*S"]
    ) -> Bool[Array, "A *S"]:
        return best(Q, tie)

    def score(self, Q: np.ndarray, ghat: np.ndarray, price: np.ndarray) -> np.ndarray:
        """What is maximised, for NumPy arrays (A, n) and (m, A, n)."""
        return Q


class Penalised(NamedTuple):
    """a = argmax_a {Q(x, a) - sum_i Z_i [ghat_i(x, a)]_+}                                   (eq. 11 of the paper)

    `rectify` 0 keeps the sign, Q - Z ghat: the Lagrangian (eq. 12), in which a safe action earns credit.
    """

    rectify: Bool[Array, ""] | bool

    @property
    def reacts(self) -> bool:
        """Whether it is made again at every step of an episode."""
        return False

    def belief(self, ghat: Float[Array, "T m A S"], cost: Any) -> Float[Array, "T m A S"]:
        return ghat

    def harm(self, ghat: AnyArray) -> AnyArray:
        return jnp.where(self.rectify, jnp.maximum(ghat, 0), ghat)

    def scored(self, Q: AnyArray, harm: AnyArray, price: AnyArray) -> AnyArray:
        """What is maximised, of one action: Q - sum_i Z_i harm_i."""
        return Q - sum(price[i] * harm[i] for i in range(len(harm)))  # eq. (11)

    def __call__(
        self, Q: Float[Array, "A *S"], ghat: Float[Array, "m A *S"], price: Float[Array, " m"], tie: UInt32[Array, "*S"]
    ) -> Bool[Array, "A *S"]:
        score = lambda Q, *harm: self.scored(Q, harm, price)
        return best(rowwise.each(score, Q, *self.harm(ghat)), tie)

    def score(self, Q: np.ndarray, ghat: np.ndarray, price: np.ndarray) -> np.ndarray:
        """What is maximised, for NumPy arrays (A, n) and (m, A, n)."""
        harm = np.maximum(ghat, 0) if self.rectify else ghat
        return np.asarray(self.scored(Q, harm, price))


class Uniform(NamedTuple):
    """All actions alike, whatever was learnt: a distribution, and a yardstick for agents that claim to learn."""

    @property
    def reacts(self) -> bool:
        """Whether it is made again at every step of an episode."""
        return False

    def belief(self, ghat: Float[Array, "T m A S"], cost: Any) -> Float[Array, "T m A S"]:
        return ghat

    def __call__(
        self, Q: Float[Array, "A *S"], ghat: Float[Array, "m A *S"], price: Float[Array, " m"], tie: UInt32[Array, "*S"]
    ) -> Float[Array, "A *S"]:
        return jnp.full_like(Q, 1 / len(Q))

    def score(self, Q: np.ndarray, ghat: np.ndarray, price: np.ndarray) -> np.ndarray:
        """Alike for all, so that ties decide; for NumPy arrays (A, n) and (m, A, n)."""
        return np.zeros_like(Q)


class Reacting(NamedTuple):
    """The same choice made again at every step of the episode, with the newest estimate of costs and Q as planned.

    Algorithm 1 updates ghat inside its loop over steps; with one estimator for all steps that is felt at once.
    """

    choice: Penalised

    @property
    def reacts(self) -> bool:
        """Whether it is made again at every step of an episode."""
        return True

    def belief(self, ghat: Float[Array, "T m A S"], cost: Any) -> Any:
        return self.choice.belief(ghat, cost)

    def __call__(
        self, Q: Float[Array, "A *S"], ghat: Float[Array, "m A *S"], price: Float[Array, " m"], tie: UInt32[Array, "*S"]
    ) -> Bool[Array, "A *S"]:
        return self.choice(Q, ghat, price, tie)

    def score(self, Q: np.ndarray, ghat: np.ndarray, price: np.ndarray) -> np.ndarray:
        """What is maximised, for NumPy arrays (A, n) and (m, A, n)."""
        return self.choice.score(Q, ghat, price)


Choice = Greedy | Penalised | Uniform | Reacting
