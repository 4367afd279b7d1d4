"""An experiment run into a folder: in pieces, with checkpoints, so that it can be stopped at any moment and continued.

    DIR/.work/   spec.json, problem.npz, request.json: what is run        part-, carry-, checkpoint-: see checkpoint.py
    DIR/         the finished files, put there when all pieces are done; then .work is removed

What is left when a process is killed is either this, or nothing that anybody reads. The finished files depend on the
spec alone: not on when a run was stopped, nor on the batches its seeds ran in.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from everystep import files as durable
from everystep import problems
from everystep.errors import EverystepError
from everystep.experiments import experiment, reductions, run_folder
from everystep.experiments import work_units as pieces
from everystep.experiments.checkpoints import ASKED, Ledger, Piece
from everystep.experiments.engines import local
from everystep.experiments.engines.ray import Cluster, Tasks
from everystep.experiments.experiment import Experiment
from everystep.experiments.work_units import Chunk, Parcel, Pieces
from everystep.lsvi.loop import CHUNK
from everystep.mdp.arrays import save_problem
from everystep.mdp.cmdp import FiniteCMDP

MEMORY = 2**31  # bytes of rows that one piece may come to: they are read at once when a run is finished
NAMED = 20  # pieces in a sentence
BYTES_OF_A_ROW = 90  # of a part; in the finished file less than half of it
FORMAT = 2  # of what lies in .work


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
    cluster: Cluster | None = None,
) -> bool:
    """Run into a folder, or go on there, or do nothing where this very run is whole. Whether it was begun before.

    `files` are texts to put beside the results. Pieces run on this machine, or on a `cluster`.
    """
    try:
        if run_folder.holds(out, prepared.spec):
            durable.sweep(out)
            return True
        run_folder.claim_for_work(out, prepared.spec)
        _recipes(prepared)  # refuses what could not go on, before anything is written
        durable.make_folder(out)
        with durable.held(out, out / run_folder.WORK / "pid"):
            begun = run_folder.claim_for_work(out, prepared.spec)  # somebody may have been quicker
            if not begun:
                if run_folder.holds(out, prepared.spec):
                    return True
                _begin(prepared, out, figures, files or {}, cluster)
            _work(prepared, out, told or (lambda step: None), cluster)
            return begun
    except OSError as error:
        raise _stopped_by(out, error) from None


def resume(out: Path, told: Told | None = None, cluster: Cluster | None = None) -> None:
    """Go on with what a folder was begun with, here or on a cluster, wherever that was."""
    unfinished(out)
    try:
        with durable.held(out, out / run_folder.WORK / "pid"):
            if run_folder.is_unfinished(out):  # else it was finished in this very moment
                _work(begun(out), out, told or (lambda step: None), cluster)
    except OSError as error:
        raise _stopped_by(out, error) from None


def unfinished(out: Path) -> None:
    """Nothing if a folder holds a run to go on with, else the error that says what it holds."""
    if not run_folder.is_unfinished(out):
        if (out / "spec.json").is_file():
            durable.sweep(out)
            raise EverystepError(f"'{out}' holds a run that is finished; there is nothing to resume.")
        raise EverystepError(f"'{out}' holds no run; `everystep run` begins one.")


def begun(out: Path) -> Experiment:
    """The experiment that an unfinished folder was begun with."""
    work = out / run_folder.WORK
    try:
        spec, request = run_folder.read_spec(work), run_folder.read_json(work / "request.json")
        asked, problem = request["agents"], problems.from_arrays(work / "problem.npz")
        _ = spec["episodes"], spec["seeds"], spec["versions"]
    except (EverystepError, KeyError):
        raise EverystepError(
            f"'{work}' has a {' or a '.join(ASKED)} that cannot be read, so that nobody knows what was run; "
            f"remove '{out}' to start again."
        ) from None
    prepared = pieces.again(spec, asked, problem)
    if not run_folder.same_run(prepared.spec, spec):
        raise EverystepError(
            f"'{out}' was begun with settings that are now read otherwise; go on with everystep "
            f"{spec['versions']['everystep']}, or remove the folder to start again."
        )
    return prepared


def _begin(prepared: Experiment, out: Path, figures: bool, files: Mapping[str, str], cluster: Cluster | None) -> None:
    """Put .work in place, whole, with everything needed to go on."""
    durable.sweep(out)
    size = batch_size(prepared) if cluster is None else _batch_size_on(cluster, prepared)
    request = {"agents": _recipes(prepared), "batch": size, "figures": figures, "files": dict(files)}
    with durable.filling(out / run_folder.WORK) as work:
        run_folder.write_json(work / "request.json", request)
        run_folder.write_json(work / "spec.json", prepared.spec)
        save_problem(prepared.problem, work / "problem.npz")


def batch_size(prepared: Experiment) -> int:
    """Seeds of a piece: as many as suit the engine, and fewer where all their rows would not fit in memory."""
    seeds, K = len(prepared.spec["seeds"]), prepared.spec["episodes"]
    with jax.enable_x64(True):
        return max(1, min(local.batch_size(prepared.cells(), seeds, K), MEMORY // (K * BYTES_OF_A_ROW)))


def _batch_size_on(cluster: Cluster, prepared: Experiment) -> int:
    """As on the cores of one machine: the seeds of one compiled call, or one where workers would idle."""
    return local.BATCH if len(prepared.agents) * len(prepared.spec["seeds"]) >= local.BATCH * cluster.slots() else 1


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


def _work(prepared: Experiment, out: Path, told: Told, cluster: Cluster | None) -> None:
    """All that is left to do: pieces, and then the finished files."""
    work = out / run_folder.WORK
    durable.sweep(out)
    durable.sign(work / "pid")
    request = run_folder.read_json(work / "request.json")
    ledger = Ledger(work, _context(work, jax.default_backend() if cluster is None else "cpu"))
    try:
        with jax.enable_x64(True):
            _run_pieces(Pieces(prepared, request["batch"]), ledger, out, told, cluster)
        _finish(Stored(prepared, ledger, request["batch"]), out, request)
    finally:
        ledger.close()


def _context(work: Path, device: str) -> dict[str, Any]:
    """What must not change between the beginning and the end of a run: bits depend on it."""
    asked = {name: durable.seal(work / name).sha256 for name in ASKED}
    return {"format": FORMAT, "versions": pieces.versions(), "device": device} | asked


def _run_pieces(every: Pieces, ledger: Ledger, out: Path, told: Told, cluster: Cluster | None) -> None:
    left = [piece for piece in every.every() if not ledger.finished(piece)]
    for piece in every.every():
        if done := ledger.done(piece):
            real = every.real(piece)
            ended = 0 if piece in left else real
            told(Step(every.labels[piece.cell], done * real, seeds_ended=ended, earlier=True))

    def take(piece: Piece, chunk: Chunk) -> bool:
        ledger.advance(piece, chunk.rows, chunk.start, chunk.reached, chunk.ending)
        ledger.commit_if_due()
        violation, value = (float(chunk.rows[name].sum()) for name in ("violation", "value"))
        ended = every.real(piece) if chunk.ending else 0
        told(Step(every.labels[piece.cell], chunk.rows.size, violation, value, ended))
        return chunk.ending is not None

    try:
        failed = {}
        if cluster is None:
            _run_here(every, left, ledger, take)
        else:
            failed = _run_on(cluster, every, left, ledger, take, pieces.parcel(out / run_folder.WORK))
    except OSError:  # a disk that is full does not take more
        raise
    except BaseException:
        ledger.commit()
        raise
    ledger.commit()
    if failed:
        raise _failure(out, {every.named(piece): reason for piece, reason in failed.items()}, len(every.every()))


Take = Callable[[Piece, Chunk], bool]


def _run_here(every: Pieces, left: list[Piece], ledger: Ledger, take: Take) -> None:
    """On this machine, where a piece that fails stops the run."""
    group_of = {i: group for group in local.groups(every.cells) for i in group}
    beside: dict[Any, list[Piece]] = {}
    for piece in left:  # those that stand at the same episode
        beside.setdefault((group_of[piece.cell], piece.first, ledger.done(piece)), []).append(piece)
    pieces_of = list(beside.values())
    work = [local.Work(tuple(piece.cell for piece in pieces), every.seeds(pieces[0])) for pieces in pieces_of]
    at = {id(each): pieces for each, pieces in zip(work, pieces_of, strict=True)}

    def job(each: local.Work, stop: threading.Event) -> None:
        pieces = at[id(each)]
        since = [partial(ledger.since, piece) for piece in pieces]
        for chunks in every.chunks(pieces, since):
            for piece, chunk in zip(pieces, chunks, strict=True):
                take(piece, chunk)
            if stop.is_set():
                return

    local.spread(every.cells, work, job)


def _run_on(
    cluster: Cluster, every: Pieces, left: list[Piece], ledger: Ledger, take: Take, parcel: Parcel
) -> dict[Piece, str]:
    """On a cluster: the pieces that failed there every time, and why. Only this process touches the folder."""

    def stands(piece: Piece) -> local.Reached | None:
        K = every.prepared.spec["episodes"]
        reached = ledger.since(piece, lambda done: local.shaped(every.cells[piece.cell], every.size, K)(done))
        return None if reached is None else reached._replace(carry=jax.tree.map(np.asarray, reached.carry))

    return cluster.spread(Tasks(pieces.turn, parcel, left, stands, take, every.named))


def _failure(out: Path, failed: Mapping[str, str], count: int) -> EverystepError:
    """Says which pieces failed; `kept` has them with their reasons."""
    listed = "; ".join(f"{name} ({reason})" for name, reason in list(failed.items())[:NAMED])
    listed += f"; and {len(failed) - NAMED} more, named in notes" if len(failed) > NAMED else ""
    error = EverystepError(
        f"{len(failed)} of {count} pieces of '{out}' failed: {listed}. What the others did is kept; "
        f"`everystep resume {out}` tries these again."
    )
    error.kept = dict(failed)
    return error


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
    work, finished = out / run_folder.WORK, out / run_folder.WORK / "finished"
    shutil.rmtree(finished, ignore_errors=True)
    finished.mkdir()
    run_folder.fill(stored, finished, request["figures"])
    for name in ("problem.npz", "spec.json"):
        shutil.copyfile(work / name, finished / name)
    for name, text in request["files"].items():
        (finished / name).write_text(text, encoding="utf-8")
    durable.move_files(finished, out, last="spec.json")
    stored.ledger.close()
    durable.remove_folder(work)


def _stopped_by(out: Path, error: OSError) -> EverystepError:
    if not os.path.isdir(out / run_folder.WORK):  # which never fails, whatever is wrong with the name
        return durable.cannot_write(out, error)
    remedy = "make room there" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "see that it can"
    return EverystepError(
        f"out '{out}' cannot be written ({error.strerror or error}); "
        f"{remedy}, and `everystep resume {out}` goes on from the last checkpoint."
    )
