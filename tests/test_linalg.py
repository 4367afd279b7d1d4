"""The running inverse against a fresh solve."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from everystep.parts import linalg


@pytest.mark.quick
def test_the_running_inverse_and_norms_equal_a_fresh_solve_after_thousands_of_updates():
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(7, 3, 5))
    phi /= np.linalg.norm(phi, axis=-1, keepdims=True)
    rows = phi.reshape(-1, 5)[rng.integers(0, 21, (800, 4))]

    def step(gram, X):
        return linalg.add(gram, jnp.asarray(phi), X), None

    gram, _ = jax.lax.scan(step, linalg.fresh(jnp.asarray(phi), 0.01), jnp.asarray(rows))
    flat = rows.reshape(-1, 5)
    inverse = np.linalg.inv(flat.T @ flat + 0.01 * np.eye(5))
    np.testing.assert_allclose(gram.inverse, inverse, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(gram.norm2, np.einsum("sad,de,sae->sa", phi, inverse, phi), rtol=1e-8)
