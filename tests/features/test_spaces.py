"""Spaces of all kinds, and observations outside of them."""

import numpy as np
import pytest
from helpers.features import PLANE

from everystep import features as fs

pytestmark = pytest.mark.quick


def test_observations_outside_their_bounds_are_clipped_and_reported():
    features = fs.bind(fs.polynomial(1), PLANE, 1)
    np.testing.assert_array_equal(features(np.array([[50.0, -3.0]])), features(np.array([[2.0, 0.0]])))
    assert features.remarks == ("observations were scaled to [-1, 1] from -2 to 2, 0 to 10, and clipped outside",)


def test_an_observation_of_any_kind_becomes_a_row():
    assert fs.flatten(np.int64(3)).shape == ()
    assert fs.flatten(3) == 3
    np.testing.assert_array_equal(fs.flatten(((1, 2.5), np.eye(2))), [1, 2.5, 1, 0, 0, 1])
    np.testing.assert_array_equal(fs.flatten({"b": np.array([2.0]), "a": 1}), [1, 2])
    assert fs.flatten(np.float32(0.5)).shape == (1,)


def test_spaces_of_gymnasium_are_understood():
    spaces = pytest.importorskip("gymnasium").spaces
    space = spaces.Dict(
        {
            "speed": spaces.Box(0, 10, (2, 2)),
            "gear": spaces.Discrete(5, start=1),
            "lights": spaces.MultiBinary(3),
            "doors": spaces.MultiDiscrete([2, 3]),
            "pair": spaces.Tuple((spaces.Discrete(2), spaces.Box(-1, 1, ()))),
        }
    )
    space.seed(0)
    obs = np.stack([fs.flatten(space.sample()) for _ in range(10)])
    features = fs.bind(fs.fourier(20), space, 3)
    assert obs.shape == (10, 12)
    assert features(obs).shape == (10, 3, features.d)
    single = spaces.Discrete(4, start=2)
    np.testing.assert_array_equal(
        fs.bind(fs.one_hot(), single, 1).state(np.array([fs.flatten(2), fs.flatten(5)]))[0, 0], 1
    )
    assert fs.bind(fs.fourier(5), single, 1)(np.array([2, 5])).shape == (2, 1, 10)
