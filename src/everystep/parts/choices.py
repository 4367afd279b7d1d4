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

from everystep import rows

TIE = 1e-9


class Greedy(NamedTuple):
    """a = argmax_a Q(x, a)."""

    @property
    def reacts(self) -> bool:
        """Whether it is made again at every step of an episode."""
        return False

    def belief(self, ghat: Float[Array, "T m A S"], cost: Any) -> Float[Array, "T m A S"]:
        return ghat

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

    def __call__(
        self, Q: Float[Array, "A *S"], ghat: Float[Array, "m A *S"], price: Float[Array, " m"], tie: UInt32[Array, "*S"]
    ) -> Bool[Array, "A *S"]:
        harm = jnp.where(self.rectify, jnp.maximum(ghat, 0), ghat)
        score = lambda Q, *harm: Q - sum(price[i] * harm[i] for i in range(len(harm)))
        return best(rows.each(score, Q, *harm), tie)  # eq. (11)

    def score(self, Q: np.ndarray, ghat: np.ndarray, price: np.ndarray) -> np.ndarray:
        """What is maximised, for NumPy arrays (A, n) and (m, A, n)."""
        harm = np.maximum(ghat, 0) if self.rectify else ghat
        return Q - sum(Z * each for Z, each in zip(price, harm, strict=True))  # eq. (11)


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


def best(score: Float[Array, "A *S"], tie: UInt32[Array, "*S"]) -> Bool[Array, "A *S"]:
    """One-hot at the highest score; scores within 1e-9 of it, relative to max(1, |score|), tie.

    The winner is read off the highest priority itself, whose low bits name its action: exactly one, and faster than
    comparing every action with it.
    """
    top = rows.highest(score)
    level = top - TIE * rows.larger(jnp.abs(top), 1.0)
    rank = lambda score, priority: jnp.where(score >= level, priority, jnp.zeros_like(priority))
    winner = rows.highest(rows.each(rank, score, priorities(tie, len(score)))) & _name_bits(len(score))
    return rows.each(lambda name: winner == name, _names(len(score)))


def ties(word: UInt32[Array, ""], steps: int, states: int) -> UInt32[Array, "H S"]:
    """A random-looking word for every (h, x), all from one random word an episode.

    A counter times an odd constant plus the word, through an invertible 32-bit mixer (the finaliser of MurmurHash3).
    """
    x = jnp.arange(steps * states, dtype=jnp.uint32).reshape(steps, states) * jnp.uint32(0x9E3779B9) + word
    x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
    return x ^ (x >> 16)


def priorities(tie: UInt32[Array, "*S"], actions: int) -> UInt32[Array, "A *S"]:
    """The rank of every action where scores tie: the state's word times an odd number of each action's own.

    One product instead of a draw, which for all (h, x, a) would cost more than the rest of the plan; every action comes
    first equally often (a test counts). The low bits name the action, so that no two are equal and none is 0.
    """
    odd = (np.random.default_rng(1).integers(0, 2**31, actions) * 2 + 1).astype(np.uint32)
    return rows.each(lambda odd, name: (tie * odd & ~_name_bits(actions)) | name, odd, _names(actions))


def _name_bits(actions: int) -> UInt32[Array, ""]:
    """A mask of as many low bits as hold the numbers 1 to `actions`."""
    return jnp.uint32((1 << actions.bit_length()) - 1)


def _names(actions: int) -> UInt32[np.ndarray, " A"]:
    """1 to A."""
    return np.arange(1, actions + 1, dtype=np.uint32)


Choice = Greedy | Penalised | Uniform | Reacting
