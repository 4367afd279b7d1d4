"""`everystep summary DIR`: the table of a run, from a stream of its rows; of an unfinished run, its progress.

Of a finished run only the spec, the Parquet file and the optimum in summary.json are read, a slice of rows at a time:
ten million rows take seconds.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from everystep.errors import EverystepError
from everystep.experiments import checkpoints, reductions, run_folder, statistics, tables
from everystep.experiments.checkpoints import StoredUnits
from everystep.experiments.result import agent_summary

SLICE = 2**17  # rows in memory at a time
SUMMED = ("value", "violation", "regret", "planned")


def text(folder: Path) -> str:
    """The table of a run folder."""
    if run_folder.is_unfinished(folder):
        try:
            return unfinished(folder)
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
            if run_folder.is_unfinished(folder):
                raise EverystepError(
                    f"'{folder}' holds an unfinished run with a file that is damaged or cannot be read; "
                    f"`everystep resume {folder}` names it, and continues from what is intact."
                ) from None
    if not (folder / "spec.json").is_file():
        raise EverystepError(f"'{folder}' holds no run; give a folder written by `everystep run`.")
    try:
        return tables.summary(finished(folder))
    except (KeyError, TypeError):
        raise EverystepError(
            f"'{folder}' has a spec.json or a summary.json not written by `everystep run`; "
            "run it again into another folder."
        ) from None


def finished(folder: Path) -> dict[str, Any]:
    """summary.json with its numbers computed again from the rows (up to rounding: the order of sums differs)."""
    spec, written = run_folder.read_spec(folder), run_folder.read_json(folder / "summary.json")
    sums = samples(folder / "episodes.parquet", spec)
    agents = {each["label"]: agent_summary(sums[each["label"]], each) for each in spec["agents"]}
    return written | {"agents": agents}


def samples(path: Path, spec: Mapping[str, Any]) -> dict[str, dict[str, np.ndarray]]:
    """`reductions.samples` of each agent, from rows ordered by agent, seed and episode."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    labels, n, K = [each["label"] for each in spec["agents"]], len(spec["seeds"]), spec["episodes"]
    tail = min(reductions.FINAL, K)
    totals = {name: np.zeros(len(labels) * n) for name in SUMMED}
    finals = {name: np.zeros(len(labels) * n) for name in ("value", "violation")}
    having: dict[str, np.ndarray] = {name: np.zeros(len(labels) * n, bool) for name in SUMMED}
    row = 0
    try:
        with path.open("rb") as opened, pq.ParquetFile(opened, page_checksum_verification=True) as file:
            columns = [name for name in SUMMED if name in file.schema_arrow.names]
            if file.metadata.num_rows != len(labels) * n * K:
                raise ValueError
            for batch in file.iter_batches(SLICE, columns=columns):
                at = np.arange(row, row + len(batch))
                seed, late = at // K, at % K >= K - tail
                first, last = int(seed[0]), int(seed[-1]) + 1
                for name in columns:
                    numbers = batch[name].to_numpy(zero_copy_only=False).astype(float)
                    there = np.isfinite(numbers)
                    totals[name][first:last] += np.bincount(seed - first, np.where(there, numbers, 0), last - first)
                    having[name][seed[there]] = True
                    if name in finals:
                        finals[name][first:last] += np.bincount(seed - first, np.where(late, numbers, 0), last - first)
                row += len(batch)
    except (OSError, ValueError, pa.ArrowException):
        raise EverystepError(
            f"'{path}' cannot be read as the rows of this run; run it again into another folder."
        ) from None
    of_agent = lambda array, i: array[i * n : (i + 1) * n]
    return {
        label: {
            "final_value": of_agent(finals["value"], i) / tail,
            "final_violation": of_agent(finals["violation"], i) / tail,
            "total_violation": of_agent(totals["violation"], i),
            "total_regret": of_agent(totals["regret"], i),
            **({"plans": of_agent(totals["planned"], i)} if of_agent(having["planned"], i).any() else {}),
        }
        for i, label in enumerate(labels)
    }


def unfinished(folder: Path) -> str:
    """The progress of a run by its last checkpoint, and the totals of its episodes so far."""
    work = folder / run_folder.WORK
    spec = run_folder.read_spec(work)
    stored = checkpoints.look(work)
    try:
        rows = [_progress_row(stored, i, each["label"], spec) for i, each in enumerate(spec["agents"])]
    finally:
        stored.close()
    last = f"last {reductions.FINAL}"
    head = ["agent", "episodes", "seeds finished", f"value, {last}", f"violation, {last}", "total violation"]
    name, H = spec["problem"]["name"], spec["problem"]["horizon"]
    return "\n".join(
        [
            f"{name}, H = {H}: unfinished; {spec['episodes']} episodes, {len(spec['seeds'])} seeds",
            "",
            tables.aligned([head, *rows]),
            "",
            "means over the seeds that have begun, at the last checkpoint",
            f"`everystep resume {folder}` finishes it, unless another process is working on it",
        ]
    )


def _progress_row(stored: StoredUnits, agent: int, label: str, spec: Mapping[str, Any]) -> list[str]:
    n, K = len(spec["seeds"]), spec["episodes"]
    done, ended, numbers = 0, 0, []
    for unit in stored.units():
        if unit.agent == agent:
            rows = stored.rows(unit)
            done += rows.size
            ended += len(rows) if rows.shape[1] == K else 0
            last = [statistics.last(rows[name], reductions.FINAL) for name in ("value", "violation")]
            numbers.append(np.stack([*last, rows["violation"].sum(1)]))
    means = map(tables.number, np.concatenate(numbers, 1).mean(1)) if numbers else ["", "", ""]
    return [label, f"{done / (n * K):.1%}", f"{ended} of {n}", *means]
