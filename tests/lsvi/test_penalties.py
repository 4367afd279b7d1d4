"""Prices of violations: rectified with a floor, and the virtual queue."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from everystep.lsvi.penalties import Floor, Rectified, VirtualQueue


@pytest.mark.quick
def test_the_rectified_price_adds_violations_and_never_falls_below_its_floor():
    penalty = jax.tree.map(jnp.float64, Rectified(Floor(1.0, 1.0)))
    price = penalty.init(1, 3)
    observed = jnp.array([[1.0, -1.0, 0.5]])
    for k in range(1, 30):
        before = price
        price = penalty.update(price, observed, jnp.asarray(k, jnp.int32))
        np.testing.assert_array_equal(price, np.maximum(np.asarray(before) + [[1.0, 0.0, 0.5]], k))
        assert (price >= k).all()  # the price of episode k + 1 is at least k, not k + 1


def test_the_rectified_price_never_falls_even_above_its_floor():
    penalty = jax.tree.map(jnp.float64, Rectified(Floor(1.0, 0.0)))
    price = penalty.init(1, 3)
    for observed, expected in (([2.0, 0.5, -1.0], [3.0, 1.5, 1.0]), ([-1.0, -0.25, 0.0], [3.0, 1.5, 1.0])):
        price = penalty.update(price, jnp.array([observed]), jnp.asarray(1, jnp.int32))
        np.testing.assert_array_equal(price, [expected])


def test_in_the_virtual_queue_safe_steps_cancel_violations():
    queue = VirtualQueue()
    price = queue.update(queue.init(1, 2), jnp.array([[1.0, -1.0]]), jnp.asarray(1, jnp.int32))
    np.testing.assert_array_equal(price, [[1.0, 0.0]])
    np.testing.assert_array_equal(
        queue.update(price, jnp.array([[-1.0, 0.25]]), jnp.asarray(2, jnp.int32)), [[0.0, 0.25]]
    )


@pytest.mark.parametrize(("setting", "at_9"), [("k", 9.0), ("sqrt", 3.0), (2.5, 2.5)])
def test_a_floor_is_k_its_root_or_a_number(setting, at_9):
    floor = jax.tree.map(jnp.float64, Floor.from_setting(setting))
    assert float(floor(jnp.asarray(9, jnp.int32))) == at_9
