"""The local engine: the seeds of every agent in batches, on all cores, or side by side on one GPU.

A piece of work is one agent on one batch of seeds. It advances in chunks of episodes (`chunks`), and whoever drives it
may stop after any of them and go on later from what it had reached.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from everystep import drive, fitting
from everystep.agents import Built, FitEvery
from everystep.drive import CHUNK, Carry, Metrics
from everystep.problem import FiniteCMDP, World

BATCH = 2  # seeds in one compiled call on a CPU: larger ones are 4 % faster, but each size is compiled anew
SHARE = 0.4  # of a device's free memory that a batch may take: its state, that of the next chunk, and what is recorded
T = TypeVar("T")


class Cell(NamedTuple):
    """One agent on one problem, and who watches it (see `drive.run_episode`)."""

    problem: FiniteCMDP
    built: Built
    watch: Any = None
    certify: bool = False


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
    """What a cell left behind: metrics (seeds, K, ...), and what `Ending` says."""

    metrics: Metrics
    visits_early: np.ndarray
    visits_end: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    fits: tuple[Fitted, ...]


Since = Callable[[Callable[[int], Carry]], Reached | None]


def run(
    cells: Sequence[Cell],
    seeds: Sequence[int],
    episodes: int,
    advanced: Callable[[int], None],
) -> list[Trace]:
    """Run every cell on every seed. `advanced(n)` is told whenever n more episodes are done."""
    batches = seed_batches(cells, seeds, episodes)

    def job(piece: tuple[int, np.ndarray], stop: threading.Event) -> Trace | None:
        i, batch = piece
        recorded, done, reached = [], 0, None
        for reached, metrics in chunks(cells[i], batch, episodes):
            recorded.append(metrics)
            advanced((reached.done - done) * len(batch))
            done = reached.done
            if stop.is_set():
                return None
        assert reached is not None
        return Trace(jax.tree.map(lambda *parts: np.concatenate(parts, 1), *recorded), *ending(cells[i], reached))

    pieces = [(i, batch) for i in range(len(cells)) for batch in batches]
    traces = spread(cells, pieces, job)
    of_cell = lambda i: traces[i * len(batches) : (i + 1) * len(batches)]
    return [_joined(of_cell(i), len(seeds)) for i in range(len(cells))]


def spread(
    cells: Sequence[Cell],
    pieces: Sequence[tuple[int, np.ndarray]],
    job: Callable[[tuple[int, np.ndarray], threading.Event], T],
) -> list[T]:
    """What `job` makes of every piece (the number of a cell, and seeds), several at a time, in their order.

    When one fails, or a person stops the run, the others are told by the event and the error is raised.
    """
    stop = threading.Event()

    def in_double(piece: tuple[int, np.ndarray]) -> T:
        with jax.enable_x64(True):  # the setting is one of each thread
            return job(piece, stop)

    def compiled(piece: tuple[int, np.ndarray]) -> None:
        with jax.enable_x64(True):
            compile_cell(cells[piece[0]], piece[1])

    with ThreadPoolExecutor(workers()) as pool:
        # A run of no episodes compiles: once for each structure of agent, and several of them at a time.
        shapes = lambda built: (str(jax.tree.map(np.shape, built.agent)), built.share_values, built.share_costs)
        structures = [shapes(cells[i].built) for i, _ in pieces]
        one_of_each = dict(zip(reversed(structures), reversed(pieces), strict=True))
        ready_when = {
            structure: pool.submit(compiled, one_of_each[structure]) for structure in dict.fromkeys(structures)
        }
        jobs: list[Future[T]] = []
        try:
            for piece, structure in zip(pieces, structures, strict=True):
                ready_when[structure].result()
                jobs.append(pool.submit(in_double, piece))
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


def _joined(parts: Sequence[Any], seeds: int) -> Trace:
    """The traces of batches as one; seeds that filled up the last batch are dropped."""
    arrays = [trace._replace(fits=()) for trace in parts]
    joined: Trace = jax.tree.map(lambda *each: np.concatenate(each)[:seeds], *arrays)
    fits = {(fit.seed, fit.after, fit.model): fit for trace in parts for fit in trace.fits}
    return joined._replace(fits=tuple(fits[key] for key in sorted(fits)))


# --- batches ----------------------------------------------------------------------------------------------------------
def seed_batches(cells: Sequence[Cell], seeds: Sequence[int], episodes: int) -> list[np.ndarray]:
    """The seeds in batches of the size that suits this machine; what a seed does is the same in any."""
    return in_batches(seeds, batch_size(cells, len(seeds), episodes))


def batch_size(cells: Sequence[Cell], seeds: int, episodes: int) -> int:
    """On a CPU two seeds, or one where cores would idle; on a GPU as many as its memory takes at once."""
    if not _together():
        return min(BATCH, -(-seeds // workers()))
    told = jax.devices()[0].memory_stats() or {}
    free = told.get("bytes_limit", 2**33) - told.get("bytes_in_use", 0)
    fitting_in = max(1, int(SHARE * free / max(bytes_of_a_seed(cell, episodes) for cell in cells)))
    return -(-seeds // -(-seeds // fitting_in))


def bytes_of_a_seed(cell: Cell, episodes: int) -> int:
    """What one seed of a cell takes on a device: its state at the end, twice, and what is recorded of a chunk.

    A state that grows is measured after one chunk, and grows like the square of the episodes.
    """
    sizes, built = cell.problem.sizes, cell.built
    count = min(episodes, CHUNK)
    with jax.enable_x64(True):
        fresh = _fresh(cell, 1)
        later = drive.shaped(built.agent, sizes, fresh, [count])
        world: World = jax.tree.map(jnp.asarray, cell.problem.world)
        seen = jax.eval_shape(
            lambda c: drive.scan_seeds(
                built.agent, world, sizes, c, np.zeros(1, np.uint32), np.int32(1), CHUNK, True, _certified(cell)
            )[1],
            later,
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
    cell: Cell, seeds: np.ndarray, episodes: int, since: Since | None = None
) -> Iterator[tuple[Reached, Metrics]]:
    """All episodes of a batch of seeds, a chunk at a time: where it stands then, and the metrics of the chunk.

    `since` says what was reached before, given a function that makes a carry of the right shape after so many episodes.
    """
    sizes, built = cell.problem.sizes, cell.built
    world: World = jax.tree.map(jnp.asarray, cell.problem.world)
    fresh = _fresh(cell, len(seeds))
    ahead = stops(built, episodes)
    lengths = lambda done: [until - start for start, until in ahead if until <= done]
    reached = since(lambda done: drive.shaped(built.agent, sizes, fresh, lengths(done))) if since else None
    reached = reached or beginning(cell, len(seeds))
    for done, until in ahead:
        if done < reached.done:
            continue
        reached, recorded = advance(cell, world, reached, seeds, until, episodes)
        yield reached, recorded


def advance(
    cell: Cell, world: World, reached: Reached, seeds: np.ndarray, until: int, episodes: int
) -> tuple[Reached, Metrics]:
    """On from where a batch stands, of a run of `episodes`: to `until`, at most to the end of the chunk it is in.

    What grows is made larger at the beginning of a chunk, for all of it: where one pauses within it does not show.
    """
    built, done = cell.built, reached.done
    start, end = next(each for each in stops(built, episodes) if each[1] > done)
    until = min(until, end)
    room = done == start
    carry = drive.with_room(built.agent, cell.problem.sizes, reached.carry, end - start) if room else reached.carry
    carry, metrics = _scan(cell, world, carry, seeds, until - done)
    # Cut in NumPy: a slice of a device's array is compiled for every length.
    recorded = jax.tree.map(lambda x: np.asarray(x)[:, : until - done], metrics)
    visits_early = np.asarray(carry.visits) if until <= CHUNK else reached.visits_early
    carry, fits = _fit(built, carry, seeds, until)
    return Reached(until, carry, visits_early, (*reached.fits, *fits)), recorded


def beginning(cell: Cell, seeds: int) -> Reached:
    """Where so many seeds stand before their first episode."""
    return Reached(0, _fresh(cell, seeds), np.zeros((seeds, cell.problem.states), np.int32))


def ending(cell: Cell, reached: Reached) -> Ending:
    """What is kept of a piece that has reached its end."""
    lower, upper = _bounds(cell.built.agent, reached.carry.agent)
    visits = np.asarray(reached.carry.visits)
    return Ending(reached.visits_early, visits, np.asarray(lower), np.asarray(upper), reached.fits)


def _fresh(cell: Cell, seeds: int) -> Carry:
    built = cell.built
    return drive.start_seeds(built.agent, cell.problem.sizes, built.share_values, built.share_costs, seeds)


def _certified(cell: Cell) -> Any:
    return jnp.asarray(~cell.problem.exempt) if cell.certify else None


def _scan(cell: Cell, world: World, carry: Carry, seeds: np.ndarray, count: int) -> tuple[Carry, Metrics]:
    watch = jax.tree.map(jnp.asarray, cell.watch)
    return drive.scan_seeds(
        cell.built.agent, world, cell.problem.sizes, carry, seeds, np.int32(count), CHUNK, _together(),
        _certified(cell), watch,
    )  # fmt: skip


def compile_cell(cell: Cell, seeds: np.ndarray) -> None:
    """Run no episodes."""
    measure(cell, seeds, 0)


def measure(cell: Cell, seeds: np.ndarray, count: int) -> None:
    """Run the first so many episodes of a batch, at most a chunk of them, and forget them."""
    world: World = jax.tree.map(jnp.asarray, cell.problem.world)
    carry = drive.with_room(cell.built.agent, cell.problem.sizes, _fresh(cell, len(seeds)), count)
    jax.block_until_ready(_scan(cell, world, carry, seeds, count)[0].visits)


_bounds = jax.jit(jax.vmap(drive.bounds, in_axes=(None, 0)))


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
            fit = fitting.fit(each.kernel, float(models[i].lam), each.points.named, models[i].tally)
            models[i] = fitting.refitted(fit.kernel, fit.lam, each.points.named, models[i].tally)
            fits.append(Fitted(int(seed), done, i, str(fit.kernel), fit.lam, fit.log_likelihood))
        states.append(tuple(models) if len(built.fits) > 1 else models[0])
    costs = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    return carry._replace(agent=carry.agent._replace(costs=costs)), fits
