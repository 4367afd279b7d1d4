"""A low reward that squeezes all others is reported."""

import gymnasium
import numpy as np
import pytest

import everystep as es
from everystep.training.diagnosis.reward_outliers import outlier_finding

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("rewards", "words"),
    [
        ([1.0] * 19 + [-100.0], "a reward of -100 squeezes the others, from 0 to 1, into 0.01 of [0, 1]"),
        ([-1.0] * 30 + [-100.0] * 2, "a reward of -100 squeezes the others, from -1 to 0, into 0.01 of [0, 1]"),
        ([1.0] * 19 + [-9.9], None),  # less than ten ranges below
        ([1.0] * 19 + [-10.1], "into 0.09 of"),
        ([1.0] * 10 + [-100.0] * 10, None),  # no outlier
        ([-1.0] * 19 + [100.0], None),  # a goal is no penalty
        ([0.0] * 19 + [-100.0], None),  # there is nothing to squeeze
        ([], None),
    ],
)
def test_the_lowest_reward_against_the_others(rewards, words):
    found = outlier_finding(np.array(rewards))
    assert found is None if words is None else words in found.remark


class Fall(gymnasium.Env):
    """Earns 1 a step; every fourth episode ends with -100."""

    observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)
    episode = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.t = self.episode + 1, 0
        return 0, {}

    def step(self, action):
        self.t += 1
        fell = self.episode % 4 == 0 and self.t == 6
        return 1, -100.0 if fell else 1.0, fell, False, {"constraint": 1.0 if fell else -1.0}


@pytest.mark.parametrize(("reward_range", "said"), [(None, True), ((0, 1), False)])
def test_training_reports_it_unless_the_range_is_declared(reward_range, said):
    text = str(es.train(Fall(), "lsvi-ae", horizon=6, episodes=4, reward_range=reward_range))
    assert ("leave what it punishes to the constraint, or give reward_range" in text) is said
