"""Problems of the literature on known safe actions have the properties that they document."""

import numpy as np
import pytest

import everystep as es
from everystep.errors import EverystepError
from everystep.mdp import planner, successors
from everystep.mdp.arrays import save_problem


def least_squares(X, y):
    """Weights and the largest error of y as a linear function of the rows of X."""
    weights = np.linalg.lstsq(X, y, rcond=None)[0]
    return weights, np.abs(X @ weights - y).max()


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


# --- the instance of the lower bound -----------------------------------------------------------------------------
@pytest.mark.quick
@pytest.mark.parametrize(("d", "horizon", "episodes"), [(4, 3, 2**12), (3, 5, 100), (6, 4, 10_000)])
def test_transitions_of_the_hard_instance_are_features_times_measures(d, horizon, episodes):
    """P_h = <phi, mu_h> with the mass of mu_h on x_{h+1} and x_{H+2}, and ||phi|| = 1."""
    rng = np.random.default_rng(0)
    signs = rng.choice([-1, 1], (horizon, d - 1))
    problem = es.problems.hard_instance(d, horizon, episodes, u=signs)
    problem.check()
    phi, goal = problem.features, horizon + 1
    np.testing.assert_allclose(np.linalg.norm(phi, axis=-1), 1, rtol=1e-12)
    gap, delta = np.sqrt(1 / (horizon * episodes)) / (4 * np.sqrt(2)), 1 / horizon
    alpha, beta = phi[0, 0, 0], abs(phi[0, 0, 1])
    for h in range(horizon):
        u = gap * signs[h]
        mu = np.zeros((horizon + 2, d + 1))
        mu[h + 1] = [(1 - delta) / alpha, *(-u / beta), 0]
        mu[goal] = [delta / alpha, *(u / beta), 1]
        np.testing.assert_allclose(problem.dense_P[h], phi @ mu.T, atol=1e-12)
        assert np.linalg.norm(mu.sum(0)) <= np.sqrt(d + 1)
    np.testing.assert_allclose(problem.r, np.einsum("xad,d->xa", phi, np.eye(d + 1)[-1])[None])


@pytest.mark.parametrize(("d", "horizon"), [(4, 3), (3, 6)])
def test_the_best_action_of_the_hard_instance_is_the_only_safe_one_and_its_value_is_known(d, horizon):
    problem = es.problems.hard_instance(d, horizon, episodes=1000, seed=5)
    q = 1 / horizon + (d - 1) * np.sqrt(1 / (horizon * 1000)) / (4 * np.sqrt(2))
    h = np.arange(1, horizon + 1)
    value_of = lambda q: (q * (1 - q) ** (h - 1) * (horizon - h)).sum()
    safe, free = planner.solve(problem), planner.solve(problem, safe=False)
    np.testing.assert_allclose([safe.value, free.value], value_of(q), rtol=1e-12)
    even = planner.evaluate(problem, np.full((horizon + 2, 2 ** (d - 1)), 0.5 ** (d - 1)))
    np.testing.assert_allclose(even.value, value_of(1 / horizon), rtol=1e-12)
    still_on_the_way = ((1 - 1 / horizon) ** (h - 1)).sum()
    np.testing.assert_allclose(even.violation, (1 - 0.5 ** (d - 1)) * still_on_the_way, rtol=1e-12)
    for step in range(horizon):
        np.testing.assert_array_equal((problem.g[0, step] <= 0).sum(-1), [1] * horizon + [2 ** (d - 1)] * 2)


def test_costs_of_the_hard_instance_are_not_linear_so_auto_counts_them():
    problem = es.problems.hard_instance()
    resolved = es.agents.lsvi_ae().resolve(problem, 10)
    assert resolved["cost"] == "counts"
    assert resolved["value"] == "linear"
    assert not resolved["share_values"]
    assert least_squares(problem.features.reshape(-1, 5), problem.g[0, 0].reshape(-1))[1] > 0.1


def test_an_agent_that_sees_the_indicator_cost_errs_at_most_once_an_action_and_state():
    """H (2^(d-1) - 1) wrong moves in total for any length of the run: in the end below the bound of Theorem 2."""
    problem = es.problems.hard_instance(episodes=1500)
    result = es.run(problem, ["lsvi-ae", "lsvi"], episodes=1500, seeds=4)
    assert result.columns["lsvi-ae"]["violation"].sum(1).max() <= 3 * 7
    assert result.columns["lsvi"]["violation"].sum(1).min() > 500
    half = lambda label: result.columns[label]["regret"][:, 750:].sum()
    assert half("lsvi-ae") < 0.01 * half("lsvi")


def test_that_costs_are_not_linear_is_kept_in_files(tmp_path):

    save_problem(es.problems.hard_instance(), tmp_path / "hard.npz")
    assert not es.problems.load(str(tmp_path / "hard.npz")).linear_costs
    save_problem(es.problems.synthetic(), tmp_path / "synthetic.npz")
    again = es.problems.load(str(tmp_path / "synthetic.npz"))
    assert again.linear_costs
    np.testing.assert_array_equal(again.known.triples, es.problems.synthetic().known.triples)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"episodes": 13}, r"episodes is 13; Theorem 2 requires at least \(d - 1\)\^2 H / 2: give 14 or more."),
        ({"d": 13}, r"d is 13, which makes 2\^12 actions; give 12 at most."),
        ({"u": np.zeros((3, 3))}, r"give signs, 1 or -1, of shape \(3, 3\)"),
        ({"u": [1, 1, 1]}, r"u is \[1, 1, 1\]; give signs"),
        ({"u": "++"}, r"u is '\+\+'; give signs"),
        ({"horizon": 1}, "horizon is 1; give a whole number of at least 2."),
    ],
)
def test_a_hard_instance_outside_of_its_theorem_is_refused(settings, sentence):
    with pytest.raises(EverystepError, match=sentence):
        es.problems.hard_instance(**settings)


# --- streaming ---------------------------------------------------------------------------------------------------
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
    with pytest.raises(EverystepError, match=r"limit is 0.05; the fast server risks 0.1: give more than that."):
        es.problems.streaming(limit=0.05)


# --- the robot's map ---------------------------------------------------------------------------------------------
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


@pytest.mark.parametrize("name", ["synthetic", "robot-map"])
def test_lsvi_ae_runs_on_a_problem_by_its_name(name):
    result = es.run(name, "lsvi-ae", episodes=3, seeds=1)
    assert np.isfinite(result.columns["lsvi-ae"]["value"]).all()
