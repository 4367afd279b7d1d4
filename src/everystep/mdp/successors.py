"""Transitions as lists: the states that can follow each (x, a), and how likely each of them is.

A table P (S, A, S) of a map with 90,000 cells would have 32 billion entries, nearly all of them 0. A problem therefore
keeps `Successors`, whatever it was given: a table, lists, or SciPy's sparse matrices. Their normal form is unique, so
that the same problem has the same digest in all of them: for every (x, a) each possible next state once, in ascending
order, and J is the largest number of them; shorter lists are filled up with state 0 at probability 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from everystep.errors import EverystepError
from everystep.mdp.cmdp import Successors

Seen = dict[str, np.ndarray]  # what is observed on arrival, (..., S, A, J), by the name of its field


def from_table(P: np.ndarray, seen: Mapping[str, np.ndarray]) -> tuple[Successors, Seen]:
    """The lists of a table P (T, S, A, S), and `seen` (..., S, A, S) at the states in them.

    An entry other than 0 is possible, even a wrong one: `FiniteCMDP.check` reports it.
    """
    S, A = P.shape[1:3]
    possible = (P != 0).any(0).reshape(S * A, S)
    row, state = np.nonzero(possible)
    count = possible.sum(1)
    place = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    states = np.zeros((S * A, max(1, int(count.max()))), np.int32)
    states[row, place] = state
    states = states.reshape(S, A, -1)
    listed = np.zeros(states.shape, bool).reshape(S * A, -1)
    listed[row, place] = True
    at_lists = lambda array: np.where(
        listed.reshape(states.shape),
        np.take_along_axis(array, np.broadcast_to(states, (*array.shape[:-1], states.shape[-1])), -1),
        0.0,
    )
    return Successors(states, at_lists(P)), {name: at_lists(array) for name, array in seen.items()}


def from_matrices(matrices: Sequence[Any]) -> Successors:
    """The lists of one sparse matrix (S, S) for each action, in any format of SciPy."""
    S = matrices[0].shape[0]
    rows = [each.tocsr() for each in matrices]
    J = max(1, max(int(np.diff(each.indptr).max(initial=0)) for each in rows))
    states, probabilities = np.zeros((S, len(rows), J), np.int32), np.zeros((1, S, len(rows), J))
    for a, each in enumerate(rows):
        x = np.repeat(np.arange(S), np.diff(each.indptr))
        place = np.arange(each.nnz) - np.repeat(each.indptr[:-1], np.diff(each.indptr))
        states[x, a, place] = each.indices
        probabilities[0, x, a, place] = each.data
    return normal_form(Successors(states, probabilities), {})[0]


def normal_form(given: Successors, seen: Mapping[str, np.ndarray]) -> tuple[Successors, Seen]:
    """Lists in normal form, and what is `seen` on arrival (..., S, A, J) at the states in them.

    given.states is (S, A, J), or (H, S, A, J); given.probabilities is (T, S, A, J). A state that is listed twice for
    one (x, a) has the sum of both probabilities; what is seen must then be the same.
    """
    states, probabilities, arrays = np.asarray(given.states), np.asarray(given.probabilities), dict(seen)
    if states.ndim == 4:
        states, probabilities, arrays = _one_list(states, probabilities, arrays)
    S, A, J = states.shape
    key = np.where((probabilities != 0).any(0), states, S)
    key, probabilities, arrays = _sorted(key, probabilities, arrays)
    twice = False
    for j in range(1, J):
        same = (key[..., j] == key[..., j - 1]) & (key[..., j] < S)
        if not same.any():
            continue
        twice = True
        for name, array in arrays.items():
            if (differs := (same & (array[..., j] != array[..., j - 1]))).any():
                x, a = (int(i) for i in np.argwhere(differs)[0][-2:])
                raise EverystepError(
                    f"{name} has two values for state {x}, action {a} and the same next state "
                    f"{int(key[x, a, j])}; list each next state once."
                )
        probabilities[..., j] += np.where(same, probabilities[..., j - 1], 0.0)
        probabilities[..., j - 1] = np.where(same, 0.0, probabilities[..., j - 1])
        key[..., j - 1] = np.where(same, S, key[..., j - 1])
    if twice:
        key, probabilities, arrays = _sorted(key, probabilities, arrays)
    kept = max(1, int((key < S).sum(-1).max()))
    key, cut = key[..., :kept], lambda array: np.ascontiguousarray(np.where(key < S, array[..., :kept], 0.0))
    states = np.ascontiguousarray(np.where(key < S, key, 0).astype(np.int32))
    return Successors(states, cut(probabilities)), {name: cut(array) for name, array in arrays.items()}


def _sorted(key: np.ndarray, probabilities: np.ndarray, arrays: Seen) -> tuple[np.ndarray, np.ndarray, Seen]:
    """All arrays with each list in ascending order of its key (S, A, J)."""
    order = np.argsort(key, -1, kind="stable")
    by = lambda array: np.take_along_axis(array, np.broadcast_to(order, array.shape), -1)
    return by(key), by(probabilities), {name: by(array) for name, array in arrays.items()}


def _one_list(states: np.ndarray, probabilities: np.ndarray, arrays: Seen) -> tuple[np.ndarray, np.ndarray, Seen]:
    """One list for all steps from one (H, S, A, J) for each: all lists joined, with probability 0 at other steps."""
    H, S, A, J = states.shape
    if (states == states[:1]).all():
        return states[0], probabilities, arrays
    joined = np.moveaxis(states, 0, -2).reshape(S, A, H * J)
    own = np.eye(H)[:, None, None, :, None]  # (H, 1, 1, H, 1): 1 at the lists of the step itself
    spread = lambda array: (own * np.expand_dims(array, -2)).reshape(*array.shape[:-1], H * J)
    if arrays:
        raise EverystepError(
            "noise is observed on arrival, and the lists of next states differ between steps; "
            "list the same states at every step, with probability 0 where a state cannot follow."
        )
    return joined, spread(probabilities), arrays


def table(given: Successors) -> np.ndarray:
    """P as a table (T, S, A, S)."""
    states, probabilities = given
    T, S, A, J = probabilities.shape
    P = np.zeros((T, S, A, S))
    x, a = np.ogrid[:S, :A]
    for j in range(J):
        P[:, x, a, states[..., j]] += probabilities[..., j]
    return P


def table_at(given: Successors, seen: np.ndarray) -> np.ndarray:
    """What is seen on arrival (..., S, A, J) as a table (..., S, A, S), 0 where a state cannot follow."""
    possible = (given.probabilities != 0).any(0)
    S, A, J = given.states.shape
    full = np.zeros((*seen.shape[:-1], S))
    x, a = np.ogrid[:S, :A]
    for j in range(J):
        at = full[..., x, a, given.states[..., j]]
        full[..., x, a, given.states[..., j]] = np.where(possible[..., j], seen[..., j], at)
    return full


def by_state(given: Successors) -> tuple[np.ndarray, np.ndarray]:
    """The states that can follow each state under some action, (S, J'), and where the lists are in it, (S, A, J).

    Shorter lists are filled up with their last state, so that every row ascends.
    """
    states, probabilities = given
    S, A, J = states.shape
    key = np.sort(np.where((probabilities > 0).any(0), states, S).reshape(S, A * J), -1)
    key[:, 1:][key[:, 1:] == key[:, :-1]] = S
    key.sort(-1)
    width = max(1, int((key < S).sum(1).max()))
    key = key[:, :width]
    last = np.where(key < S, key, -1).max(1, keepdims=True).clip(min=0)
    follow = np.where(key < S, key, last)
    base = np.arange(S, dtype=np.int64) * S
    flat = (base[:, None] + follow).reshape(-1)
    at = np.searchsorted(flat, (base[:, None, None] + states).reshape(-1)).reshape(states.shape)
    return follow.astype(np.int32), (at - np.arange(S)[:, None, None] * width).clip(0, width - 1)
