"""Table 1, measured: which agents can run where, and every row comes from a run folder."""

import csv
import shutil

import numpy as np
import pytest

import everystep as es
from everystep import problems
from everystep.cli import main
from everystep.experiments import statistics
from everystep.experiments.folder import finished
from everystep.problems.registry import Comparison, ProblemDefinition
from everystep.reports import comparison

TINY = ["S.H", "...", "..G"]


@pytest.fixture
def small(monkeypatch):
    lake = lambda: problems.from_map(TINY, horizon=4, name="tiny")
    monkeypatch.setattr(problems, "REGISTERED", {})
    for name, how in (("tiny", Comparison(12)), ("other", Comparison(8, settings={"beta": 0.1}))):
        problems.REGISTERED[name] = ProblemDefinition(name, lake, None, how)


def command(*arguments):
    return main.main(["compare", "--agents", "lsvi-ae,lsvi", "--seeds", "3", *map(str, arguments)])


def table_only(out):
    return main.main(["compare", "--table-only", "--out", str(out)])


def test_every_row_is_measured_and_deleting_a_run_folder_deletes_its_rows(small, tmp_path, capsys):
    assert command("--out", tmp_path) == 0
    table = comparison.read(tmp_path)
    assert [(row.problem, row.agent) for row in table.rows] == [
        ("other", "lsvi-ae"), ("other", "lsvi"), ("tiny", "lsvi-ae"), ("tiny", "lsvi"),
    ]  # fmt: skip
    curves = finished.read(tmp_path / "tiny").curves(("violation", "regret"))
    ae, lsvi = (curves[name]["violation"] for name in ("lsvi-ae", "lsvi"))
    row = table.rows[3]
    assert row.violation.mean == pytest.approx(lsvi.sum(1).mean())
    assert row.violating_episodes.mean == pytest.approx((lsvi > 0).mean())
    assert row.violation_difference.difference.mean == pytest.approx((lsvi.sum(1) - ae.sum(1)).mean())
    shutil.rmtree(tmp_path / "other")
    assert table_only(tmp_path) == 0
    assert {row.problem for row in comparison.read(tmp_path).rows} == {"tiny"}
    with (tmp_path / "table1.csv").open(encoding="utf-8") as file:
        assert {line["problem"] for line in csv.DictReader(file)} == {"tiny"}
    assert "other" not in (tmp_path / "table1.md").read_text(encoding="utf-8")
    shutil.rmtree(tmp_path / "tiny")
    capsys.readouterr()
    assert table_only(tmp_path) == 2
    printed = capsys.readouterr()
    assert "holds no run folders" in printed.err
    assert printed.out == ""


def test_existing_runs_are_not_run_again(small, tmp_path, monkeypatch):
    assert command("--out", tmp_path) == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    monkeypatch.setattr(comparison.experiment.Experiment, "run", lambda *rest: pytest.fail("it was run again"))
    assert command("--out", tmp_path) == 0
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_folder_with_another_run_is_refused_before_any_work(small, tmp_path, monkeypatch, capsys):
    assert command("--out", tmp_path, "--problems", "tiny") == 0
    monkeypatch.setattr(comparison.experiment.Experiment, "run", lambda *rest: pytest.fail("it was run"))
    assert command("--out", tmp_path, "--episodes", 9) == 2
    assert "already holds a different run" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "content"), [("summary.json", "{}"), ("spec.json", '{"a": 1}'), ("spec.json", "?")])
def test_a_damaged_run_folder_is_named_with_what_to_do(name, content, small, tmp_path, capsys):
    assert command("--out", tmp_path, "--problems", "tiny") == 0
    (tmp_path / "tiny" / name).write_text(content, encoding="utf-8")
    assert table_only(tmp_path) == 2
    assert f"{name}' was altered since it was written; restore it" in capsys.readouterr().err


def test_agents_that_cannot_run_on_a_problem_are_left_out_with_the_reason(small, tmp_path, capsys):
    agents = [es.agents.lsvi_ae(), es.agents.lsvi_ae(value="linear").called("with features")]
    comparison.prepare(agents, ["tiny"], seeds=2).run(tmp_path)
    table = comparison.read(tmp_path)
    assert [row.agent for row in table.rows] == ["lsvi-ae"]
    assert "features" in table.left_out["tiny"]["with features"]
    assert "left out: " in table.text()


def test_ablations_change_one_ingredient_each(small, tmp_path):
    prepared = comparison.ablation(["tiny"], seeds=2)
    settings = {each["label"]: each["settings"] for each in prepared.runs["tiny"].spec["agents"]}
    changed = {
        label: {key for key, value in own.items() if value != settings["lsvi-ae"][key]}
        for label, own in settings.items()
    }
    assert changed == {
        "lsvi-ae": set(),
        "rectifier off": {"rectify"},
        "floor off": {"floor"},
        "floor sqrt k": {"floor"},
        "cost optimism off": {"optimism"},
        "value optimism off": {"beta"},
    }


@pytest.mark.quick
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--problems", "sea"], "problem"),
        (["--ablation"], "ablation has its own agents"),
        (["--seeds", "none"], "seeds"),
        (["--problems", ""], "empty"),
        (["--table-only"], "--table-only reads all run folders"),
    ],
)
def test_wrong_input_ends_in_a_sentence(arguments, words, small, tmp_path, capsys):
    assert command("--out", tmp_path / "new", *arguments) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.mark.quick
def test_differences_of_either_sign_alike_are_chance_and_differences_of_one_sign_are_not():
    rng = np.random.default_rng(0)
    assert statistics.paired(np.arange(1.0, 9), np.zeros(8), rng).p == 2 / 2**8
    assert statistics.paired(np.array([1.0, -1, 2, -2]), np.zeros(4), rng).p == 1
    assert statistics.paired(np.ones(64), np.zeros(64), rng).p == 1 / 10_000


def test_the_p_value_of_equal_agents_is_uniform():
    rng = np.random.default_rng(0)
    p = [statistics.paired(*rng.normal(size=(2, 10)), rng, flips=2000).p for _ in range(400)]
    assert np.mean(np.array(p) <= 0.05) == pytest.approx(0.05, abs=0.03)
    assert np.mean(np.array(p) <= 0.5) == pytest.approx(0.5, abs=0.08)


def test_the_function_compares_as_the_command_does(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = es.compare(problems=["streaming"], agents=["lsvi-ae", "uniform"], episodes=20, seeds=2, out="kept")
    again = es.compare(problems=["streaming"], agents=["lsvi-ae", "uniform"], episodes=20, seeds="0:2")
    assert str(again) == str(found) == comparison.read(tmp_path / "kept").text()
    assert [row["agent"] for row in found.rows] == ["lsvi-ae", "uniform"]
    assert {path.name for path in tmp_path.iterdir()} == {"kept"}
    assert (tmp_path / "kept" / "table1.md").is_file()
    env = es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4))
    for name in ("a", "b"):
        es.train(env, agent="lsvi-ae", episodes=3, out=name, seed=ord(name))
    trained = es.compare(["a", "b"])
    assert [row["training"] for row in trained.rows] == ["a", "b"]
    assert all(row["steps"].tolist() == [12] for row in trained.rows)
    assert "per 1,000 steps" in str(trained)
    for given, words in (({"folders": ["a"], "problems": ["lake"]}, "folders are given"), ({"seed": 3}, "'seed'")):
        with pytest.raises(es.EverystepError, match=words):
            es.compare(**given)
