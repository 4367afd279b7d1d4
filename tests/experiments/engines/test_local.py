"""The local engine: what runs side by side on a GPU does what it does by itself, and precision is a setting."""

import io
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from everystep import agents
from everystep.errors import EverystepError
from everystep.experiments import experiment, runner
from everystep.experiments.engines import local
from everystep.experiments.folder import finished
from everystep.problems.frozen_lake import from_map

SEEDS = np.arange(3, dtype=np.uint32)
EPISODES = 60
TOLD_APART = [agents.lsvi_ae(beta=beta).called(f"beta {beta}") for beta in (0.05, 0.4)]


@pytest.fixture(scope="module")
def small():
    return from_map(["SFF", "FHG"], horizon=5)


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    """The engine puts agents and seeds side by side, as it does where there is a GPU."""
    monkeypatch.setattr(local, "_together", lambda: True)


def pairs_of(problem, recipes, certify=False):
    return experiment.prepare(problem, recipes, EPISODES, [0, 1, 2], certify=certify).pairs


@pytest.mark.quick
def test_agents_that_differ_in_numbers_alone_share_a_call(small, as_on_a_gpu):
    recipes = [*TOLD_APART, agents.lsvi(), agents.lsvi_ae(floor="sqrt"), agents.lsvi_ae(precision="float32")]
    with jax.enable_x64(True):
        pairs = pairs_of(small, recipes)
        assert local.groups(pairs)[0] == (0, 1, 3)  # the schedule of the floor is a number, too
        assert (4,) in local.groups(pairs)


@pytest.mark.quick
def test_on_a_cpu_each_agent_runs_by_itself(small, monkeypatch):
    monkeypatch.setattr(local, "_together", lambda: False)
    assert local.groups(pairs_of(small, TOLD_APART)) == [(0,), (1,)]


def test_side_by_side_each_agent_does_what_it_does_alone(small):
    pairs = pairs_of(small, TOLD_APART, certify=True)
    beside = list(local.chunks(pairs, SEEDS, EPISODES))
    for i, pair in enumerate(pairs):
        for (states, metrics), (states_alone, metrics_alone) in zip(
            beside, local.chunks([pair], SEEDS, EPISODES), strict=True
        ):
            together, alone = (states[i], metrics[i]), (states_alone[0], metrics_alone[0])
            for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
                np.testing.assert_allclose(a, b, 1e-12, 1e-12)
    assert np.abs(beside[-1][1][0].value - beside[-1][1][1].value).max() > 0.01


def test_a_run_of_agents_side_by_side_fills_the_same_folder(small, tmp_path, as_on_a_gpu, monkeypatch):
    prepared = experiment.prepare(small, [*TOLD_APART, "lsvi"], EPISODES, [0, 1, 2], certify=True)
    runner.run(prepared, tmp_path / "beside", figures=False)
    monkeypatch.undo()
    alone = prepared.run()
    names = list(alone.columns["lsvi"])  # all but the labels, for which an agent needs a cost model
    beside = finished.read(tmp_path / "beside").curves(names)
    for label, columns in alone.columns.items():
        for name in names:
            np.testing.assert_allclose(beside[label][name], columns[name], 1e-12, 1e-12, err_msg=f"{label} {name}")


def test_single_precision_is_asked_for_and_agrees_in_statistics(small):
    single = agents.lsvi_ae(precision="float32").called("single")
    result = experiment.run(small, [single, "lsvi-ae"], episodes=EPISODES, seeds=32, certify=True)
    assert {each["settings"]["precision"] for each in result.spec["agents"]} == {"float32", "float64"}
    value = {label: columns["value"][:, -20:].mean(1) for label, columns in result.columns.items()}
    assert value["single"].dtype == np.float64
    error = np.hypot(value["single"].std(), value["lsvi-ae"].std()) / np.sqrt(32)
    assert abs(value["single"].mean() - value["lsvi-ae"].mean()) < 4 * error + 1e-6
    assert not np.array_equal(value["single"], value["lsvi-ae"])


def test_single_precision_is_for_counts(small):
    with pytest.raises(EverystepError, match=r"precision of lsvi-ae is float32.* counts"):
        experiment.prepare(small, [agents.lsvi_ae(precision="float32", cost="gp")], EPISODES, 2)
    with pytest.raises(EverystepError, match="choose float64 or float32"):
        agents.lsvi_ae(precision="half")


def test_the_compiler_as_people_use_it_gives_the_same_episodes(small):
    """Tests compile in a hurry (conftest.py); this one process does not."""
    script = """
import io, sys, numpy as np
from everystep.experiments import experiment
from everystep.problems.frozen_lake import from_map
result = experiment.run(from_map(["SFF", "FHG"], horizon=5), ["lsvi-ae"], episodes=60, seeds=2)
written = io.BytesIO()  # NumPy writes to a pipe only where it is not buffered
np.save(written, np.stack([result.columns["lsvi-ae"][name] for name in ("value", "violation", "return")]))
sys.stdout.buffer.write(written.getvalue())
"""
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True)
    there = np.load(io.BytesIO(done.stdout), allow_pickle=False)
    here = experiment.run(small, ["lsvi-ae"], episodes=EPISODES, seeds=3, certify=True).columns["lsvi-ae"]
    np.testing.assert_allclose(there, [here[name][:2] for name in ("value", "violation", "return")], 1e-12, 1e-12)
