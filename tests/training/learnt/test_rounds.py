"""Rounds of learning: what they draw, and that they learn a world that is known."""

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
