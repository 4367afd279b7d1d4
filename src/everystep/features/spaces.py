"""Observations as rows of numbers: their bounds in a gymnasium-like space, and how they are scaled.

    Discrete                                   an integer, so a batch is (n,)
    Box, MultiDiscrete, MultiBinary            (o,), flattened, so a batch is (n, o)
    Tuple, Dict (in the order of its keys)     the parts concatenated

Spaces are recognised by their attributes (`n`, `nvec`, `low`, `spaces`), so gymnasium itself is not needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float

from everystep.errors import EverystepError, as_array, is_masked, shown


class Space(Protocol):
    """What every space of Gymnasium has; `n`, `nvec`, `low` and `high`, or `spaces` show of which kind it is."""

    @property
    def shape(self) -> tuple[int, ...] | None: ...

    @property
    def dtype(self) -> np.dtype[Any] | None: ...


# The shape of an observation as a list; {"dict": {name: layout}} or {"tuple": [layout]} of a space with parts.
Layout = list[int] | dict[str, dict[str, "Layout"]] | dict[str, list["Layout"]]
Bound = (
    float | int | Sequence[float | int | None] | np.ndarray | None
)  # of a range: one number, or one for each coordinate
UNBOUNDED = 1e30  # some spaces have the largest float32 in place of infinity


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The o numbers of an observation: their bounds (infinite where there are none), and the lengths of finite lists.

    `sizes` is None unless every coordinate is an integer counted from `low`; `single` is True if an observation is one
    such integer instead of a vector.
    """

    low: Float[np.ndarray, " o"]
    high: Float[np.ndarray, " o"]
    sizes: tuple[int, ...] | None
    single: bool
    space: str

    @classmethod
    def of(cls, space: Space) -> Coordinates:
        try:
            parts = list(_parts(space))
            low, high = (np.concatenate([np.empty(0), *(part[i] for part in parts)]).astype(np.float64) for i in (0, 1))
            valid = low.shape == high.shape and bool((low <= high).all())
        except EverystepError:
            raise
        except Exception:  # a space that only resembles one of gymnasium's
            valid = False
        if not valid:
            raise EverystepError(f"observation space {shown(space)} has no valid bounds; wrap the environment.")
        if not len(low):
            raise EverystepError(f"observation space {shown(space)} has no numbers; give one that does.")
        low, high = np.where(low < -UNBOUNDED, -np.inf, low), np.where(high > UNBOUNDED, np.inf, high)
        whole = all(part[2] for part in parts)
        sizes = tuple(int(n) for n in high - low + 1) if whole else None
        single = whole and not hasattr(space, "spaces") and getattr(space, "shape", ()) == ()
        return cls(low, high, sizes, single, str(space))

    @property
    def first(self) -> tuple[int, ...]:
        """The first integer of each list."""
        return tuple(int(each) for each in self.low)


def _parts(space: Space) -> Iterator[tuple[np.ndarray, np.ndarray, bool]]:
    """(low, high, whether integers from a finite list) of every leaf of a space, in order."""
    if hasattr(space, "spaces"):
        inner = space.spaces
        for each in [inner[key] for key in sorted(inner)] if isinstance(inner, Mapping) else inner:
            yield from _parts(each)
    elif hasattr(space, "nvec"):
        first = np.ravel(getattr(space, "start", 0) * np.ones_like(space.nvec))
        yield first, first + np.ravel(space.nvec) - 1, True
    elif hasattr(space, "low") and hasattr(space, "high"):
        yield np.ravel(space.low), np.ravel(space.high), False
    elif hasattr(space, "n"):
        shape = getattr(space, "shape", ())
        if shape == ():
            first = np.array([int(getattr(space, "start", 0))])
            yield first, first + int(space.n) - 1, True
        else:
            yield np.zeros(int(np.prod(shape))), np.ones(int(np.prod(shape))), True
    else:
        raise EverystepError(
            f"observation space {shown(space)} is not made of Discrete, MultiDiscrete, MultiBinary, Box, Tuple or "
            "Dict; wrap the environment so that it is."
        )


def layout(space: Space) -> Layout:
    """The shape of an observation as a list; {"dict": {name: layout}} or {"tuple": [layout]} of a space with parts."""
    if hasattr(space, "spaces"):
        inner = space.spaces
        if isinstance(inner, Mapping):
            return {"dict": {str(key): layout(inner[key]) for key in sorted(inner)}}
        return {"tuple": [layout(each) for each in inner]}
    own = space.nvec if hasattr(space, "nvec") else getattr(space, "low", None)
    return [int(n) for n in (getattr(space, "shape", ()) if own is None else np.shape(own))]


def leaves(observation: Any, at: Layout) -> list[tuple[np.ndarray, tuple[int, ...]]]:
    """The arrays of an observation, or of a batch of them, in the order of `flatten`; each with its shape by layout."""
    try:
        if isinstance(at, list):
            array = np.asarray(observation)
            if array.dtype.kind not in "biuf" or isinstance(observation, Mapping):
                raise TypeError
            return [(array, tuple(at))]
        ((kind, parts),) = at.items()
        if isinstance(observation, Mapping) != (kind == "dict") or len(observation) != len(parts):
            raise TypeError
        inner = parts.items() if isinstance(parts, dict) else enumerate(parts)
        return [each for name, part in inner for each in leaves(observation[name], part)]
    except EverystepError:
        raise
    except Exception:  # other parts, or an object that fails while it is read
        raise EverystepError(
            f"observation {shown(observation)} does not have the parts of the space; give those of the environment."
        ) from None


