"""An experiment run into a folder: in pieces, with checkpoints, so that it can be stopped at any moment and continued.

    DIR/.work/   spec.json, problem.npz, request.json: what is run        part-, carry-, checkpoint-: see checkpoint.py
    DIR/         the finished files, put there when all pieces are done; then .work is removed

What is left when a process is killed is either this, or nothing that anybody reads. The finished files depend on the
spec alone: not on when a run was stopped, nor on the batches its seeds ran in.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from everystep import durable, experiment, planner, problems, reductions, store
from everystep.agents import Recipe
from everystep.checkpoint import Ledger, Piece
from everystep.drive import CHUNK
from everystep.engines import local
from everystep.errors import EverystepError
from everystep.experiment import Experiment
from everystep.problem import FiniteCMDP

MEMORY = 2**31  # bytes of rows that one piece may come to: they are read at once when a run is finished
BYTES_OF_A_ROW = 90  # of a part; in the finished file less than half of it


class Step(NamedTuple):
    """Told when a chunk is done: of which agent, how many episodes over its seeds, and sums over them.

    `seeds_ended` of its seeds are finished by it; `earlier` says that an earlier process did it, of which only the
    numbers of episodes and seeds are told.
    """

    label: str
    episodes: int
    violation: float = 0.0
    value: float = 0.0
    seeds_ended: int = 0
    earlier: bool = False


Told = Callable[[Step], None]


def run(
    prepared: Experiment,
    out: Path,
    told: Told | None = None,
    figures: bool = True,
    files: Mapping[str, str] | None = None,
) -> bool:
    """Run into a folder, or go on there, or do nothing where this very run is whole. Whether it was begun before.

    `files` are texts to put beside the results.
    """
    try:
        if store.holds(out, prepared.spec):
            sweep(out)
            return True
        store.claim_for_work(out, prepared.spec)
        _recipes(prepared)  # refuses what could not go on, before anything is written
        _make(out)
        with durable.held(out, out / store.WORK / "pid"):
            begun = store.claim_for_work(out, prepared.spec)  # somebody may have been quicker
            if not begun:
                if store.holds(out, prepared.spec):
                    return True
                _begin(prepared, out, figures, files or {})
            _work(prepared, out, told or (lambda step: None))
            return begun
    except OSError as error:
        raise _stopped_by(out, error) from None


def resume(out: Path, told: Told | None = None) -> None:
    """Go on with what a folder was begun with."""
    unfinished(out)
    try:
        with durable.held(out, out / store.WORK / "pid"):
            if store.is_unfinished(out):  # else it was finished in this very moment
                _work(begun(out), out, told or (lambda step: None))
    except OSError as error:
        raise _stopped_by(out, error) from None


def unfinished(out: Path) -> None:
    """Nothing if a folder holds a run to go on with, else the error that says what it holds."""
    if not store.is_unfinished(out):
        if (out / "spec.json").is_file():
            sweep(out)
            raise EverystepError(f"'{out}' holds a run that is finished; there is nothing to resume.")
        raise EverystepError(f"'{out}' holds no run; `everystep run` begins one.")


def begun(out: Path) -> Experiment:
    """The experiment that an unfinished folder was begun with."""
    work = out / store.WORK
    spec, request = store.read_spec(work), store.read_json(work / "request.json")
    problem = problems.from_arrays(work / "problem.npz")
    recipes = [Recipe(each["name"], each["settings"], each["alias"]) for each in request["agents"]]
    prepared = experiment.prepare(problem, recipes, spec["episodes"], spec["seeds"], certify=bool(spec.get("certify")))
    if not store.same_run(prepared.spec, spec):
        raise EverystepError(
            f"'{out}' was begun with settings that are now read otherwise; go on with everystep "
            f"{spec['versions']['everystep']}, or remove the folder to start again."
        )
    return prepared


def _make(out: Path) -> None:
    """The folder, and those above it, on the disk."""
    new = [path for path in (out.resolve(), *out.resolve().parents) if not path.exists()]
    out.resolve().mkdir(parents=True, exist_ok=True)
    for path in new:
        durable.sync_folder(path.parent)


def _begin(prepared: Experiment, out: Path, figures: bool, files: Mapping[str, str]) -> None:
    """Put .work in place, whole, with everything needed to go on."""
    sweep(out)
    partial = out / f".everystep-{uuid.uuid4().hex[:12]}{durable.PARTIAL}"
    partial.mkdir()
    try:
        size = batch_size(prepared)
        request = {"agents": _recipes(prepared), "batch": size, "figures": figures, "files": dict(files)}
        store.write_json(partial / "request.json", request)
        store.write_json(partial / "spec.json", prepared.spec)
        store.save_problem(prepared.problem, partial / "problem.npz")
        durable.sync_all([*partial.iterdir(), partial])
        os.replace(partial, out / store.WORK)
        durable.sync_folder(out)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def batch_size(prepared: Experiment) -> int:
    """Seeds of a piece: as many as suit the engine, and fewer where all their rows would not fit in memory."""
    seeds, K = len(prepared.spec["seeds"]), prepared.spec["episodes"]
    with jax.enable_x64(True):
        return max(1, min(local.batch_size(prepared.cells(), seeds, K), MEMORY // (K * BYTES_OF_A_ROW)))


def _recipes(prepared: Experiment) -> list[dict[str, Any]]:
    """The agents as they were asked for, ready for JSON."""
    told = []
    for label, each in prepared.agents.items():
        for key, value in each.recipe.given.items():
            if not all(isinstance(each, str | int | float) for each in (value if isinstance(value, list) else [value])):
                raise EverystepError(
                    f"setting {key} of {label} is no text or number, so that a stopped run could not go on with it; "
                    "run it with everystep.run and save the result."
                )
        told.append({"name": each.recipe.name, "settings": dict(each.recipe.given), "alias": each.recipe.alias})
    return told


def _work(prepared: Experiment, out: Path, told: Told) -> None:
    """All that is left to do: pieces, and then the finished files."""
    work = out / store.WORK
    sweep(out)
    durable.sign(work / "pid")
    request = store.read_json(work / "request.json")
    ledger = Ledger(work, _context(work))
    try:
        with jax.enable_x64(True):
            _run_pieces(prepared, ledger, request["batch"], told)
        _finish(Stored(prepared, ledger, request["batch"]), out, request)
    finally:
        ledger.close()


def _context(work: Path) -> dict[str, Any]:
    """What must not change between the beginning and the end of a run: bits depend on it."""
    versions = experiment.versions()
    del versions["python"]
    spec = hashlib.sha256((work / "spec.json").read_bytes()).hexdigest()
    return {"format": 1, "spec": spec, "versions": versions, "device": jax.default_backend()}


def _run_pieces(prepared: Experiment, ledger: Ledger, size: int, told: Told) -> None:
    labels, K = list(prepared.agents), prepared.spec["episodes"]
    cells = prepared.cells()
    batches = local.in_batches(prepared.spec["seeds"], size)
    optimal = planner.solve(prepared.problem).V[0]
    seeds = len(prepared.spec["seeds"])
    every = [(i, j) for i in range(len(cells)) for j in range(len(batches))]
    left = [(i, j) for i, j in every if not ledger.finished(Piece(i, j * size))]
    for i, j in every:
        if done := ledger.done(Piece(i, j * size)):
            real = min(size, seeds - j * size)
            told(Step(labels[i], done * real, seeds_ended=0 if (i, j) in left else real, earlier=True))
    at = {id(batches[j]): j for j in range(len(batches))}

    def job(work: tuple[int, np.ndarray], stop: threading.Event) -> None:
        (i, batch), j = work, at[id(work[1])]
        piece, real = Piece(i, j * size), min(size, seeds - j * size)
        for reached, metrics in local.chunks(cells[i], batch, K, lambda shaped: ledger.since(piece, shaped)):
            curves = experiment.columns(metrics, optimal, prepared.has_costs(labels[i]))
            rows = as_records({name: column[:real] for name, column in curves.items()})
            ends = reached.done == K
            ending = _real(local.ending(cells[i], reached), real, batch) if ends else None
            ledger.advance(piece, rows, reached.done - rows.shape[1], reached, ending)
            ledger.commit_if_due()
            violation, value = (float(rows[name].sum()) for name in ("violation", "value"))
            told(Step(labels[i], rows.size, violation, value, real if ends else 0))
            if stop.is_set():
                return

    try:
        local.spread(cells, [(i, batches[j]) for i, j in left], job)
    except OSError:  # a disk that is full does not take more
        raise
    except BaseException:
        ledger.commit()
        raise
    ledger.commit()


def _real(ending: local.Ending, count: int, batch: np.ndarray) -> local.Ending:
    """Without the seeds that filled up the last batch."""
    seeds = {int(seed) for seed in batch[:count]}
    fits = {(fit.seed, fit.after, fit.model): fit for fit in ending.fits if fit.seed in seeds}
    arrays = {name: array[:count] for name, array in ending._asdict().items() if name != "fits"}
    return local.Ending(**arrays, fits=tuple(fits[key] for key in sorted(fits)))


def as_records(curves: Mapping[str, np.ndarray]) -> np.ndarray:
    """Columns of one shape as one array with fields."""
    shape = next(iter(curves.values())).shape
    records = np.empty(shape, [(name, column.dtype) for name, column in curves.items()])
    for name, column in curves.items():
        records[name] = column
    return records


@dataclass(frozen=True)
class Stored:
    """A finished experiment whose rows are in checkpoints (an `experiment.Outcome`)."""

    prepared: Experiment
    ledger: Ledger
    size: int

    @property
    def problem(self) -> FiniteCMDP:
        return self.prepared.problem

    @property
    def spec(self) -> dict[str, Any]:
        return self.prepared.spec

    @property
    def features(self) -> dict[str, np.ndarray]:
        return self.prepared.features()

    def pieces(self, label: str) -> list[Piece]:
        cell = list(self.prepared.agents).index(label)
        return [Piece(cell, first) for first in range(0, len(self.spec["seeds"]), self.size)]

    def batches(self, label: str) -> Iterator[Mapping[str, np.ndarray]]:
        for piece in self.pieces(label):
            rows = self.ledger.rows(piece)
            assert rows.dtype.names is not None
            yield {name: np.ascontiguousarray(rows[name]) for name in rows.dtype.names}

    @property
    def visits(self) -> Mapping[str, np.ndarray]:
        ends = ((f"_{CHUNK}", "visits_early"), ("_end", "visits_end"))
        return _Joined(
            {f"{label}{end}": (self, label, name) for label in self.prepared.agents for end, name in ends}, False
        )

    @property
    def certificates(self) -> Mapping[str, np.ndarray]:
        having = [label for label in self.prepared.agents if self.prepared.has_costs(label)]
        return _Joined({f"{label}_{end}": (self, label, end) for label in having for end in ("lower", "upper")}, True)

    @cached_property
    def fits(self) -> dict[str, list[dict[str, Any]]]:
        of = lambda label: [fit for piece in self.pieces(label) for fit in self.ledger.fits(piece)]
        found = {label: sorted(of(label), key=lambda fit: fit[:3]) for label in self.prepared.agents}
        return {label: [experiment.told(fit) for fit in fits] for label, fits in found.items() if fits}

    @cached_property
    def reduced(self) -> dict[str, reductions.Reduced]:
        return {label: reductions.reduced(self.batches(label)) for label in self.prepared.agents}

    @cached_property
    def summary(self) -> dict[str, Any]:
        return experiment.summed_up(self)


class _Joined(Mapping[str, np.ndarray]):
    """Arrays of all seeds, put together from those of the pieces when somebody asks: one at a time in memory."""

    def __init__(self, where: Mapping[str, tuple[Stored, str, str]], actions_last: bool):
        self._where, self._actions_last = where, actions_last

    def __getitem__(self, key: str) -> np.ndarray:
        stored, label, name = self._where[key]
        joined = np.concatenate([stored.ledger.ending(piece, name) for piece in stored.pieces(label)])
        return joined.swapaxes(-1, -2) if self._actions_last else joined

    def __iter__(self) -> Iterator[str]:
        return iter(self._where)

    def __len__(self) -> int:
        return len(self._where)


def _finish(stored: Stored, out: Path, request: Mapping[str, Any]) -> None:
    """The finished files, made in .work and moved one by one, spec.json last; then .work is removed."""
    work, finished = out / store.WORK, out / store.WORK / "finished"
    shutil.rmtree(finished, ignore_errors=True)
    finished.mkdir()
    store.fill(stored, finished, request["figures"])
    for name in ("problem.npz", "spec.json"):
        shutil.copyfile(work / name, finished / name)
    for name, text in request["files"].items():
        (finished / name).write_text(text, encoding="utf-8")
    made = sorted(path for path in finished.rglob("*") if path.is_file())
    durable.sync_all(made)
    for source in sorted(made, key=lambda path: path.name == "spec.json"):
        target = out / source.relative_to(finished)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(source, target)
    durable.sync_all([out, *(path for path in out.iterdir() if path.is_dir() and path != work)])
    stored.ledger.close()
    over = out / f".everystep-{uuid.uuid4().hex[:12]}{durable.PARTIAL}"
    os.replace(work, over)
    durable.sync_folder(out)
    shutil.rmtree(over, ignore_errors=True)


def sweep(out: Path) -> None:
    """Remove what a process that was killed had begun to write or to remove."""
    for path in out.glob(f".everystep-*{durable.PARTIAL}"):
        shutil.rmtree(path, ignore_errors=True)


def _stopped_by(out: Path, error: OSError) -> EverystepError:
    if not store.is_unfinished(out):
        return store.unusable(out, error)
    return EverystepError(
        f"out '{out}' cannot be written ({error.strerror or error}); "
        f"make room there, and `everystep resume {out}` goes on from the last checkpoint."
    )
