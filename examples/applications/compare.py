"""Runs systems on an application, several at a time, and keeps one Parquet row per run.

    python examples/applications/electric_motor.py [--systems lsvi-ahead,random] [--seeds 0:10] [--jobs 2]
                                                   [--steps N] [--set JSON] [--out out/applications]

A run that is in the results already is not run again.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ONE_THREAD = {  # in each of the processes, because the matrices of a run are small
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}


def systems() -> dict[str, Any]:
    import deep
    import ours

    return {each.name: each for each in [*ours.SYSTEMS, *deep.SYSTEMS]}


def one(module: str, system: str, seed: int, steps: int | None, changed: dict[str, Any]) -> dict[str, Any]:
    from application import run

    return run(import_module(module).APPLICATION, systems()[system], seed, steps, **changed)


def rows(path: Path) -> list[dict[str, Any]]:
    return pq.read_table(path).to_pylist() if path.exists() else []


def write(path: Path, found: list[dict[str, Any]]) -> None:
    """All rows so far, in the order of systems and seeds; replaced in one step, so that an interrupt loses none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    found = sorted(found, key=lambda row: (row["problem"], row["system"], row["seed"]))
    pq.write_table(pa.Table.from_pylist(found), path.with_suffix(".part"), compression="zstd")
    path.with_suffix(".part").replace(path)


def each_done(jobs: list[tuple[Any, ...]], at_a_time: int) -> Iterator[dict[str, Any]]:
    """The rows of `one(*job)`, as they are done, several at a time."""
    context = multiprocessing.get_context("spawn")  # JAX has threads, which do not survive a fork
    with ProcessPoolExecutor(at_a_time, context) as pool:
        for future in as_completed([pool.submit(one, *job) for job in jobs]):
            try:
                row = future.result()
            except Exception as error:  # the others go on; what failed is run again by the same command
                print(f"FAILED: {type(error).__name__}: {error}", flush=True)
                continue
            yield row
            print(
                f"{row['problem']}, {row['system']}, seed {row['seed']}: violation {row['harm']:.4g}, "
                f"final return {row['final_return']:.4g}, final violation {row['final_harm']:.4g}; "
                f"{row['seconds']:.0f} s",
                flush=True,
            )


def main(module: str) -> None:
    app = import_module(module).APPLICATION
    parser = argparse.ArgumentParser(description=app.title)
    parser.add_argument("--systems", help="all of them by default; `deep`, `ours` or `reference` for a kind of them")
    parser.add_argument("--seeds", default="0:10", help="first:end")
    parser.add_argument("--steps", type=int, help="training steps, if others than the application's")
    parser.add_argument("--set", default="{}", help="settings tried instead of the application's, as JSON")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, default=Path("out/applications"))
    options = parser.parse_args()
    os.environ.update(ONE_THREAD)
    first, last = map(int, options.seeds.split(":"))
    asked = options.systems.split(";") if options.systems else None
    names = [
        name for name, each in systems().items()
        if each.runs_on(app) and (asked is None or name in asked or each.kind in asked)
    ]  # fmt: skip
    path = options.out / f"{app.name}.parquet"
    found = rows(path)
    done = {(row["system"], row["seed"]) for row in found}
    jobs = [(name, seed) for seed in range(first, last) for name in names if (name, seed) not in done]
    print(f"{app.name}: {len(jobs)} runs, {options.jobs} at a time", flush=True)
    for row in each_done([(module, *job, options.steps, json.loads(options.set)) for job in jobs], options.jobs):
        found.append(row)
        write(path, found)


if __name__ == "__main__":
    for name in sys.argv.pop(1).split(","):
        main(name)
