"""What is recorded means what it says."""

import json

import numpy as np
import pytest

import everystep as es
from everystep.experiments.engines import local
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


def test_the_same_agent_with_other_settings_has_a_name_of_its_own(pond):
    result = es.run(pond, ["lsvi-ae", es.agents.lsvi_ae(beta=0.3)], episodes=5, seeds=4)
    assert list(result.columns) == ["lsvi-ae", "lsvi-ae(beta=0.3)"]
    with pytest.raises(es.EverystepError, match="given twice"):
        es.run(pond, ["lsvi-ae", "lsvi-ae"], episodes=5, seeds=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"episodes": 0}, "episodes is 0"),
        ({"episodes": -3}, "episodes is -3"),
        ({"seeds": 0}, "seeds is 0"),
        ({"seeds": [1, 1]}, "give at least one seed, and each once"),
        ({"agents": []}, "agents is empty"),
        ({"agents": "lsvi-a"}, "Did you mean lsvi-ae"),
        ({"agents": es.agents.lsvi_ae(cap=0.01)}, "below the unconstrained optimum"),
    ],
)
def test_a_wrong_argument_is_named_with_its_value(pond, arguments, message):
    with pytest.raises(es.EverystepError, match=message):
        es.run(pond, **({"agents": "lsvi-ae", "episodes": 5, "seeds": 1} | arguments))


@pytest.mark.quick
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bta": 1}, "Did you mean beta"),
        ({"beta": "many"}, "setting beta of lsvi-ae is 'many'; give a number at least 0"),
        ({"lam": 0}, "above 0"),
        ({"optimism": 2}, "at most 1"),
        ({"radius": "wide"}, "choose tuned, paper or coordinate"),
        ({"floor": "k2"}, "choose k, sqrt or a number"),
        ({"share_costs": "perhaps"}, "choose true or false"),
        ({"features": np.ones((2, 2))}, "shape"),
    ],
)
def test_a_wrong_setting_is_named_with_its_value_and_remedy(settings, message):
    with pytest.raises(es.EverystepError, match=message):
        es.agents.lsvi_ae(**settings)


def test_sharing_is_refused_where_the_steps_differ_and_coordinate_widths_where_features_are_dense():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(2), size=(3, 2, 2))
    stepped = FiniteCMDP(P, rng.random((2, 2)), np.full((2, 2), -1.0), start=0, horizon=3)
    assert es.agents.lsvi_ae().resolve(stepped, 5)["share_values"] is False
    for key in ("share_values", "share_costs"):
        with pytest.raises(es.EverystepError, match=f"setting {key} of lsvi-ae is true"):
            es.run(stepped, es.agents.lsvi_ae(**{key: True}), episodes=5, seeds=1)
    phi = np.full((2, 2, 3), 0.1)
    for key in ("radius", "radius_cost"):
        with pytest.raises(es.EverystepError, match="needs one-hot features"):
            es.run(stepped, es.agents.lsvi_ae(features=phi, **{key: "coordinate"}), episodes=5, seeds=1)
    with pytest.raises(es.EverystepError, match="norm of"):
        es.run(stepped, es.agents.lsvi_ae(features=phi * 30), episodes=5, seeds=1)


def test_an_agent_may_be_called_what_one_likes(pond):
    result = es.run(pond, [es.agents.lsvi_ae(beta=0.3).called("wide"), "lsvi-ae"], episodes=2, seeds=4)
    assert list(result.columns) == ["wide", "lsvi-ae"]
    assert result.spec["agents"][0]["settings"]["beta"] == 0.3


def test_a_run_in_a_folder_is_the_run_in_memory_and_is_not_repeated(pond, tmp_path, monkeypatch):
    agents = ["lsvi-ae", "uniform"]
    here = es.run(pond, agents, episodes=20, seeds="3:6", certify=True)
    there = es.run(pond, agents, episodes=20, seeds=[3, 4, 5], certify=True, out=tmp_path / "pond")
    monkeypatch.setattr(local, "advance", None)
    again = es.run(pond, agents, episodes=20, seeds=range(3, 6), certify=True, out=tmp_path / "pond")
    for found in (there, again):
        assert found.spec == here.spec
        assert found.summary == here.summary
        for one, other in ((found.visits, here.visits), (found.certificates, here.certificates)):
            assert one.keys() == other.keys()
            assert all(np.array_equal(one[name], other[name]) for name in one)
        for label in here.columns:
            assert found.columns[label].keys() == here.columns[label].keys()
            for name, column in here.columns[label].items():
                np.testing.assert_array_equal(found.columns[label][name], column)
                assert found.columns[label][name].dtype == column.dtype
    with pytest.raises(es.EverystepError, match="already holds a different run"):
        es.run(pond, agents, episodes=21, seeds=3, out=tmp_path / "pond")
