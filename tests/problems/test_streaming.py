"""The streaming server: which speeds are safe."""

import numpy as np
import pytest

import everystep as es
from everystep.errors import EverystepError
from everystep.mdp import planner


@pytest.mark.quick
def test_the_slow_server_is_unsafe_with_one_packet_or_none_and_the_fast_one_nowhere():
    problem = es.problems.streaming()
    problem.check()
    np.testing.assert_allclose(problem.dense_P.sum(-1), 1, atol=1e-12)
    np.testing.assert_array_equal(problem.g[0, 0, :, 0] > 0, [True, True, False, False, False, False])
    assert (problem.g[0, 0, :, 1] < 0).all()
    np.testing.assert_array_equal(problem.known.safe_action, 1)
    np.testing.assert_allclose(problem.g[0, 0] + problem.known.threshold, problem.dense_P[0, :, :, 0], atol=1e-12)
    fast = planner.evaluate(problem, problem.known.safe_action).value
    safe, free = planner.solve(problem).value, planner.solve(problem, safe=False).value
    np.testing.assert_allclose([fast, safe, free], [0.8, 1.6223336, 4], atol=1e-12)


def test_a_limit_that_the_fast_server_breaks_is_refused():
    with pytest.raises(EverystepError, match=r"limit is 0\.05; .* 0\.1"):
        es.problems.streaming(limit=0.05)
