"""What is recorded means what it says."""

import json

import numpy as np
import pytest

import everystep as es
from everystep.mdp import planner
from everystep.mdp.cmdp import FiniteCMDP


@pytest.fixture(scope="module")
def pond():
    return es.problems.from_map(("SFF", "FHF", "FFG"), horizon=6)


@pytest.fixture(scope="module")
def result(pond):
    return es.run(pond, ["lsvi-ae", "lsvi", "lsvi-primal"], episodes=60, seeds=4)


def test_the_table_has_one_row_for_each_agent_seed_and_episode(result):
    table = result.episodes
    assert table.num_rows == 3 * 4 * 60
    assert table.column_names == [
        "problem", "agent", "seed", "episode", "return", "value", "regret", "expected_violation", "violation",
        "unsafe_steps", "soft_violation",
    ]  # fmt: skip
    assert set(table["seed"].to_pylist()) == {0, 1, 2, 3}
    assert (min(table["episode"].to_pylist()), max(table["episode"].to_pylist())) == (1, 60)


@pytest.mark.quick
def test_regret_is_the_safe_optimum_minus_the_value_and_may_be_negative(result, pond):
    optimum = planner.solve(pond).value
    for curves in result.columns.values():
        np.testing.assert_allclose(curves["regret"], optimum - curves["value"], rtol=0, atol=1e-12)
    shortcut = es.run(es.problems.from_map(("SHG", "FFF"), horizon=4), "lsvi", episodes=60, seeds=4)
    assert shortcut.columns["lsvi"]["regret"].min() < -0.01


def test_value_and_expected_violation_are_the_mean_of_what_happens(pond):
    # Given its policy, an episode's return and violation are these on average: over 2000 episodes means must meet.
    curves = es.run(pond, "lsvi", episodes=40, seeds=50).columns["lsvi"]
    for exact, realised in (("value", "return"), ("expected_violation", "violation")):
        gap = curves[exact] - curves[realised]
        assert abs(gap.mean()) < 4 * gap.std() / np.sqrt(2000)


def test_hard_violation_counts_harm_without_cancellation(result):
    for curves in result.columns.values():
        np.testing.assert_array_equal(curves["violation"], curves["unsafe_steps"])  # harm is 1 on a lake
        np.testing.assert_allclose(curves["soft_violation"], 2 * curves["violation"] - 6)  # H = 6 steps of +1 or -1


def test_several_constraints_have_a_column_each():
    rng = np.random.default_rng(0)
    g = rng.uniform(-1, 1, (2, 3, 2))
    g[..., 0] = -0.1
    problem = FiniteCMDP(rng.dirichlet(np.ones(3), size=(3, 2)), rng.random((3, 2)), g, start=[0, 1, 2] * 10, horizon=2)
    result = es.run(problem, "lsvi", episodes=30, seeds=2)
    curves = result.columns["lsvi"]
    np.testing.assert_allclose(curves["violation"], curves["violation_1"] + curves["violation_2"])
    assert "violation_2" in result.episodes.column_names


def test_each_episode_of_a_sequence_of_starts_is_compared_with_its_own_optimum():
    P = np.eye(2)[:, None, :]
    problem = FiniteCMDP(P, np.array([[1.0], [0.25]]), np.full((2, 1), -1.0), start=[0, 1, 1], horizon=2)
    curves = es.run(problem, "lsvi-ae", episodes=3, seeds=1).columns["lsvi-ae"]
    np.testing.assert_allclose(curves["value"], [[2.0, 0.5, 0.5]])
    np.testing.assert_allclose(curves["regret"], 0, atol=1e-12)
    with pytest.raises(es.EverystepError, match="start has 3 states for 4 episodes"):
        es.run(problem, "lsvi-ae", episodes=4, seeds=1)


def test_the_summary_holds_means_between_their_intervals(result):
    summary = result.summary
    assert json.loads(json.dumps(summary)) == summary
    assert summary["violation_of"] == "mean"
    for numbers in summary["agents"].values():
        for interval in numbers.values():
            assert interval["low"] <= interval["mean"] <= interval["high"]
    ae = result.columns["lsvi-ae"]
    assert summary["agents"]["lsvi-ae"]["total_violation"]["mean"] == ae["violation"].sum(1).mean()
    assert summary["agents"]["lsvi-ae"]["final_value"]["mean"] == pytest.approx(ae["value"].mean())
    assert f"{ae['violation'].sum(1).mean():.1f}" in str(result)
    assert repr(result).startswith("<Result of ")


def test_visits_count_every_step_of_every_episode(result):
    for label in result.columns:
        assert (result.visits[f"{label}_500"] == result.visits[f"{label}_end"]).all()
        assert (result.visits[f"{label}_end"].sum(1) == 60 * 6).all()
