"""Estimators stacked along the leading axis T: 1 when one is shared over all steps, H when each step has its own."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array

from everystep.lsvi.protocols import Pytree


def for_each(function: Callable[..., Pytree], *stacked: Pytree) -> Pytree:
    """`function` of every estimator, one after another.

    Not side by side: two programs that factor batches of matrices at the same time deadlock in XLA's thread pool on a
    CPU (jaxlib 0.10), and an engine runs as many programs as there are cores.
    """
    return jax.lax.map(lambda row: function(*row), stacked)


def repeat(tree: Pytree, steps: int) -> Pytree:
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (steps, *leaf.shape)), tree)


def by_estimator(steps: int, array: Array) -> Array:
    """The rows of an episode by estimator: (H, ...) to (T, H / T, ...)."""
    return array.reshape(steps, -1, *array.shape[1:])
