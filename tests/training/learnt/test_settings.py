"""What networks take and what they refuse, each in a sentence."""

import gymnasium as gym
import pytest
from training.learnt.small import Cart, learner

import everystep as es
from everystep.errors import EverystepError

pytestmark = pytest.mark.quick


def test_settings_and_what_they_promise():
    made = learner(floor=300, members=2)
    given = {"optimism": 0.0, "floor": 300.0, "tolerance": 0.01, "members": 2, "rounds": 2, "limit": "called"}
    assert made.resolved.to_json() == given
    assert made.resolved.guarantee.startswith("heuristic")
    assert made.resolved.horizons == (5, 20, 50)  # the environment has no limit of its own
    assert es.Learner(Cart(), "lsvi-nets", length=10).resolved.horizons == (5, 10)
    assert es.Learner(Cart(length=500), "lsvi-nets", length=500).resolved.horizons == (5, 20, 60)
    assert made.automatic is None


@pytest.mark.parametrize("name", ["features", "cost_features"])
def test_features_are_refused(name):
    with pytest.raises(EverystepError, match=f"{name} is given, but lsvi-nets .* leave it out"):
        es.Learner(Cart(), "lsvi-nets", **{name: es.features.fourier(10)})


def test_states_of_a_list_are_refused():
    env = es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4))
    with pytest.raises(EverystepError, match="use lsvi-ahead"):
        es.Learner(env, "lsvi-nets")


def test_a_table_is_refused():
    with pytest.raises(EverystepError, match="train it with es"):
        es.run(es.problems.streaming(), ["lsvi-nets"], episodes=2, seeds=1)


def test_candidates_of_a_box_are_numbered_actions():
    class Pushed(Cart):
        action_space = gym.spaces.Box(-1.0, 1.0, (1,))

        def __init__(self):
            super().__init__()
            self.action_space = type(self).action_space

        def step(self, action):
            return super().step(float(action[0]) + 1)

    made = es.Learner(Pushed(), es.agents.lsvi_nets(rounds=2), actions=es.actions.grid(3))
    assert made.resolved.environment.actions == 3
