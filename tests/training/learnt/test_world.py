"""The model of a step: every action at once, limits, listed values, and probabilities."""

import jax.numpy as jnp
import numpy as np
import pytest

from everystep.training.learnt import world
from everystep.training.learnt.scales import Scales
from everystep.training.learnt.world import Predicted, Sizes

pytestmark = pytest.mark.quick

RNG = np.random.default_rng(0)
SIZES = Sizes(coordinates=2, actions=3, constraints=1, members=2, heads=1)
BLANK = Scales.blank(2, 1, 1)


def test_all_actions_at_once_are_those_one_by_one():
    model, z = world.new(RNG, SIZES), RNG.standard_normal((4, 2)).astype(np.float32)
    every = world.predict(model, z[None], 3)
    for a in range(3):
        one = world.predict_at(model, z[None], np.eye(3, dtype=np.float32)[None, [a] * 4])
        for found, expected in zip(every, one, strict=True):
            np.testing.assert_allclose(found[:, :, a], expected, atol=1e-6)


def test_the_expected_cost_of_two_values_is_a_probability():
    from dataclasses import replace

    scales = replace(BLANK, two=np.array([True]), g_low=np.array([-1.0]), g_high=np.array([0.5]))
    logits = np.array([[-50.0], [0.0], [50.0]], np.float32)
    np.testing.assert_allclose(world.costs(scales.units, logits)[:, 0], [0, 0.25, 0.5], atol=1e-6)
    measured = world.costs(BLANK.units, np.array([[-2.0], [0.3], [4.0]], np.float32))
    np.testing.assert_allclose(measured[:, 0], [0, 0.3, 1], atol=1e-6)


def test_arrivals_stay_within_limits_and_listed_coordinates_have_a_listed_value():
    from dataclasses import replace

    scales = replace(BLANK, discrete=np.array([False, True]), values=np.resize([0.0, 1.0], (2, 8)))
    change = np.array([[9.0, 0.7], [0.2, 0.2]], np.float32)
    for xp in (np, jnp):
        z, moved = xp.zeros((2, 2), np.float32), xp.asarray(change)
        y = np.asarray(world.arrive(scales.units, z, moved, xp.zeros((2, 2), np.float32)))
        np.testing.assert_allclose(y, [[1.0, 1.0], [0.2, 0.0]], atol=1e-6)


def test_the_loss_is_least_where_predictions_are_right():
    zeros = lambda *shape: jnp.zeros((1, 2, *shape), np.float32)
    right = Predicted(zeros(2), zeros(), zeros() - 20, zeros(1), zeros(3) - world.MOST_LOG)
    targets = (jnp.zeros((2, 2), np.float32), jnp.zeros(2, np.float32), jnp.zeros((2, 1), np.float32))
    ended, two = jnp.zeros(2, np.float32), jnp.zeros(1, bool)
    for wrong in (right._replace(change=zeros(2) + 1), right._replace(ends=zeros()), right._replace(g=zeros(1) + 1)):
        assert (world.loss(wrong, *targets, ended, two) > world.loss(right, *targets, ended, two) + 0.5).all()
