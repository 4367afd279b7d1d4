"""Arguments of a learner: how many states it keeps, the range of rewards, and logged data in rows."""

from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces

import everystep as es
from everystep.environments.play.action_sets import Candidates
from everystep.errors import EverystepError
from everystep.training import arguments

pytestmark = pytest.mark.quick
BATCH = es.Batch.of(
    observations=[[[0.0, 1.0]], [[2.0, 3.0]]],
    actions=[0, 1],
    rewards=[0.0, 1.0],
    costs=[-1.0, -1.0],
    next_observations=[[[2.0, 3.0]], [[4.0, 5.0]]],
    terminated=[False, True],
    steps=[0, 1],
)


def stage(space, actions=2):
    return SimpleNamespace(observation_space=space, actions=actions)


def test_fewer_states_are_kept_with_many_candidates():
    few, many = (Candidates(n, values=np.zeros((n, 1))) for n in (8, 10**4))
    numbers = Candidates(10**4)
    assert arguments.most_states(None, few) is None
    assert arguments.most_states(arguments.MEMORY, few) == arguments.MEMORY
    assert arguments.most_states(arguments.MEMORY, numbers) == arguments.MEMORY
    assert arguments.most_states(arguments.MEMORY, many) == arguments.MEMORY_LEAST
    assert arguments.most_states(100, many) == 100  # as asked for


def test_the_range_of_rewards_is_two_numbers_in_order():
    assert arguments.range_of_rewards(None) is None
    assert arguments.range_of_rewards((0, "1.5")) == (0.0, 1.5)
    for given in ((1, 0), (0, 0), (0, np.inf), (0,), "ab", 3):
        with pytest.raises(EverystepError, match="reward_range"):
            arguments.range_of_rewards(given)


def test_observations_of_a_batch_become_rows():
    found = arguments.flattened(BATCH, stage(spaces.Box(-9, 9, (1, 2))))
    assert found.observations.tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert found.next_observations.dtype == np.float64
    assert arguments.is_listed(spaces.Discrete(3))
    assert not arguments.is_listed(spaces.Box(-1, 1, (1,)))


@pytest.mark.parametrize(
    ("space", "actions", "words"),
    [
        (spaces.Box(-9, 9, (3,)), 2, r"observations of shape \(1, 2\)"),
        (spaces.Discrete(9), 2, r"observations of shape \(1, 2\)"),
        (spaces.Box(-9, 9, (1, 2)), 1, "action 1"),
    ],
)
def test_a_batch_of_another_environment_is_refused(space, actions, words):
    with pytest.raises(EverystepError, match=words):
        arguments.flattened(BATCH, stage(space, actions))
    with pytest.raises(EverystepError, match="Batch"):
        arguments.flattened([1, 2], stage(space, actions))
