"""`everystep summary DIR`: the table of a run, from its rows in a stream; of an unfinished one, how far it is.

Nothing but the spec, the Parquet file and the optimum in summary.json is read of a finished run, a slice of rows at a
time: ten million rows take seconds.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from everystep import experiment, reductions, stats, store, tables
from everystep.checkpoint import Ledger
from everystep.errors import EverystepError

SLICE = 2**17  # rows in memory at a time
SUMMED = ("value", "violation", "regret", "planned")


def text(folder: Path) -> str:
    """The table."""
    if store.is_unfinished(folder):
        try:
            return unfinished(folder)
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
            if store.is_unfinished(folder):
                raise EverystepError(
                    f"'{folder}' holds an unfinished run with a file that is damaged or cannot be read; "
                    f"`everystep resume {folder}` says which, and goes on from what is whole."
                ) from None
    if not (folder / "spec.json").is_file():
        raise EverystepError(f"'{folder}' holds no run; give the folder that `everystep run` wrote.")
    try:
        return tables.summary(finished(folder))
    except (KeyError, TypeError):
        raise EverystepError(
            f"'{folder}' has a spec.json or a summary.json not written by `everystep run`; run it again elsewhere."
        ) from None


def finished(folder: Path) -> dict[str, Any]:
    """summary.json with its numbers made again from the rows (up to rounding: they are summed in another order)."""
    spec, written = store.read_spec(folder), store.read_json(folder / "summary.json")
    sums = samples(folder / "episodes.parquet", spec)
    agents = {each["label"]: experiment.agent_summary(sums[each["label"]], each) for each in spec["agents"]}
    return written | {"agents": agents}


def samples(path: Path, spec: Mapping[str, Any]) -> dict[str, dict[str, np.ndarray]]:
    """What `reductions.samples` says of each seed of each agent, from rows by agent, seed and episode."""
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
        raise EverystepError(f"'{path}' cannot be read as the rows of this run; run it again elsewhere.") from None
    of = lambda array, i: array[i * n : (i + 1) * n]
    return {
        label: {
            "final_value": of(finals["value"], i) / tail,
            "final_violation": of(finals["violation"], i) / tail,
            "total_violation": of(totals["violation"], i),
            "total_regret": of(totals["regret"], i),
            **({"plans": of(totals["planned"], i)} if of(having["planned"], i).any() else {}),
        }
        for i, label in enumerate(labels)
    }


def unfinished(folder: Path) -> str:
    """How far a run is, by what is on the disk, and what its episodes came to so far."""
    work = folder / store.WORK
    spec = store.read_spec(work)
    ledger = Ledger(work, None)
    try:
        rows = [_so_far(ledger, i, each["label"], spec) for i, each in enumerate(spec["agents"])]
    finally:
        ledger.close()
    last = f"last {reductions.FINAL}"
    head = ["agent", "episodes", "seeds finished", f"value, {last}", f"violation, {last}", "violation so far"]
    name, H = spec["problem"]["name"], spec["problem"]["horizon"]
    return "\n".join(
        [
            f"{name}, H = {H}: unfinished; {spec['episodes']} episodes, {len(spec['seeds'])} seeds",
            "",
            tables.aligned([head, *rows]),
            "",
            "means over the seeds that have begun, of what the last checkpoint holds",
            f"`everystep resume {folder}` finishes it, if nobody is at it",
        ]
    )


def _so_far(ledger: Ledger, cell: int, label: str, spec: Mapping[str, Any]) -> list[str]:
    n, K = len(spec["seeds"]), spec["episodes"]
    done, ended, numbers = 0, 0, []
    for piece in ledger.pieces():
        if piece.cell == cell:
            rows = ledger.rows(piece)
            done += rows.size
            ended += len(rows) if rows.shape[1] == K else 0
            last = [stats.last(rows[name], reductions.FINAL) for name in ("value", "violation")]
            numbers.append(np.stack([*last, rows["violation"].sum(1)]))
    shown = map(tables.number, np.concatenate(numbers, 1).mean(1)) if numbers else ["", "", ""]
    return [label, f"{done / (n * K):.1%}", f"{ended} of {n}", *shown]
