"""Environments that break their contract: the error names it and keeps what was learnt."""

import numpy as np
import pytest
from environments_for_tests.broken import Corridor, OpenCorridor
from gymnasium import spaces

import everystep as es
from everystep.environments.play import rollout
from everystep.environments.play.batch import BatchBuilder
from everystep.errors import EverystepError
from everystep.training.result import BrokenError

pytestmark = pytest.mark.quick
EPISODES_BEFORE = Corridor.sound
LENGTH = Corridor.length


def train(env, **more):
    return es.train(env, "lsvi-ae", horizon=LENGTH, episodes=EPISODES_BEFORE + 2, **more)


BROKEN = {
    "reward is an array": ({"reward": np.array([1.0, 2.0])}, r"the reward is \[1\. 2\.\]; return one number"),
    "reward is a list": ({"reward": [1.0]}, r"the reward is \[1\.0\]; return one number"),
    "reward is a text": ({"reward": "1"}, r"the reward is 1; return one number"),
    "reward is none": ({"reward": None}, r"the reward is None; return one number"),
    "reward is complex": ({"reward": 1j}, r"the reward is 1j; return one number"),
    "reward is nan": ({"reward": float("nan")}, r"the reward is nan; it must be a finite number"),
    "reward is huge": ({"reward": 1e308}, r"the reward is 1e\+308; scale it"),
    "reward is beyond floats": ({"reward": 10**400}, r"the reward is inf; it must be a finite number"),
    "terminated is an array": ({"terminated": np.array([True, False])}, r"terminated is \[ True False\]; return True"),
    "terminated is a text": ({"terminated": "no"}, r"terminated is no; return True or False"),
    "truncated is none": ({"truncated": None}, r"truncated is None; return True or False"),
    "truncated is a fraction": ({"truncated": 0.5}, r"truncated is 0\.5; return True or False"),
    "info is none": ({"info": None}, r"info is None; return a dictionary"),
    "cost is huge": ({"info": {"cost": 1e308}}, r"info\['cost'\] is 1e\+308; scale it"),
    "cost is complex": ({"info": {"cost": 1j}}, r"info\['cost'\] is 1j; give one finite number"),
    "cost has a thousand parts": ({"info": {"cost": np.zeros(1000)}}, r"1000 constraints; give at most 100"),
    "mean of costs is none": ({"info": {"cost": 1.0, "mean_constraint": None}}, r"info\['mean_constraint'\] is None"),
    "observation is outside": ({"observation": 7}, r"is 7 at coordinate 0, outside of its space Discrete\(5\)"),
    "observation is far outside": ({"observation": 10**9}, r"is 1e\+09 at coordinate 0, outside of its space"),
    "observation is none": ({"observation": None}, r"observation None is not made of numbers"),
    "observation is a generator": ({"observation": (x for x in ())}, r"is not made of numbers"),
}


@pytest.mark.parametrize(("parts", "sentence"), BROKEN.values(), ids=BROKEN)
def test_a_step_that_returns_something_else_is_named_and_earlier_episodes_are_kept(parts, sentence):
    with pytest.raises(
        BrokenError, match=rf"^episode 3, step 1: .*{sentence}.*Everything before it is kept\.$"
    ) as error:
        train(Corridor(**parts))
    kept = error.value.result
    assert len(kept.columns["return"]) == EPISODES_BEFORE
    assert kept.policy(0) in (0, 1)


@pytest.mark.parametrize("value", [1e6, -300.0, 1e200])
def test_a_coordinate_far_outside_of_its_box_is_named(value):
    env = OpenCorridor(observation=np.array([value]))
    with pytest.raises(BrokenError, match=r"^episode 3, step 1: an observation is ") as error:
        train(env, features=es.features.polynomial(1))
    assert len(error.value.result.columns["return"]) == EPISODES_BEFORE


def test_a_coordinate_a_little_outside_of_its_box_is_clipped():
    result = train(OpenCorridor(observation=np.array([1.5])), features=es.features.polynomial(1))
    assert len(result.columns["return"]) == EPISODES_BEFORE + 2


@pytest.mark.parametrize(
    ("space", "sentence"),
    [
        ({"observation_space": spaces.Discrete(10**7)}, r"one_hot makes 10000000 features of a state"),
        ({"action_space": spaces.Discrete(10**7)}, "the action space has 10000000 actions"),
    ],
)
def test_spaces_that_are_too_large_are_refused_before_the_first_step(space, sentence):
    env = Corridor()
    vars(env).update(space)
    with pytest.raises(EverystepError, match=sentence):
        train(env)


class Space:
    """Something that resembles a space of gymnasium."""

    def __init__(self, **parts):
        vars(self).update({"shape": ()} | parts)


@pytest.mark.parametrize(
    "space",
    [
        *(Space(n=n) for n in (None, "x", -3, 0, 10**30)),
        *(Space(low=low, high=high) for low, high in (("x", "y"), ([1.0], [0.0]), ([np.nan], [1.0]), ([0, 0], [1]))),
        *(Space(nvec=sizes) for sizes in ("x", np.array([-1, 2]), np.array([10**12, 2]))),
        *(Space(spaces=parts) for parts in (None, [], [3])),
        spaces.Text(5),
        None,
    ],
    ids=range(17),
)
def test_a_space_without_valid_bounds_is_refused_before_the_first_step(space):
    for name in ("observation_space", "action_space"):
        env = Corridor()
        vars(env)[name] = space
        with pytest.raises(EverystepError, match=r"space|one_hot"):
            train(env)


def test_every_transition_is_given_as_it_happens():
    env = es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4))
    stage, builder, seen = rollout.Stage(env, None, 0), BatchBuilder(), []
    rollout.play(stage, [builder], lambda t, observations, x: np.array([t % 4]), on_step=seen.append)
    batch = builder.batch(4)
    assert [each.step for each in seen] == batch.steps.tolist()
    assert [each.action for each in seen] == batch.actions.tolist()
    assert [each.reward for each in seen] == batch.rewards.tolist()
    assert [each.cost.tolist() for each in seen] == batch.costs.tolist()
    assert [int(each.next_observation) for each in seen] == batch.next_observations.tolist()
    assert seen[-1].terminated == batch.terminated[-1]
    assert {each.copy for each in seen} == {0}
