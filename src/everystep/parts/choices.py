"""Choices: from Q, estimated costs and prices at one state to a distribution over its actions.

A deterministic choice returns a one-hot distribution. Where several actions score the same, and untried ones always
do, the run's own random priorities decide: taking the first would walk into the left wall for ever.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, UInt32

TIE = 1e-9


class Greedy(NamedTuple):
    """a = argmax_a Q(x, a)."""

    def __call__(
        self, Q: Float[Array, " A"], ghat: Float[Array, "m A"], price: Float[Array, " m"], priority: UInt32[Array, " A"]
    ) -> Float[Array, " A"]:
        return best(Q, priority)


class Penalised(NamedTuple):
    """a = argmax_a {Q(x, a) - sum_i Z_i [ghat_i(x, a)]_+}                                   (eq. 11 of the paper)

    `rectify` 0 keeps the sign, Q - Z ghat: the Lagrangian (eq. 12), in which a safe action earns credit.
    """

    rectify: Bool[Array, ""] | bool

    def __call__(
        self, Q: Float[Array, " A"], ghat: Float[Array, "m A"], price: Float[Array, " m"], priority: UInt32[Array, " A"]
    ) -> Float[Array, " A"]:
        harm = jnp.where(self.rectify, jnp.maximum(ghat, 0), ghat)
        return best(Q - (price[:, None] * harm).sum(0), priority)  # eq. (11)


def best(score: Float[Array, " A"], priority: UInt32[Array, " A"]) -> Float[Array, " A"]:
    """One-hot at the highest score; scores within 1e-9 of it, relative to max(1, |score|), tie."""
    top = score.max()
    tied = score >= top - TIE * jnp.maximum(jnp.abs(top), 1)
    rank = jnp.where(tied, priority | 1, jnp.zeros_like(priority))
    return (jnp.arange(score.shape[0]) == jnp.argmax(rank)).astype(score.dtype)


def priorities(word: UInt32[Array, ""], shape: tuple[int, ...]) -> UInt32[Array, ...]:
    """Random-looking numbers, one for every (h, x, a), all from one random word an episode.

    A counter times an odd constant plus the word, through an invertible 32-bit mixer (the finaliser of MurmurHash3).
    Drawing them one by one would cost more than the whole plan.
    """
    x = jnp.arange(math.prod(shape), dtype=jnp.uint32).reshape(shape) * jnp.uint32(0x9E3779B9) + word
    x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
    return x ^ (x >> 16)


Choice = Greedy | Penalised
