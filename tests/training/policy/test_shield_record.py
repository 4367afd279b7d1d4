"""What a shield replaced, and when it warns."""

import numpy as np
import pytest
from environments_for_tests.walks import PushedBack, Walk
from helpers.shields import episode, learner

import everystep as es
from everystep.training.policy.shield import ShieldWarning

pytestmark = pytest.mark.quick


def played(shield, env, right, episodes=25):
    """500 steps in a wrapped environment, or more, in which the right is asked for with a probability."""
    env, rng = shield.wrap(env), np.random.default_rng(0)
    for _ in range(episodes):
        episode(env, lambda x: int(rng.random() < right))


class Doomed(Walk):
    """At odd places every action is unsafe."""

    def step(self, action):
        g = 1.0 if self.x % 2 else -1.0
        *step, info = super().step(action)
        return *step, info | {"constraint": g}


def test_replacing_without_effect_is_warned_about_once_and_kept_as_a_finding():
    shield = es.shield(learner(constraint=None))
    with pytest.warns(ShieldWarning, match="take lsvi-ahead") as said:
        played(shield, Doomed(), 0.5, episodes=50)
    assert len(said) == 1
    found, declines = shield.diagnose().findings
    assert (found.about, declines.about) == ("effect", "violations")
    assert found.numbers["unsafe_replaced"] >= 0.5 * found.numbers["replaced"]


def test_an_agent_whose_actions_are_nearly_all_replaced_is_warned_about(policy):
    shield = es.shield(policy, optimism=0)
    with pytest.warns(ShieldWarning, match="actions were replaced"):
        played(shield, PushedBack(), 1.0)
    assert [each.about for each in shield.diagnose().findings] == ["replaced"]


def test_a_shield_that_helps_says_nothing():
    shield = es.shield(learner())
    played(shield, Walk(), 0.8, episodes=50)
    assert str(shield.diagnose()) == "No problem was found."
