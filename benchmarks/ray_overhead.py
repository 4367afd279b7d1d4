"""The overhead of Ray: 100 small work units on the cores of this machine, by the local engine and by Ray.

    python benchmarks/ray_overhead.py [--pieces N] [--episodes K] [--repeats R]

A work unit is LSVI-AE on the paper's lake with two seeds. Both engines run alternately in this process, into run
folders that must be equal, and are timed after their workers have compiled. The start-up time (of Ray, and of its
workers, which import and compile) is measured by a short run before and printed separately. Then: the cost of a single
task, how fast the driver receives rows, and the sizes of the data, for the figures of docs/cluster.md.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import common
import numpy as np

from everystep import problems
from everystep.experiments import experiment, runner, work_units
from everystep.experiments.engines import local, ray
from everystep.experiments.folder import checkpoints
from everystep.experiments.folder.checkpoints import WorkUnit

TARGET = 0.20  # of the local time


def nothing(shared: object, job: int, state: object, seconds: float) -> int:
    """The smallest job."""
    return job


def per_task(cluster: ray.Cluster, tasks: int = 300) -> float:
    """Seconds that one task with nothing to do takes, sent one by one."""
    quick, ray.HANDFUL = ray.HANDFUL, 0.0
    try:
        jobs = ray.Tasks(nothing, None, range(tasks), lambda job: None, lambda job, result: True, str)
        return common.seconds(lambda: cluster.spread(jobs)) / tasks
    finally:
        ray.HANDFUL = quick


def rows_a_second(rows: np.ndarray) -> float:
    """How fast a driver takes finished work units in and puts them on the disk, if it does nothing else."""
    count = max(1, 2_000_000 // rows.size)
    state = local.BatchState(rows.shape[1], None, np.zeros((len(rows), 100), np.int32))  # type: ignore[arg-type]
    bounds = np.zeros((len(rows), 1, 1, 4, 100))
    final = local.FinalState(state.visits_early, state.visits_early, bounds, bounds, bounds, bounds)
    with tempfile.TemporaryDirectory() as folder:
        ledger = checkpoints.Ledger(Path(folder), {})
        began = time.perf_counter()
        for i in range(count):
            ledger.advance(WorkUnit(0, i * len(rows)), rows, 0, state, final)
            ledger.commit_if_due()
        ledger.commit()
        spent = time.perf_counter() - began
        ledger.close()
    return count * rows.size / spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pieces", type=int, default=100)
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args()
    lake, size = problems.frozen_lake(), local.BATCH
    prepared = experiment.prepare(lake, ["lsvi-ae"], options.episodes, options.pieces * size)
    first = experiment.prepare(lake, ["lsvi-ae"], 1, 4 * size)

    began = time.perf_counter()
    with ray.connected() as cluster, tempfile.TemporaryDirectory() as folder:
        starting = time.perf_counter() - began
        out = Path(folder)
        run = lambda name, what=prepared, on=None: runner.run(what, out / name, figures=False, cluster=on)
        warming = common.seconds(lambda: run("first-ray", first, cluster))
        compiling = common.seconds(lambda: run("first-local", first))
        taken: dict[str, list[float]] = {"local": [], "ray": []}
        for repeat in range(options.repeats):
            for name, on in (("local", None), ("ray", cluster)):
                taken[name].append(common.seconds(lambda n=f"{name}-{repeat}", on=on: run(n, on=on)))
        same = len({(out / f"{name}-0" / "episodes.parquet").read_bytes() for name in taken}) == 1
        stored = (out / "ray-0" / "episodes.parquet").stat().st_size
        task = per_task(cluster)
        count = cluster.slots()

    here, there = min(taken["local"]), min(taken["ray"])
    episodes = options.pieces * size * options.episodes
    with tempfile.TemporaryDirectory() as folder:
        request = {"agents": runner._recipes_as_json(first), "batch": size, "figures": False, "files": {}}
        runner._begin(first, Path(folder), request)
        sent = work_units.RunFiles.read(Path(folder) / runner.WORK)
    metrics = ("return", "value", "regret", "expected_violation", "violation", "unsafe_steps", "soft_violation")
    rows = np.zeros((size, options.episodes), [(name, "f8") for name in metrics])
    core = here * count  # seconds of all cores together
    print(f"{options.pieces} pieces of {size} seeds x {options.episodes} episodes, {count} workers; same files: {same}")
    print(f"starting Ray {starting:.1f} s; workers until they have compiled {warming:.1f} s (local {compiling:.1f} s)")
    print(f"a piece {core / options.pieces:.2f} s of a core; a seed-episode {core / episodes * 1e6:.1f} us")
    print(f"an empty task {task * 1e3:.1f} ms; what is run {sum(map(len, sent)) / 1024:.0f} kB")
    print(f"a row {rows.itemsize} bytes on its way, {stored / episodes:.1f} in the finished file")
    print(f"a driver takes in {rows_a_second(rows) / 1e6:.1f} million rows/s")
    common.table("engine", [common.at_most("Ray over local", there / here - 1, TARGET, show=".3f")])
    print(f"local {here:.2f} s, Ray {there:.2f} s (all: {taken})")


if __name__ == "__main__":
    main()
