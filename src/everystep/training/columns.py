"""The columns of a training as arrays, which are extended by the new rows only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Number = float | int | bool | np.generic


class Columns:
    """Arrays of lists that grow, by name."""

    def __init__(self) -> None:
        # For each name the list, an array that is longer than the list, and how much of the list it holds.
        self._known: dict[str, tuple[Sequence[Number], np.ndarray, int]] = {}

    def of(self, name: str, values: Sequence[Number]) -> np.ndarray:
        """The list as a read-only array."""
        source, array, n = self._known.get(name, (values, np.empty(0, bool), 0))
        if source is not values or n > len(values):  # another list, as of a restored learner
            array, n = np.empty(0, bool), 0
        if n < len(values):
            new = np.array(values[n:])
            kind = np.result_type(array, new) if n else new.dtype
            if len(values) > len(array) or kind != array.dtype:
                array = np.concatenate([array[:n].astype(kind), np.empty(2 * len(values) - n, kind)])
            array[n : len(values)] = new
        self._known[name] = values, array, len(values)
        found = array[: len(values)]
        found.flags.writeable = False
        return found
