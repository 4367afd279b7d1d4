"""The local engine: the seeds of every agent in batches, on all cores, or side by side on one GPU.

A piece of work is one agent on one batch of seeds. It advances in chunks of episodes (`chunks`), and whoever drives it
may stop after any of them and go on later from what it had reached. On a GPU pieces of the same seeds whose agents
differ in numbers alone advance side by side (`groups`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from everystep.agents.registry import Built, FitEvery
from everystep.experiments.engines import gpu
from everystep.lsvi import loop
from everystep.lsvi.costs import kernel_fit
from everystep.lsvi.loop import CHUNK, Carry, Job, Metrics
from everystep.mdp.cmdp import FiniteCMDP

BATCH = 2  # seeds in one compiled call on a CPU: larger ones are 4 % faster, but each size is compiled anew
SHARE = 0.4  # of a device's free memory that a batch may take: its state, that of the next chunk, and what is recorded
T = TypeVar("T")


class Cell(NamedTuple):
    """One agent on one problem, and a watcher (see `loop.Job`)."""

    problem: FiniteCMDP
    built: Built
    watch: Any = None
    certify: bool = False

    def in_precision(self) -> AbstractContextManager[Any]:
        """The precision this agent computes in, switched on."""
        return jax.enable_x64(self.built.precision == "float64")

    def job(self) -> Job:
        """The agent and its world as arrays of that precision, and what is recorded."""
        built, problem = self.built, self.problem
        certified = ~problem.exempt if self.certify else None
        job = Job(
            built.agent, problem.world, problem.sizes, built.share_values, built.share_costs, certified, self.watch
        )
        with self.in_precision():
            return jax.tree.map(gpu.in_precision, job)

    def structure(self) -> Hashable:
        """What must be the same for two cells to be one compiled program."""
        built, leaves = self.built, jax.tree.leaves(self.built.agent)
        shapes = tuple((np.shape(leaf), leaf.dtype) for leaf in leaves)
        return jax.tree.structure(built.agent), shapes, built.share_values, built.share_costs, built.precision

    def fresh(self, seeds: int) -> Carry:
        """So many seeds before their first episode."""
        built, sizes = self.built, self.problem.sizes
        with self.in_precision():
            return loop.start_seeds(self.job().agent, sizes, built.share_values, built.share_costs, seeds)


class Fitted(NamedTuple):
    """One fit of one cost model: of which seed, after how many episodes, and what came out."""

    seed: int
    after: int
    model: int
    kernel: str
    noise: float
    log_likelihood: float


class Reached(NamedTuple):
    """Where a batch of seeds stands after `done` episodes: all that its next chunk depends on, and early results."""

    done: int
    carry: Carry
    visits_early: np.ndarray
    fits: tuple[Fitted, ...] = ()


class Ending(NamedTuple):
    """What is kept of a piece beside its rows.

    visits (seeds, S) after the first chunk and at the end; the ends of every cost interval (seeds, T, m, A, S) at the
    end; and what was fitted on the way.
    """

    visits_early: np.ndarray
    visits_end: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    fits: tuple[Fitted, ...]


class Trace(NamedTuple):
    """What a cell left behind: metrics (seeds, K, ...), and how it ended."""

    metrics: Metrics
    ending: Ending


Since = Callable[[Callable[[int], Carry]], Reached | None]


def run(
    cells: Sequence[Cell],
    seeds: Sequence[int],
    episodes: int,
    advanced: Callable[[int], None],
) -> list[Trace]:
    """Run every cell on every seed. `advanced(n)` is told whenever n more episodes are done."""
    work = [Work(group, batch) for group in groups(cells) for batch in seed_batches(cells, seeds, episodes)]

    def job(work: Work, stop: threading.Event) -> list[Trace]:
        recorded: list[list[Metrics]] = [[] for _ in work.cells]
        done = 0
        reached: list[Reached] = []
        for reached, metrics in chunks([cells[i] for i in work.cells], work.seeds, episodes):
            for kept, new in zip(recorded, metrics, strict=True):
                kept.append(new)
            advanced((reached[0].done - done) * len(work.seeds) * len(work.cells))
            done = reached[0].done
            if stop.is_set():
                return []
        joined = [jax.tree.map(lambda *parts: np.concatenate(parts, 1), *each) for each in recorded]
        ends = [ending(cells[i], each) for i, each in zip(work.cells, reached, strict=True)]
        return [Trace(*each) for each in zip(joined, ends, strict=True)]

    parts: list[list[Trace]] = [[] for _ in cells]
    for each, traces in zip(work, spread(cells, work, job), strict=True):
        for i, trace in zip(each.cells, traces, strict=True):
            parts[i].append(trace)
    return [_joined(traces, len(seeds)) for traces in parts]


class Work(NamedTuple):
    """Pieces that advance side by side: the numbers of their cells, and their seeds."""

    cells: tuple[int, ...]
    seeds: np.ndarray


def spread(cells: Sequence[Cell], work: Sequence[Work], job: Callable[[Work, threading.Event], T]) -> list[T]:
    """What `job` makes of all work, several at a time, in their order.

    When one fails, or a person stops the run, the others are told by the event and the error is raised.
    """
    stop = threading.Event()

    def in_double(each: Work) -> T:
        with jax.enable_x64(True):  # the setting is one of each thread
            return job(each, stop)

    def compiled(each: Work) -> None:
        with jax.enable_x64(True):
            measure([cells[i] for i in each.cells], each.seeds, 0)

    with ThreadPoolExecutor(workers()) as pool:
        # A run of no episodes compiles: once for each structure of agent, and several of them at a time.
        structures = [(cells[each.cells[0]].structure(), len(each.cells)) for each in work]
        one_of_each = dict(zip(reversed(structures), reversed(work), strict=True))
        ready_when = {
            structure: pool.submit(compiled, one_of_each[structure]) for structure in dict.fromkeys(structures)
        }
        jobs: list[Future[T]] = []
        try:
            for each, structure in zip(work, structures, strict=True):
                ready_when[structure].result()
                jobs.append(pool.submit(in_double, each))
            return [future.result() for future in jobs]
        except BaseException:
            stop.set()
            waiting: list[Future[Any]] = [*ready_when.values(), *jobs]
            for future in waiting:
                future.cancel()
            raise


def _together() -> bool:
    """Whether seeds run side by side."""
    return jax.default_backend() != "cpu"


def workers() -> int:
    """How many pieces run at a time."""
    if _together():
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _joined(parts: Sequence[Trace], seeds: int) -> Trace:
    """The traces of batches as one; seeds that filled up the last batch are dropped."""
    arrays = [trace._replace(ending=trace.ending._replace(fits=())) for trace in parts]
    joined: Trace = jax.tree.map(lambda *each: np.concatenate(each)[:seeds], *arrays)
    fits = {(fit.seed, fit.after, fit.model): fit for trace in parts for fit in trace.ending.fits}
    return joined._replace(ending=joined.ending._replace(fits=tuple(fits[key] for key in sorted(fits))))


# --- groups and batches -----------------------------------------------------------------------------------------------
def groups(cells: Sequence[Cell]) -> list[tuple[int, ...]]:
    """Which cells run side by side: on a GPU those whose agents differ in numbers alone, and fit no kernels."""
    alike: dict[Hashable, list[int]] = {}
    for i, cell in enumerate(cells):
        apart = not _together() or any(cell.built.fits)
        alike.setdefault(i if apart else cell.structure(), []).append(i)
    return [tuple(group) for group in alike.values()]


def seed_batches(cells: Sequence[Cell], seeds: Sequence[int], episodes: int) -> list[np.ndarray]:
    """The seeds in batches of the size that suits this machine; what a seed does is the same in any."""
    return in_batches(seeds, batch_size(cells, len(seeds), episodes))


def batch_size(cells: Sequence[Cell], seeds: int, episodes: int) -> int:
    """On a CPU two seeds, or one where cores would idle; on a GPU as many as its memory takes at once."""
    if not _together():
        return min(BATCH, -(-seeds // workers()))
    told = jax.devices()[0].memory_stats() or {}
    free = told.get("bytes_limit", 2**33) - told.get("bytes_in_use", 0)
    of_group = lambda group: sum(bytes_of_a_seed(cells[i], episodes) for i in group)
    fitting_in = max(1, int(SHARE * free / max(map(of_group, groups(cells)))))
    return -(-seeds // -(-seeds // fitting_in))


def bytes_of_a_seed(cell: Cell, episodes: int) -> int:
    """What one seed of a cell takes on a device: its state at the end, twice, and what is recorded of a chunk.

    A state that grows is measured after one chunk, and grows like the square of the episodes.
    """
    sizes, count = cell.problem.sizes, min(episodes, CHUNK)
    with cell.in_precision():
        job = replace(cell.job(), watch=None)
        fresh = cell.fresh(1)
        later = loop.shaped(job.agent, sizes, fresh, [count])
        seen = jax.eval_shape(
            lambda c: loop.scan_seeds(job, c, np.zeros(1, np.uint32), np.int32(1), CHUNK, True)[1], later
        )
    size = lambda leaves: sum(int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(leaves))
    grown = (episodes / count) ** 2 if size(later) > size(fresh) else 1
    return int(2 * grown * size(later)) + size(seen)


def in_batches(seeds: Sequence[int], size: int) -> list[np.ndarray]:
    """Equal batches, so that one compiled function serves all; the last is filled up by repeating a seed."""
    padded = [*seeds, *[seeds[-1]] * (-len(seeds) % size)]
    return [np.asarray(padded[i : i + size], np.uint32) for i in range(0, len(padded), size)]


# --- one piece --------------------------------------------------------------------------------------------------------
def stops(built: Built, episodes: int) -> list[tuple[int, int]]:
    """From where to where each chunk goes: at most CHUNK episodes, and never across a fit."""
    starts = sorted({*range(0, episodes, CHUNK), *(n for each in built.fits if each for n in _every(each, episodes))})
    return list(zip(starts, [*starts[1:], episodes], strict=True))


def chunks(
    cells: Sequence[Cell], seeds: np.ndarray, episodes: int, since: Sequence[Since] = ()
) -> Iterator[tuple[list[Reached], list[Metrics]]]:
    """All episodes of a batch of seeds of cells side by side, a chunk at a time: where each stands, and its metrics.

    `since` says what each had reached before, given a function that makes a carry of the right shape after so many
    episodes; all must have reached the same.
    """
    jobs = [cell.job() for cell in cells]
    asked = since or [lambda shaped: None] * len(cells)
    reached = [
        ask(shaped(cell, len(seeds), episodes)) or beginning(cell, len(seeds))
        for ask, cell in zip(asked, cells, strict=True)
    ]
    while reached[0].done < episodes:
        reached, metrics = advance(cells, jobs, reached, seeds, episodes, episodes)
        yield reached, metrics


def advance(
    cells: Sequence[Cell],
    jobs: Sequence[Job],
    reached: Sequence[Reached],
    seeds: np.ndarray,
    until: int,
    episodes: int,
) -> tuple[list[Reached], list[Metrics]]:
    """On from where batches stand, of a run of `episodes`: to `until`, at most to the end of the chunk they are in.

    What grows is made larger at the beginning of a chunk, for all of it: where one pauses within it does not show.
    `jobs` are those of the cells, made once.
    """
    done = reached[0].done
    start, end = next(each for each in stops(cells[0].built, episodes) if each[1] > done)
    until = min(until, end)
    carries = [each.carry for each in reached]
    if done == start:
        carries = _with_room(cells, jobs, carries, end - start)
    scanned = _scan(cells, jobs, carries, seeds, until - done)
    after = [_after(*each, seeds, until) for each in zip(cells, reached, (carry for carry, _ in scanned), strict=True)]
    # Cut in NumPy: a slice of a device's array is compiled for every length.
    return after, [jax.tree.map(lambda x: np.asarray(x)[:, : until - done], metrics) for _, metrics in scanned]


def _after(cell: Cell, before: Reached, carry: Carry, seeds: np.ndarray, done: int) -> Reached:
    visits_early = np.asarray(carry.visits) if done <= CHUNK else before.visits_early
    carry, fits = _fit(cell.built, carry, seeds, done)
    return Reached(done, carry, visits_early, (*before.fits, *fits))


def beginning(cell: Cell, seeds: int) -> Reached:
    """Where so many seeds stand before their first episode."""
    return Reached(0, cell.fresh(seeds), np.zeros((seeds, cell.problem.states), np.int32))


def shaped(cell: Cell, seeds: int, episodes: int) -> Callable[[int], Carry]:
    """A function that makes a carry of the shape that a batch of so many seeds has after so many episodes."""
    lengths = lambda done: [until - start for start, until in stops(cell.built, episodes) if until <= done]

    def later(done: int) -> Carry:
        with cell.in_precision():
            return loop.shaped(cell.job().agent, cell.problem.sizes, cell.fresh(seeds), lengths(done))

    return later


def ending(cell: Cell, reached: Reached) -> Ending:
    """What is kept of a piece that has reached its end."""
    with cell.in_precision():
        lower, upper = _bounds(cell.job().agent, reached.carry.agent)
    visits = np.asarray(reached.carry.visits)
    return Ending(reached.visits_early, visits, np.asarray(lower), np.asarray(upper), reached.fits)


def _scan(
    cells: Sequence[Cell], jobs: Sequence[Job], carries: Sequence[Carry], seeds: np.ndarray, count: int
) -> list[tuple[Carry, Metrics]]:
    """`count` episodes of every seed of every cell: in one call, or in one call each where the GPU kernel runs them."""
    with cells[0].in_precision():
        if len(cells) == 1 or gpu.runs_here(jobs[0]):
            return [
                gpu.scan_seeds(job, carry, seeds, np.int32(count), CHUNK)
                for job, carry in zip(jobs, carries, strict=True)
            ]
        stacked = replace(jobs[0], agent=_stacked([job.agent for job in jobs]))
        together = loop.scan_agents(stacked, _stacked(carries), seeds, np.int32(count), CHUNK)
        return [jax.tree.map(lambda leaf, i=i: leaf[i], together) for i in range(len(cells))]


def _with_room(cells: Sequence[Cell], jobs: Sequence[Job], carries: Sequence[Carry], count: int) -> list[Carry]:
    with cells[0].in_precision():
        both = zip(jobs, carries, strict=True)
        return [loop.with_room(job.agent, job.sizes, carry, count) for job, carry in both]


def _stacked(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def measure(cells: Sequence[Cell], seeds: np.ndarray, count: int) -> None:
    """Run the first so many episodes of a batch, at most a chunk of them, and forget them; with none, it compiles."""
    jobs = [cell.job() for cell in cells]
    carries = _with_room(cells, jobs, [cell.fresh(len(seeds)) for cell in cells], count)
    jax.block_until_ready([carry.visits for carry, _ in _scan(cells, jobs, carries, seeds, count)])


_bounds = jax.jit(jax.vmap(loop.bounds, in_axes=(None, 0)))


def _every(each: FitEvery, episodes: int) -> range:
    return range(each.episodes, episodes, each.episodes)


def _fit(built: Built, carry: Carry, seeds: np.ndarray, done: int) -> tuple[Carry, list[Fitted]]:
    """Fit the kernels that are due after `done` episodes, for each seed from what it saw."""
    due = [i for i, each in enumerate(built.fits) if each is not None and done % each.episodes == 0]
    if not due:
        return carry, []
    fits, states = [], []
    for s, seed in enumerate(seeds):
        costs = jax.tree.map(lambda leaf, s=s: leaf[s], carry.agent.costs)
        models = list(costs) if len(built.fits) > 1 else [costs]
        for i in due:
            each = built.fits[i]
            assert each is not None
            fit = kernel_fit.fit(each.kernel, float(models[i].lam), each.points.named, models[i].tally)
            models[i] = kernel_fit.refitted(fit.kernel, fit.lam, each.points.named, models[i].tally)
            fits.append(Fitted(int(seed), done, i, str(fit.kernel), fit.lam, fit.log_likelihood))
        states.append(tuple(models) if len(built.fits) > 1 else models[0])
    costs = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    return carry._replace(agent=carry.agent._replace(costs=costs)), fits
