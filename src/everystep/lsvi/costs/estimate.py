"""The estimate of a cost model: an interval for every constraint at every (x, a)."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Array, Float


class CostEstimate(NamedTuple):
    """An interval for each constraint at each (x, a): mean - width to mean + width."""

    mean: Float[Array, "T m A S"]
    width: Float[Array, "T w A S"]  # w is 1 where all constraints share it, else m
