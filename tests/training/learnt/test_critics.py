"""Critics: several horizons, the rule of looking ahead, and imagined steps, against plain formulas."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from everystep.training.learnt import critics, networks, world
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
    found = critics.heads(critics.centred(layers, SIZES), SIZES, z)
    assert found.shape == (2, 4, 3, 4)
    plain = networks.outputs(layers, z[None]).reshape(2, 4, 1 + 3, 4)
    np.testing.assert_allclose(found.mean(2), plain[:, :, 0], atol=1e-5)
    np.testing.assert_allclose(found[:, :, 2] - found[:, :, 0], plain[:, :, 3] - plain[:, :, 1], atol=1e-5)
    units = UNITS._replace(q_mean=np.arange(4, dtype=np.float32), q_size=np.arange(1, 5, dtype=np.float32))
    scaled = critics.heads(critics.scaled(layers, SIZES, units), SIZES, z)
    np.testing.assert_allclose(scaled, units.q_mean + units.q_size * found, atol=1e-4)
    bounded = critics.bounded(UNITS, 100 * found)
    assert (bounded.min(), bounded.max()) == (0, 1)


def test_the_rule_prices_avoidable_harm():
    values = RNG.random((50, 3, 4)).astype(np.float32)
    H = np.array([5, 20])
    Q, G = (values[..., :2] * H / 2).sum(-1), (values[..., 2:] * H / 2).sum(-1)
    scores = Q - 10 * np.maximum(G - G.min(1, keepdims=True) - 0.1, 0)
    expected = values[np.arange(50), scores.argmax(1)]
    for taken, best in (
        critics.chosen(RULE, values),
        critics.chosen(jax.tree.map(jnp.asarray, RULE), jnp.asarray(values)),
    ):
        np.testing.assert_array_equal(taken, expected)
        np.testing.assert_array_equal(best, scores.argmax(1))


@pytest.mark.parametrize("ends", [-40.0, 40.0])
def test_an_imagined_step_is_discounted_and_may_end(ends):
    """With critics that say 0.5 everywhere: (1 - gamma) now + gamma * (0.5, or nothing after the end)."""
    units = UNITS._replace(q_mean=np.full(4, 0.5, np.float32), nothing=np.float32(0.25))
    layers = critics.scaled(jax.tree.map(np.zeros_like, critics.new(RNG, SIZES)), SIZES, units)
    full = lambda value, *shape: np.full((2, 1, 3, *shape), value, np.float32)
    found = Predicted(full(0.0, 2), full(0.7), full(ends), full(0.2, 1), full(0.0, 3))
    z, residual = np.zeros((1, 1, 2), np.float32), np.zeros((1, 2, 1, 1, 2), np.float32)
    target = critics.imagined(found, world.new(RNG, SIZES), layers, SIZES, units, RULE, z, residual)
    assert target.shape == (2, 1, 1, 3, 4)
    gamma, after = np.tile([0.8, 0.95], 2), np.full(4, 0.5) if ends < 0 else np.array([0.25, 0.25, 0, 0])
    expected = (1 - gamma) * [0.7, 0.7, 0.2, 0.2] + gamma * after
    np.testing.assert_allclose(target[1, 0, 0, 2], expected, atol=1e-5)


@pytest.mark.parametrize("trust", [0.0, 0.5, 1.0])
def test_imagined_steps_in_a_row_are_those_of_a_plain_loop(trust):
    units = UNITS._replace(trust=np.float32(trust), q_mean=np.full(4, 0.5, np.float32))
    model, layers = world.new(RNG, SIZES), critics.scaled(critics.new(RNG, SIZES, last=3.0), SIZES, units)
    z = RNG.standard_normal((2, 5, 2)).astype(np.float32)
    residuals = RNG.standard_normal((3, 2, 5, 2, 2)).astype(np.float32) / 10
    limit = RNG.standard_normal((2, 5, 3, 1)).astype(np.float32)
    found = world.predict(model, z, 3)
    targets = critics.imagined(found, model, layers, SIZES, units, RULE, z, residuals, limit)
    assert targets.shape == (2, 5, 2, 3, 4)
    e, i, c, a = 1, 3, 1, 2
    x, action, total, alive, values = z[e, i], a, np.zeros(4), np.ones(4), []
    for depth in range(3):
        at = world.predict_at(model, x[None, None], np.eye(3, dtype=np.float32)[None, [action]])
        change, ends = at.change[e, 0], world.sigmoid(at.ends)[e, 0]
        g = limit[e, i, [a]] if depth == 0 else at.g[e, [0]]
        now = np.r_[[float(world.reward(units, at)[e, 0])] * 2, [float(world.costs(units, g).sum())] * 2]
        moved = residuals[depth, e, i, c] * np.exp(at.variance[e, 0, :2] / 2)
        x = world.arrive(units, x[None], change[None], moved[None])[0]
        then, best = critics.chosen(RULE, critics.bounded(units, critics.heads(layers, SIZES, x[None]).mean(0)))
        total = total + alive * ((1 - RULE.gamma) * now + RULE.gamma * ends * np.r_[[float(units.nothing)] * 2, 0, 0])
        alive, action = alive * RULE.gamma * (1 - ends), int(best[0])
        values.append(total + alive * then[0])
    weights = np.array([1.0, trust, trust**2])
    np.testing.assert_allclose(targets[e, i, c, a], np.average(values, 0, weights), atol=1e-5)


def test_numpy_and_jax_imagine_the_same():
    model, layers = world.new(RNG, SIZES), critics.scaled(critics.new(RNG, SIZES), SIZES, UNITS)
    z = RNG.standard_normal((2, 4, 2)).astype(np.float32)
    residuals = RNG.standard_normal((3, 2, 4, 1, 2)).astype(np.float32) / 10

    def targets(model, layers, units, rule, z, residuals):
        found = world.predict(model, z, 3)
        return critics.imagined(found, model, layers, SIZES, units, rule, z, residuals)

    given = (model, layers, UNITS._replace(trust=np.float32(0.7)), RULE, z, residuals)
    there = targets(*jax.tree.map(jnp.asarray, given))
    np.testing.assert_allclose(targets(*given), there, atol=1e-5)
