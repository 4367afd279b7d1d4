"""Features of observation and action together: what `bind` makes where actions have coordinates.

A specification of measurements (fourier, centres, polynomial, tiles) is bound to o + k coordinates, first those of the
observation, then those of the action in the scale [-1, 1]. `Joint` in `maps.py` has the formula.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from everystep.errors import EverystepError
from everystep.features import spaces
from everystep.features.layout import few, fits, grid, offsets, powers
from everystep.features.maps import Centres, Fourier, Intercept, Joined, Joint, Polynomial, StateFeatures, Tiles
from everystep.features.spaces import Bound, Coordinates, Scale

if TYPE_CHECKING:
    from everystep.features.specs import Spec

LARGEST_FOR_ALL = 2e7  # numbers that features of (x, a) keep for all actions


def of_both(spec: Spec) -> bool:
    """Whether features are made of coordinates, so that those of the action can be added."""
    return all(map(of_both, spec.settings["parts"])) if spec.kind == "joined" else spec.kind in _JOINT_BY


def made(spec: Spec, at: Coordinates, points: np.ndarray) -> Joint:
    """The features of (x, a) that the specification makes of o + k coordinates, for actions (A, k) in [-1, 1]."""
    part = _part_of(spec, at, points)
    return Joint(part.own, points, part.pick, part.other, part.factor, part.cross)


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


def _part_of(spec: Spec, at: Coordinates, points: np.ndarray) -> _Part:
    if spec.kind == "joined":
        return _side_by_side([_part_of(part, at, points) for part in spec.settings["parts"]])
    return _JOINT_BY[spec.kind](at, points, **spec.settings)


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


def _few_for_all(kind: str, number: int, points: np.ndarray, remedy: str) -> None:
    few(kind, number, remedy)
    if number * len(points) > LARGEST_FOR_ALL:
        raise EverystepError(
            f"{kind} makes {number} features of (x, a), {number * len(points):.2g} numbers for {len(points)} actions, "
            f"more than {LARGEST_FOR_ALL:.0e}; {remedy}, or give fewer actions."
        )


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
    scale, o = spaces.scale(at, low, high, "centres"), len(at.low)
    if isinstance(centres, np.ndarray):
        raise EverystepError(
            "centres are given as points of the observation, and features here are of observation and action; give the "
            "number along each coordinate."
        )
    counts = fits("centres", "centres", centres, o + points.shape[1])
    _few_for_all("centres", math.prod(counts), points, "choose fewer along a coordinate")
    spacing = [2 / max(n - 1, 1) for n in counts]
    lengths = spacing if lengthscale is None else fits("centres", "lengthscale", lengthscale, len(counts))
    own = Centres(scale, grid(counts[:o]), np.array(lengths[:o]))
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
    many = math.prod(b + 1 for b in counts[o:])
    whole = Scale(-np.ones(len(counts) - o), np.ones(len(counts) - o))
    inside = Tiles(whole, counts[o:], shifts[:, o:])(points).reshape(len(points), tilings, 1, many) > 0
    factor = np.broadcast_to(inside, (len(points), tilings, own.size // tilings, many)).reshape(len(points), -1)
    return _Part.product(own, np.repeat(np.arange(own.size), many), factor.astype(np.float64))


_JOINT_BY: dict[str, Callable[..., _Part]] = {
    "constant": _constant,
    "fourier": _fourier,
    "centres": _centres,
    "polynomial": _polynomial,
    "tiles": _tiles,
}
