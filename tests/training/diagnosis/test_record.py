"""The record of a training in its spec.json."""

import numpy as np
import pytest
from gymnasium import spaces

import everystep as es
from everystep.training.diagnosis import record
from everystep.training.learner import Learner
from everystep.training.policy.observed import Observed


@pytest.mark.quick
def test_the_ends_and_medians_of_observations_are_found():
    env = es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4))
    learner = Learner(env, "lsvi-ae")
    learner.play(1)
    x = np.array([[0.0, 5.0], [1.0, 7.0], [5.0, 6.0]])
    observed = Observed.of(spaces.Box(-9, 9, (2,)), one_hot=False).with_rows(x)
    assert record.seen(observed, x) == {"low": [0, 5], "median": [1, 6], "high": [5, 7]}
    assert record.seen(observed, np.zeros((4, 65))) is None
    assert record.of(learner, ("one",))["remarks"] == ["one"]
    assert record.constraint_in_words(None) == "read from info"
