"""The columns of a training as arrays, which are extended by the new rows only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

Number = float | int | bool | np.generic


class _Column(NamedTuple):
    values: Sequence[Number]  # the list that the array was made from
    array: np.ndarray  # longer than the list, so that it need not grow with every row
    length: int
    total: float


EMPTY = np.empty(0, bool)  # which any type of numbers replaces


class Columns:
    """Arrays of lists that grow, and their sums from the first entry to the last."""

    def __init__(self) -> None:
        self._columns: dict[str, _Column] = {}

    def arrays(self, lists: Mapping[str, Sequence[Number]]) -> dict[str, np.ndarray]:
        """An array for each list, read-only."""
        found = {}
        for name, values in lists.items():
            column = self._current(name, values)
            found[name] = column.array[: column.length]
            found[name].flags.writeable = False
        return found

    def total(self, name: str, values: Sequence[Number]) -> float:
        return self._current(name, values).total

    def _current(self, name: str, values: Sequence[Number]) -> _Column:
        """The column after what is new was added; a list that is another one, as of a restored learner, is all new."""
        before = self._columns.get(name)
        if before is None or before.values is not values or before.length > len(values):
            before = _Column(values, EMPTY, 0, 0)
        if before.length == len(values):
            return before
        new = np.array(values[before.length :])
        array, n = before.array, before.length
        kind = np.result_type(array, new) if n else new.dtype
        if len(values) > len(array) or kind != array.dtype:
            array = np.empty(2 * len(values), kind)
            array[:n] = before.array[:n]
        array[n : len(values)] = new
        total = before.total
        for each in new:  # in order, as `sum` adds
            total += each
        self._columns[name] = _Column(values, array, len(values), total)
        return self._columns[name]
