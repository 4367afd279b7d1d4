"""Transitions as lists: the states that can follow each (x, a), and how likely each of them is.

A table P (S, A, S) of a map with 90,000 cells would have 32 billion entries, nearly all of them 0. A problem therefore
keeps `Successors`, whatever it was given: a table, lists, or SciPy's sparse matrices. Their normal form is unique, so
that the same problem has the same digest in all of them: for every (x, a) each possible next state once, in ascending
order, and J is the largest number of them; shorter lists are filled up with state 0 at probability 0. If J = S, all
lists are 0, ..., S - 1: then probabilities, and what is observed on arrival, are the tables themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    possible = (P != 0).any(0)
    count = possible.sum(-1)
    J = max(1, int(count.max()))
    if J == S:
        states, listed = _all_states(S, A), possible
    else:
        states, listed = np.zeros((S, A, J), np.int32), np.arange(J) < count[..., None]
        states[listed] = np.nonzero(possible)[-1]

    def at_lists(array: np.ndarray) -> np.ndarray:
        return np.where(listed, np.take_along_axis(array, np.broadcast_to(states, (*array.shape[:-1], J)), -1), 0.0)

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
    key = key[..., :kept]
    cut: Callable[[np.ndarray], np.ndarray] = lambda array: np.where(key < S, array[..., :kept], 0.0)
    lists = Successors(np.where(key < S, key, 0).astype(np.int32), cut(probabilities))
    arrays = {name: cut(array) for name, array in arrays.items()}
    if kept == S:
        arrays = {name: table_at(lists, array) for name, array in arrays.items()}
        lists = Successors(_all_states(S, A), table(lists))
    return lists, arrays


def _all_states(S: int, A: int) -> np.ndarray:
    return np.broadcast_to(np.arange(S, dtype=np.int32), (S, A, S)).copy()


def _sorted(key: np.ndarray, probabilities: np.ndarray, arrays: Seen) -> tuple[np.ndarray, np.ndarray, Seen]:
    """All arrays with each list in ascending order of its key (S, A, J)."""
    order = np.argsort(key, -1, kind="stable")
    by: Callable[[np.ndarray], np.ndarray] = lambda array: np.take_along_axis(
        array, np.broadcast_to(order, array.shape), -1
    )
    return by(key), by(probabilities), {name: by(array) for name, array in arrays.items()}


def _one_list(states: np.ndarray, probabilities: np.ndarray, arrays: Seen) -> tuple[np.ndarray, np.ndarray, Seen]:
    """One list for all steps from one (H, S, A, J) for each: all lists joined, with probability 0 at other steps."""
    H, S, A, J = states.shape
    if (states == states[:1]).all():
        return states[0], probabilities, arrays
    if arrays:
        raise EverystepError(
            f"{next(iter(arrays))} is given, and the lists of next states differ between steps; "
            "list the same states at every step, with probability 0 where a state cannot follow."
        )
    key = np.where(probabilities != 0, states, S)
    joined = _distinct(np.moveaxis(key, 0, -2).reshape(S * A, H * J), S)
    spread = np.zeros((H, *joined.shape))
    row = np.arange(S * A)
    for h, j in np.ndindex(H, J):
        at = _places(joined, key[h, ..., j].reshape(S * A, 1), S)[:, 0]
        spread[h, row, at] += probabilities[h, ..., j].reshape(-1)
    return np.where(joined < S, joined, 0).reshape(S, A, -1), spread.reshape(H, S, A, -1), arrays


def _distinct(key: np.ndarray, S: int) -> np.ndarray:
    """The states in each row of a key (N, K), each once and in ascending order; S fills up shorter rows."""
    key = np.sort(key, -1)
    key[:, 1:][key[:, 1:] == key[:, :-1]] = S
    key.sort(-1)
    return key[:, : max(1, int((key < S).sum(1).max()))]


def _places(rows: np.ndarray, states: np.ndarray, S: int) -> np.ndarray:
    """Where states (N, K) are in their rows (N, width), which ascend; any place for one that is not there."""
    N, width = rows.shape
    base = np.arange(N, dtype=np.int64)[:, None] * (S + 1)
    at = np.searchsorted((base + rows).reshape(-1), (base + states).reshape(-1)).reshape(states.shape)
    return np.asarray((at - np.arange(N)[:, None] * width).clip(0, width - 1))


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

    Shorter lists are filled up with the first states that cannot follow, so that no state is listed twice.
    """
    states, probabilities = given
    S, A, J = states.shape
    follow = _distinct(np.where((probabilities > 0).any(0), states, S).reshape(S, A * J), S)
    at = _places(follow, states.reshape(S, A * J), S)
    width = follow.shape[1]
    listed = np.zeros((S, width), bool)  # which of the states 0, ..., width - 1: enough to fill up any list
    x, j = np.nonzero(follow < width)
    listed[x, follow[x, j]] = True
    others = np.argsort(listed, 1, kind="stable")
    missing = np.arange(width) - (follow < S).sum(1, keepdims=True)
    follow = np.where(missing >= 0, np.take_along_axis(others, missing.clip(min=0), 1), follow)
    return follow.astype(np.int32), at.reshape(S, A, J)
