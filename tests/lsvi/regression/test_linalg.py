"""The running inverse against a fresh solve."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from everystep.lsvi.regression import linalg
from everystep.lsvi.regression.linalg import by_estimator, for_each, repeat


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
    norm2 = np.einsum("sad,de,sae->sa", phi, inverse, phi)
    np.testing.assert_allclose(gram.norm2, norm2, rtol=1e-8)
    np.testing.assert_allclose(linalg.squared_norms(gram._replace(norm2=None), jnp.asarray(phi)), norm2, rtol=1e-8)
    np.testing.assert_allclose(linalg.quadratic(gram.inverse, jnp.asarray(phi.swapaxes(1, 2))), norm2, rtol=1e-8)
    np.testing.assert_allclose(gram.log_det, -np.linalg.slogdet(0.01 * inverse)[1], rtol=1e-8)


def test_rounding_leaves_no_squared_norm_below_zero():
    phi = jnp.eye(3)[None]
    begun = linalg.fresh(phi, 0.01)
    low = begun._replace(norm2=begun.norm2 * (1 - 1e-9))  # as if by rounding
    np.testing.assert_array_equal(linalg.add(low, phi, 1e6 * jnp.eye(3)).norm2, np.zeros((1, 3)))


def test_without_features_to_watch_the_matrix_begins_and_grows_the_same():
    X = jnp.asarray(np.random.default_rng(1).normal(size=(4, 3)))
    watched = linalg.add(linalg.fresh(jnp.zeros((1, 1, 3)), 0.2), jnp.zeros((1, 1, 3)), X)
    alone = linalg.add(linalg.unwatched(3, 0.2), None, X)
    np.testing.assert_allclose(alone.inverse, np.linalg.inv(X.T @ X + 0.2 * np.eye(3)), rtol=1e-10)
    np.testing.assert_array_equal(alone.inverse, watched.inverse)
    assert alone.norm2 is None
    assert alone.log_det == watched.log_det > 0


@pytest.mark.quick
def test_rows_of_an_episode_belong_to_the_shared_estimator_or_to_that_of_their_step():
    episode = jnp.arange(8.0).reshape(4, 2)
    np.testing.assert_array_equal(by_estimator(1, episode), episode[None])
    np.testing.assert_array_equal(by_estimator(4, episode), episode[:, None])


@pytest.mark.quick
def test_a_function_of_every_estimator_is_that_of_each_alone():
    stacked, others = jnp.arange(6.0).reshape(3, 2), jnp.array([1.0, 10.0, 100.0])
    found = for_each(lambda row, factor: (row.sum() * factor, row), stacked, others)
    np.testing.assert_array_equal(found[0], [1.0, 50.0, 900.0])
    np.testing.assert_array_equal(found[1], stacked)


@pytest.mark.quick
def test_a_tree_is_repeated_for_every_step():
    repeated = repeat({"a": jnp.arange(3), "b": jnp.ones(())}, 2)
    np.testing.assert_array_equal(repeated["a"], [[0, 1, 2], [0, 1, 2]])
    assert repeated["b"].shape == (2,)
