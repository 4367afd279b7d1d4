"""An experiment cut into pieces, one agent on a batch of seeds each, and what a piece says after every chunk.

A process elsewhere gets a `Parcel`, the files of .work that say what is run, makes the same experiment from it, and
hands back the rows of a piece and where it stands (`turn`). It reads and writes no folder of the run.
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
from everystep.experiments import experiment, run_folder
from everystep.experiments.checkpoints import Piece
from everystep.experiments.engines import local
from everystep.experiments.experiment import Experiment
from everystep.lsvi.loop import Metrics
from everystep.mdp import planner
from everystep.mdp.cmdp import FiniteCMDP


class Chunk(NamedTuple):
    """Some episodes of a piece, after `start` of them: rows (seeds, episodes), and where it stands or how it ended."""

    start: int
    rows: np.ndarray
    reached: local.Reached
    ending: local.Ending | None


@dataclass(frozen=True)
class Pieces:
    """All pieces of an experiment with `size` seeds each. Call it with 64-bit numbers on."""

    prepared: Experiment
    size: int

    @cached_property
    def cells(self) -> list[local.Cell]:
        return self.prepared.cells()

    @cached_property
    def optimal(self) -> np.ndarray:
        return planner.solve(self.prepared.problem).V[0]

    @cached_property
    def labels(self) -> list[str]:
        return list(self.prepared.agents)

    @cached_property
    def batches(self) -> list[np.ndarray]:
        return local.in_batches(self.prepared.spec["seeds"], self.size)

    def every(self) -> list[Piece]:
        return [Piece(i, j * self.size) for i in range(len(self.labels)) for j in range(len(self.batches))]

    def seeds(self, piece: Piece) -> np.ndarray:
        """Those that run; the last batch is filled up."""
        return self.batches[piece.first // self.size]

    def real(self, piece: Piece) -> int:
        """How many of them are asked for."""
        return min(self.size, len(self.prepared.spec["seeds"]) - piece.first)

    def named(self, piece: Piece) -> str:
        """As people say it: the agent and its seeds."""
        *others, last = map(str, self.seeds(piece)[: self.real(piece)])
        seeds = f"seeds {', '.join(others)} and {last}" if others else f"seed {last}"
        return f"{self.labels[piece.cell]}, {seeds}"

    def chunks(self, pieces: Sequence[Piece], since: Sequence[local.Since]) -> Iterator[list[Chunk]]:
        """Pieces of the same seeds side by side, a chunk of episodes at a time, from where they stand."""
        cells, K = [self.cells[piece.cell] for piece in pieces], self.prepared.spec["episodes"]
        for reached, metrics in local.chunks(cells, self.seeds(pieces[0]), K, since):
            yield [self._chunk(*each) for each in zip(pieces, reached, metrics, strict=True)]

    def _chunk(self, piece: Piece, reached: local.Reached, metrics: Metrics) -> Chunk:
        cell, real, seeds = self.cells[piece.cell], self.real(piece), self.seeds(piece)
        has_costs = self.prepared.has_costs(self.labels[piece.cell])
        curves = experiment.columns(metrics, self.optimal, has_costs)
        rows = as_records({name: column[:real] for name, column in curves.items()})
        ends = reached.done == self.prepared.spec["episodes"]
        ending = _real(local.ending(cell, reached), real, seeds) if ends else None
        return Chunk(reached.done - rows.shape[1], rows, reached, ending)


def as_records(curves: Mapping[str, np.ndarray]) -> np.ndarray:
    """Columns of one shape as one array with fields."""
    shape = next(iter(curves.values())).shape
    records = np.empty(shape, [(name, column.dtype) for name, column in curves.items()])
    for name, column in curves.items():
        records[name] = column
    return records


def _real(ending: local.Ending, count: int, batch: np.ndarray) -> local.Ending:
    """Without the seeds that filled up the last batch."""
    seeds = {int(seed) for seed in batch[:count]}
    fits = {(fit.seed, fit.after, fit.model): fit for fit in ending.fits if fit.seed in seeds}
    arrays = {name: array[:count] for name, array in ending._asdict().items() if name != "fits"}
    return local.Ending(**arrays, fits=tuple(fits[key] for key in sorted(fits)))


# --- in a process elsewhere -------------------------------------------------------------------------------------------
class Parcel(NamedTuple):
    """What is run, as it lies in .work, and the versions it is run with (JSON)."""

    spec: bytes
    request: bytes
    problem: bytes
    versions: str


def parcel(work: Path) -> Parcel:
    spec, request, problem = ((work / name).read_bytes() for name in ("spec.json", "request.json", "problem.npz"))
    return Parcel(spec, request, problem, json.dumps(versions()))


def versions() -> dict[str, str]:
    """Those that decide the bits of a result."""
    return {name: version for name, version in experiment.versions().items() if name != "python"}


def again(spec: Mapping[str, Any], agents: list[dict[str, Any]], problem: FiniteCMDP) -> Experiment:
    """The experiment that a spec and the agents of a request were written from."""
    recipes = [Recipe(each["name"], each["settings"], each["alias"]) for each in agents]
    return experiment.prepare(problem, recipes, spec["episodes"], spec["seeds"], certify=bool(spec.get("certify")))


@lru_cache(maxsize=1)
def unpacked(parcel: Parcel) -> Pieces:
    """The same pieces as where it was packed, or the error that says why they would not be."""
    for name, version in json.loads(parcel.versions).items():
        if (here := versions()[name]) != version:
            raise EverystepError(f"{platform.node()} has {name} {here}, the run {version}; install {version} there.")
    spec, request = json.loads(parcel.spec), json.loads(parcel.request)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        path.write_bytes(parcel.problem)
        prepared = again(spec, request["agents"], problems.from_arrays(path))
    if not run_folder.same_run(prepared.spec, spec):
        raise EverystepError(f"{platform.node()} reads the settings otherwise; install the same everystep there.")
    return Pieces(prepared, request["batch"])


def turn(parcel: Parcel, piece: Piece, reached: local.Reached | None, seconds: float) -> Chunk:
    """Go on with a piece until it ends, or to the end of a chunk after so many seconds. All arrays are NumPy's."""
    began, chunks = time.monotonic(), []
    on_device = lambda shaped: reached and reached._replace(carry=jax.tree.map(jnp.asarray, reached.carry))
    with jax.enable_x64(True):
        for [chunk] in unpacked(parcel).chunks([piece], [on_device]):
            chunks.append(chunk._replace(reached=_light(chunk)))
            if time.monotonic() - began >= seconds:
                break
    rows = np.concatenate([chunk.rows for chunk in chunks], 1)
    return chunks[-1]._replace(start=chunks[0].start, rows=rows)


def _light(chunk: Chunk) -> local.Reached:
    """Nobody goes on from the end, so its state need not travel."""
    carry: Any = None if chunk.ending else jax.tree.map(np.asarray, chunk.reached.carry)
    return chunk.reached._replace(carry=carry)
