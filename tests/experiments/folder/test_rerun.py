"""A run folder runs again: the same agents, settings, features and seeds, and the same numbers."""

import json
import shutil

import numpy as np
import pytest
from helpers.sealing import seal_again

import everystep as es
from everystep.errors import EverystepError
from everystep.experiments.folder import rerun

PHI = np.random.default_rng(0).dirichlet(np.ones(3), (9, 4))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pond = es.problems.from_map(("SFF", "FHF", "FFG"), horizon=4)
    agents = [es.agents.lsvi(beta=0.2), es.agents.lsvi(features=PHI).called("by features")]
    return es.run(pond, agents, episodes=4, seeds=[5, 2]).save(tmp_path_factory.mktemp("runs") / "run", figures=False)


@pytest.mark.quick
def test_a_folder_run_again_gives_its_own_numbers(folder):
    run = rerun.read(folder)
    again = run.again(1).run()
    assert again.spec["seeds"] == [5]
    for label in ("lsvi(beta=0.2)", "by features"):
        for name in ("value", "violation"):
            np.testing.assert_array_equal(again.columns[label][name], run.curves[label][name][:1])
        run.check(label, again.columns[label]["value"], again.columns[label]["violation"])


def test_other_numbers_are_noticed(folder):
    run = rerun.read(folder)
    kept = run.curves["lsvi(beta=0.2)"]
    with pytest.raises(EverystepError, match="different value"):
        run.check("lsvi(beta=0.2)", kept["value"] + 1e-6, kept["violation"])


def test_a_setting_that_is_resolved_differently_is_named(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "run")
    spec = json.loads((copy / "spec.json").read_text(encoding="utf-8"))
    spec["agents"][0]["settings"]["features"] = "9x4x3:0123456789abcdef"
    (copy / "spec.json").write_text(json.dumps(spec), encoding="utf-8")
    seal_again(copy)
    with pytest.raises(EverystepError, match="features"):
        rerun.read(copy).again(1)


def test_features_that_are_missing_are_named(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "run")
    (copy / "features.npz").unlink()
    seal_again(copy)
    with pytest.raises(EverystepError, match=r"features\.npz.*by features"):
        rerun.read(copy).again(1)
