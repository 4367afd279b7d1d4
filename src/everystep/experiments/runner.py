"""An experiment run into a folder: in work units, with checkpoints, so that it can be stopped and continued anytime.

    DIR/.work/   spec.json, problem.npz, request.json: what is run       part-, checkpoint-: see checkpoints.py
    DIR/         the finished files, moved there when all units are done; then .work is removed

A killed process leaves either these files, or temporary ones that are never read. The finished files depend on the spec
alone: not on when a run was stopped, nor on the batches in which its seeds ran.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from everystep import files, problems
from everystep.errors import EverystepError
from everystep.experiments import needs, reductions, work_units
from everystep.experiments.engines import local
from everystep.experiments.engines.ray import Cluster, Tasks
from everystep.experiments.experiment import Experiment
from everystep.experiments.folder import run_folder
from everystep.experiments.folder.checkpoints import REQUEST_FILES, Ledger, StoredUnits, WorkUnit, check_request
from everystep.experiments.folder.run_folder import WORK, FolderState
from everystep.experiments.needs import BYTES_OF_A_ROW, UNIT_ROWS
from everystep.experiments.result import summarize
from everystep.experiments.work_units import Chunk, RunFiles, WorkUnits
from everystep.lsvi import ahead_bounds
from everystep.lsvi.loop import CHUNK
from everystep.mdp.arrays import save_problem
from everystep.mdp.cmdp import FiniteCMDP

NAMED = 20  # units in a sentence


class ChunkReport(NamedTuple):
    """A finished chunk: its agent, the number of episodes over its seeds, and sums over them.

    `seeds_ended` of its seeds are finished by it. `earlier` marks the work of an earlier process, of which only the
    numbers of episodes and seeds are known.
    """

    label: str
    episodes: int
    violation: float = 0.0
    value: float = 0.0
    seeds_ended: int = 0
    earlier: bool = False


OnChunk = Callable[[ChunkReport], None]


def run(
    prepared: Experiment,
    out: Path,
    on_chunk: OnChunk | None = None,
    figures: bool = True,
    texts: Mapping[str, str] | None = None,
    cluster: Cluster | None = None,
) -> FolderState:
    """Run into a folder, continue there, or do nothing if it holds this run finished. Returns what the folder held.

    `texts` are written beside the results, by file name. Units run on this machine, or on a `cluster`.
    """
    recipes = _recipes_as_json(prepared)  # refuses what could not be continued, before anything is written
    try:
        files.make_folder(out)
        with files.held(out, out / WORK / "pid"):
            found = run_folder.inspect(out, prepared.spec)
            if found is FolderState.FINISHED:
                files.sweep(out)
                return found
            engine = _engine(cluster)
            needs.check_in_folders({out: prepared})
            if found is FolderState.NEW:
                request = {"agents": recipes, "batch": engine.batch_size(prepared), "figures": figures}
                _begin(prepared, out, request | {"files": dict(texts or {})})
            _work(prepared, out, on_chunk, engine)
            return found
    except OSError as error:
        raise _stopped_by(out, error) from None


def resume(out: Path, on_chunk: OnChunk | None = None, cluster: Cluster | None = None) -> None:
    """Continue the run in a folder, on this machine or on a cluster, wherever it was begun."""
    check_unfinished(out)
    try:
        with files.held(out, out / WORK / "pid"):
            if run_folder.is_unfinished(out):  # otherwise another process has just finished it
                prepared = begun(out)
                needs.check_in_folders({out: prepared})
                _work(prepared, out, on_chunk, _engine(cluster))
    except OSError as error:
        raise _stopped_by(out, error) from None


def check_unfinished(out: Path) -> None:
    """Raise if a folder holds no run to continue."""
    run_folder.check_run(out, unfinished=True)
    if not run_folder.is_unfinished(out):
        if (out / "spec.json").is_file():
            files.sweep(out)
            raise EverystepError(f"'{out}' holds a run that is finished; there is nothing to resume.")
        raise EverystepError(f"'{out}' holds no run; `everystep run` begins one.")


def begun(out: Path) -> Experiment:
    """The experiment that was begun in an unfinished folder."""
    work = out / WORK
    check_request(work)
    try:
        spec, request = (run_folder.read_json(work / name) for name in ("spec.json", "request.json"))
        agents, problem = request["agents"], problems.from_arrays(work / "problem.npz")
        _ = spec["episodes"], spec["seeds"], spec["versions"]
    except (EverystepError, KeyError):
        raise EverystepError(
            f"'{work}' has a {' or a '.join(REQUEST_FILES)} that cannot be read, so the run is unknown; "
            f"remove '{out}' to start again."
        ) from None
    try:
        prepared = work_units.from_request(spec, agents, problem)
    except (KeyError, TypeError, AttributeError):  # of a request that was changed, and its seal with it
        raise EverystepError(f"'{work / 'request.json'}' is no request; remove '{out}' to start again.") from None
    if not run_folder.same_run(prepared.spec, spec):
        raise EverystepError(
            f"'{out}' was begun with settings that this version resolves differently; continue with everystep "
            f"{spec['versions']['everystep']}, or remove the folder to start again."
        )
    return prepared


def _begin(prepared: Experiment, out: Path, request: Mapping[str, Any]) -> None:
    """Create .work, whole, with everything needed to continue."""
    files.sweep(out)
    with files.filling(out / WORK) as work:
        files.write_json(work / "request.json", request)
        files.write_json(work / "spec.json", prepared.spec)
        save_problem(prepared.problem, work / "problem.npz")


def _recipes_as_json(prepared: Experiment) -> list[dict[str, Any]]:
    """The agents as they were requested, ready for JSON."""
    recipes = []
    for label, agent in prepared.agents.items():
        for key, value in agent.recipe.given.items():
            if not all(isinstance(each, str | int | float) for each in (value if isinstance(value, list) else [value])):
                raise EverystepError(
                    f"setting {key} of {label} is neither text nor a number, so a stopped run could not be continued; "
                    "run it with everystep.run and save the result."
                )
        recipes.append({"name": agent.recipe.name, "settings": dict(agent.recipe.given), "alias": agent.recipe.alias})
    return recipes


def _work(prepared: Experiment, out: Path, on_chunk: OnChunk | None, engine: Engine) -> None:
    """Run the remaining work units, then write the finished files."""
    work = out / WORK
    check_request(work)
    files.sweep(out)
    files.sign(work / "pid")
    request = run_folder.read_json(work / "request.json")
    if request["figures"]:  # matplotlib takes a while to import, and the compiler leaves a core free
        threading.Thread(target=import_module, args=("everystep.experiments.figures",), daemon=True).start()
    context = {"versions": work_units.versions(), "device": engine.device}  # on which the bits of the run depend
    units, ledger = WorkUnits(prepared, request["batch"]), Ledger(work, context)
    try:
        with jax.enable_x64(True):
            _run_units(units, ledger, out, on_chunk or (lambda report: None), engine)
        _finish(StoredRun(units, ledger.stored), out, request)
    finally:
        ledger.close()


def _run_units(units: WorkUnits, ledger: Ledger, out: Path, on_chunk: OnChunk, engine: Engine) -> None:
    left = [unit for unit in units.all() if not ledger.stored.finished(unit)]
    for unit in units.all():
        if done := ledger.done(unit):
            count = units.seed_count(unit)
            ended = 0 if unit in left else count
            on_chunk(ChunkReport(units.labels[unit.agent], done * count, seeds_ended=ended, earlier=True))

    def take(unit: WorkUnit, chunk: Chunk) -> bool:
        ledger.advance(unit, chunk.rows, chunk.start, chunk.state, chunk.final)
        ledger.commit_if_due()
        violation, value = (float(chunk.rows[name].sum()) for name in ("violation", "value"))
        ended = units.seed_count(unit) if chunk.final else 0
        on_chunk(ChunkReport(units.labels[unit.agent], chunk.rows.size, violation, value, ended))
        return chunk.final is not None

    try:
        failed = engine.run(units, left, ledger, take, out / WORK)
    except OSError:  # a full disk takes no more
        raise
    except BaseException:
        ledger.commit()
        raise
    ledger.commit()
    if failed:
        raise _failure(out, {units.name(unit): reason for unit, reason in failed.items()}, len(units.all()))


def _failure(out: Path, failed: Mapping[str, str], count: int) -> EverystepError:
    """The error that names the units that failed; `kept` has them with their reasons."""
    listed = "; ".join(f"{name} ({reason})" for name, reason in list(failed.items())[:NAMED])
    listed += f"; and {len(failed) - NAMED} more, named in notes" if len(failed) > NAMED else ""
    error = EverystepError(
        f"{len(failed)} of {count} work units of '{out}' failed: {listed}. The results of the others are kept; "
        f"`everystep resume {out}` tries these again."
    )
    error.kept = dict(failed)
    return error


def _stopped_by(out: Path, error: OSError) -> EverystepError:
    if not os.path.isdir(out / WORK):  # which never fails, whatever is wrong with the name
        return files.cannot_write(out, error)
    remedy = "free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "make it writable"
    return EverystepError(
        f"out '{out}' cannot be written ({error.strerror or error}); "
        f"{remedy}, and `everystep resume {out}` continues from the last checkpoint."
    )


# --- engines ----------------------------------------------------------------------------------------------------------
class Engine(Protocol):
    """Computes the work units of a run: on this machine (`LocalEngine`) or a cluster (`RayEngine`).

    What an engine computes does not depend on the order of the units or on how often they are interrupted.
    """

    @property
    def device(self) -> str:
        """The kind of device. A run is continued on the same kind, because its bits depend on it."""
        ...

    def batch_size(self, prepared: Experiment) -> int:
        """How many seeds of an experiment make up a work unit."""
        ...

    def run(
        self, units: WorkUnits, left: Sequence[WorkUnit], ledger: Ledger, take: Callable[[WorkUnit, Chunk], bool],
        work: Path,
    ) -> dict[WorkUnit, str]:  # fmt: skip
        """Run the units that are `left`; return those that failed, with the reason.

        `ledger.restore` returns the state from which a unit continues. `take` is called in this process, from any
        thread, with every finished chunk, and returns whether the unit is finished. `work` holds the files of the run.
        """
        ...


def batch_size(prepared: Experiment) -> int:
    """Seeds of a unit: as many as suit this machine, or fewer if their rows would not fit into memory."""
    seeds, K = len(prepared.spec["seeds"]), int(prepared.spec["episodes"])
    with jax.enable_x64(True):
        return max(1, min(local.batch_size(prepared.pairs, seeds, K), UNIT_ROWS // (K * BYTES_OF_A_ROW)))


class LocalEngine:
    """Units on this machine, where one that fails stops the run."""

    @property
    def device(self) -> str:
        return jax.default_backend()

    def batch_size(self, prepared: Experiment) -> int:
        return batch_size(prepared)

    def run(
        self, units: WorkUnits, left: Sequence[WorkUnit], ledger: Ledger, take: Callable[[WorkUnit, Chunk], bool],
        work: Path,
    ) -> dict[WorkUnit, str]:  # fmt: skip
        group_of = {i: group for group in local.groups(units.pairs) for i in group}
        beside: dict[Any, list[WorkUnit]] = {}
        for unit in left:  # those that have done the same number of episodes
            beside.setdefault((group_of[unit.agent], unit.first, ledger.done(unit)), []).append(unit)
        batches = [
            local.Batch(tuple(unit.agent for unit in together), units.seeds(together[0]))
            for together in beside.values()
        ]
        units_of = {id(batch): together for batch, together in zip(batches, beside.values(), strict=True)}

        def run_batch(batch: local.Batch, stop: threading.Event) -> None:
            together = units_of[id(batch)]
            for chunks in units.chunks(together, [partial(ledger.restore, unit) for unit in together]):
                for unit, chunk in zip(together, chunks, strict=True):
                    take(unit, chunk)
                if stop.is_set():
                    return

        local.run_all(units.pairs, batches, run_batch)
        return {}


class RayEngine:
    """Units on a Ray cluster, where one that fails every time does not stop the others. Workers touch no run folder."""

    device = "cpu"

    def __init__(self, cluster: Cluster):
        self._cluster = cluster

    def batch_size(self, prepared: Experiment) -> int:
        """The seeds of one compiled call, as on the cores of one machine, or one if workers would idle."""
        units = len(prepared.agents) * len(prepared.spec["seeds"])
        return local.BATCH if units >= local.BATCH * self._cluster.slots() else 1

    def run(
        self, units: WorkUnits, left: Sequence[WorkUnit], ledger: Ledger, take: Callable[[WorkUnit, Chunk], bool],
        work: Path,
    ) -> dict[WorkUnit, str]:  # fmt: skip
        def state_of(unit: WorkUnit) -> local.BatchState | None:
            state = ledger.restore(unit, local.shaped(units.pairs[unit.agent], units.size, units.episodes))
            return None if state is None else state._replace(carry=jax.tree.map(np.asarray, state.carry))

        tasks = Tasks(work_units.advance_unit, RunFiles.read(work), left, state_of, take, units.name)
        return self._cluster.spread(tasks)


def _engine(cluster: Cluster | None) -> Engine:
    return LocalEngine() if cluster is None else RayEngine(cluster)


# --- the finished run -------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class StoredRun:
    """A finished run whose rows are in checkpoints (a `result.FinishedRun`)."""

    units: WorkUnits
    stored: StoredUnits

    @property
    def prepared(self) -> Experiment:
        return self.units.prepared

    @property
    def problem(self) -> FiniteCMDP:
        return self.prepared.problem

    @property
    def spec(self) -> dict[str, Any]:
        return self.prepared.spec

    @property
    def features(self) -> dict[str, np.ndarray]:
        return self.prepared.features()

    def units_of(self, label: str) -> list[WorkUnit]:
        return self.units.of_agent(self.units.labels.index(label))

    def batches(self, label: str) -> Iterator[Mapping[str, np.ndarray]]:
        for unit in self.units_of(label):
            rows = self.stored.rows(unit)
            assert rows.dtype.names is not None
            yield {name: np.ascontiguousarray(rows[name]) for name in rows.dtype.names}

    @property
    def visits(self) -> Mapping[str, np.ndarray]:
        arrays = ((f"_{CHUNK}", "visits_early"), ("_end", "visits_end"))
        where = {f"{label}{ending}": (label, name) for label in self.prepared.agents for ending, name in arrays}
        return _JoinedArrays(self, where, actions_last=False)

    @property
    def certificates(self) -> Mapping[str, np.ndarray]:
        labels = [label for label in self.prepared.agents if self.prepared.has_costs(label)]
        where = {f"{label}_{name}": (label, name) for label in labels for name in ("lower", "upper")}
        for label, pair in zip(self.prepared.agents, self.prepared.pairs, strict=True):
            if ahead_bounds.are_kept(pair.built.agent, self.problem.sizes):
                where |= {f"{label}_{name}": (label, name) for name in ("ahead_lower", "ahead_upper")}
        return _JoinedArrays(self, where, actions_last=True)

    @cached_property
    def reduced(self) -> dict[str, reductions.Reduced]:
        return {label: reductions.reduced(self.batches(label)) for label in self.prepared.agents}

    @cached_property
    def summary(self) -> dict[str, Any]:
        return summarize(self)


class _JoinedArrays(Mapping[str, np.ndarray]):
    """Arrays of all seeds, joined from those of the units on access: one at a time in memory."""

    def __init__(self, run: StoredRun, where: Mapping[str, tuple[str, str]], actions_last: bool):
        self._run, self._where, self._actions_last = run, where, actions_last

    def __getitem__(self, key: str) -> np.ndarray:
        label, name = self._where[key]
        joined = np.concatenate([self._run.stored.final_array(unit, name) for unit in self._run.units_of(label)])
        return joined.swapaxes(-1, -2) if self._actions_last else joined

    def __iter__(self) -> Iterator[str]:
        return iter(self._where)

    def __len__(self) -> int:
        return len(self._where)


def _finish(run: StoredRun, out: Path, request: Mapping[str, Any]) -> None:
    """Write the finished files, and remove .work."""

    def fill(finished: Path) -> None:
        run_folder.write_results(run, finished, request["figures"])
        for name in ("problem.npz", "spec.json"):
            shutil.copyfile(out / WORK / name, finished / name)
        for name, text in request["files"].items():
            (finished / name).write_text(text, encoding="utf-8")

    run_folder.finish(out, fill)
    run.stored.close()
    files.remove_folder(out / WORK)
