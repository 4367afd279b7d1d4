"""A run folder is whole, can be run again from itself, and is never overwritten by another run."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

import everystep as es
from everystep import problems
from everystep.experiments import figures
from everystep.experiments.folder import run_folder


@pytest.fixture(scope="module")
def result():
    pond = es.problems.from_map(("SFF", "FHF", "FFG"), horizon=6)
    return es.run(pond, ["lsvi-ae", "lsvi"], episodes=12, seeds=2)


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.quick
def test_the_folder_holds_everything_the_result_does(result, tmp_path):
    out = result.save(tmp_path / "deep" / "run")
    assert pq.read_table(out / "episodes.parquet").equals(result.episodes)
    assert json.loads((out / "summary.json").read_text(encoding="utf-8")) == result.summary
    assert json.loads((out / "spec.json").read_text(encoding="utf-8")) == result.spec
    with np.load(out / "visits.npz", allow_pickle=False) as visits:
        assert visits["lsvi-ae_500"].shape == (2, 9)
        assert sorted(visits.files) == sorted(["lsvi-ae_500", "lsvi-ae_end", "lsvi_500", "lsvi_end"])
    names = {path.name for path in (out / "figures").glob("[!.]*")}
    assert names == {f"{stem}.{end}" for stem in ("map", "learning", "heatmap", "regret") for end in ("png", "svg")}
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["run"]  # nothing half-written beside it


def test_the_problem_in_the_folder_runs_again_to_the_same_rows(result, tmp_path):
    out = result.save(tmp_path / "run", figures=False)
    again = es.run(problems.load(str(out / "problem.npz")), ["lsvi-ae", "lsvi"], episodes=12, seeds=2)
    assert again.episodes.equals(result.episodes)
    assert again.spec == result.spec


def test_the_same_run_may_be_written_again_and_gives_the_same_bytes(result, tmp_path):
    out = result.save(tmp_path / "run")
    before = contents(out)
    result.save(out)
    assert contents(out) == before


def test_a_folder_with_a_different_run_or_other_files_is_refused_and_left_as_it_was(result, tmp_path):
    out = result.save(tmp_path / "run", figures=False)
    before = contents(out)
    other = es.run(result.problem, ["lsvi-ae", "lsvi"], episodes=13, seeds=2)
    with pytest.raises(es.EverystepError, match="already holds a different run"):
        other.save(out)
    assert contents(out) == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("do not lose me", encoding="utf-8")
    with pytest.raises(es.EverystepError, match="holds other files"):
        other.save(tmp_path / "mine")
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(es.EverystepError, match="is a file"):
        other.save(tmp_path / "file")


@pytest.mark.quick
def test_a_failure_while_writing_leaves_nothing_behind(result, tmp_path, monkeypatch):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(figures, "write", full)
    with pytest.raises(es.EverystepError, match="No space left on device"):
        result.save(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_said_before_running(result, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    for place in ("file/run", "a" * 300):
        with pytest.raises(es.EverystepError, match="cannot be written"):
            run_folder.claim(tmp_path / place, result.spec)


def test_other_features_are_another_run_and_are_kept_with_it(tmp_path):
    rng = np.random.default_rng(0)
    problem = es.FiniteCMDP(rng.dirichlet(np.ones(3), size=(3, 2)), rng.random((3, 2)), -np.ones((3, 2)), horizon=2)
    one, two = (es.agents.lsvi_ae(features=rng.dirichlet(np.ones(4), size=(3, 2))) for _ in range(2))
    out = es.run(problem, one, episodes=5, seeds=1).save(tmp_path / "run", figures=False)
    with np.load(out / "features.npz", allow_pickle=False) as kept:
        np.testing.assert_array_equal(kept["lsvi-ae_features"], one.settings["features"])
    with pytest.raises(es.EverystepError, match="already holds a different run"):
        es.run(problem, two, episodes=5, seeds=1).save(out)
    assert len(es.run(problem, [one, two], episodes=5, seeds=1).columns) == 2


def test_a_problem_without_a_map_gets_the_figures_it_can_have(tmp_path):
    rng = np.random.default_rng(0)
    problem = es.FiniteCMDP(rng.dirichlet(np.ones(3), size=(3, 2)), rng.random((3, 2)), -np.ones((3, 2)), horizon=2)
    out = es.run(problem, "lsvi-ae", episodes=5, seeds=2).save(tmp_path / "run")
    assert {path.stem for path in (out / "figures").glob("[!.]*")} == {"learning", "regret"}
