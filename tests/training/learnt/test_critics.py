"""Critics: several horizons, the rule of looking ahead, and imagined steps, against plain formulas."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from everystep.training.learnt import critics, world
from everystep.training.learnt.critics import Rule
from everystep.training.learnt.scales import Scales
from everystep.training.learnt.world import Predicted, Sizes

pytestmark = pytest.mark.quick

RNG = np.random.default_rng(0)
SIZES = Sizes(coordinates=2, actions=3, constraints=1, members=2, heads=2)
RULE = Rule.of((5, 20), price=10.0, tolerance=0.1)
UNITS = Scales.blank(2, 1, 2).units


def test_heads_are_a_value_and_advantages():
    layers, z = critics.new(RNG, SIZES), RNG.standard_normal((4, 2)).astype(np.float32)
    found = critics.heads(layers, SIZES, z)
    assert found.shape == (2, 4, 3, 4)
    bounded = critics.bounded(UNITS, 100 * found)
    assert (bounded.min(), bounded.max()) == (0, 1)


def test_the_rule_prices_avoidable_harm():
    values = RNG.random((50, 3, 4)).astype(np.float32)
    H = np.array([5, 20])
    Q, G = (values[..., :2] * H / 2).sum(-1), (values[..., 2:] * H / 2).sum(-1)
    scores = Q - 10 * np.maximum(G - G.min(1, keepdims=True) - 0.1, 0)
    expected = values[np.arange(50), scores.argmax(1)]
    np.testing.assert_array_equal(critics.chosen(RULE, values), expected)
    there = critics.chosen(jax.tree.map(jnp.asarray, RULE), jnp.asarray(values))
    np.testing.assert_array_equal(there, expected)


@pytest.mark.parametrize("ends", [-40.0, 40.0])
def test_an_imagined_step_is_discounted_and_may_end(ends):
    """With critics that say 0.5 everywhere: (1 - gamma) now + gamma * (0.5, or nothing after the end)."""
    layers = jax.tree.map(np.zeros_like, critics.new(RNG, SIZES))
    scales = Scales.blank(2, 1, 2)
    units = scales.units._replace(q_mean=np.full(4, 0.5, np.float32), nothing=np.float32(0.25))
    full = lambda value, *shape: np.full((2, 1, 3, *shape), value, np.float32)
    found = Predicted(full(0.0, 2), full(0.7), full(ends), full(0.2, 1))
    z, residual = np.zeros((1, 1, 2), np.float32), np.zeros((2, 1, 1, 2), np.float32)
    target = critics.imagined(found, layers, SIZES, units, RULE, z, residual)
    assert target.shape == (2, 1, 1, 3, 4)
    gamma, after = np.tile([0.8, 0.95], 2), np.full(4, 0.5) if ends < 0 else np.array([0.25, 0.25, 0, 0])
    expected = (1 - gamma) * [0.7, 0.7, 0.2, 0.2] + gamma * after
    np.testing.assert_allclose(target[1, 0, 0, 2], expected, atol=1e-5)


def test_numpy_and_jax_imagine_the_same():
    model, layers = world.new(RNG, SIZES), critics.new(RNG, SIZES)
    z = RNG.standard_normal((2, 4, 2)).astype(np.float32)
    residual = RNG.standard_normal((2, 4, 1, 2)).astype(np.float32) / 10

    def targets(model, layers, units, rule, z, residual):
        found = world.predict(model, z, 3)
        return critics.imagined(found, layers, SIZES, units, rule, z, residual)

    given = (model, layers, UNITS, RULE, z, residual)
    there = targets(*jax.tree.map(jnp.asarray, given))
    np.testing.assert_allclose(targets(*given), there, atol=1e-5)
