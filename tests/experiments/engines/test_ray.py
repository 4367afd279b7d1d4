"""The Ray engine, on a real cluster of two nodes started here: the same files as from this machine alone.

Nodes are killed, pieces fail and drivers are killed; what is left behind is looked for at the end.
"""

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

import everystep as es
from everystep.agents import Recipe
from everystep.cli import main
from everystep.errors import EverystepError
from everystep.experiments import config, experiment, options, runner, work_units
from everystep.experiments.engines import ray as ray_engine
from everystep.experiments.engines import ray_cluster
from everystep.experiments.folder import checkpoints, run_folder
from everystep.experiments.folder.checkpoints import WorkUnit
from everystep.files import store

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason="RAY IS NOT INSTALLED: the Ray engine is not tested; pip install 'everystep[ray]'",
)

BETAS, EPISODES, SEEDS = (0.1, 0.3), 1200, 5  # settings of one agent: compiled once


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def pond(folder):
    path = folder / "pond.txt"
    path.write_text("SFF\nFHF\nFFG\n", encoding="utf-8")
    return es.problems.load(str(path), 4)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    agents = [Recipe("lsvi-ae", {"beta": beta}) for beta in BETAS]
    return experiment.prepare(pond(tmp_path_factory.mktemp("pond")), agents, EPISODES, SEEDS)


@pytest.fixture(scope="module")
def whole(prepared, tmp_path_factory):
    """The files of a run on this machine alone."""
    out = tmp_path_factory.mktemp("whole") / "run"
    runner.run(prepared, out, figures=False)
    return contents(out)


QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0", "RAY_enable_metrics_collection": "0"}


class Nodes(SimpleNamespace):
    """The cluster: `head`, where the driver is, and `other`, which may be killed; one core each."""


class Theirs(SimpleNamespace):
    """A cluster that somebody else runs on this machine: its address, and the folder Ray keeps it in."""

    def state(self):
        """What others must leave as it is: the address file, the links, and the process."""
        entries = sorted(self.folder.iterdir())
        record = self.folder / "ray_current_cluster"
        return entries, record.read_text(encoding="utf-8"), record.stat().st_mtime_ns, self.process.poll()


@contextmanager
def environment(**values):
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="module")
def theirs():
    """Started by `ray start`, in the folder that is Ray's default for this process too. It stays to the end."""
    with tempfile.TemporaryDirectory(prefix="es-", dir="/tmp", ignore_cleanup_errors=True) as place:
        folder = Path(place) / "ray"
        ports = {"port": 0, "dashboard-agent-listen-port": 0}
        if importlib.util.find_spec("grpc"):  # then there is a service that does not choose a port by itself
            with socket.create_server(("", 0)) as free:
                ports["ray-client-server-port"] = free.getsockname()[1]
        sizes = {"num-cpus": 1, "object-store-memory": 80_000_000, "min-worker-port": 0, "max-worker-port": 0}
        flags = [f"--{name}={value}" for name, value in {**ports, **sizes, "include-dashboard": False}.items()]
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", *flags]
        with environment(**QUIET, RAY_TMPDIR=place), open(f"{place}/said", "w+", encoding="utf-8") as said:
            process = subprocess.Popen(command, stdout=said, stderr=said)
            try:
                record = folder / "ray_current_cluster"
                while not (record.exists() and record.read_text(encoding="utf-8")):
                    assert process.poll() is None, Path(said.name).read_text(encoding="utf-8")
                    time.sleep(0.05)
                cluster = Theirs(address=record.read_text(encoding="utf-8"), folder=folder, process=process)
                yield cluster
                assert process.poll() is None
            finally:
                process.terminate()
                process.wait()


@pytest.fixture(scope="module")
def nodes(theirs):
    import ray
    from ray.cluster_utils import Cluster

    before = theirs.state()
    with ray_cluster.private_folder() as place, environment(RAY_TMPDIR=str(place)):
        folder = place / "ray"
        folder.mkdir()  # it records its address in Ray's default folder, and does not make it
        sizes = {
            "num_cpus": 1, "object_store_memory": 80_000_000, "include_dashboard": False, "temp_dir": str(folder),
            "include_log_monitor": False, "dashboard_agent_listen_port": 0,
        }  # fmt: skip
        cluster = Cluster()
        try:
            with ray_engine.forking():
                quick = {"health_check_period_ms": 500, "health_check_timeout_ms": 10_000}
                head, other = cluster.add_node(**sizes, _system_config=quick), cluster.add_node(**sizes)
                ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
            yield Nodes(cluster=cluster, head=head, other=other, spread=ray_engine.Cluster(ray))
        finally:
            started = ray_cluster.processes_of(place)
            ray.shutdown()
            cluster.shutdown()
            left = ray_cluster.end(started)
    assert not left, f"processes were left: {left}"
    assert theirs.state() == before


