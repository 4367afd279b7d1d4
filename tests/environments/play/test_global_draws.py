"""An environment that draws from a global generator is found out."""

import random

import numpy as np
import pytest
from environments_for_tests.falls import DrawnSlide

from everystep.environments.play.rollout import Stage
from everystep.training.diagnosis import played

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("drawn_before", [0, 1, 5000])
@pytest.mark.parametrize(("draw", "said"), [("global", "np.random"), ("python", "random"), ("own", ""), ("seeded", "")])
def test_an_environment_that_draws_from_a_global_generator_is_reported(draw, said, drawn_before):
    np.random.seed(1)  # noqa: NPY002
    random.seed(1)
    np.random.random(drawn_before), [random.random() for _ in range(drawn_before)]  # noqa: NPY002
    stage = Stage(DrawnSlide(draw), None, 0)
    for _ in range(3):
        stage.reset(0)
    found = played.global_draws(stage.global_draws)
    assert (found is not None) is bool(said)
    assert found is None or f"global generator ({said}), which its seed does not set" in found.sentence
