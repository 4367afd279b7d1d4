"""Small networks with SiLU, several at once: the same code in NumPy, which acts, and in JAX, which learns."""

from __future__ import annotations

import math
from types import ModuleType

import jax.numpy as jnp
import numpy as np

from everystep.mdp.world import AnyArray

Layers = tuple[tuple[AnyArray, AnyArray], ...]  # weights (E, inputs, outputs) and biases (E, outputs) of E networks
WIDTH = 64  # of the two hidden layers


def module_of(array: AnyArray) -> ModuleType:
    """NumPy for its own arrays, else JAX."""
    return np if isinstance(array, np.ndarray) else jnp


def new(rng: np.random.Generator, count: int, inputs: int, outputs: int, last: float = 1.0) -> Layers:
    """`count` networks with random weights; `last` is a factor on those of the last layer."""
    sizes = (inputs, WIDTH, WIDTH, outputs)
    factors = (1.0, 1.0, last)
    return tuple(
        (
            (rng.standard_normal((count, n, m)) * (factor / math.sqrt(n))).astype(np.float32),
            np.zeros((count, m), np.float32),
        )
        for n, m, factor in zip(sizes[:-1], sizes[1:], factors, strict=True)
    )


def sigmoid(x: AnyArray) -> AnyArray:
    return 0.5 + 0.5 * module_of(x).tanh(0.5 * x)


def silu(x: AnyArray) -> AnyArray:
    return x * sigmoid(x)


def outputs(layers: Layers, z: AnyArray) -> AnyArray:
    """(E, n, outputs), for inputs (E, n, inputs) or (1, n, inputs)."""
    for weights, biases in layers[:-1]:
        z = silu(z @ weights + biases[:, None, :])
    weights, biases = layers[-1]
    return z @ weights + biases[:, None, :]


def along_last(vector: AnyArray, dimensions: int) -> AnyArray:
    """A vector as an array of so many dimensions whose last one it fills."""
    return vector.reshape((1,) * (dimensions - 1) + vector.shape)


def with_inputs(layers: Layers, factor: np.ndarray, offset: np.ndarray) -> Layers:
    """The same functions of other inputs: their first inputs were factor * z + offset, where z is given now."""
    (weights, biases), *rest = layers
    k, weights = len(factor), np.asarray(weights)
    of_z = weights[:, :k]
    changed = np.concatenate([of_z * factor[None, :, None], weights[:, k:]], 1)
    shifted = np.asarray(biases) + np.einsum("i,eij->ej", offset, of_z)
    return ((changed.astype(np.float32), shifted.astype(np.float32)), *rest)


def with_outputs(layers: Layers, factor: np.ndarray, offset: np.ndarray) -> Layers:
    """Networks whose outputs are factor * out + offset."""
    *rest, (weights, biases) = layers
    made = (np.asarray(weights) * factor[None, None], np.asarray(biases) * factor[None] + offset[None])
    return (*rest, (made[0].astype(np.float32), made[1].astype(np.float32)))
