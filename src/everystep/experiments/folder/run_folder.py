"""The run folder: Parquet, JSON, npz and figures, written whole or not at all. Nothing in it is ever unpickled.

episodes.parquet  a row for each agent, seed and episode      spec.json     everything needed to run it again
summary.json      means over seeds with intervals             problem.npz   the problem itself, as arrays
visits.npz        visits of each state, after 500 and at the end  figures/  PNG and SVG
features.npz      features passed to an agent from Python, if any
certificates.npz  the ends of every cost interval at the end
.everystep.sha256 the checksums of these files (see files/)

The folder of an unfinished run holds .work/ (see checkpoints.py), and nothing else in it is read. finished.py reads the
folder of a finished run.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everystep import files
from everystep.errors import EverystepError, true_or_false
from everystep.experiments.result import episode_table
from everystep.files import PARTIAL, write_npz
from everystep.mdp.arrays import save_problem

if TYPE_CHECKING:
    from everystep.experiments.result import FinishedRun

WORK = ".work"
TRAINING_REQUEST = "training.json"  # in a folder that `everystep train` wrote, beside the folders of its seeds
TRAINING = "training"  # the `kind` in a spec.json that `train` wrote; that of an experiment has none
ROWS = 2**17  # of a row group, at most: whole seeds where they fit
OUTPUTS = (  # of any run
    "episodes.parquet", "spec.json", "summary.json", "problem.npz", "visits.npz", "features.npz", "certificates.npz",
    "findings.txt", "policy/policy.npz", "policy/policy.json", "policy/CARD.md", "evaluation.json",
    "pictures/pictures.json", "pictures/first.png", "pictures/policy.png",
    *(f"figures/{stem}{ending}" for stem in ("map", "learning", "heatmap", "regret", "literal")
      for ending in (".png", ".svg")),
)  # fmt: skip


class FolderState(Enum):
    """What a folder holds of a run."""

    NEW = "nothing"
    UNFINISHED = "an unfinished run"
    FINISHED = "the finished run"


def look_into(out: Path) -> tuple[FolderState, dict[str, Any]]:
    """What a folder holds of a run or a training, and its spec. Refuse one that holds anything else, or a file."""
    with files.writing(out):
        files.refuse_temporary_name(out)
        if files.exists(out) and not out.is_dir():
            raise EverystepError(f"out '{out}' is a file; choose a folder.")
        for state, where in ((FolderState.UNFINISHED, out / WORK), (FolderState.FINISHED, out)):
            if (where / "spec.json").is_file():
                return state, read_json(where / "spec.json")
            if where == out / WORK and where.is_dir():
                raise EverystepError(
                    f"out '{out}' holds an unfinished run without its spec.json; restore it, or remove '{where}'."
                )
        if out.is_dir() and any(not path.name.endswith((PARTIAL, files.RECORD)) for path in out.iterdir()):
            raise EverystepError(f"out '{out}' holds other files; choose an empty or a new folder.")
    return FolderState.NEW, {}


def inspect(out: Path, spec: dict[str, Any]) -> FolderState:
    """What a folder holds of the run with this spec. Refuse one that holds anything else."""
    state, before = look_into(out)
    if state is not FolderState.NEW and not same_run(before, spec):
        kind = "a different run" if state is FolderState.FINISHED else "a different, unfinished run"
        raise EverystepError(f"out '{out}' already holds {kind}; choose another folder, or remove it.")
    return state


def claim(out: Path, spec: dict[str, Any], force: bool = False) -> None:
    """Refuse a folder that cannot be written, or that holds anything but this run finished, before any work is done."""
    files.check_writable(out)
    if is_unfinished(out):
        raise EverystepError(how_to_finish(out))
    if inspect(out, spec) is FolderState.FINISHED:
        with files.writing(out):
            files.check_places(files.real(out), OUTPUTS, force)


def is_unfinished(folder: Path) -> bool:
    """Whether a run or a training was begun in this folder and is not finished."""
    return (folder / WORK).is_dir()


def how_to_finish(folder: Path) -> str:
    kind = "training" if is_training_spec(folder / WORK) else "run"
    return f"'{folder}' holds an unfinished {kind}; {how_to_continue(folder)} it."


def how_to_continue(folder: Path) -> str:
    """What continues a run, or a training of `es.train`; see `results.how_to_continue` for those of the command."""
    if is_training_spec(folder / WORK) or is_training_spec(folder):
        return "the same call of everystep.train with out= continues"
    return f"`everystep resume {folder}` continues"


def check_run(folder: Path, unfinished: bool = False) -> None:
    """Raise if a folder holds a training, or an unfinished run unless it may be; the error names what to do."""
    if is_unfinished(folder) and (is_training_spec(folder / WORK) or not unfinished):
        raise EverystepError(how_to_finish(folder))
    if is_training(folder):
        raise EverystepError(
            f"'{folder}' holds a training, not an experiment; `everystep summary`, `report`, `figures` and `evaluate` "
            "read it."
        )


def is_training(folder: Path) -> bool:
    """Whether a folder holds a training, finished or not: of `everystep train`, or of `es.train`."""
    return (folder / TRAINING_REQUEST).is_file() or is_training_spec(folder) or is_training_spec(folder / WORK)


def is_training_spec(where: Path) -> bool:
    """Whether a spec.json is that of a training."""
    try:
        spec = files.read_json(where / "spec.json")
    except (OSError, ValueError):
        return False
    return isinstance(spec, dict) and spec.get("kind") == TRAINING


def read_json(path: Path) -> dict[str, Any]:
    """The object in one of the JSON files of a run folder."""
    try:
        content = files.read_json(path)
    except (OSError, ValueError):
        content = None
    if not isinstance(content, dict):
        raise EverystepError(f"out '{path.parent}' has a {path.name} that cannot be read; choose another folder.")
    return content


@contextmanager
def folder(out: Path, spec: dict[str, Any], force: bool = False) -> Iterator[Path]:
    """Yield a temporary folder to fill; its files are then moved into `out`. On an error nothing of it is left."""
    claim(out, spec, true_or_false("force", force))
    with files.replacing(out, "spec.json", force) as partial:
        yield partial


def finish(out: Path, fill: Callable[[Path], None]) -> None:
    """Put the finished files of a run or a training, which `fill` writes, into their place, spec.json last."""
    finished = out / WORK / "finished"
    shutil.rmtree(finished, ignore_errors=True)
    finished.mkdir()
    fill(finished)
    files.move_files(finished, out, last="spec.json")


def fill(run: FinishedRun, folder: Path, figures: bool = True) -> None:
    """Write everything a finished run holds into an existing folder."""
    save_problem(run.problem, folder / "problem.npz")
    files.write_json(folder / "spec.json", run.spec)
    write_results(run, folder, figures)


def write_results(run: FinishedRun, folder: Path, figures: bool = True) -> None:
    """Write what was computed; columns pass through memory in batches of seeds."""
    write_episodes(run, folder / "episodes.parquet")
    write_npz(folder / "visits.npz", run.visits.items(), compressed=True)
    files.write_json(folder / "summary.json", run.summary)
    if run.features:
        save_features(run.features, folder)
    if run.certificates:
        write_npz(folder / "certificates.npz", run.certificates.items(), compressed=True)
    if figures:
        from everystep.experiments import figures as draw

        draw.write(run, folder / "figures")


def save_features(features: Mapping[str, np.ndarray], folder: Path) -> None:
    """features.npz: the features passed to agents from Python."""
    arrays = {f"{label}_features": phi for label, phi in features.items()}
    write_npz(folder / "features.npz", arrays.items(), compressed=True)


def write_episodes(run: FinishedRun, path: Path) -> None:
    """episodes.parquet: rows by agent, seed and episode, in row groups whose sizes depend on the spec alone."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    spec = run.spec
    labels, seeds, K = [each["label"] for each in spec["agents"]], spec["seeds"], spec["episodes"]
    first = {label: next(iter(run.batches(label))) for label in labels}
    empty = lambda label: {name: column[:0] for name, column in first[label].items()}
    schema = pa.unify_schemas([episode_table(spec, label, [], empty(label)).schema for label in labels])
    options = {"compression": "zstd", "write_page_checksum": True}
    with path.open("wb") as opened, pq.ParquetWriter(opened, schema, **options) as file:
        for label in labels:
            done = 0
            for group in _regrouped(run.batches(label), max(1, ROWS // K)):
                n = len(next(iter(group.values())))
                table = episode_table(spec, label, seeds[done : done + n], group)
                # an agent without cost models has no labels
                columns = [
                    table[field.name] if field.name in table.column_names else pa.nulls(len(table), field.type)
                    for field in schema
                ]
                file.write_table(pa.table(columns, schema=schema), row_group_size=ROWS)
                done += n


def _regrouped(batches: Iterable[Mapping[str, np.ndarray]], size: int) -> Iterator[dict[str, np.ndarray]]:
    """The same seeds in groups of `size`; the last group may be smaller."""
    waiting: list[Mapping[str, np.ndarray]] = []
    count = 0

    def joined() -> dict[str, np.ndarray]:
        return {name: np.concatenate([batch[name] for batch in waiting]) for name in waiting[0]}

    for batch in batches:
        n, at = len(next(iter(batch.values()))), 0
        while at < n:
            taken = min(size - count, n - at)
            waiting.append({name: column[at : at + taken] for name, column in batch.items()})
            at, count = at + taken, count + taken
            if count == size:
                yield joined()
                waiting, count = [], 0
    if waiting:
        yield joined()


def same_run(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two specs define the same run; versions may differ, and what a training found grows with it."""
    grows = ("versions", "found", "policy")
    strip = lambda spec: {key: value for key, value in json.loads(json.dumps(spec)).items() if key not in grows}
    return bool(strip(one) == strip(other))
