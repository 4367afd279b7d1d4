"""A policy on several observations at once chooses as it does on each of them."""

import numpy as np
import pytest
from environments_for_tests.walks import Anywhere
from gymnasium import spaces

import everystep as es
from everystep.errors import EverystepError
from everystep.training.policy import policy as module

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("space", "features"),
    [
        (spaces.Discrete(6), None),
        (spaces.Box(-1, 1, (2, 2)), es.features.polynomial(1)),
        (spaces.Dict(place=spaces.Box(0, 1, (2,)), mode=spaces.Discrete(3)), es.features.polynomial(1)),
    ],
    ids=["states", "arrays", "dictionaries"],
)
def test_a_batch_is_as_good_as_one_at_a_time(space, features, monkeypatch):
    monkeypatch.setattr(module, "ROWS", 8)
    env = Anywhere(space)
    policy = es.train(env, "lsvi-ae", features=features, horizon=3, episodes=3).policy
    observations = [space.sample() for _ in range(20)]
    expected = [policy(each) for each in observations]
    np.testing.assert_array_equal(policy.batch(observations), expected)
    np.testing.assert_array_equal(policy.batch(observations, step=3), [policy(each, step=3) for each in observations])
    if not isinstance(space, spaces.Dict):
        np.testing.assert_array_equal(policy.batch(np.stack(observations)), expected)
    assert policy.batch([]).shape == (0,)
    for wrong in (3.5, None):
        with pytest.raises(EverystepError, match="give a sequence"):
            policy.batch(wrong)
    with pytest.raises(EverystepError, match="step is 0"):
        policy.batch(observations, step=0)


def test_a_custom_function_receives_a_flat_observation():
    shapes = set()

    def f(x):
        shapes.add(x.shape)
        return np.append(x, 1) / 3

    phi = es.features.function(f, d=5, crossed=True)
    policy = es.train(Anywhere(spaces.Box(-1, 1, (2, 2))), "lsvi-ae", features=phi, horizon=3, episodes=2).policy
    policy.batch(np.zeros((4, 2, 2)))
    assert shapes == {(4,)}
    with pytest.raises(EverystepError, match="different shapes"):
        policy.batch([np.zeros(4), np.zeros(3)])
