"""Settings of an agent on an environment, and features that do not fit into memory."""

import numpy as np
import pytest
from environments_for_tests.walks import Point
from gymnasium import spaces

import everystep as es
from everystep import agents
from everystep.features import bind
from everystep.training.agent.encoders import FeatureEncoder
from everystep.training.agent.resolve import bytes_of

pytestmark = pytest.mark.quick


def test_a_percentage_is_refused_on_tables_and_where_it_is_none():
    problem = es.problems.from_map(("SFF", "FHF", "FFG"), horizon=5)
    with pytest.raises(es.EverystepError, match=r"switch of lsvi-ae is 5%"):
        agents.lsvi_ae(switch="5%").resolve(problem, 10)
    with pytest.raises(es.EverystepError, match=r"percentage such as 5%"):
        agents.lsvi_ae(switch="-5%")


def test_features_that_do_not_fit_into_memory_are_refused_with_what_they_would_take():
    class Picture(Point):
        observation_space, action_space = spaces.Box(0, 1, (190,), np.float64), spaces.Discrete(4)

    with pytest.raises(es.EverystepError, match=r"18336 .* 4 actions .* 3[23].* GB"):
        es.Learner(Picture(), horizon=4, length=8, features=es.features.polynomial(2))
    with pytest.raises(es.EverystepError, match=r"190 .* 64"):
        es.Learner(Picture(), "lsvi-ahead", horizon=4, length=8)
    small = FeatureEncoder(bind(es.features.polynomial(1), spaces.Box(0, 1, (3,)), 2))
    assert bytes_of(small, 1, 10) == 8 * (3 * 2 * 4 * 4 + 4 * 10)
