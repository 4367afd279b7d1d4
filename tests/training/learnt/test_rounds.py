"""Rounds of learning: what they draw, and that they learn a world that is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from everystep.training.learnt import rounds, world
from everystep.training.learnt.critics import Rule
from everystep.training.learnt.rows import Rows
from everystep.training.learnt.scales import Scales
from everystep.training.learnt.world import Sizes

SIZES = Sizes(coordinates=2, actions=3, constraints=1, members=3, heads=3)


@pytest.fixture(scope="module")
def seen():
    """A linear world: action a moves the first coordinate by a - 1."""
    rng, made = np.random.default_rng(0), Rows(2, 1)
    for _ in range(200):
        x, a = rng.normal(size=2), int(rng.integers(3))
        y = x + [0.3 * (a - 1), -0.1 * x[1]]
        made.add(x=x, y=y, a=a, r=x[0], g=[y[0] - 1], ended=0.0, residual=np.zeros(2), standard=np.zeros(2))
    return made


@pytest.mark.quick
def test_draws_repeat_and_are_in_units(seen):
    scales = Scales.blank(2, 1, 3).refreshed(seen, None)
    one, other = (rounds.draw(np.random.default_rng(5), seen, scales, SIZES, 2) for _ in range(2))
    assert one.limit is None
    for a, b in zip(one[:-1], other[:-1], strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == np.int32 if a is one.steer else np.float32
    assert one.steer.min() == -1
    assert one.steer.max() == 2
    assert one.z.shape == (2, rounds.BATCH, 2)
    assert one.states.shape == (2, 3, rounds.states_of(SIZES), 2)
    assert set(np.unique(one.weights)) == {0.0, np.float32(rounds.WEIGHT)}
    assert (one.chosen.sum(-1) == 1).all()


@pytest.mark.parametrize(("actions", "states"), [(1, 48), (5, 48), (18, 12), (200, 12)])
def test_imagined_steps_are_about_as_many_for_any_number_of_actions(actions, states):
    assert abs(3 * rounds.states_of(SIZES._replace(actions=actions)) - states) <= 3


def test_rounds_learn_a_world(seen):
    rng, scales = np.random.default_rng(1), Scales.blank(2, 1, 3).refreshed(seen, None)
    rule, now = Rule.of((5, 20, 60), 100.0, 0.01), rounds.start(rng, SIZES)
    everything = rounds.draw(rng, seen, scales, SIZES, 1)
    error = lambda now: float(
        ((world.predict_at(now.world, everything.z[:1], everything.chosen[:1]).change - everything.change) ** 2).mean()
    )
    before = error(now)
    for _ in range(100):
        now, finite = rounds.learn(SIZES, now, scales.units, rule, rounds.draw(rng, seen, scales, SIZES, 2))
        assert finite
    assert error(now) < 0.2 * before


def test_walks_take_the_action_that_steers_them_and_begin_again_where_they_end(seen):
    rng, scales = np.random.default_rng(2), Scales.blank(2, 1, 3).refreshed(seen, None)
    rule, now = Rule.of((5, 20, 60), 100.0, 0.01), rounds.start(rng, SIZES)
    drawn = jax.tree.map(lambda each: jnp.asarray(each[0]), rounds.draw(rng, seen, scales, SIZES, 1))
    units = jax.tree.map(jnp.asarray, scales.units)
    walk = jnp.ones_like(drawn.states)
    step = jax.jit(
        lambda now, walk, drawn: rounds._round(SIZES, units, jax.tree.map(jnp.asarray, rule), now, walk, drawn)
    )
    after, reached = step(now, walk, drawn._replace(steer=jnp.full_like(drawn.steer, 2)))
    n = drawn.states.shape[1]
    states = np.where((np.arange(n) >= n / 2)[None, :, None], walk, drawn.states)  # half of them walk
    found = world.predict(after.steady, jnp.asarray(states), 3)
    moved = world.arrive(units, states[:, :, None], found.change, drawn.residuals[0] * world.deviation(found))
    np.testing.assert_allclose(reached, np.where(found.ends[..., [2]] > 0, drawn.states, moved[:, :, 2]), atol=1e-5)
    (weights, biases) = now.steady[-1]
    ending = now._replace(steady=(*now.steady[:-1], (weights, biases.at[:, 6].set(50.0))))  # the logit of termination
    _, reached = step(ending, walk, drawn)
    np.testing.assert_array_equal(reached, drawn.states)


def test_deviations_are_those_of_the_noise():
    """Action 0 moves by 0.3 exactly, action 1 by noise of deviation 1."""
    rng, made = np.random.default_rng(3), Rows(1, 1)
    for _ in range(300):
        x, a = rng.normal(size=1), int(rng.integers(2))
        y = x + (rng.normal(size=1) if a else 0.3)
        made.add(x=x, y=y, a=a, r=0.0, g=[-1.0], ended=0.0, residual=np.zeros(1), standard=np.zeros(1))
    sizes = Sizes(coordinates=1, actions=2, constraints=1, members=3, heads=1)
    scales = Scales.blank(1, 1, 1).refreshed(made, None)
    rule, now = Rule.of((5,), 100.0, 0.01), rounds.start(rng, sizes)
    for _ in range(100):
        now, _ = rounds.learn(sizes, now, scales.units, rule, rounds.draw(rng, made, scales, sizes, 4))
    z = scales.inputs(np.zeros((1, 1)))[None]
    deviation = (np.asarray(world.deviation(world.predict(now.steady, z, 2))) * scales.change).mean(0)[0, :, 0]
    assert deviation[0] < 0.2
    assert 0.6 < deviation[1] < 1.5
