"""Kernels for Gaussian-process cost models, under the name people import them by: see `parts/kernels.py`."""

from everystep.parts.kernels import (
    RBF,
    Categorical,
    Constant,
    Custom,
    Difference,
    Kernel,
    Linear,
    Matern32,
    Matern52,
    read,
)

__all__ = [
    "RBF",
    "Categorical",
    "Constant",
    "Custom",
    "Difference",
    "Kernel",
    "Linear",
    "Matern32",
    "Matern52",
    "read",
]
