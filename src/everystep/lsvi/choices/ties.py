"""Ties: where several actions have the same score, random priorities decide.

Untried actions always tie, and an agent that always took the first would keep walking into the left wall. One random
word per episode is hashed into a word for every (h, x); an odd number for each action turns that into a priority for
every (h, x, a).
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, UInt32

from everystep.lsvi import rowwise
from everystep.mdp.world import AnyArray

TIE = 1e-9
TIE_IN_SINGLE = 1e-5  # single precision cannot resolve 1e-9; H steps of rounding amount to about 1e-6


def best(score: Float[Array, "A *S"], tie: UInt32[Array, "*S"]) -> Bool[Array, "A *S"]:
    """One-hot at the highest score; scores within 1e-9 of it, relative to max(1, |score|), tie."""
    name = winner(score, tie)
    return rowwise.map_rows(lambda action: name == action, _names(len(score)))


def winner(score: AnyArray, tie: UInt32[Array, "*S"]) -> UInt32[Array, "*S"]:
    """The number of the best action, from 1; `score` is (A, *S) or its rows.

    It is read from the highest priority, whose low bits are the number of its action: exactly one action, and faster
    than comparing all of them. In single precision scores within 1e-5 tie.
    """
    A = len(score)
    top = rowwise.highest(score)
    level = top - (TIE if top.dtype == np.float64 else TIE_IN_SINGLE) * rowwise.larger(jnp.abs(top), 1.0)

    def rank(score: AnyArray, odd: AnyArray, name: AnyArray) -> AnyArray:
        priority = _priority(tie, odd, name, A)
        return jnp.where(score >= level, priority, jnp.zeros_like(priority))

    return rowwise.highest(rowwise.map_rows(rank, score, _odd_numbers(A), _names(A))) & _name_bits(A)


def ties(word: UInt32[Array, ""], steps: int, states: int) -> UInt32[Array, "H S"]:
    """A pseudo-random word for every (h, x), all from one random word per episode.

    A counter times an odd constant plus the word, through an invertible 32-bit mixer (the finaliser of MurmurHash3).
    """
    return tie_words(word, jnp.arange(steps * states, dtype=jnp.uint32).reshape(steps, states))


def tie_words(word: UInt32[Array, ""], counter: UInt32[Array, "*S"]) -> UInt32[Array, "*S"]:
    """The words at some (h, x), where `counter` is h S + x."""
    x = counter * np.uint32(0x9E3779B9) + word
    x = (x ^ (x >> 16)) * np.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * np.uint32(0xC2B2AE35)
    return x ^ (x >> 16)


def priorities(tie: UInt32[Array, "*S"], actions: int) -> UInt32[Array, "A *S"]:
    """The priority of every action where scores tie: the word of the state times an odd number for each action.

    One product instead of a draw, which for all (h, x, a) would cost more than the rest of the plan; every action comes
    first equally often (a test counts). The low bits are the number of the action, so no two are equal and none is 0.
    """
    of_action = lambda odd, name: _priority(tie, odd, name, actions)
    return rowwise.map_rows(of_action, _odd_numbers(actions), _names(actions))


def _priority(tie: AnyArray, odd: AnyArray, name: AnyArray, actions: int) -> AnyArray:
    return (tie * odd & ~_name_bits(actions)) | name


def _odd_numbers(actions: int) -> UInt32[np.ndarray, " A"]:
    return (np.random.default_rng(1).integers(0, 2**31, actions) * 2 + 1).astype(np.uint32)


def _name_bits(actions: int) -> np.uint32:
    """A mask of the low bits that hold the numbers 1 to `actions`."""
    return np.uint32((1 << actions.bit_length()) - 1)


def _names(actions: int) -> UInt32[np.ndarray, " A"]:
    """1 to A."""
    return np.arange(1, actions + 1, dtype=np.uint32)
