"""`everystep summary DIR`: the table of a run; of an unfinished run, its progress by the parts of its checkpoint."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from everystep.errors import EverystepError
from everystep.experiments import reductions, statistics, tables
from everystep.experiments.folder import checkpoints, finished, run_folder
from everystep.experiments.folder.checkpoints import StoredUnits


def text(folder: Path) -> str:
    """The table of a run folder."""
    run_folder.check_run(folder, unfinished=True)
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
    return of_finished(folder)


def of_finished(folder: Path) -> str:
    """The table of a finished run, whose rows must be those that were written."""
    run = finished.read(folder)
    run.file("episodes.parquet")
    return tables.summary(run.summary())


def unfinished(folder: Path) -> str:
    """The progress of a run by its last checkpoint, and the totals of its episodes so far."""
    work = folder / run_folder.WORK
    checkpoints.check_request(work)
    spec = finished.read_spec(work)
    stored = checkpoints.look(work)
    try:
        progress = [_progress_row(stored, i, each["label"], spec) for i, each in enumerate(spec["agents"])]
    finally:
        stored.close()
    last = f"last {reductions.FINAL}"
    head = ["agent", "episodes", "seeds finished", f"value, {last}", f"violation, {last}", "total violation"]
    name, H = spec["problem"]["name"], spec["problem"]["horizon"]
    notes = [
        "means over the seeds that have begun, at the last checkpoint",
        f"`everystep resume {folder}` finishes it, unless another process is working on it",
    ]
    heading = f"{name}, H = {H}: unfinished; {spec['episodes']} episodes, {len(spec['seeds'])} seeds"
    return str(tables.Table(heading, head, progress, notes))


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
