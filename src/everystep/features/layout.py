"""Sizes and places that features of measurements are made of: grids, products, shifts of tilings, and their limits."""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from everystep.errors import EverystepError

LARGEST = 20_000  # features of a state; matrices of more do not fit into memory, and a mistake is likely


def fits(kind: str, name: str, value: object, o: int) -> tuple[Any, ...]:
    """One entry for each of o coordinates, from one or o."""
    many = tuple(np.atleast_1d(np.asarray(value)).tolist())
    if len(many) not in (1, o):
        raise EverystepError(f"{name} of {kind} has {len(many)} numbers for {o} coordinates; give one, or {o}.")
    return many * o if len(many) == 1 else many


def few(kind: str, number: int, remedy: str) -> None:
    if number > LARGEST:
        raise EverystepError(f"{kind} makes {number} features of a state, more than {LARGEST}; {remedy}.")


def grid(counts: tuple[int, ...]) -> np.ndarray:
    """(n, o): a grid in [-1, 1]; the last coordinate varies fastest."""
    along = [np.linspace(-1, 1, n) if n > 1 else np.zeros(1) for n in counts]
    return np.stack(np.meshgrid(*along, indexing="ij"), -1).reshape(-1, len(counts))


def powers(o: int, degree: int) -> np.ndarray:
    """(e, o): the powers of every product of at most `degree` coordinates."""
    products = list(combinations_with_replacement(range(o + 1), degree))  # factor 0 is 1, factor j is coordinate j - 1
    return np.array([[product.count(j + 1) for j in range(o)] for product in products])


def offsets(tilings: int, o: int) -> np.ndarray:
    """(tilings, o): by which part of a tile each tiling is shifted."""
    return (np.arange(tilings)[:, None] * (2 * np.arange(o) + 1) % tilings) / tilings
