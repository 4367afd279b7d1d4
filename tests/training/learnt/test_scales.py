"""Units from what was seen, and networks that stay the same functions in new ones."""

import numpy as np
import pytest

from everystep.training.learnt import critics, networks, world
from everystep.training.learnt.rows import Rows
from everystep.training.learnt.scales import Scales, trusted
from everystep.training.learnt.world import Sizes

pytestmark = pytest.mark.quick

RNG = np.random.default_rng(0)
SIZES = Sizes(coordinates=3, actions=2, constraints=2, members=3, heads=2)


def rows(n=60, unit=1.0):
    made = Rows(3, 2)
    for i in range(n):
        x, y = ([RNG.normal(1, 2) * unit, RNG.integers(3), 5.0] for _ in range(2))
        g = [RNG.normal() * unit, 1.0 if RNG.random() < 0.3 else -1.0]
        made.add(x=x, y=y, a=i % 2, r=RNG.normal() * unit, g=g, ended=0.0, residual=np.zeros(3))
    return made


def test_scales_are_of_what_was_seen():
    seen = rows()
    scales = Scales.blank(3, 2, 2).refreshed(seen, None)
    every = np.concatenate([seen["x"], seen["y"]])
    np.testing.assert_allclose(scales.center, every.mean(0))
    np.testing.assert_allclose(scales.size[:2], every.std(0)[:2])
    assert (scales.size[2], scales.change[2]) == (1, 1)  # it never varied
    assert scales.discrete.tolist() == [False, True, True]
    assert scales.two.tolist() == [False, True]
    assert scales.reward_low <= 0 <= scales.reward_high
    assert scales.cost_size == np.abs(seen["g"]).max()
    assert set(scales.targets(seen["g"])[:, 1].tolist()) == {0.0, 1.0}
    assert Scales.blank(3, 2, 2).refreshed(seen, (-7.0, 9.0)).reward_low == -7


def test_rounding_errors_are_no_variation():
    made = Rows(1, 1)
    for i in range(20):
        made.add(x=[1 + 1e-16 * i], y=[1 - 1e-15 * i], a=0, r=0.0, g=[0.0], ended=0.0, residual=[0.0])
    scales = Scales.blank(1, 1, 2).refreshed(made, None)
    assert (scales.size[0], scales.change[0], scales.discrete[0]) == (1, 1, True)


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_inputs_do_not_depend_on_the_unit(unit):
    seen = rows(unit=unit)
    scales = Scales.blank(3, 2, 2).refreshed(seen, None)
    z = scales.inputs(seen["x"])
    assert z.dtype == np.float32
    assert 0.5 < z[:, 0].std() < 2
    assert 0.5 < scales.rewards(seen["r"]).std() < 2


def test_networks_stay_the_same_functions_in_new_units():
    old = Scales.blank(3, 2, 2).refreshed(rows(), None)
    new = old.refreshed(rows(90), None).with_spread(np.full(4, 0.3), np.full(4, 0.2))
    x = rows()["x"]
    model, of_critics = world.new(RNG, SIZES), critics.new(RNG, SIZES)
    carried = old.carried_world(model, new)
    before, after = (world.predict(each, s.inputs(x)[None], 2) for each, s in ((model, old), (carried, new)))
    np.testing.assert_allclose(before.change * old.change, after.change * new.change, atol=1e-4)
    unscaled = lambda found, s: found.reward * s.reward_size + s.reward_mean
    np.testing.assert_allclose(unscaled(before, old), unscaled(after, new), atol=1e-4)
    np.testing.assert_allclose(before.ends, after.ends, atol=1e-4)
    deviations = lambda found, s: world.deviation(found) * s.change
    np.testing.assert_allclose(deviations(before, old), deviations(after, new), rtol=0.05)
    measured = lambda found, s: found.g[..., 0] * s.g_size[0] + s.g_mean[0]
    np.testing.assert_allclose(measured(before, old), measured(after, new), atol=1e-4)
    np.testing.assert_allclose(before.g[..., 1], after.g[..., 1], atol=1e-4)
    carried = old.carried_critics(of_critics, new)
    values = lambda layers, s: critics.heads(critics.scaled(layers, SIZES, s.units), SIZES, s.inputs(x))
    np.testing.assert_allclose(values(of_critics, old), values(carried, new), atol=1e-4)


def test_a_constraint_that_is_no_probability_any_more_is_learnt_anew():
    old = Scales.blank(3, 2, 2).refreshed(rows(), None)
    more = rows()
    more.add(
        x=np.ones(3), y=np.ones(3), a=0, r=0.0, g=[0.0, 0.3], ended=0.0, residual=np.zeros(3), standard=np.zeros(3)
    )
    new = old.refreshed(more, None)
    assert not new.two[1]
    made = old.carried_world(world.new(RNG, SIZES), new)
    assert not networks.outputs(made, np.ones((1, 4, 5), np.float32))[..., -1].any()


def test_trust_is_that_of_the_median_coordinate():
    residual = np.zeros((10, 3))
    residual[5:] = [0.1, 0.4, 9.0]  # the older half does not count
    residual[:5] = 100.0
    assert trusted(residual, np.array([1.0, 2.0, 3.0])) == pytest.approx(0.8)
    assert trusted(residual, np.zeros(3)) == 1  # nothing varies