def flatten(observation: object) -> np.ndarray:
    """An observation of any such space as a vector of numbers, or as one integer where it is one.

    >>> es.features.flatten({"speed": [1.0], "place": [2.0, 3.0]}).tolist()
    [2.0, 3.0, 1.0]
    """
    if isinstance(observation, Mapping):
        try:
            keys = sorted(observation)
        except TypeError:
            raise EverystepError(f"observation {shown(observation)} has keys without an order; use texts.") from None
        parts = [np.ravel(flatten(observation[key])) for key in keys]
    elif isinstance(observation, tuple):
        parts = [np.ravel(flatten(each)) for each in observation]
    else:
        array = as_array(observation)
        if is_masked(observation):
            raise EverystepError(f"observation {shown(observation)} has masked entries; give finite numbers.")
        if array.dtype.kind not in "biuf":
            raise EverystepError(f"observation {shown(observation)} is not made of numbers; wrap the environment.")
        if array.ndim == 0 and array.dtype.kind in "iu":
            return array.astype(np.int64)
        parts = [array.ravel()]
    return np.concatenate([np.empty(0), *parts]).astype(np.float64)


def as_floats(given: object) -> np.ndarray | None:
    """`given` as an array of float64, NaN in place of None; None if it is not made of numbers."""
    try:
        array = np.asarray(given)
        return array.astype(np.float64) if array.dtype.kind in "biufO" and not is_masked(given) else None
    except Exception:  # lists of different lengths, or an object that fails while it is read
        return None


def rows(obs: np.ndarray, o: int) -> Float[np.ndarray, "n o"]:
    """A batch of observations as (n, o) finite numbers; integers (n,) become one column."""
    x = as_floats(obs)
    if x is None:
        raise EverystepError(f"observations are {shown(obs)}; give numbers of shape (n, {o}).")
    x = x[:, None] if x.ndim == 1 and o == 1 else x
    if x.ndim != 2 or x.shape[1] != o:
        wanted = f"(n, {o})" if o > 1 else "(n,) or (n, 1)"
        raise EverystepError(f"observations have shape {np.shape(obs)}; these features need {wanted}.")
    if not np.isfinite(x).all():
        row, column = np.argwhere(~np.isfinite(x))[0]
        raise EverystepError(f"an observation is {x[row, column]} at coordinate {column}; it must be a finite number.")
    return x


def listed(obs: np.ndarray, sizes: tuple[int, ...], first: tuple[int, ...]) -> np.ndarray:
    """A batch of integers as indices into one list, (n,): the last coordinate varies fastest."""
    if len(sizes) == 1 and obs.ndim == 1 and obs.dtype == np.int64 and len(obs):  # the common case while acting
        place = obs - first[0]
        if place.min() >= 0 and place.max() < sizes[0]:
            return place
    x = rows(obs, len(sizes)) - np.array(first)
    wrong = (x != np.round(x)) | (x < 0) | (x >= np.array(sizes))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        low = first[column]
        raise EverystepError(
            f"an observation is {x[row, column] + low:g} at coordinate {column}; "
            f"it must be a whole number from {low} to {low + sizes[column] - 1}."
        )
    return np.asarray(np.ravel_multi_index(tuple(x.astype(np.int64).T), sizes))


@dataclass(frozen=True, eq=False)
class Scale:
    """x -> 2 (x - low) / (high - low) - 1 in every coordinate, clipped to [-1, 1]; a constant coordinate becomes 0."""

    low: Float[np.ndarray, " o"]
    high: Float[np.ndarray, " o"]

    def __call__(self, obs: np.ndarray) -> Float[np.ndarray, "n o"]:
        span = self.high - self.low
        middle = (self.low + self.high) / 2
        factor = np.where(span > 0, 2 / np.where(span > 0, span, 1), 0)
        return np.asarray(np.clip((rows(obs, len(span)) - middle) * factor, -1, 1))

    @property
    def remark(self) -> str:
        """How observations were scaled, in a sentence."""
        if len(self.low) > 8:
            return f"{len(self.low)} coordinates of observations were scaled to [-1, 1] and clipped outside"
        ranges = ", ".join(f"{low:.4g} to {high:.4g}" for low, high in zip(self.low, self.high, strict=True))
        return f"observations were scaled to [-1, 1] from {ranges}, and clipped outside"


def scale(at: Coordinates, low: Bound, high: Bound, kind: str) -> Scale:
    """The scale of a space; `low` and `high` override its bounds (a number, or one per coordinate; None: no change)."""
    ends = []
    for name, own, given in (("low", at.low, low), ("high", at.high, high)):
        array = as_floats(np.nan if given is None else given)
        try:
            array = np.broadcast_to(np.empty((0, 0)) if array is None else array, own.shape)
        except ValueError:
            raise EverystepError(f"{name} of {kind} is {shown(given)}; give a number, or {len(own)} of them.") from None
        ends.append(np.where(np.isnan(array), own, array))
    open_ended = np.flatnonzero(~(np.isfinite(ends[0]) & np.isfinite(ends[1])))
    if len(open_ended):
        raise EverystepError(
            f"observations have no finite bounds at coordinate {', '.join(map(str, open_ended[:8]))}; give {kind} low= "
            f"and high= ({len(at.low)} numbers each, None where the bound of the space applies)."
        )
    fixed_by_space = (at.low == at.high) & (ends[0] == ends[1])
    wrong = np.flatnonzero((ends[0] >= ends[1]) & ~fixed_by_space)
    if len(wrong):
        low_end, high_end = ends[0][wrong[0]], ends[1][wrong[0]]
        raise EverystepError(
            f"low of {kind} is {low_end:g} and high is {high_end:g} at coordinate {wrong[0]}; low must be below high."
        )
    return Scale(*ends)
