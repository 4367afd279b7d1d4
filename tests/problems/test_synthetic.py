"""The synthetic linear mixture has the properties that it documents."""

import numpy as np
import pytest
from helpers.problems import least_squares

import everystep as es
from everystep.errors import EverystepError
from everystep.mdp import planner


@pytest.fixture(scope="module")
def synthetic():
    return es.problems.synthetic()


@pytest.mark.quick
@pytest.mark.parametrize(("d", "seed"), [(5, 0), (5, 3), (4, 1), (7, 2)])
def test_the_synthetic_problem_is_a_linear_mdp_and_a_linear_mixture_at_once(d, seed):
    problem = es.problems.synthetic(d=d, seed=seed)
    problem.check()
    phi, triples, P = problem.features.reshape(-1, d), problem.known.triples.reshape(-1, d), problem.dense_P[0]
    np.testing.assert_allclose(P.sum(-1), 1, atol=1e-12)
    for linear_in_phi in (P.reshape(len(phi), -1), problem.r.reshape(-1), problem.g.reshape(-1) + 0.5):
        assert least_squares(phi, linear_in_phi)[1] < 1e-12
    mu, error = least_squares(triples, P.reshape(-1))
    assert error < 1e-12
    np.testing.assert_allclose(mu[2:], 0, atol=1e-10)
    cost_of_triples = np.broadcast_to(problem.g[0, 0][..., None] + 0.5, P.shape)
    gamma, error = least_squares(triples, cost_of_triples.reshape(-1))
    assert error < 1e-12
    np.testing.assert_allclose(gamma[:2], 0, atol=1e-10)
    assert np.linalg.norm(gamma) <= np.sqrt(d)
    assert np.linalg.norm(triples, axis=-1).max() <= 1 + 1e-12
    assert np.linalg.norm(phi, axis=-1).max() <= 1


def test_actions_of_the_synthetic_problem_are_steps_of_the_way_from_a0(synthetic):
    for array in (synthetic.features, synthetic.known.triples, synthetic.dense_P[0]):
        home, rest = array[:, :1], array[:, 1:].reshape(8, 4, 5, -1)
        ends = rest[:, :, -1:]
        alpha = np.arange(1, 6)[:, None] / 5
        between = (1 - alpha) * home.reshape(8, 1, 1, -1) + alpha * ends
        np.testing.assert_allclose(rest, between, atol=1e-12)


def test_a0_is_safe_by_a_margin_and_the_safe_optimum_lies_between_it_and_danger(synthetic):
    cost = synthetic.g[0, 0] + 0.5
    assert (cost[:, 0] >= 0.2).all()
    assert (cost[:, 0] <= 0.3).all()
    assert (cost.max(1) >= 0.7).all()
    assert np.abs(cost - 0.5).min() >= 0.02
    a0 = planner.evaluate(synthetic, synthetic.known.safe_action).value
    safe, free = planner.solve(synthetic).value, planner.solve(synthetic, safe=False).value
    np.testing.assert_allclose([safe, free, a0], [1.3927642593879, 2.2015423675755, 0.9037172482434], atol=1e-12)


def test_what_a0_shows_in_all_states_spans_all_features(synthetic):
    assert np.linalg.matrix_rank(synthetic.features[:, 0]) == 5
    assert np.linalg.matrix_rank(synthetic.known.triples[:, 0].reshape(-1, 5)) == 5


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"d": 3}, "d is 3; give a whole number of at least 4."),
        ({"d": 200}, "d is 200, too many factors for costs that differ"),
        ({"noise": -1}, "noise is -1; give a number from 0"),
    ],
)
def test_a_synthetic_problem_that_cannot_be_made_is_refused(settings, sentence):
    with pytest.raises(EverystepError, match=sentence):
        es.problems.synthetic(**settings)


@pytest.mark.parametrize("name", ["synthetic", "robot-map"])
def test_lsvi_ae_runs_on_a_problem_by_its_name(name):
    result = es.run(name, "lsvi-ae", episodes=3, seeds=1)
    assert np.isfinite(result.columns["lsvi-ae"]["value"]).all()
