"""`everystep summary DIR`: the table of a run, from a stream of its rows; of an unfinished run, its progress.

Of a finished run only the spec, the Parquet file and the optimum in summary.json are read, a slice of rows at a time:
ten million rows take seconds. Of an unfinished run the parts of the last checkpoint are read.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from everystep.errors import EverystepError
from everystep.experiments import reductions, statistics, tables
from everystep.experiments.folder import checkpoints, finished, rows, run_folder
from everystep.experiments.folder.checkpoints import StoredUnits
from everystep.experiments.result import agent_summary

SUMMED = ("value", "violation", "regret", "planned")


def text(folder: Path) -> str:
    """The table of a run folder."""
    run_folder.refuse_training(folder)
    if run_folder.is_unfinished(folder):
        try:
            return unfinished(folder)
        except EverystepError:
            if run_folder.is_unfinished(folder):  # otherwise another process has just finished it
                raise
        except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, zipfile.BadZipFile):
            if run_folder.is_unfinished(folder):
                raise EverystepError(
                    f"'{folder}' holds an unfinished run with a file that is damaged or cannot be read; "
                    f"`everystep resume {folder}` names it, and continues from what is intact."
                ) from None
    return tables.summary(of_finished(finished.read(folder)))


def of_finished(run: finished.FinishedFolder) -> dict[str, Any]:
    """summary.json with its numbers computed again from the rows (up to rounding: the order of sums differs)."""
    sums = samples(run.file("episodes.parquet"), run.spec, run.columns_of_starts())
    written = run.checked_summary(sums)
    agents = {each["label"]: agent_summary(sums[each["label"]], each) for each in run.spec["agents"]}
    return written | {"agents": agents}


def samples(path: Path, spec: Mapping[str, Any], of_starts: tuple[str, ...] = ()) -> dict[str, dict[str, np.ndarray]]:
    """`reductions.samples` of each agent, from rows ordered by agent, seed and episode.

    `of_starts` are the columns that only some problems have (`FinishedFolder.columns_of_starts`).
    """
    labels, n, K = [each["label"] for each in spec["agents"]], len(spec["seeds"]), spec["episodes"]
    tail = min(reductions.FINAL, K)
    totals = {name: np.zeros(len(labels) * n) for name in (*SUMMED, "least_violation")}
    finals = {name: np.zeros(len(labels) * n) for name in ("value", "violation")}
    planning = set()
    for part in rows.stream(path, spec, (*SUMMED, *of_starts)):
        at = np.arange(part.first, part.first + len(part.columns["value"]))
        seed, late = at // K, at % K >= K - tail
        first, last = int(seed[0]), int(seed[-1]) + 1
        for name, numbers in part.columns.items():
            totals[name][first:last] += np.bincount(seed - first, numbers, last - first)
            if name in finals:
                finals[name][first:last] += np.bincount(seed - first, np.where(late, numbers, 0), last - first)
        planning |= {part.label} if "planned" in part.columns else set()
    of_agent = lambda array, i: array[i * n : (i + 1) * n]
    return {
        label: {
            "final_value": of_agent(finals["value"], i) / tail,
            "final_violation": of_agent(finals["violation"], i) / tail,
            "total_violation": of_agent(totals["violation"], i),
            "avoidable_violation": of_agent(totals["violation"] - totals["least_violation"], i),
            "total_regret": of_agent(totals["regret"], i),
            **({"plans": of_agent(totals["planned"], i)} if label in planning else {}),
        }
        for i, label in enumerate(labels)
    }


def unfinished(folder: Path) -> str:
    """The progress of a run by its last checkpoint, and the totals of its episodes so far."""
    work = folder / run_folder.WORK
    checkpoints.check_request(work)
    spec = run_folder.read_spec(work)
    finished.check_spec(work, spec)
    stored = checkpoints.look(work)
    try:
        progress = [_progress_row(stored, i, each["label"], spec) for i, each in enumerate(spec["agents"])]
    finally:
        stored.close()
    last = f"last {reductions.FINAL}"
    head = ["agent", "episodes", "seeds finished", f"value, {last}", f"violation, {last}", "total violation"]
    name, H = spec["problem"]["name"], spec["problem"]["horizon"]
    return "\n".join(
        [
            f"{name}, H = {H}: unfinished; {spec['episodes']} episodes, {len(spec['seeds'])} seeds",
            "",
            tables.aligned([head, *progress]),
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
            own = stored.rows(unit)
            done += own.size
            ended += len(own) if own.shape[1] == K else 0
            last = [statistics.last(own[name], reductions.FINAL) for name in ("value", "violation")]
            numbers.append(np.stack([*last, own["violation"].sum(1)]))
    means = map(tables.number, np.concatenate(numbers, 1).mean(1)) if numbers else ["", "", ""]
    return [label, f"{done / (n * K):.1%}", f"{ended} of {n}", *means]
