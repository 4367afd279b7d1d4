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
from everystep.mdp.cmdp import AnyArray

TIE = 1e-9
TIE_IN_SINGLE = 1e-5  # 1e-9 is less than single precision can tell apart; H steps of it leave some 1e-6


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


def best(score: Float[Array, "A *S"], tie: UInt32[Array, "*S"]) -> Bool[Array, "A *S"]:
    """One-hot at the highest score; scores within 1e-9 of it, relative to max(1, |score|), tie."""
    name = winner(score, tie)
    return rowwise.each(lambda each: name == each, _names(len(score)))


def winner(score: AnyArray, tie: UInt32[Array, "*S"]) -> UInt32[Array, "*S"]:
    """The number of the best action, from 1; `score` is (A, *S) or its rows.

    It is read off the highest priority itself, whose low bits name its action: exactly one, and faster than comparing
    every action with it. In single precision scores within 1e-5 tie.
    """
    A = len(score)
    top = rowwise.highest(score)
    level = top - (TIE if top.dtype == np.float64 else TIE_IN_SINGLE) * rowwise.larger(jnp.abs(top), 1.0)

    def rank(score: AnyArray, odd: AnyArray, name: AnyArray) -> AnyArray:
        priority = _priority(tie, odd, name, A)
        return jnp.where(score >= level, priority, jnp.zeros_like(priority))

    return rowwise.highest(rowwise.each(rank, score, _odd_numbers(A), _names(A))) & _name_bits(A)


def ties(word: UInt32[Array, ""], steps: int, states: int) -> UInt32[Array, "H S"]:
    """A random-looking word for every (h, x), all from one random word an episode.

    A counter times an odd constant plus the word, through an invertible 32-bit mixer (the finaliser of MurmurHash3).
    """
    return tie_words(word, jnp.arange(steps * states, dtype=jnp.uint32).reshape(steps, states))


def tie_words(word: UInt32[Array, ""], counter: UInt32[Array, "*S"]) -> UInt32[Array, "*S"]:
    """Those words at some (h, x), counted h S + x."""
    x = counter * np.uint32(0x9E3779B9) + word
    x = (x ^ (x >> 16)) * np.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * np.uint32(0xC2B2AE35)
    return x ^ (x >> 16)


def priorities(tie: UInt32[Array, "*S"], actions: int) -> UInt32[Array, "A *S"]:
    """The rank of every action where scores tie: the state's word times an odd number of each action's own.

    One product instead of a draw, which for all (h, x, a) would cost more than the rest of the plan; every action comes
    first equally often (a test counts). The low bits name the action, so that no two are equal and none is 0.
    """
    one = lambda odd, name: _priority(tie, odd, name, actions)
    return rowwise.each(one, _odd_numbers(actions), _names(actions))


def _priority(tie: AnyArray, odd: AnyArray, name: AnyArray, actions: int) -> AnyArray:
    return (tie * odd & ~_name_bits(actions)) | name


def _odd_numbers(actions: int) -> UInt32[np.ndarray, " A"]:
    return (np.random.default_rng(1).integers(0, 2**31, actions) * 2 + 1).astype(np.uint32)


def _name_bits(actions: int) -> np.uint32:
    """A mask of as many low bits as hold the numbers 1 to `actions`."""
    return np.uint32((1 << actions.bit_length()) - 1)


def _names(actions: int) -> UInt32[np.ndarray, " A"]:
    """1 to A."""
    return np.arange(1, actions + 1, dtype=np.uint32)


Choice = Greedy | Penalised | Uniform | Reacting
