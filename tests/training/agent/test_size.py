"""Features that do not fit into memory."""

import numpy as np
import pytest
from environments_for_tests.walks import Point
from gymnasium import spaces

import everystep as es
from everystep.errors import EverystepError
from everystep.features import bind
from everystep.training.agent.encoders import FeatureEncoder
from everystep.training.agent.size import bytes_of

STEPS = 8


def learner(env=None, agent="lsvi-ae", **options):
    return es.Learner(env or Point(), agent, **{"length": STEPS, "horizon": 4, "seed": 3} | options)


@pytest.mark.quick
def test_features_that_do_not_fit_into_memory_are_refused_with_what_they_would_take():
    class Picture(Point):
        observation_space, action_space = spaces.Box(0, 1, (190,), np.float64), spaces.Discrete(4)

    with pytest.raises(EverystepError, match=r"18336 .* 4 actions .* 3[23].* GB"):
        learner(Picture(), features=es.features.polynomial(2))
    with pytest.raises(EverystepError, match=r"190 .* 64"):
        learner(Picture())
    small = FeatureEncoder(bind(es.features.polynomial(1), spaces.Box(0, 1, (3,)), 2))
    assert bytes_of(small, 1, 10) == 8 * (3 * 2 * 4 * 4 + 4 * 10)
