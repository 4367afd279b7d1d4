"""A training in a folder: what a stop, a kill or damage costs."""

import multiprocessing
import os
import shutil
import signal

import jax
import numpy as np
import pytest
import seeds
from helpers.resumed import sentence
from soak import drifting
from soak.drifting import EPISODES, Drift, check_same, train

import everystep as es
from everystep import files
from everystep.experiments import runner, summary
from everystep.experiments.folder import finished, run_folder
from everystep.files import store
from everystep.training.folder import checkpoint, training_folder
from everystep.training.result import BrokenError


@pytest.fixture
def checkpoint_after_every_episode(monkeypatch):
    monkeypatch.setattr(store, "EVERY", 0)
    monkeypatch.setattr(store, "COST", 0)


@pytest.fixture(scope="module")
def whole():
    """The training of `drifting`, uninterrupted."""
    with jax.enable_x64(True):
        return train(None)


@pytest.mark.quick
def test_a_folder_holds_the_result_and_more_episodes_go_on(tmp_path, whole, checkpoint_after_every_episode):
    out = tmp_path / "out"
    train(out, episodes=5)
    check_same(train(out), whole)
    played = []
    check_same(train(out, progress=played.append), whole)
    assert not played
    assert {each.name for each in out.iterdir()} == {
        ".everystep.sha256", "episodes.parquet", "learner", "policy", "spec.json",
    }  # fmt: skip
    check_same(es.Learner.load(out / "learner", Drift()).result(), whole)
    assert es.Policy.load(out / "policy")(np.zeros(2)) == whole.policy(np.zeros(2))
    assert f"holds {EPISODES - 2} episodes more than asked for" in str(train(out, episodes=2))


def test_the_last_episodes_without_exploration_go_on_as_such(tmp_path, checkpoint_after_every_episode):
    def stop(_):
        raise ValueError("enough")

    uninterrupted = train(None, without_exploration=4)
    for _ in range(EPISODES):
        with pytest.raises(ValueError, match="enough"):
            train(tmp_path / "out", without_exploration=4, progress=stop)
    check_same(train(tmp_path / "out", without_exploration=4), uninterrupted)


def test_other_arguments_are_refused_by_name(tmp_path):
    out = tmp_path / "out"
    train(out, episodes=2)
    assert "seed 3, not 4; give the same, or choose another folder" in sentence(train, out, seed=4)
    logged = es.logged.from_env(Drift(), None, episodes=1)
    assert "warm_start None, not 'logged data" in sentence(train, out, warm_start=logged)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").touch()
    assert "holds other files" in sentence(train, tmp_path / "other")
    (tmp_path / "bare" / ".work").mkdir(parents=True)
    assert "without its spec.json" in sentence(train, tmp_path / "bare")
    train(None, episodes=1).save(tmp_path / "saved")
    assert "without its learner" in sentence(train, tmp_path / "saved")


def test_logged_data_are_learnt_once(tmp_path, checkpoint_after_every_episode):
    def stop(_):
        raise ValueError("enough")

    logged = es.logged.from_env(Drift(), None, episodes=2)
    for _ in range(2):
        with pytest.raises(ValueError, match="enough"):
            train(tmp_path / "out", warm_start=logged, progress=stop)
    check_same(train(tmp_path / "out", warm_start=logged), train(None, warm_start=logged))


def test_a_folder_in_use_or_with_a_changed_file_is_refused(tmp_path):
    out = tmp_path / "out"
    result = train(out, episodes=2)
    with files.held(out, out / "pid"):
        assert "is in use by another process" in sentence(train, out)
    (out / "episodes.parquet").write_text("mine")
    check_same(train(out, episodes=2), result)  # nothing has to be written
    assert "changed since; move it away, or choose another folder" in sentence(train, out)


def test_ctrl_c_while_the_finished_folder_is_written_waits(tmp_path, monkeypatch, whole):
    finish, before = training_folder._Keeper.finish, signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupted(*given):
        os.kill(os.getpid(), signal.SIGINT)
        finish(*given)

    monkeypatch.setattr(training_folder._Keeper, "finish", interrupted)
    try:
        check_same(train(tmp_path / "out"), whole)
    finally:
        signal.signal(signal.SIGINT, before)
    assert not run_folder.is_unfinished(tmp_path / "out")


