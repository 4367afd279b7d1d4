"""What a run will take, before it is run: memory and disk by the sizes of its arrays. Nothing is computed or allocated.

`check_counts` compares numbers alone, before there is an experiment. `check_in_memory` (everystep.run) and
`check_in_folders` (the command) compare an experiment with what is free, and raise an error that names the cause.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np

from everystep.errors import EverystepError
from everystep.experiments.engines import local
from everystep.experiments.folder.run_folder import WORK
from everystep.experiments.reductions import POINTS
from everystep.lsvi import ahead_bounds, loop
from everystep.lsvi.choices.ties import ties
from everystep.lsvi.costs.counts import CountCosts
from everystep.lsvi.loop import CHUNK
from everystep.lsvi.values.counts import Counts
from everystep.runtime import memory

if TYPE_CHECKING:
    from everystep.experiments.experiment import Experiment
    from everystep.mdp.cmdp import FiniteCMDP

UNIT_ROWS = 2**31  # bytes of the rows of one unit, at most: they are read at once when a run is finished
BYTES_OF_A_ROW = 90  # of a part; in the finished file less than half of it
ROW_IN_MEMORY = 180  # of a result in memory while it is put together
OF_A_SEED = 33_000  # of a folder: its place in lists and in the bootstrap, where 2,000 resamples have a weight for it
OF_A_UNIT = 4_000  # of one agent on a batch of seeds: what waits, and the list of what is stored
SMALL = 0.01  # of what is free: less than this needs no tracing


class Needs(NamedTuple):
    """Bytes that an experiment takes, by what they are needed for.

    state       of one seed of the largest agent, without what grows
    grown       per observation^2 and per observation that a growing model keeps, and observations in an episode
    plan        of one seed while it plans and acts: it grows with the horizon
    update      of one seed while a model of features or a Gaussian process learns an episode: with its square
    final       of one seed of one agent, kept to the end: visits and cost intervals
    """

    state: float
    grown: tuple[float, float, int]
    plan: float
    update: float
    final: float

    def working(self, episodes: int, batch: int) -> float:
        """All states under way: those of the present chunk and of the next, on every core."""
        square, single, each = self.grown
        n = each * episodes
        return local.workers() * (2.0 * batch * (self.state + square * n * n + single * n) + self.plan + self.update)

    def in_memory(self, agents: int, seeds: int, episodes: int) -> float:
        rows = float(agents) * seeds * (episodes * ROW_IN_MEMORY + 2 * self.final)
        return rows + self.working(episodes, local.BATCH) + _bookkeeping(agents, seeds)

    def in_folder(self, agents: int, seeds: int, episodes: int) -> float:
        batch = max(1, min(local.BATCH, UNIT_ROWS // (episodes * BYTES_OF_A_ROW)))
        unit = 2.0 * batch * episodes * BYTES_OF_A_ROW
        drawn = 1.25 * seeds * min(episodes, POINTS) * 4 * 8
        return self.working(episodes, batch) + unit + drawn + 2.0 * seeds * self.final + _bookkeeping(agents, seeds)

    def on_disk(self, agents: int, seeds: int, episodes: int) -> float:
        return float(agents) * seeds * (episodes * BYTES_OF_A_ROW + 2 * self.final)


def _bookkeeping(agents: int, seeds: int) -> float:
    return float(seeds) * OF_A_SEED + float(agents) * OF_AN_AGENT + float(agents) * seeds / local.BATCH * OF_A_UNIT


OF_AN_AGENT = 60_000  # its settings, resolved and built, and their text
USUAL = {"agents": 3, "seeds": 32, "episodes": 1000}


def check_counts(agents: int, seeds: int, episodes: int, problem: FiniteCMDP) -> None:
    """Raise if a number alone makes a run impossible, whatever its agents are."""
    check_horizon(problem.horizon, problem.constraints)
    least = lambda agents, seeds, episodes: _bookkeeping(agents, seeds) + 2.0 * episodes * BYTES_OF_A_ROW
    memory.check("this run", {"agents": agents, "seeds": seeds, "episodes": episodes}, least, USUAL)
    if episodes > memory.LONGEST:
        raise EverystepError(f"episodes is {memory.shown(episodes)}; give at most {memory.LONGEST}.")


def check_horizon(horizon: int, constraints: int = 1) -> None:
    """Raise if an episode has too many steps to run, whatever the problem is."""
    drawn = lambda horizon: local.workers() * _draws(horizon, constraints)
    memory.check(f"{CHUNK} episodes", {"horizon": horizon}, drawn)


def _draws(horizon: float, constraints: int) -> float:
    """The random numbers of a chunk of episodes."""
    return 8.0 * CHUNK * horizon * (3 + constraints)


def check_grid(agent: str, combinations: int) -> None:
    """Raise if a grid has too many combinations to list."""
    name = f"the number of combinations in the grid of {agent}"
    memory.check("their list", {name: combinations}, lambda **one: float(one[name]) * OF_AN_AGENT)


def check_in_memory(prepared: Experiment) -> None:
    """Raise if a result would not fit into memory: it grows with episodes x seeds."""
    need = of(prepared)
    _check_working(prepared, need)
    memory.check("this result", counts(prepared), need.in_memory, USUAL)


def check_in_folders(runs: Mapping[Path, Experiment]) -> None:
    """Raise if one of the runs would not fit into memory, or all of them not on the disk."""
    disk: dict[float, float] = {}  # written so far, by what is free: folders on the same disk have the same
    for out, prepared in runs.items():
        need = of(prepared)
        _check_working(prepared, need)
        memory.check("this run", counts(prepared), need.in_folder, USUAL)
        free = memory.free_disk(out) + _written(out)
        written = disk.get(free, 0.0)
        memory.check("this run", counts(prepared), need.on_disk, USUAL, free - written, f"disk space at '{out}'")
        disk[free] = written + need.on_disk(**counts(prepared))


def _written(out: Path) -> float:
    """Bytes of a run that was begun in a folder: they need not be written again."""
    total = 0
    with suppress(OSError):
        total = sum(path.stat().st_size for path in (out / WORK).iterdir() if path.is_file())
    return float(total)


def of(prepared: Experiment) -> Needs:
    """What an experiment needs, by the shapes of its arrays alone."""
    S, H, m = prepared.problem.states, prepared.problem.horizon, prepared.problem.constraints
    kinds = {pair.structure(): pair for pair in prepared.pairs}
    state, final, plan, update = 0.0, 0.0, 0.0, 0.0
    grown: tuple[float, float, int] = (0.0, 0.0, 0)
    for pair in kinds.values():
        with pair.in_precision():
            job = pair.job()
            fresh = jax.eval_shape(partial(loop.start, sizes=job.sizes, share_values=job.share_values,
                                           share_costs=job.share_costs), job.agent)  # fmt: skip
            ends = jax.eval_shape(loop.bounds, job.agent, fresh.agent)
            state = max(state, _size(fresh))
            ahead = 16.0 * H * S * prepared.problem.actions if ahead_bounds.are_kept(job.agent, job.sizes) else 0.0
            final = max(final, _size(ends) + 8.0 * S + ahead)
            grown = max(grown, local.growth(fresh, H))
            largest = 16.0 * H * S * prepared.problem.actions * (2 + m)
            if local.workers() * largest > SMALL * memory.free_memory():  # then the shapes are traced
                word = jax.ShapeDtypeStruct((), np.uint32)
                planned = lambda agent, world, state, word: loop.new_plan(agent, world, state, ties(word, H, S))
                largest = 2.0 * _size(jax.eval_shape(planned, job.agent, job.world, fresh.agent, word)) + 4.0 * H * S
            counts = isinstance(job.agent.values, Counts) and isinstance(job.agent.costs, CountCosts)
            if not counts:  # matrices (H, H) and (H, S A)
                update = max(update, 40.0 * H**2)
                largest += 16.0 * H * S * prepared.problem.actions
            plan = max(plan, largest + _draws(H, m))
    return Needs(state, grown, plan, update, final)


def _size(leaves: object) -> float:
    return float(sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(leaves)))


def counts(prepared: Experiment) -> dict[str, int]:
    """The numbers of agents, seeds and episodes of an experiment."""
    spec = prepared.spec
    return {"agents": len(prepared.agents), "seeds": len(spec["seeds"]), "episodes": spec["episodes"]}


def _check_working(prepared: Experiment, need: Needs) -> None:
    """Raise if even one seed would not fit: the horizon, the states or the model is the cause."""
    H, K, free = prepared.problem.horizon, prepared.spec["episodes"], memory.free_memory()

    def bytes_with(horizon: int, episodes: int = K) -> float:
        share = horizon / H
        return need._replace(plan=need.plan * share, update=need.update * share**2).working(episodes, 1)

    if bytes_with(1, 1) > free:
        raise EverystepError(
            f"the problem has {prepared.problem.states} states and {prepared.problem.actions} actions: one seed of an "
            f"agent would take {memory.amount(bytes_with(H, 1))} of memory, and {memory.amount(free)} are free; use a "
            "smaller problem, or cost=counts where a Gaussian process or features are used."
        )
    sizes = {"horizon": H, "episodes": K} if need.grown[2] else {"horizon": H}
    memory.check("one seed of an agent", sizes, bytes_with, {"horizon": 15, "episodes": 1000}, free)
