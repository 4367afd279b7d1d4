"""Features of observations, under the name people import them by: see `parts/features.py`."""

from everystep.parts.features import (
    Features,
    Spec,
    bind,
    centres,
    flatten,
    fourier,
    function,
    joined,
    one_hot,
    polynomial,
    rebuild,
    table,
    tiles,
)

__all__ = [
    "Features",
    "Spec",
    "bind",
    "centres",
    "flatten",
    "fourier",
    "function",
    "joined",
    "one_hot",
    "polynomial",
    "rebuild",
    "table",
    "tiles",
]
