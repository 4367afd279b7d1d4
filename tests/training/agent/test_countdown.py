"""Which step of a plan is used at which step of an episode."""

import numpy as np
import pytest

from everystep.training.agent.countdown import Countdown

pytestmark = pytest.mark.quick


def test_steps_count_down_at_the_expected_end_and_begin_again_after_it():
    rule = Countdown(length=6, horizon=3)
    steps = [0, 0, 0, 0, 1, 2, 0, 0]
    assert [rule(t) for t in range(8)] == rule.several(np.arange(8)).tolist() == steps
