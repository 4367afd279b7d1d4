"""A step of a plan said action by action, where actions are few.

XLA turns a step into one pass of vector instructions, with each Q computed once, if all arrays in it have one number
for each state. Of arrays (A, S) it makes five passes, three of which compute Q. So parts give and take (A, S), and
these functions work on its rows; the `jnp.stack` of one part and the look-up of a row by the next cancel out. Inside a
kernel of our own nothing cancels out, so there an array is a tuple of its rows, and these functions take that as well.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import jax
import jax.numpy as jnp
from jaxtyping import Array

from everystep.mdp.world import FEW, AnyArray


def each(row: Callable[..., Array], *arrays: AnyArray) -> AnyArray:
    """`row` of every action, given its rows of `arrays`: `jax.vmap` over the first axis. A tuple gives a tuple."""
    A = len(arrays[0])
    if A > FEW:
        return jax.vmap(row)(*arrays)
    made = tuple(row(*(array[a] for array in arrays)) for a in range(A))
    return made if isinstance(arrays[0], tuple) else jnp.stack(made)


def under(pi: Array, array: AnyArray) -> Array:
    """sum_a pi(a, x) array(a, x), or array(a): where pi is one-hot, as booleans, the row it names."""
    if len(pi) > FEW:
        array = array.reshape(*array.shape, *(1,) * (pi.ndim - array.ndim))
        return jnp.where(pi, array, 0.0).sum(0) if pi.dtype == bool else (pi * array).sum(0)
    if pi.dtype != bool:
        return reduce(jnp.add, [pi[a] * array[a] for a in range(len(pi))])
    first = jnp.broadcast_to(array[0], pi[0].shape)
    return reduce(lambda row, a: jnp.where(pi[a], array[a], row), range(1, len(pi)), first)


def picked(a: Array, array: AnyArray) -> AnyArray:
    """array(a(x), x): `under` a policy given as the action of each state."""
    if len(array) > FEW:
        return jnp.take_along_axis(array, a[None], 0)[0]
    return reduce(lambda row, b: jnp.where(a == b, array[b], row), range(1, len(array)), array[0])


def highest(array: AnyArray) -> AnyArray:
    """The maximum over the first axis."""
    return array.max(0) if len(array) > FEW else reduce(larger, [array[a] for a in range(len(array))])


def larger(a: Array, b: Array | float) -> Array:
    """The larger of two numbers in one instruction; `jnp.maximum` takes several to carry NaN through."""
    return jnp.where(a > b, a, b)


def smaller(a: Array, b: Array | float) -> Array:
    """The smaller of two numbers, likewise."""
    return jnp.where(a < b, a, b)
