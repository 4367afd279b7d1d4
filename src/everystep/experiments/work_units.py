"""An experiment divided into work units, one agent on a batch of seeds each, and what a unit returns per chunk.

A process on another machine receives `RunFiles`, the files of .work that define the run, makes the same experiment from
them, and returns the rows of a unit and its state (`advance_unit`). It neither reads nor writes the run folder.
"""

from __future__ import annotations

import json
import platform
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from everystep import problems
from everystep.agents.registry import Recipe
from everystep.errors import EverystepError
from everystep.experiments import experiment
from everystep.experiments.engines import local
from everystep.experiments.experiment import Experiment
from everystep.experiments.folder import run_folder
from everystep.experiments.folder.checkpoints import REQUEST_FILES, WorkUnit
from everystep.experiments.result import recorded_columns
from everystep.lsvi.loop import Metrics
from everystep.mdp import planner
from everystep.mdp.cmdp import FiniteCMDP


class Chunk(NamedTuple):
    """Some episodes of a unit, after `start` of them: rows (seeds, episodes), and its state or its final state."""

    start: int
    rows: np.ndarray
    state: local.BatchState
    final: local.FinalState | None


@dataclass(frozen=True)
class WorkUnits:
    """All units of an experiment with `size` seeds each."""

    prepared: Experiment
    size: int

    @property
    def pairs(self) -> list[local.AgentOnProblem]:
        return self.prepared.pairs

    @property
    def episodes(self) -> int:
        return int(self.prepared.spec["episodes"])

    @cached_property
    def baseline(self) -> planner.Baseline:
        return planner.solve(self.prepared.problem).baseline

    @cached_property
    def labels(self) -> list[str]:
        return list(self.prepared.agents)

    @cached_property
    def batches(self) -> list[np.ndarray]:
        return local.in_batches(self.prepared.spec["seeds"], self.size)

    def all(self) -> list[WorkUnit]:
        return [unit for i in range(len(self.labels)) for unit in self.of_agent(i)]

    def of_agent(self, agent: int) -> list[WorkUnit]:
        return [WorkUnit(agent, i * self.size) for i in range(len(self.batches))]

    def seeds(self, unit: WorkUnit) -> np.ndarray:
        """The seeds that run; the last batch is filled up."""
        return self.batches[unit.first // self.size]

    def seed_count(self, unit: WorkUnit) -> int:
        """How many of them belong to the experiment."""
        return min(self.size, len(self.prepared.spec["seeds"]) - unit.first)

    def name(self, unit: WorkUnit) -> str:
        """The agent and its seeds, for a message."""
        *others, last = map(str, self.seeds(unit)[: self.seed_count(unit)])
        seeds = f"seeds {', '.join(others)} and {last}" if others else f"seed {last}"
        return f"{self.labels[unit.agent]}, {seeds}"

    def chunks(self, units: Sequence[WorkUnit], restore: Sequence[local.Restore]) -> Iterator[list[Chunk]]:
        """Units of the same seeds side by side, a chunk of episodes at a time, from their present states."""
        pairs = [self.pairs[unit.agent] for unit in units]
        for states, metrics in local.chunks(pairs, self.seeds(units[0]), self.episodes, restore):
            yield [self._chunk(*each) for each in zip(units, states, metrics, strict=True)]

    def _chunk(self, unit: WorkUnit, state: local.BatchState, metrics: Metrics) -> Chunk:
        count, has_costs = self.seed_count(unit), self.prepared.has_costs(self.labels[unit.agent])
        columns = recorded_columns(metrics, self.baseline, has_costs)
        rows = as_records({name: column[:count] for name, column in columns.items()})
        final = None
        if state.done == self.episodes:
            final = local.final_state(self.pairs[unit.agent], state).first_seeds(count)
        return Chunk(state.done - rows.shape[1], rows, state, final)


def as_records(columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """Columns of one shape as one array with fields."""
    shape = next(iter(columns.values())).shape
    records = np.empty(shape, [(name, column.dtype) for name, column in columns.items()])
    for name, column in columns.items():
        records[name] = column
    return records


def from_request(spec: Mapping[str, Any], agents: list[dict[str, Any]], problem: FiniteCMDP) -> Experiment:
    """The experiment from which a spec and the agents of a request were written."""
    recipes = [Recipe(each["name"], each["settings"], each["alias"]) for each in agents]
    return experiment.prepare(problem, recipes, spec["episodes"], spec["seeds"], certify=bool(spec.get("certify")))


def versions() -> dict[str, str]:
    """The versions on which the bits of a result depend."""
    return {name: version for name, version in experiment.versions().items() if name != "python"}


# --- in a process on another machine ----------------------------------------------------------------------------------
class RunFiles(NamedTuple):
    """The files in .work that define a run, and the versions it was begun with (JSON)."""

    spec: bytes
    request: bytes
    problem: bytes
    versions: str

    @classmethod
    def read(cls, work: Path) -> RunFiles:
        spec, request, problem = ((work / name).read_bytes() for name in REQUEST_FILES)
        return cls(spec, request, problem, json.dumps(versions()))


@lru_cache(maxsize=1)
def units_from_files(run: RunFiles) -> WorkUnits:
    """The units of the process that read these files; raises if they would differ here."""
    for name, version in json.loads(run.versions).items():
        if (here := versions()[name]) != version:
            raise EverystepError(f"{platform.node()} has {name} {here}, the run {version}; install {version} there.")
    spec, request = json.loads(run.spec), json.loads(run.request)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        path.write_bytes(run.problem)
        prepared = from_request(spec, request["agents"], problems.from_arrays(path))
    if not run_folder.same_run(prepared.spec, spec):
        raise EverystepError(f"{platform.node()} resolves the settings differently; install the same everystep there.")
    return WorkUnits(prepared, request["batch"])


def advance_unit(run: RunFiles, unit: WorkUnit, state: local.BatchState | None, seconds: float) -> Chunk:
    """Continue a unit to its end, or to the end of the chunk in which `seconds` have passed. All arrays are NumPy's."""
    began, chunks = time.monotonic(), []
    on_device = lambda shaped: state and state._replace(carry=jax.tree.map(jnp.asarray, state.carry))
    with jax.enable_x64(True):
        for [chunk] in units_from_files(run).chunks([unit], [on_device]):
            chunks.append(chunk._replace(state=_state_to_send(chunk)))
            if time.monotonic() - began >= seconds:
                break
    rows = np.concatenate([chunk.rows for chunk in chunks], 1)
    return chunks[-1]._replace(start=chunks[0].start, rows=rows)


def _state_to_send(chunk: Chunk) -> local.BatchState:
    """A finished unit never continues, so its carry is dropped."""
    carry: Any = None if chunk.final else jax.tree.map(np.asarray, chunk.state.carry)
    return chunk.state._replace(carry=carry)
