"""Estimators that are stacked: one shared over all steps, or one for each."""

import jax.numpy as jnp
import numpy as np
import pytest

from everystep.lsvi.regression.per_step import by_estimator, for_each, repeat

pytestmark = pytest.mark.quick


def test_rows_of_an_episode_belong_to_the_shared_estimator_or_to_that_of_their_step():
    episode = jnp.arange(8.0).reshape(4, 2)
    np.testing.assert_array_equal(by_estimator(1, episode), episode[None])
    np.testing.assert_array_equal(by_estimator(4, episode), episode[:, None])


def test_a_function_of_every_estimator_is_that_of_each_alone():
    stacked, others = jnp.arange(6.0).reshape(3, 2), jnp.array([1.0, 10.0, 100.0])
    found = for_each(lambda row, factor: (row.sum() * factor, row), stacked, others)
    np.testing.assert_array_equal(found[0], [1.0, 50.0, 900.0])
    np.testing.assert_array_equal(found[1], stacked)


def test_a_tree_is_repeated_for_every_step():
    repeated = repeat({"a": jnp.arange(3), "b": jnp.ones(())}, 2)
    np.testing.assert_array_equal(repeated["a"], [[0, 1, 2], [0, 1, 2]])
    assert repeated["b"].shape == (2,)
