"""Networks: the same numbers in NumPy and in JAX, and the same functions of other inputs and outputs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from everystep.training.learnt import networks

pytestmark = pytest.mark.quick

RNG = np.random.default_rng(0)
LAYERS = networks.new(RNG, 3, 2, 4)
Z = RNG.standard_normal((1, 5, 2)).astype(np.float32)


def test_numpy_and_jax_agree():
    there = networks.outputs(jax.tree.map(jnp.asarray, LAYERS), jnp.asarray(Z))
    here = networks.outputs(LAYERS, Z)
    assert here.dtype == np.float32
    assert here.shape == (3, 5, 4)
    np.testing.assert_allclose(here, there, atol=1e-5)


def test_silu_and_sigmoid_are_what_they_are_called_for_any_number():
    x = np.array([-1e30, -3.0, 0.0, 3.0, 1e30], np.float32)
    np.testing.assert_allclose(networks.sigmoid(x), [0, 1 / (1 + np.exp(3)), 0.5, 1 / (1 + np.exp(-3)), 1], atol=1e-6)
    np.testing.assert_allclose(networks.silu(x)[1:4], jax.nn.silu(jnp.asarray(x))[1:4], atol=1e-6)


def test_other_inputs_and_outputs():
    factor, offset = np.array([2.0, 0.5]), np.array([0.3, -1.0])
    of_new = networks.with_inputs(LAYERS, factor, offset)
    np.testing.assert_allclose(
        networks.outputs(of_new, Z), networks.outputs(LAYERS, (factor * Z + offset).astype(np.float32)), atol=1e-5
    )
    scaled = networks.with_outputs(LAYERS, np.arange(4.0), np.ones(4))
    np.testing.assert_allclose(networks.outputs(scaled, Z), networks.outputs(LAYERS, Z) * np.arange(4.0) + 1, atol=1e-5)
