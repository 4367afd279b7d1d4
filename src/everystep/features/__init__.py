"""Features of observations: specifications (specs), the maps they become (maps), and observation spaces (spaces)."""

from everystep.features.specs import (
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
