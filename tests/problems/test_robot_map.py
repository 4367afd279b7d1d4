"""The robot map is a linear mixture with a known safe action."""

import numpy as np
import pytest
from helpers.problems import least_squares

import everystep as es
from everystep.mdp import planner, successors


@pytest.mark.quick
@pytest.mark.parametrize("seed", [0, 3])
def test_the_robot_map_is_a_linear_mixture_in_transitions_and_in_costs_seen(seed):
    problem = es.problems.robot_map(seed=seed)
    problem.check()
    triples, P = problem.known.triples, problem.dense_P[0]
    d = triples.shape[-1]
    assert d == 12
    assert np.linalg.norm(triples, axis=-1).max() <= 1 + 1e-12
    weights, error = least_squares(triples.reshape(-1, d), P.reshape(-1))
    assert error < 1e-12
    np.testing.assert_allclose(weights[:3] / weights[:3].sum(), [0.9, 0.06, 0.04], atol=1e-10)
    follows = P > 0
    seen = successors.table_at(problem.P, problem.cost_on_arrival)[0, 0]
    gamma, error = least_squares(triples[follows], seen[follows] + 0.5)
    assert error < 1e-12
    np.testing.assert_allclose(gamma[:3], 0, atol=1e-10)
    assert np.linalg.norm(gamma) <= np.sqrt(d)
    assert (triples[~follows] == 0).all()


def test_staying_is_safe_on_every_cell_and_the_safe_optimum_lies_between_it_and_danger():
    problem = es.problems.robot_map()
    assert (problem.g[0, 0, :, 4] <= -0.1 + 1e-12).all()
    np.testing.assert_array_equal(problem.dense_P[0][:, 4], np.eye(100))
    stay = planner.evaluate(problem, problem.known.safe_action).value
    safe, free = planner.solve(problem).value, planner.solve(problem, safe=False).value
    np.testing.assert_allclose([safe, free, stay], [15.285493232370, 19.963683506937, 0.653035246348], atol=1e-11)
    assert problem.grid.rows[0] == "SFFHHHHFFG"


def test_the_horizon_of_a_robot_map_changes_nothing_else():
    short, long = es.problems.robot_map(seed=1), es.problems.robot_map(seed=1, horizon=100)
    np.testing.assert_array_equal(short.g, long.g)
    assert long.horizon == 100
    assert short.grid.rows == long.grid.rows
