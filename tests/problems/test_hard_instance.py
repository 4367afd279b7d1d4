"""The hard instance of the lower bound has the properties that it documents."""

import numpy as np
import pytest
from helpers.problems import least_squares

import everystep as es
from everystep.errors import EverystepError
from everystep.mdp import planner
from everystep.mdp.arrays import save_problem


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
        ({"episodes": 13}, "episodes is 13"),
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
