"""The planning step, unrolled over actions and packed into one result, so that it compiles to one pass.

XLA turns a planning step into one pass of vector instructions, with each Q computed once, if every array in it has one
number per state. Of arrays (A, S) it makes five passes, three of which compute Q. So parts exchange arrays (A, S), and
these functions work on their rows; the `jnp.stack` of one part and the look-up of a row by the next cancel out. In the
GPU kernel nothing cancels out, so an array is a tuple of its rows there, and these functions accept that as well.

For the same reason a step returns one array: `pack` puts two real numbers into a complex one. A step with two results
is two passes that both compute Q (31 us per episode of the lake became 26).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Complex, Float

from everystep.mdp.world import FEW, AnyArray


def pack(first: Float[Array, "*S"], second: Float[Array, "*S"]) -> Complex[Array, "*S"]:
    """Two real arrays as one complex array; `unpack` returns them."""
    return lax.complex(first, second)


def unpack(packed: Complex[Array, "*S"]) -> tuple[Float[Array, "*S"], Float[Array, "*S"]]:
    """The two arrays that were packed."""
    return packed.real, packed.imag


def map_rows(row: Callable[..., Array], *arrays: AnyArray) -> AnyArray:
    """`row` for every action, given its rows of `arrays`: `jax.vmap` over the first axis. Tuples give a tuple."""
    A = len(arrays[0])
    if A > FEW:
        return jax.vmap(row)(*arrays)
    rows = tuple(row(*(array[a] for array in arrays)) for a in range(A))
    return rows if isinstance(arrays[0], tuple) else jnp.stack(rows)


def alone(array: AnyArray) -> AnyArray:
    """A first axis of length 1 added to an array (A, *S); a tuple of rows becomes a tuple of that tuple."""
    return (array,) if isinstance(array, tuple) else array[None]


def under(pi: AnyArray, array: AnyArray) -> Array:
    """sum_a pi(a, x) array(a, x), or array(a). A one-hot pi consists of booleans and selects a row."""
    if len(pi) > FEW:
        array = array.reshape(*array.shape, *(1,) * (pi.ndim - array.ndim))
        return jnp.where(pi, array, 0.0).sum(0) if pi.dtype == bool else (pi * array).sum(0)
    if pi[0].dtype != bool:
        return reduce(jnp.add, [pi[a] * array[a] for a in range(len(pi))])
    first = jnp.broadcast_to(array[0], pi[0].shape)
    return reduce(lambda row, a: jnp.where(pi[a], array[a], row), range(1, len(pi)), first)


def picked(a: Array, array: AnyArray) -> AnyArray:
    """array(a(x), x): `under` for a policy given as one action per state."""
    if len(array) > FEW:
        return jnp.take_along_axis(array, a[None], 0)[0]
    return reduce(lambda row, b: jnp.where(a == b, array[b], row), range(1, len(array)), array[0])


def highest(array: AnyArray) -> AnyArray:
    """The maximum over the first axis."""
    return array.max(0) if len(array) > FEW else reduce(larger, [array[a] for a in range(len(array))])


def lowest(array: AnyArray) -> AnyArray:
    """The minimum over the first axis."""
    return array.min(0) if len(array) > FEW else reduce(smaller, [array[a] for a in range(len(array))])


def larger(a: Array, b: Array | float) -> Array:
    """The larger of two numbers in one instruction; `jnp.maximum` takes several to carry NaN through."""
    return jnp.where(a > b, a, b)


def smaller(a: Array, b: Array | float) -> Array:
    """The smaller of two numbers, likewise."""
    return jnp.where(a < b, a, b)
