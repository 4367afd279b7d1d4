"""What is known of the observations of an environment: their layout, and where actions were taken.

    layout     the shape of an observation; {"dict": {name: ...}} or {"tuple": [...]} where it has parts
    low, high  (o,): the least and the largest of each coordinate of the observations at which actions were taken
    visited    where nothing is shared between observations (integers, one-hot features): which of them they were

A policy has learnt costs at those observations. Outside of them its features clip, and its estimates are those of the
edge: a label there would say nothing about the observation, so it is 0 (unknown). Outside is what is more than `MARGIN`
of the range beyond `low` or `high` in some coordinate, or an integer at which no action was taken.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from everystep.errors import EverystepError, shown, whole_number
from everystep.features.spaces import Coordinates, Layout, Space, flatten, layout, leaves, listed, rows

MARGIN = 0.05  # of the range that was seen, on each side
ROUNDING = 1e-6  # of the numbers themselves: observations are often of 32 bits
MOST_STATES = 10**6  # of a list; in longer ones the range of the integers counts


@dataclass(frozen=True)
class Observed:
    """See the module. `sizes` and `first` are of the lists that `visited` numbers; None where it is not kept."""

    layout: Layout
    low: np.ndarray
    high: np.ndarray
    visited: np.ndarray
    sizes: tuple[int, ...] | None = None
    first: tuple[int, ...] | None = None

    @classmethod
    def of(cls, space: Space, one_hot: bool) -> Observed:
        """No observations yet, of a space; `one_hot`: whether the features share nothing between observations."""
        at = Coordinates.of(space)
        is_listed = at.sizes is not None and (at.single or one_hot) and math.prod(at.sizes) <= MOST_STATES
        o, lists = len(at.low), (at.sizes, at.first) if is_listed else (None, None)
        visited = np.zeros(math.prod(at.sizes) if is_listed and at.sizes is not None else 0, bool)
        return cls(layout(space), np.full(o, np.inf), np.full(o, -np.inf), visited, *lists)

    def with_rows(self, x: np.ndarray) -> Observed:
        """The same with more observations (n, ...)."""
        numbers, visited = rows(x, len(self.low)), self.visited
        if self.sizes is not None and self.first is not None:
            visited = visited.copy()
            visited[listed(x, self.sizes, self.first)] = True
        low, high = np.minimum(self.low, numbers.min(0)), np.maximum(self.high, numbers.max(0))
        return replace(self, low=low, high=high, visited=visited)

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The least and the largest number of each coordinate that is not outside."""
        margin = MARGIN * (self.high - self.low) + ROUNDING * np.maximum(np.abs(self.low), np.abs(self.high))
        return self.low - margin, self.high + margin

    def holds(self, x: np.ndarray) -> np.ndarray:
        """(n,): which observations are not outside of what was seen."""
        if self.sizes is not None and self.first is not None:
            return np.asarray(self.visited[listed(x, self.sizes, self.first)])
        low, high = self.ends
        numbers = rows(x, len(low))
        return np.asarray(((numbers >= low) & (numbers <= high)).all(1))

    def batch(self, observation: object) -> tuple[np.ndarray, bool]:
        """Rows (n, ...) of one observation, or of a batch as vector environments return it; whether it is one."""
        parts = leaves(observation, self.layout)
        one = all(each.shape == shape for each, shape in parts)
        n = 1 if one else len(parts[0][0]) if parts[0][0].ndim else 0
        if not one and not all(each.shape == (n, *shape) for each, shape in parts):
            expected = self.layout if isinstance(self.layout, Mapping) else f"shape {tuple(self.layout)}"
            raise EverystepError(
                f"the observation is {shown(observation)}, and observations of the policy have {expected}; give one of "
                "them, or a batch with one in each row."
            )
        if one:
            return flatten(observation)[None], True
        if len(parts) == 1 and not isinstance(self.layout, Mapping) and not parts[0][1]:
            return parts[0][0].astype(np.int64 if parts[0][0].dtype.kind in "iu" else np.float64), False
        return np.concatenate(
            [each.reshape(n, math.prod(each.shape[1:])).astype(np.float64) for each, _ in parts], 1
        ), False

    # --- files -------------------------------------------------------------------------------------------------------
    def to_json(self) -> dict[str, Any]:
        """Everything but the arrays."""
        return {
            "layout": self.layout,
            "sizes": self.sizes and list(self.sizes),
            "first": self.first and list(self.first),
        }

    def arrays(self) -> dict[str, np.ndarray]:
        return {"seen_low": self.low, "seen_high": self.high, "seen_states": self.visited}

    @classmethod
    def from_json(cls, content: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Observed:
        """The inverse; raises KeyError, TypeError or ValueError if the content is not of this form."""
        low, high, visited = (arrays[name] for name in ("seen_low", "seen_high", "seen_states"))
        sizes, first = (tuple(content[name] or ()) for name in ("sizes", "first"))
        whole = all(type(each) is int for each in (*sizes, *first)) and all(each > 0 for each in sizes)
        if not whole or len(sizes) != len(first) or len(sizes) not in (0, len(low)):
            raise ValueError("lists of states")
        states = math.prod(sizes) if sizes else 0
        fits = low.shape == high.shape == (_size(content["layout"]),) and bool((low <= high).all()) and len(low) > 0
        if not fits or visited.dtype != bool or visited.shape != (states,):
            raise ValueError("what was seen")
        return cls(content["layout"], low.astype(float), high.astype(float), visited, sizes or None, first or None)


def _size(described: Layout) -> int:
    """The number of coordinates of a layout; raises if it is none."""
    if isinstance(described, list):
        return math.prod(whole_number("shape of an observation", each, 0) for each in described)
    ((kind, parts),) = described.items()
    if (kind, isinstance(parts, dict)) not in (("dict", True), ("tuple", False)):
        raise ValueError("another layout")
    return sum(map(_size, parts.values() if isinstance(parts, dict) else parts))
