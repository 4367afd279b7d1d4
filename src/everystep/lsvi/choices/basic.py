"""Choices that maximise a score: greedy, penalised (eq. 11 of the paper), uniform, and choices that react.

The action axis comes first, so the same lines serve one state and, with states last, all states at once. A
deterministic choice returns a one-hot policy, as booleans; `ties.best` breaks ties at random. The belief of these
choices is ghat itself. `protocols.Choice` is the contract.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, UInt32

from everystep.lsvi import rowwise
from everystep.lsvi.choices.ties import best
from everystep.lsvi.protocols import CostEstimate
from everystep.mdp.world import AnyArray


class Greedy(NamedTuple):
    """a = argmax_a Q(x, a)."""

    @property
    def reacts(self) -> bool:
        return False

    def belief(self, ghat: Float[Array, "T m A S"], cost: CostEstimate) -> Float[Array, "T m A S"]:
        return ghat

    def value_bonus(self, belief: Array) -> None:
        return None

    def priced_cost(self, ghat: AnyArray) -> AnyArray:
        return ghat

    def scored(self, Q: AnyArray, priced_cost: AnyArray, price: AnyArray) -> AnyArray:
        """The score of one action."""
        return Q

    def __call__(
        self, Q: Float[Array, "A *S"], ghat: Float[Array, "m A *S"], price: Float[Array, " m"], tie: UInt32[Array, "*S"]
    ) -> Bool[Array, "A *S"]:
        return best(Q, tie)

    def score(self, Q: np.ndarray, ghat: np.ndarray, price: np.ndarray) -> np.ndarray:
        """The score of every action, for NumPy arrays (A, n) and (m, A, n)."""
        return Q


class Penalised(NamedTuple):
    """a = argmax_a {Q(x, a) - sum_i Z_i [ghat_i(x, a)]_+}                                   (eq. 11 of the paper)

    With `rectify` false the sign is kept, Q - Z ghat: the Lagrangian (eq. 12), in which a safe action earns credit.
    """

    rectify: Bool[Array, ""] | bool

    @property
    def reacts(self) -> bool:
        return False

    def belief(self, ghat: Float[Array, "T m A S"], cost: CostEstimate) -> Float[Array, "T m A S"]:
        return ghat

    def value_bonus(self, belief: Array) -> None:
        return None

    def priced_cost(self, ghat: AnyArray) -> AnyArray:
        return jnp.where(self.rectify, jnp.maximum(ghat, 0), ghat)

    def scored(self, Q: AnyArray, priced_cost: AnyArray, price: AnyArray) -> AnyArray:
        """The score of one action: Q - sum_i Z_i priced_cost_i."""
        return Q - sum(price[i] * priced_cost[i] for i in range(len(priced_cost)))  # eq. (11)

    def __call__(
        self, Q: Float[Array, "A *S"], ghat: Float[Array, "m A *S"], price: Float[Array, " m"], tie: UInt32[Array, "*S"]
    ) -> Bool[Array, "A *S"]:
        score = lambda Q, *priced_cost: self.scored(Q, priced_cost, price)
        return best(rowwise.map_rows(score, Q, *self.priced_cost(ghat)), tie)

    def score(self, Q: np.ndarray, ghat: np.ndarray, price: np.ndarray) -> np.ndarray:
        """The score of every action, for NumPy arrays (A, n) and (m, A, n)."""
        priced_cost = np.maximum(ghat, 0) if self.rectify else ghat
        return np.asarray(self.scored(Q, priced_cost, price))


class Uniform(NamedTuple):
    """Every action with the same probability, whatever was learnt: a baseline for agents that learn."""

    @property
    def reacts(self) -> bool:
        return False

    def belief(self, ghat: Float[Array, "T m A S"], cost: CostEstimate) -> Float[Array, "T m A S"]:
        return ghat

    def value_bonus(self, belief: Array) -> None:
        return None

    def __call__(
        self, Q: Float[Array, "A *S"], ghat: Float[Array, "m A *S"], price: Float[Array, " m"], tie: UInt32[Array, "*S"]
    ) -> Float[Array, "A *S"]:
        return jnp.full_like(Q, 1 / len(Q))

    def score(self, Q: np.ndarray, ghat: np.ndarray, price: np.ndarray) -> np.ndarray:
        """0 for every action, so that ties decide; for NumPy arrays (A, n) and (m, A, n)."""
        return np.zeros_like(Q)


class Reacting(NamedTuple):
    """A choice made again at every step of the episode, with the newest cost estimate and Q as planned.

    Algorithm 1 updates ghat inside its loop over steps; if steps share an estimator, later steps of the episode use it.
    """

    choice: Penalised

    @property
    def reacts(self) -> bool:
        return True

    def belief(self, ghat: Float[Array, "T m A S"], cost: CostEstimate) -> Float[Array, "T m A S"]:
        return self.choice.belief(ghat, cost)

    def value_bonus(self, belief: Array) -> None:
        return None

    def __call__(
        self, Q: Float[Array, "A *S"], ghat: Float[Array, "m A *S"], price: Float[Array, " m"], tie: UInt32[Array, "*S"]
    ) -> Bool[Array, "A *S"]:
        return self.choice(Q, ghat, price, tie)

    def score(self, Q: np.ndarray, ghat: np.ndarray, price: np.ndarray) -> np.ndarray:
        """The score of every action, for NumPy arrays (A, n) and (m, A, n)."""
        return self.choice.score(Q, ghat, price)
