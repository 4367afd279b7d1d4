"""A run into a folder: begun, finished, repeated, and what cannot be resumed."""

import numpy as np
import pytest

import everystep as es
from everystep.errors import EverystepError
from everystep.experiments import experiment, runner
from everystep.experiments.folder.run_folder import FolderState


@pytest.fixture(scope="module")
def prepared():
    pond = es.problems.from_map(("SFF", "FHF", "FFG"), horizon=4)
    return experiment.prepare(pond, ["lsvi"], 5, 3)


@pytest.fixture(scope="module")
def finished(prepared, tmp_path_factory):
    """The folder of a run, and what was reported while it ran."""
    out, reports = tmp_path_factory.mktemp("runs") / "run", []
    assert runner.run(prepared, out, reports.append, figures=False, texts={"note.txt": "by hand\n"}) is FolderState.NEW
    return out, reports


@pytest.mark.quick
def test_a_run_reports_all_its_episodes_and_leaves_the_finished_files(finished, prepared):
    out, reports = finished
    assert sum(report.episodes for report in reports) == 15
    assert sum(report.seeds_ended for report in reports) == 3
    assert {report.label for report in reports} == {"lsvi"}
    assert (out / "note.txt").read_text(encoding="utf-8") == "by hand\n"
    assert {"spec.json", "episodes.parquet", "summary.json", "problem.npz"} <= {path.name for path in out.iterdir()}
    assert not (out / runner.WORK).exists()


def test_the_same_run_again_changes_nothing_and_another_is_refused(finished, prepared):
    out, _ = finished
    before = {path: path.read_bytes() for path in out.iterdir()}
    assert runner.run(prepared, out, figures=False) is FolderState.FINISHED
    assert {path: path.read_bytes() for path in out.iterdir()} == before
    other = experiment.prepare(prepared.problem, ["lsvi"], 6, 3)
    with pytest.raises(EverystepError, match="run"):
        runner.run(other, out, figures=False)


def test_there_is_nothing_to_resume_in_a_finished_folder_or_in_none(finished, tmp_path):
    with pytest.raises(EverystepError, match="finished"):
        runner.resume(finished[0])
    with pytest.raises(EverystepError, match="no run"):
        runner.resume(tmp_path)


def test_what_could_not_be_resumed_is_refused_before_anything_is_written(prepared, tmp_path):
    phi = np.full((9, 4, 2), 0.5)
    given = experiment.prepare(prepared.problem, [es.agents.lsvi(features=phi)], 5, 3)
    with pytest.raises(EverystepError, match="features"):
        runner.run(given, tmp_path / "run", figures=False)
    assert not (tmp_path / "run").exists()