def begun(marks, piece):
    return list(marks.glob(f"{piece}@*"))


@pytest.mark.quick
def test_engines_are_asked_for_by_name_and_by_file(tmp_path):
    path = tmp_path / "pond.toml"
    path.write_text(
        'out = "o"\nproblems = ["frozen-lake"]\nagents = ["lsvi"]\nengine = "ray"\naddress = "auto"\n', encoding="utf-8"
    )
    engine = lambda **flags: config.read(path, options.RunOptions(**flags)).engine
    assert engine() == ("ray", "auto")
    assert engine(address="10.0.0.1:6379") == ("ray", "10.0.0.1:6379")
    assert engine(engine="local") == ("local", None)
    path.write_text(path.read_text(encoding="utf-8").replace('engine = "ray"\n', ""), encoding="utf-8")
    with pytest.raises(EverystepError, match="line 4: address is 'auto'"):
        engine()
    path.write_text(path.read_text(encoding="utf-8").replace("address", "engine"), encoding="utf-8")
    with pytest.raises(EverystepError, match="line 4: no engine 'auto'"):
        engine()


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--engine", "rey"], "no engine 'rey'. Did you mean ray?"),
        (["--address", "auto"], "address is 'auto', but the engine is local"),
        (["--engine", "ray"], "engine ray needs the package ray"),
    ],
)
def test_what_cannot_be_is_said_before_any_work(flags, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    out = tmp_path / "run"
    assert main.main(["run", "--problem", "frozen-lake", "--agents", "lsvi", "--out", str(out), *flags]) == 2
    assert sentence in capsys.readouterr().err
    assert not out.exists()


def test_pieces_that_fail_do_not_keep_other_problems_from_running(tmp_path, monkeypatch, capsys):
    pond(tmp_path)
    path = tmp_path / "two.toml"
    path.write_text(
        'seeds = 1\nagents = ["lsvi"]\n[[problems]]\nname = "pond.txt"\n'
        '[[problems]]\nname = "pond.txt"\ncalled = "more"\n',
        encoding="utf-8",
    )
    ran = []

    def run(prepared, out, on_chunk, cluster):
        ran.append(out.name)
        if out.name == "pond":
            raise runner._failure(out, {"lsvi, seed 0": "ValueError: a bad day"}, 1)

    monkeypatch.setattr(runner, "run", run)
    monkeypatch.setattr(importlib.import_module("everystep.cli.run"), "print_summary", lambda out, remark: None)
    assert main.main(["run", str(path), "--out", str(tmp_path / "out")]) == 2
    assert ran == ["pond", "more"]
    assert "1 of 1 work units of" in (said := capsys.readouterr().err)
    assert "lsvi, seed 0 (ValueError: a bad day)" in said


@needs_ray
def test_a_cluster_of_its_own_leaves_nothing_and_joins_nobody(theirs, tmp_path, monkeypatch, sketched):
    """With an empty home and an empty folder for temporary files, beside a cluster that somebody else runs."""
    import ray

    pond(tmp_path)
    command = ["run", "--problem", str(tmp_path / "pond.txt"), "--horizon", "4", "--agents", "lsvi", "--seeds", "2"]
    command += ["--episodes", "40", "--out"]
    assert main.main([*command, str(tmp_path / "here")]) == 0

    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:
        (home := tmp_path / "home").mkdir()
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("RAY_ADDRESS", theirs.address)  # for `auto`; it means nothing here
        monkeypatch.setattr(tempfile, "tempdir", temporary)
        before, settings, seen = theirs.state(), dict(os.environ), []

        def spread(cluster, tasks):
            seen.extend([ray.get_runtime_context().gcs_address, ray_cluster.running(), os.listdir(temporary)])
            seen.extend(ray_cluster.processes_of(temporary))
            return whole_spread(cluster, tasks)

        whole_spread = ray_engine.Cluster.spread
        monkeypatch.setattr(ray_engine.Cluster, "spread", spread)
        assert main.main([*command, str(tmp_path / "there"), "--engine", "ray"]) == 0
        address, joinable, folders, *started = seen
        assert address not in joinable
        assert theirs.address in joinable
        assert len(folders) == 1
        assert started
        assert not [process for process in started if process.is_running()]
        assert os.listdir(temporary) == os.listdir(home) == []
    assert {name: value for name, value in os.environ.items() if settings.get(name) != value} == {}
    assert not ray.is_initialized()
    assert theirs.state() == before
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


@needs_ray
@pytest.mark.parametrize("address", ["auto", None])
def test_the_cluster_of_this_machine_is_joined_and_left_running(theirs, address, monkeypatch):
    import ray

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    before = theirs.state()
    with ray_engine.connected(address or theirs.address) as cluster:
        assert ray.get_runtime_context().gcs_address == theirs.address
        assert cluster.slots() == 1
        doubled = {}
        work = lambda shared, job, state, seconds: shared * job
        take = lambda job, result: doubled.update({job: result}) is None
        tasks = ray_engine.Tasks(work, 2, (3, 4), lambda job: None, take, str)
        assert cluster.spread(tasks) == {}
        assert doubled == {3: 6, 4: 8}
    assert not ray.is_initialized()
    assert theirs.state() == before


class RayError(Exception):
    pass


class MadeUpRay:
    """A cluster of one slot in this process; a job called `deadly` takes its worker with it."""

    exceptions = SimpleNamespace(
        RayTaskError=type("RayTaskError", (RayError,), {}),
        RuntimeEnvSetupError=type("RuntimeEnvSetupError", (RayError,), {}),
        RayError=RayError,
    )

    def __init__(self):
        self.sent, self.results = [], []

    def cluster_resources(self):
        return {"CPU": 1.0}

    def remote(self, **options):
        assert options["num_cpus"] == 1

        def decorated(function):
            def send(work, shared, jobs, enough):
                self.sent.append([job for job, _ in jobs])
                died = RayError("it died") if "deadly" in self.sent[-1] else None
                self.results.append(died or function(work, shared, jobs, enough))
                return len(self.results) - 1

            return SimpleNamespace(remote=send)

        return decorated

    def put(self, value):
        return value

    def wait(self, references, num_returns=1, timeout=None):
        return references[:1], references[1:]

    def get(self, reference):
        if isinstance(self.results[reference], RayError):
            raise self.results[reference]
        return self.results[reference]

    def cancel(self, reference):
        pass


def spread(jobs, work, finished):
    ray = MadeUpRay()
    tasks = ray_engine.Tasks(
        lambda shared, job, state, seconds: work(job, state),
        None,
        jobs,
        lambda job: finished.get(job),
        lambda job, result: finished.update({job: result}) or result != "half",
        "job {}".format,
    )
    return ray_engine.Cluster(ray).spread(tasks), ray.sent


@pytest.mark.quick
def test_a_job_that_takes_its_workers_with_it_is_given_up_and_spares_the_others(monkeypatch):
    monkeypatch.setattr(ray_engine, "LOSSES", 4)
    finished = {}
    failed, sent = spread([*"abcdef", "deadly", *"ghijklmnop"], lambda job, state: job.upper(), finished)
    assert failed == {"deadly": "its worker was lost: RayError: it died"}
    assert finished == {job: job.upper() for job in "abcdefghijklmnop"}
    assert sent.count(["deadly"]) >= 3
    assert max(map(len, sent)) > 1  # quick jobs travel together


def test_a_long_job_goes_on_from_where_it_stood():
    finished = {}
    failed, sent = spread(["a"], lambda job, state: "whole" if state == "half" else "half", finished)
    assert (failed, finished, sent) == ({}, {"a": "whole"}, [["a"], ["a"]])


def test_when_nothing_goes_well_not_everything_is_tried():
    def work(job, state):
        raise EverystepError("this node has no such version.")

    failed, sent = spread(list(range(1000)), work, {})
    assert len(failed) >= ray_engine.HOPELESS
    assert len(sent) < 50
    assert set(failed.values()) == {"this node has no such version"}


@pytest.mark.quick
def test_a_machine_with_another_version_is_refused(prepared, tmp_path):
    runner._begin(prepared, tmp_path, {"agents": runner._recipes_as_json(prepared), "batch": 2})
    parcel = work_units.RunFiles.read(tmp_path / run_folder.WORK)
    assert work_units.units_from_files(parcel).prepared.spec == prepared.spec
    elsewhere = parcel._replace(versions=parcel.versions.replace('"jax": "', '"jax": "9'))
    with pytest.raises(EverystepError, match=r"has jax .*; install .* there"):
        work_units.advance_unit(elsewhere, WorkUnit(0, 0), None, 0.0)


@needs_ray
def test_a_piece_that_fails_is_tried_again_and_then_named_while_the_others_finish(
    nodes, prepared, whole, tmp_path, monkeypatch, capsys
):
    marks, bad, moody = tmp_path / "marks", WorkUnit(1, 2), WorkUnit(0, 0)
    marks.mkdir()

    def turn(parcel, piece, reached, seconds):
        (marks / f"{piece}@{uuid.uuid4().hex}").touch()
        if piece == bad or (piece == moody and len(list(marks.glob(f"{piece}@*"))) == 1):
            raise ValueError("a bad day")
        return work_units.advance_unit(parcel, piece, reached, 0.0)  # a chunk at a time: states travel

    out = tmp_path / "run"
    monkeypatch.setattr(work_units, "advance_unit", turn)
    with pytest.raises(EverystepError, match="1 of 6 work units") as failure:
        runner.run(prepared, out, figures=False, cluster=nodes.spread)
    assert "lsvi-ae(beta=0.3), seeds 2 and 3 (ValueError: a bad day)" in str(failure.value)
    assert f"`everystep resume {out}`" in str(failure.value)
    assert (
        "note: lsvi-ae(beta=0.1), seeds 0 and 1: ValueError: a bad day; it is tried again." in capsys.readouterr().err
    )
    assert len(begun(marks, bad)) == 3
    assert len(begun(marks, moody)) >= 1 + 3  # once in vain, then in pieces, more of them on a slow machine
    ledger = checkpoints.look(out / run_folder.WORK)
    assert [piece for piece in ledger.units() if ledger.finished(piece)] == [
        piece for piece in work_units.WorkUnits(prepared, 2).all() if piece != bad
    ]
    ledger.close()

    monkeypatch.undo()
    runner.resume(out, cluster=nodes.spread)
    assert contents(out) == whole


@needs_ray
def test_what_was_begun_here_goes_on_there(nodes, prepared, whole, tmp_path, monkeypatch):
    out, left = tmp_path / "run", iter(range(4))

    def told(step):
        if next(left, None) is None:
            raise InterruptedError

    monkeypatch.setattr(store, "EVERY", 0.0)
    monkeypatch.setattr(store, "COST", 0)
    with pytest.raises(EverystepError):
        runner.run(prepared, out, told, figures=False)
    steps = []
    runner.resume(out, steps.append, cluster=nodes.spread)
    assert any(step.earlier for step in steps)
    assert sum(step.episodes for step in steps) == len(BETAS) * SEEDS * EPISODES
    assert contents(out) == whole


@needs_ray
def test_a_killed_driver_keeps_what_is_finished(nodes, prepared, whole, tmp_path):
    pond(tmp_path)
    (tmp_path / "pond.toml").write_text(
        f'episodes = {EPISODES}\nseeds = {SEEDS}\nengine = "ray"\naddress = "{nodes.cluster.address}"\n'
        '[[problems]]\nname = "pond.txt"\nhorizon = 4\n'
        f'[[agents]]\nname = "lsvi-ae"\ngrid = {{beta = {list(BETAS)}}}\n',
        encoding="utf-8",
    )
    out = tmp_path / "out" / "pond"
    told = ["run", str(tmp_path / "pond.toml"), "--out", str(out.parent)]
    program = (
        "import sys; from everystep.cli import main; from everystep.files import store;"
        "store.EVERY, store.COST = 0.0, 0; sys.exit(main.main(sys.argv[1:]))"
    )
    driver = subprocess.Popen([sys.executable, "-c", program, *told], stderr=subprocess.PIPE, text=True)
    while not (out / run_folder.WORK / "checkpoint-000001").exists() and driver.poll() is None:
        time.sleep(0.002)
    driver.send_signal(signal.SIGKILL)
    said = driver.communicate()[1]
    assert driver.returncode == -signal.SIGKILL, said
    kept = []  # episodes; on a slow machine the first checkpoint holds a part of a seed
    runner.resume(out, lambda step: kept.append(step.episodes * step.earlier))
    assert 0 < sum(kept) < len(BETAS) * SEEDS * EPISODES
    files = contents(out)
    assert {name: files[name] for name in files if "figures" not in name} == whole


@needs_ray
def test_killing_a_node_in_mid_run_costs_only_what_ran_on_it(nodes, prepared, whole, tmp_path, monkeypatch, capsys):
    marks, doomed = tmp_path / "marks", nodes.other.node_id
    marks.mkdir()

    def turn(parcel, piece, reached, seconds):
        import ray

        here = ray.get_runtime_context().get_node_id()
        (marks / f"{piece}@{here}").touch()
        if here == doomed:
            time.sleep(600)  # so that it is at work when it is killed
        return work_units.advance_unit(parcel, piece, reached, seconds)

    def kill():
        while not list(marks.glob(f"*@{doomed}")):
            time.sleep(0.01)
        nodes.cluster.remove_node(nodes.other, allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    monkeypatch.setattr(work_units, "advance_unit", turn)
    runner.run(prepared, tmp_path / "run", figures=False, cluster=nodes.spread)
    killer.join()
    assert contents(tmp_path / "run") == whole
    were_there = {mark.name.split("@")[0] for mark in marks.glob(f"*@{doomed}")}
    elsewhere = {mark.name.split("@")[0] for mark in marks.glob(f"*@{nodes.head.node_id}")}
    assert were_there
    assert elsewhere == {str(piece) for piece in work_units.WorkUnits(prepared, 2).all()}
    said = capsys.readouterr().err
    assert said.count("its worker was lost") == said.count("it is tried again") >= len(were_there)