def test_ctrl_c_keeps_everything_and_the_same_call_goes_on(tmp_path):
    calls = iter(range(1000))

    def stop():
        if next(calls) == 9:
            raise KeyboardInterrupt

    out = tmp_path / "out"
    result = train(out, Drift(stop))
    assert len(result.columns["return"]) == 3
    assert "stopped by Ctrl-C" in str(result)
    assert "resumes it" in str(result)
    for read in (result.save, summary.text, finished.read, runner.check_unfinished):
        assert "holds an unfinished training" in sentence(read, out)
    after = train(out)
    assert len(after.columns["return"]) == EPISODES
    for read in (summary.text, finished.read, runner.check_unfinished):
        assert "holds a training, not an experiment" in sentence(read, out)
    for name, column in result.columns.items():
        np.testing.assert_array_equal(after.columns[name][:3], column)


def test_an_error_of_the_environment_keeps_everything(tmp_path):
    calls = iter(range(1000))

    def stop():
        if next(calls) == 9:
            raise RuntimeError("a wheel came off")

    with pytest.raises(BrokenError, match="a wheel came off") as caught:
        train(tmp_path / "out", Drift(stop))
    kept = caught.value.result.columns["return"]
    np.testing.assert_array_equal(train(tmp_path / "out").columns["return"][: len(kept)], kept)


def test_a_full_disk_stops_training_with_its_result(tmp_path, monkeypatch, checkpoint_after_every_episode):
    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "write", full)
    with pytest.raises(BrokenError, match="No space left") as caught:
        train(tmp_path / "out")
    assert len(caught.value.result.columns["return"]) == 1


def test_a_damaged_checkpoint_costs_the_episodes_since_the_one_before(
    tmp_path, whole, capsys, checkpoint_after_every_episode
):
    played = iter(range(EPISODES))

    def stop(_):
        if next(played) == 4:
            raise ValueError("enough")

    out = tmp_path / "out"
    with pytest.raises(ValueError, match="enough"):
        train(out, progress=stop)
    checkpoints = sorted((out / ".work").glob("checkpoint-*"))
    assert len(checkpoints) == 2
    (checkpoints[1] / "learner.json").write_text("{}")
    shutil.copytree(out, tmp_path / "copy")
    check_same(train(out), whole)
    assert "the one before it is used" in capsys.readouterr().err
    (tmp_path / "copy" / ".work" / checkpoints[0].name / "learner.json").unlink()
    assert "to start again" in sentence(train, tmp_path / "copy")


class Killed(BaseException):
    """Nothing catches it, and after it nothing reaches the disk."""


class Deadline:
    """Ends a training at a given moment: a step of the environment, or an operation on files, of which half is done."""

    def __init__(self, monkeypatch):
        self.moment, self.last = 0, None
        for module, names in ((os, ("replace", "unlink", "mkdir", "rmdir", "fsync")), (shutil, ("rmtree",))):
            for name in names:
                monkeypatch.setattr(module, name, self.watched(name, getattr(module, name)))

    def watched(self, name, operation):
        def watch(*given, **named):
            try:
                self.tick()
            except Killed:
                if name == "fsync" and self.moment == self.last and not os.path.isdir(f"/proc/self/fd/{given[0]}"):
                    os.truncate(given[0], os.fstat(given[0]).st_size // 2)  # not all of it was on the disk
                raise
            return None if name == "fsync" else operation(*given, **named)

        return watch

    def tick(self):
        self.moment += 1
        if self.last is not None and self.moment >= self.last:
            raise Killed

    def set(self, last):
        self.moment, self.last = 0, last


def test_twenty_kills_at_random_moments_lose_nothing(tmp_path, whole, monkeypatch):
    rng, deadline = seeds.generator(), Deadline(monkeypatch)
    monkeypatch.setattr(training_folder._Keeper, "commit_if_due", drifting.commit_at_random(rng))
    check_same(train(tmp_path / "undisturbed", Drift(deadline.tick)), whole)
    life, kills, number = deadline.moment, 0, 0
    while kills < 20:
        out = tmp_path / str(number)
        deadline.set(int(rng.integers(1, life)))
        try:
            result = train(out, Drift(deadline.tick))
        except Killed:
            kills += 1
        else:
            check_same(result, whole)
            number += 1
    deadline.set(None)
    for each in range(number + 1):
        check_same(train(tmp_path / str(each)), whole)
        names = {str(path.relative_to(tmp_path / str(each))) for path in (tmp_path / str(each)).rglob("*")}
        left = {str(path.relative_to(tmp_path / "undisturbed")) for path in (tmp_path / "undisturbed").rglob("*")}
        assert names == left


def test_two_processes_killed_with_sigkill(tmp_path, whole):
    multiprocessing.set_forkserver_preload(["everystep.training.folder.training_folder", "soak.drifting"])
    rng = seeds.generator()
    for most in (20, 30):
        assert drifting.kill_after(int(rng.integers(1, most)), tmp_path / "out", EPISODES) is not None
    check_same(train(tmp_path / "out"), whole)
