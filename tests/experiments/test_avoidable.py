"""Runs on problems with violations that no policy avoids: what is avoidable is measured, reported and checked."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import everystep as es
from everystep import files
from everystep.cli import main
from everystep.experiments import experiment, runner, statistics
from everystep.experiments.folder import finished
from everystep.mdp import planner
from everystep.mdp.cmdp import FiniteCMDP
from everystep.reports import comparison
from everystep.reports.theory.table import not_covered

STARTS = [0, 1, 1, 2, 0, 1] * 2  # 0 and 2 have no safe action, 1 is viable if it stays


@pytest.fixture(scope="module")
def problem():
    P = np.zeros((3, 2, 3))
    P[0] = [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    P[1] = [[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]]
    P[2] = [[0.0, 0.25, 0.75], [0.0, 0.0, 1.0]]
    g = np.array([[0.5, 0.25], [-1.0, -1.0], [0.75, 1.0]])
    return FiniteCMDP(P, np.array([[0.0, 1.0], [0.25, 1.0], [0.0, 1.0]]), g, start=STARTS, horizon=3, name="slope")


@pytest.fixture(scope="module")
def prepared(problem):
    return experiment.prepare(problem, ["lsvi-ae", "lsvi"], len(STARTS), 3)


@pytest.fixture(scope="module")
def result(prepared):
    return prepared.run()


@pytest.fixture(scope="module")
def folder(prepared, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    runner.run(prepared, out, figures=False)
    return out


@pytest.fixture
def copy(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "all" / "run")


def change_summary(folder, change):
    content = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    change(content)
    (folder / "summary.json").write_text(json.dumps(content), encoding="utf-8")


@pytest.mark.quick
def test_an_episode_is_compared_with_the_optimum_of_least_violation_from_its_start(problem, result):
    """C_1 by hand: from 2, 0.75 and then 0.75 of the time again, and so on; from 0, one step and half of the rest."""
    C = [0.0, 0.0, 0.0]
    for _ in range(3):
        C = [min(0.5 + 0.5 * C[0] + 0.5 * C[1], 0.25 + C[2]), 0.0, min(0.75 + 0.75 * C[2], 1.0 + C[2])]
    best = planner.solve(problem)
    np.testing.assert_allclose(best.C_1, C, rtol=1e-12)
    for curves in result.columns.values():
        np.testing.assert_allclose(curves["least_violation"], [np.array(C)[STARTS]] * 3, rtol=1e-12)
        np.testing.assert_allclose(curves["regret"], best.V_1[STARTS] - curves["value"], rtol=0, atol=1e-12)
        assert (curves["expected_violation"] >= curves["least_violation"] - 1e-12).all()
    assert result.columns["lsvi"]["violation"].min() < min(C[0], C[2])  # luck; on average it is not below


def test_the_summary_has_the_least_violation_and_what_was_avoidable(problem, result):
    least = planner.solve(problem).C_1[STARTS]
    assert result.summary["problem"]["least_violation"] == pytest.approx(least.mean(), rel=1e-12)
    for label, curves in result.columns.items():
        avoidable = curves["violation"].sum(1) - least.sum()
        interval = statistics.mean_over_seeds(avoidable, np.random.default_rng(0))
        for key, value in interval._asdict().items():
            assert result.summary["agents"][label]["avoidable_violation"][key] == pytest.approx(value, abs=1e-12)


def test_a_random_start_counts_with_what_cannot_be_avoided_from_it(problem):
    weights = np.array([0.5, 0.5, 0.0])
    random = FiniteCMDP(problem.P, problem.r[0], problem.g, start=weights, horizon=3)
    result = es.run(random, "lsvi", episodes=40, seeds=3)
    C = planner.solve(random).C_1
    least = result.columns["lsvi"]["least_violation"]
    assert set(np.unique(least)) == {C[0], C[1]}
    assert len(set(least.sum(1))) > 1  # so the intervals of total and avoidable violation differ
    numbers = result.summary["agents"]["lsvi"]
    avoidable = numbers["total_violation"]["mean"] - least.sum(1).mean()
    assert numbers["avoidable_violation"]["mean"] == pytest.approx(avoidable, rel=1e-12)
    assert result.summary["problem"]["least_violation"] == pytest.approx(0.5 * C[0], rel=1e-12)


def test_a_viable_start_has_no_such_column_and_all_violations_are_avoidable(problem):
    viable = FiniteCMDP(problem.P, problem.r[0], problem.g, start=[1] * 12, horizon=3)
    result = es.run(viable, "lsvi", episodes=12, seeds=3)
    assert "least_violation" not in result.columns["lsvi"]
    numbers = result.summary["agents"]["lsvi"]
    assert numbers["avoidable_violation"] == numbers["total_violation"]
    assert numbers["total_violation"]["mean"] > 0
    assert result.summary["problem"]["least_violation"] == 0


def test_agents_that_require_a_safe_action_in_every_state_are_refused_with_their_own_sentence(problem):
    with pytest.raises(es.EverystepError, match=r"state 0 for slucb-qvi is .* g < 0"):
        es.run(problem, es.agents.slucb_qvi(safe_action="safest"), episodes=5, seeds=1)


def test_theorem_1_does_not_cover_such_a_run(prepared):
    assert "some states have no safe action" in not_covered(prepared.agents["lsvi-ae"])


# --- folders ----------------------------------------------------------------------------------------------------
def test_a_run_in_a_folder_records_the_same(result, folder):
    assert pq.read_table(folder / "episodes.parquet").equals(result.episodes)
    assert json.loads((folder / "summary.json").read_text(encoding="utf-8")) == result.summary


def test_what_was_avoidable_is_in_the_rows_and_printed(result, folder, capsys):
    for label, curves in finished.read(folder).curves(("violation", "least_violation")).items():
        avoidable = (curves["violation"] - curves["least_violation"]).sum(1)
        mean = result.summary["agents"][label]["avoidable_violation"]["mean"]
        assert avoidable.mean() == pytest.approx(mean, rel=1e-12)
    assert main.main(["summary", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert f"least violation {result.summary['problem']['least_violation']:.4f} per episode" in printed
    head, _, *table = printed.splitlines()[2:6]
    assert "total violation avoidable violation total regret" in " ".join(head.split())
    assert f" {result.summary['agents']['lsvi']['avoidable_violation']['mean']:.1f} [" in table[1]


def test_other_readers_check_the_same_numbers(folder):
    assert main.main(["report", str(folder), "--no-player", "--out", str(folder.parent / "page.html")]) == 0
    page = (folder.parent / "page.html").read_text(encoding="utf-8")
    assert "Avoidable violations" in page
    assert "2 states have no safe action" in page
    assert comparison.read(folder.parent).runs["run"]["problem"]["least_violation"] > 0


def rows(change):
    return lambda folder: pq.write_table(
        change(pq.read_table(folder / "episodes.parquet")), folder / "episodes.parquet"
    )


def column(make):
    return rows(lambda table: table.set_column(table.column_names.index("least_violation"), "least_violation", make(table["least_violation"])))  # fmt: skip  # noqa: E501


ALTERED = {
    "no column": (rows(lambda table: table.drop_columns(["least_violation"])), "it has 0 columns least_violation"),
    "an empty column": (
        column(lambda old: pa.nulls(len(old), old.type)),
        "least_violation has rows of lsvi-ae without",
    ),
    "a least violation that is no number": (
        lambda folder: change_summary(folder, lambda c: c["problem"].update(least_violation=None)),
        "problem.least_violation is missing or wrong",
    ),
    "a least violation below 0": (
        lambda folder: change_summary(folder, lambda c: c["problem"].update(least_violation=-1.0)),
        "problem.least_violation is missing or wrong",
    ),
    "an avoidable violation without its interval": (
        lambda folder: change_summary(folder, lambda c: c["agents"]["lsvi"]["avoidable_violation"].pop("low")),
        "avoidable_violation.low is missing or wrong",
    ),
}


@pytest.mark.parametrize("case", ALTERED)
def test_rows_and_summaries_of_another_form_are_not_shown(case, copy, capsys):
    change, message = ALTERED[case]
    change(copy)
    found = [path for path in copy.iterdir() if path.is_file() and path.name != files.RECORD]
    sums = "".join(f"{files.seal(path).sha256}  {path.name}\n" for path in found)
    (copy / files.RECORD).write_text(sums, encoding="utf-8")
    for command in (["report", "--no-player"], *([] if "column" in case else [["summary"]])):
        assert main.main([*command, str(copy)]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert message in printed.err
