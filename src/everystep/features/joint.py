"""Features of measurements: fourier, centres, polynomial and tiles, of an observation, or of observation and action.

Where actions have k coordinates, a specification is bound to o + k of them, first those of the observation, then those
of the action in the scale [-1, 1]. `Joint` in `maps.py` has the formula. Features of the observation alone are those
for one action that has no coordinates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any

import numpy as np

from everystep.errors import EverystepError
from everystep.features import spaces
from everystep.features.maps import Centres, Fourier, Intercept, Joined, Joint, Polynomial, StateFeatures, Tiles
from everystep.features.spaces import Bound, Coordinates, Scale

if TYPE_CHECKING:
    from everystep.features.specs import Spec

LARGEST = 20_000  # features of a state; matrices of more do not fit into memory, and a mistake is likely
LARGEST_FOR_ALL = 2e7  # numbers that features of (x, a) keep for all actions
WITHOUT_COORDINATES = np.empty((1, 0))  # one action


def of_both(spec: Spec) -> bool:
    """Whether features are made of coordinates, so that those of the action can be added."""
    return all(map(of_both, spec.settings["parts"])) if spec.kind == "joined" else spec.kind in MEASURED_BY


def made(spec: Spec, at: Coordinates, points: np.ndarray) -> Joint:
    """The features of (x, a) that the specification makes of o + k coordinates, for actions (A, k) in [-1, 1]."""
    part = _part_of(spec, at, points)
    return Joint(part.own, points, part.pick, part.other, part.factor, part.cross)


def of_state(kind: str, at: Coordinates, settings: Mapping[str, object]) -> StateFeatures:
    """The features of the observation alone."""
    return MEASURED_BY[kind](at, WITHOUT_COORDINATES, **settings).own


@dataclass(frozen=True)
class _Part:
    """The fields of `Joint`."""

    own: StateFeatures
    pick: np.ndarray
    other: np.ndarray
    factor: np.ndarray
    cross: np.ndarray

    @classmethod
    def product(cls, own: StateFeatures, pick: np.ndarray, factor: np.ndarray) -> _Part:
        """factor(a) psi(x)."""
        return cls(own, pick, np.arange(len(pick)), factor, np.zeros_like(factor))

    @classmethod
    def alone(cls, own: StateFeatures) -> _Part:
        """psi(x), for an action without coordinates."""
        return cls.product(own, np.arange(own.size), np.ones((1, own.size)))


def _part_of(spec: Spec, at: Coordinates, points: np.ndarray) -> _Part:
    if spec.kind == "joined":
        return _side_by_side([_part_of(part, at, points) for part in spec.settings["parts"]])
    return MEASURED_BY[spec.kind](at, points, **spec.settings)


def _side_by_side(parts: list[_Part]) -> _Part:
    before = np.cumsum([0, *(part.own.size for part in parts)])
    joint_before = np.cumsum([0, *(len(part.pick) for part in parts)])
    return _Part(
        Joined(tuple(part.own for part in parts)),
        np.concatenate([part.pick + n for part, n in zip(parts, before, strict=False)]),
        np.concatenate([part.other + n for part, n in zip(parts, joint_before, strict=False)]),
        np.concatenate([part.factor for part in parts], 1),
        np.concatenate([part.cross for part in parts], 1),
    )


# --- sizes and places -------------------------------------------------------------------------------------------------
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


def _few_for_all(kind: str, number: int, points: np.ndarray, remedy: str) -> None:
    few(kind, number, remedy)
    if number * len(points) > LARGEST_FOR_ALL:
        raise EverystepError(
            f"{kind} makes {number} features of (x, a), {number * len(points):.2g} numbers for {len(points)} actions, "
            f"more than {LARGEST_FOR_ALL:.0e}; {remedy}, or give fewer actions."
        )


# --- each kind --------------------------------------------------------------------------------------------------------
def _constant(at: Coordinates, points: np.ndarray) -> _Part:
    return _Part.product(Intercept(), np.zeros(1, np.int64), np.ones((len(points), 1)))


def _fourier(
    at: Coordinates, points: np.ndarray, size: int, lengthscale: object, seed: int, low: Bound, high: Bound
) -> _Part:
    scale, o = spaces.scale(at, low, high, "fourier"), len(at.low)
    _few_for_all("fourier", 2 * size, points, "choose a smaller size")
    lengths = np.array(fits("fourier", "lengthscale", lengthscale, o + points.shape[1]))
    W = np.random.default_rng(seed).normal(size=(size, len(lengths))) / lengths
    angle = points @ W[:, o:].T
    cos, sin = np.cos(angle), np.sin(angle)
    n = np.arange(size)
    return _Part(
        Fourier(scale, W[:, :o]),
        np.arange(2 * size),
        np.concatenate([n + size, n]),
        np.concatenate([cos, cos], 1),
        np.concatenate([-sin, sin], 1),
    )


def _polynomial(at: Coordinates, points: np.ndarray, degree: int, low: Bound, high: Bound) -> _Part:
    scale, o = spaces.scale(at, low, high, "polynomial"), len(at.low)
    coordinates = o + points.shape[1]
    _few_for_all("polynomial", math.comb(coordinates + degree, degree), points, "choose a lower degree")
    p = powers(coordinates, degree)
    factor = (points[:, None] ** p[:, o:]).prod(-1)
    return _Part.product(Polynomial(scale, p[:, :o]), np.arange(len(p)), factor)


def _centres(
    at: Coordinates, points: np.ndarray, centres: object, lengthscale: object, low: Bound, high: Bound
) -> _Part:
    """exp(-|x - c|^2 / 2 - |a - b|^2 / 2) on a grid is a product, and so is its norm."""
    scale, o, k = spaces.scale(at, low, high, "centres"), len(at.low), points.shape[1]
    if isinstance(centres, np.ndarray):
        if k:
            raise EverystepError(
                "centres are given as points of the observation, and features here are of observation and action; give "
                "the number along each coordinate."
            )
        if centres.shape[1] != o:
            raise EverystepError(
                f"centres have {centres.shape[1]} coordinates, but observations have {o}; give centres with {o}."
            )
        return _Part.alone(
            Centres(scale, scale(centres), np.array(fits("centres", "lengthscale", lengthscale or 0.5, o)))
        )
    counts = fits("centres", "centres", centres, o + k)
    _few_for_all("centres", math.prod(counts), points, "choose fewer along a coordinate, or give them as points")
    spacing = [2 / max(n - 1, 1) for n in counts]
    lengths = spacing if lengthscale is None else fits("centres", "lengthscale", lengthscale, len(counts))
    own = Centres(scale, grid(counts[:o]), np.array(lengths[:o]))
    if not k:
        return _Part.alone(own)
    whole = Scale(-np.ones(len(counts) - o), np.ones(len(counts) - o))
    of_action = Centres(whole, grid(counts[o:]), np.array(lengths[o:]))(points)
    return _Part.product(own, np.repeat(np.arange(own.size), of_action.shape[1]), np.tile(of_action, (1, own.size)))


def _tiles(at: Coordinates, points: np.ndarray, tilings: int, bins: object, low: Bound, high: Bound) -> _Part:
    """The tile of (x, a) in a tiling is the tile of x and that of a."""
    scale, o = spaces.scale(at, low, high, "tiles"), len(at.low)
    counts = fits("tiles", "bins", bins, o + points.shape[1])
    _few_for_all("tiles", tilings * math.prod(b + 1 for b in counts), points, "ask for fewer bins or tilings")
    shifts = offsets(tilings, len(counts))
    own = Tiles(scale, counts[:o], shifts[:, :o])
    if not points.shape[1]:
        return _Part.alone(own)
    many = math.prod(b + 1 for b in counts[o:])
    whole = Scale(-np.ones(len(counts) - o), np.ones(len(counts) - o))
    inside = Tiles(whole, counts[o:], shifts[:, o:])(points).reshape(len(points), tilings, 1, many) > 0
    factor = np.broadcast_to(inside, (len(points), tilings, own.size // tilings, many)).reshape(len(points), -1)
    return _Part.product(own, np.repeat(np.arange(own.size), many), factor.astype(np.float64))


MEASURED_BY: dict[str, Callable[..., _Part]] = {
    "constant": _constant,
    "fourier": _fourier,
    "centres": _centres,
    "polynomial": _polynomial,
    "tiles": _tiles,
}
