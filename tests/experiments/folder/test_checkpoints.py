"""Killing, cutting, altering, filling the disk: the finished files are those of an undisturbed run."""

import contextlib
import multiprocessing
import os
import signal
import subprocess

import pytest
import seeds
from soak import killing
from soak.killing import Child, contents

import everystep as es
from everystep import files as durable
from everystep.experiments import experiment, runner, summary
from everystep.experiments.folder import checkpoints, run_folder
from everystep.files import store

KILLS = 20


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Where processes keep what they compiled and what went wrong; they are forked from one that is ready."""
    multiprocessing.set_forkserver_preload(["everystep.experiments.runner"])
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, cache):
    """The files of an undisturbed run, how many letters it sent, and how long it took."""
    return killing.undisturbed(tmp_path_factory.mktemp("undisturbed"), cache)


def test_killing_a_run_at_any_moment_loses_nothing(undisturbed, cache, tmp_path, capsys):
    found = killing.kill_often(KILLS, tmp_path, undisturbed, cache, seeds.generator())
    with capsys.disabled():
        print(f"\n{found}")
    assert not found.different
    assert sum(bool({"w", "f", "r"} & set(each)) for each in found.fell) >= 4


def test_a_second_process_is_refused_while_the_first_is_at_work(undisturbed, cache, tmp_path):
    files, *_ = undisturbed
    first = Child(tmp_path / "run", cache)
    while not (tmp_path / "run" / ".work" / "pid").is_file() and first.listen(60):
        pass
    os.kill(first.process.pid, signal.SIGSTOP)  # so that it cannot finish meanwhile
    said = Child(tmp_path / "run", cache).finish(code=1)
    assert f"in use by another process (pid {first.process.pid})" in said
    os.kill(first.process.pid, signal.SIGCONT)
    first.finish()
    assert contents(tmp_path / "run") == files


def test_a_full_disk_stops_the_run_with_a_sentence_and_room_lets_it_go_on(undisturbed, cache, tmp_path, capsys):
    files, *_ = undisturbed
    place = tmp_path / "small"
    place.mkdir()
    mounted = os.geteuid() == 0 and _mount(place, "240k")
    out = place / "run"
    if mounted:
        try:
            said = Child(out, cache).finish(code=1)
            assert "No space left on device" in said
            assert f"`everystep resume {out}` continues" in said
            subprocess.run(["mount", "-o", "remount,size=64m", str(place)], check=True)
            Child(out, cache).finish()
            assert contents(out) == files
        finally:
            subprocess.run(["umount", str(place)], check=True)
        return
    with capsys.disabled():
        print("\nNO SMALL DISK COULD BE MOUNTED HERE: a limit on the size of files stands in for a full one")
    assert "File too large" in Child(out, cache, largest=60_000).finish(code=1)
    Child(out, cache).finish()
    assert contents(out) == files


def _mount(place, size):
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], capture_output=True)
    return done.returncode == 0


class Stopped(Exception):  # noqa: N818
    pass


@pytest.fixture
def often(monkeypatch):
    monkeypatch.setattr(store, "EVERY", 0.0)
    monkeypatch.setattr(store, "COST", 0)
    monkeypatch.setattr(runner.local, "workers", lambda: 1)


@pytest.fixture(scope="module")
def prepared():
    pond = es.problems.from_map(("SFF", "FHF", "FFG"), horizon=4)
    return experiment.prepare(pond, ["lsvi-ae", "lsvi"], 1200, 3)


@pytest.fixture(scope="module")
def whole(prepared, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "run"
    runner.run(prepared, out, figures=False)
    return contents(out)


def stop_after(chunks, prepared, out):
    left = iter(range(chunks - 1))

    def stop(report):
        if next(left, None) is None:
            raise Stopped

    with pytest.raises(Stopped):
        runner.run(prepared, out, stop, figures=False)


def test_any_number_of_stops_gives_the_files_of_none(often, prepared, whole, tmp_path):
    for chunks in (1, 4, 7):
        out = tmp_path / f"run-{chunks}"
        stop_after(chunks, prepared, out)
        assert run_folder.is_unfinished(out)
        runner.resume(out)
        assert contents(out) == whole


def test_batches_do_not_show(prepared, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "batch_size", lambda prepared: 1)
    runner.run(prepared, tmp_path / "run", figures=False)
    assert contents(tmp_path / "run") == whole


def test_a_state_that_grows_is_reckoned_with(monkeypatch):
    pond = es.problems.from_map(("SF", "FG"), horizon=2)
    size = lambda cost, K: runner.local.bytes_of_a_seed(
        experiment.prepare(pond, [es.agents.lsvi_ae(cost=cost)], K, 1).pairs[0], K
    )
    assert size("counts", 500) == size("counts", 5000)
    assert size("gp(rbf(1, on=position), points=growing)", 5000) > 50 * size(
        "gp(rbf(1, on=position), points=growing)", 500
    )
    monkeypatch.setattr(runner, "UNIT_ROWS", 3_000_000)
    monkeypatch.setattr(runner.local, "batch_size", lambda pairs, seeds, K: 4096)
    assert runner.batch_size(experiment.prepare(pond, ["lsvi"], 1000, 9000)) == 33


@pytest.mark.quick
def test_what_a_folder_gets_is_what_a_result_in_memory_saves(prepared, whole, tmp_path):
    assert contents(prepared.run().save(tmp_path / "run", figures=False)) == whole


@pytest.mark.parametrize("harm", ["cut", "altered", "lost"])
@pytest.mark.parametrize("kind", ["checkpoint-*/carry.npz", "part-*", "checkpoint-*/list.json"])
def test_a_damaged_checkpoint_is_noticed_and_the_one_before_it_used(
    harm, kind, often, prepared, whole, tmp_path, capsys
):
    out = tmp_path / "run"
    stop_after(5, prepared, out)
    victim = max((out / ".work").glob(kind))
    data = victim.read_bytes()
    changed = data[: len(data) // 2] if harm == "cut" else data[:200] + bytes([data[200] ^ 1]) + data[201:]
    victim.unlink() if harm == "lost" else victim.write_bytes(changed)
    capsys.readouterr()
    redone = []
    runner.resume(out, redone.append)
    said = capsys.readouterr().err
    assert "is damaged" in said
    assert "the one before it is used" in said
    assert contents(out) == whole


def test_a_damaged_older_part_costs_only_the_pieces_in_it(often, prepared, whole, tmp_path, capsys):
    out = tmp_path / "run"
    stop_after(7, prepared, out)
    victim = min((out / ".work").glob("part-*"))
    victim.write_bytes(victim.read_bytes()[:-1] + b"x")
    stop_again = iter(range(3))

    def stop(report):
        if report.violation and next(stop_again, None) is None:
            raise Stopped

    with contextlib.suppress(Stopped):
        runner.resume(out, stop)
    assert "its episodes are run again" in capsys.readouterr().err
    if run_folder.is_unfinished(out):
        runner.resume(out)
    assert contents(out) == whole


@pytest.mark.quick
def test_a_second_process_is_refused_with_the_number_of_the_first(often, prepared, tmp_path):
    out = tmp_path / "run"
    stop_after(3, prepared, out)
    (out / ".work" / "pid").write_text("4711\n", encoding="utf-8")
    with durable.held(out, out / ".work" / "pid"):
        for attempt in (lambda: runner.resume(out), lambda: runner.run(prepared, out)):
            with pytest.raises(es.EverystepError, match=r"in use by another process \(pid 4711\)"):
                attempt()
    runner.resume(out)


def test_another_version_is_not_mixed_in(often, prepared, tmp_path, monkeypatch):
    out = tmp_path / "run"
    stop_after(3, prepared, out)
    other = experiment.versions() | {"jax": "9.9"}
    monkeypatch.setattr(experiment, "versions", lambda: other)
    with pytest.raises(es.EverystepError, match="begun with other versions"):
        runner.resume(out)


@pytest.mark.parametrize("name", ["request.json", "problem.npz"])
def test_what_is_run_is_sealed_like_its_results(name, often, prepared, tmp_path):
    out = tmp_path / "run"
    stop_after(3, prepared, out)
    asked = out / ".work" / name
    before = asked.read_bytes()
    asked.write_bytes(before + b" ")  # as readable as it was
    for changed in (before + b" ", before[: len(before) // 2]):
        asked.write_bytes(changed)
        with pytest.raises(es.EverystepError, match=f"{name}' was altered .* after the run was begun; restore it"):
            runner.resume(out)
    asked.write_bytes(before)
    runner.resume(out)


@pytest.mark.parametrize("name", ["spec.json", "request.json", "problem.npz"])
def test_what_is_run_is_sealed_from_the_start_before_any_checkpoint(name, prepared, tmp_path, monkeypatch):
    out = tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr(checkpoints.Ledger, "commit", lambda self: None)
        patched.setattr(checkpoints.Ledger, "commit_if_due", lambda self: None)
        stop_after(1, prepared, out)
    assert not list((out / ".work").glob("checkpoint-*"))
    asked = out / ".work" / name
    before = asked.read_bytes()
    asked.write_bytes(before.replace(b"1200", b"1100") if name == "spec.json" else before + b" ")
    for go_on in (lambda: runner.resume(out), lambda: runner.run(prepared, out), lambda: summary.text(out)):
        with pytest.raises(es.EverystepError, match=r"was altered since .* begun|a different, unfinished run"):
            go_on()
    (out / ".work" / durable.RECORD).unlink()
    with pytest.raises(es.EverystepError, match="is not in the list of what was written"):
        runner.resume(out)
    assert not (out / "spec.json").exists()


def test_gaussian_processes_that_grow_go_on_exactly(often, tmp_path, monkeypatch):
    monkeypatch.setattr(runner.local, "CHUNK", 130)  # so that a few episodes make the factor grow
    pond = es.problems.from_map(("SF", "FG"), horizon=2)
    prepared = experiment.prepare(pond, [es.agents.lsvi_ae(cost="gp(rbf(1, on=position), points=growing)")], 180, 1)
    runner.run(prepared, tmp_path / "whole", figures=False)
    stop_after(1, prepared, tmp_path / "run")
    runner.resume(tmp_path / "run")
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")
