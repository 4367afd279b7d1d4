"""The local engine: the seeds of every agent in batches, on all cores, or side by side on one GPU."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from everystep import drive, fitting
from everystep.agents import Built, FitEvery
from everystep.drive import CHUNK, Carry, Metrics
from everystep.problem import FiniteCMDP, World

BATCH = 2  # seeds in one compiled call on a CPU: larger ones are 4 % faster, but each size is compiled anew


class Cell(NamedTuple):
    """One agent on one problem, and who watches it (see `drive.run_episode`)."""

    problem: FiniteCMDP
    built: Built
    watch: Any = None


class Fitted(NamedTuple):
    """One fit of one cost model: after how many episodes, and what came out."""

    seed: int
    after: int
    model: int
    fit: fitting.Fit


class Trace(NamedTuple):
    """What a cell left behind.

    metrics (seeds, K, ...); visits (seeds, S) after the first chunk and at the end; the ends of every cost interval
    (seeds, T, m, A, S) at the end; and what was fitted on the way.
    """

    metrics: Metrics
    visits_early: np.ndarray
    visits_end: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    fits: tuple[Fitted, ...]


def run(
    cells: Sequence[Cell],
    seeds: Sequence[int],
    episodes: int,
    advanced: Callable[[int], None],
    certify: bool = False,
) -> list[Trace]:
    """Run every cell on every seed. `advanced(n)` is told whenever n more episodes are done."""
    together = jax.default_backend() != "cpu"
    workers = (
        1 if together else len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    batches = _batches(seeds, workers, together)
    stop = threading.Event()

    def job(cell: Cell, batch: np.ndarray, episodes: int) -> Trace | None:
        with jax.enable_x64(True):  # the setting is one of each thread
            return _run_batch(cell, batch, episodes, together, certify, stop, advanced)

    with ThreadPoolExecutor(workers) as pool:
        # A run of no episodes compiles: once for each structure of agent, and several of them at a time.
        shapes = lambda built: (str(jax.tree.map(np.shape, built.agent)), built.share_values, built.share_costs)
        structures = [shapes(cell.built) for cell in cells]
        one_of_each = dict(zip(structures, cells, strict=True))
        ready_when = {structure: pool.submit(job, cell, batches[0], 0) for structure, cell in one_of_each.items()}
        compiled = [ready_when[structure] for structure in structures]
        jobs: list[list[Future[Trace | None]]] = []
        try:
            for cell, ready in zip(cells, compiled, strict=True):
                ready.result()
                jobs.append([pool.submit(job, cell, batch, episodes) for batch in batches])
            traces = [[future.result() for future in futures] for futures in jobs]
        except BaseException:
            stop.set()
            for future in [*compiled, *(future for futures in jobs for future in futures)]:
                future.cancel()
            raise
    return [_joined(parts, len(seeds)) for parts in traces]


def _joined(parts: Sequence[Any], seeds: int) -> Trace:
    """The traces of batches as one; seeds that filled up the last batch are dropped."""
    arrays = [trace._replace(fits=()) for trace in parts]
    joined: Trace = jax.tree.map(lambda *each: np.concatenate(each)[:seeds], *arrays)
    fits = {(fit.seed, fit.after, fit.model): fit for trace in parts for fit in trace.fits}
    return joined._replace(fits=tuple(fits[key] for key in sorted(fits)))


def _batches(seeds: Sequence[int], workers: int, together: bool) -> list[np.ndarray]:
    """Equal batches, so that one compiled function serves all; the last is filled up by repeating a seed."""
    if together:
        return [np.asarray(seeds, np.uint32)]
    size = min(BATCH, -(-len(seeds) // workers))
    padded = [*seeds, *[seeds[-1]] * (-len(seeds) % size)]
    return [np.asarray(padded[i : i + size], np.uint32) for i in range(0, len(padded), size)]


def _run_batch(
    cell: Cell,
    seeds: np.ndarray,
    episodes: int,
    together: bool,
    certify: bool,
    stop: threading.Event,
    advanced: Callable[[int], None],
) -> Trace | None:
    """All episodes of a batch of seeds, a chunk at a time. None when there were no episodes to run."""
    sizes, built = cell.problem.sizes, cell.built
    world: World = jax.tree.map(jnp.asarray, cell.problem.world)
    carry: Carry = drive.start_seeds(built.agent, sizes, built.share_values, built.share_costs, len(seeds))
    certified = jnp.asarray(~cell.problem.exempt) if certify else None
    watch = jax.tree.map(jnp.asarray, cell.watch)
    chunks, visits_early = [], np.zeros((len(seeds), sizes.states), np.int32)
    fits: list[Fitted] = []
    stops = sorted({0, *range(0, episodes, CHUNK), *(n for each in built.fits if each for n in _every(each, episodes))})
    for done, until in zip(stops, [*stops[1:], episodes], strict=True):
        if stop.is_set():
            return None
        carry = drive.with_room(built.agent, sizes, carry, until - done)
        carry, metrics = drive.scan_seeds(
            built.agent, world, sizes, carry, seeds, np.int32(until - done), CHUNK, together, certified, watch
        )
        if episodes == 0:
            return None
        chunks.append(jax.tree.map(lambda x, n=until - done: np.asarray(x[:, :n]), metrics))
        if until <= CHUNK:
            visits_early = np.asarray(carry.visits)
        carry, new = _fit(built, carry, seeds, until)
        fits += new
        advanced((until - done) * len(seeds))
    lower, upper = _bounds(built.agent, carry.agent)
    metrics_of_all = jax.tree.map(lambda *parts: np.concatenate(parts, 1), *chunks)
    return Trace(
        metrics_of_all, visits_early, np.asarray(carry.visits), np.asarray(lower), np.asarray(upper), tuple(fits)
    )


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
            fits.append(Fitted(int(seed), done, i, fit))
        states.append(tuple(models) if len(built.fits) > 1 else models[0])
    costs = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    return carry._replace(agent=carry.agent._replace(costs=costs)), fits
