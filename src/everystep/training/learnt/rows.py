"""Every transition that was seen, in NumPy arrays that grow."""

from __future__ import annotations

import numpy as np

COLUMNS = ("x", "y", "a", "r", "g", "ended", "residual", "standard")
START = 256


class Rows:
    """n transitions.

    x, y (n, o)      the observation before and after, a (n,) the action
    r (n,), g (n, m) reward and signed constraints
    ended (n,)       1 where the episode terminated
    residual (n, o)  the change of the observation less the change that was predicted before it was learnt
    standard (n, o)  the same, in predicted deviations
    """

    def __init__(self, coordinates: int, constraints: int) -> None:
        o, m = coordinates, constraints
        shapes: dict[str, tuple[int, ...]] = {"x": (o,), "y": (o,), "g": (m,), "residual": (o,), "standard": (o,)}
        self.count = 0
        self.columns = {
            name: np.zeros((START, *shapes.get(name, ())), np.int64 if name == "a" else np.float64) for name in COLUMNS
        }

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns[name][: self.count]

    def check(self, o: int, m: int, actions: int) -> None:
        """Raise ValueError unless rows that were read from a file could have been seen."""
        like, room = Rows(o, m).columns, len(self.columns["a"])
        alike = set(self.columns) == set(like) and 0 <= self.count <= room
        alike = alike and all(
            each.dtype == like[name].dtype and each.shape == (room, *like[name].shape[1:])
            for name, each in self.columns.items()
        )
        if not alike or not all(np.isfinite(self[name]).all() for name in COLUMNS):
            raise ValueError("other rows")
        if ((self["a"] < 0) | (self["a"] >= actions)).any():
            raise ValueError("other actions")

    def add(self, **values: np.ndarray | float) -> int:
        """One more row; its number."""
        if self.count == len(self.columns["a"]):
            for name, array in self.columns.items():
                self.columns[name] = np.concatenate([array, np.zeros_like(array)])
        at = self.count
        for name, value in values.items():
            self.columns[name][at] = value
        self.count += 1
        return at
