"""Features of observations: specifications (specs), the maps they become (maps), and observation spaces (spaces)."""

from everystep.features.maps import Features, rebuild
from everystep.features.spaces import flatten
from everystep.features.specs import (
    Spec,
    bind,
    centres,
    fourier,
    function,
    joined,
    landing,
    mirrored,
    one_hot,
    polynomial,
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
    "landing",
    "mirrored",
    "one_hot",
    "polynomial",
    "rebuild",
    "table",
    "tiles",
]
