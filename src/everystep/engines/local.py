"""The local engine: the seeds of every agent in batches, on all cores, or side by side on one GPU."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from everystep import drive
from everystep.agents import Built
from everystep.drive import CHUNK, Carry, Metrics
from everystep.problem import FiniteCMDP, World

BATCH = 2  # seeds in one compiled call on a CPU: larger ones are 4 % faster, but each size is compiled anew


class Cell(NamedTuple):
    """One agent on one problem."""

    problem: FiniteCMDP
    built: Built


class Trace(NamedTuple):
    """What a cell left behind: metrics (seeds, K, ...), and visits (seeds, S) after the first chunk and at the end."""

    metrics: Metrics
    visits_early: np.ndarray
    visits_end: np.ndarray


def run(cells: Sequence[Cell], seeds: Sequence[int], episodes: int, advanced: Callable[[int], None]) -> list[Trace]:
    """Run every cell on every seed. `advanced(n)` is told whenever n more episodes are done."""
    together = jax.default_backend() != "cpu"
    workers = (
        1 if together else len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    batches = _batches(seeds, workers, together)
    stop = threading.Event()

    def job(cell: Cell, batch: np.ndarray, episodes: int) -> Trace | None:
        with jax.enable_x64(True):  # the setting is one of each thread
            return _run_batch(cell, batch, episodes, together, stop, advanced)

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
    join = lambda *parts: np.concatenate(parts)[: len(seeds)]
    return [jax.tree.map(join, *parts) for parts in traces]


def _batches(seeds: Sequence[int], workers: int, together: bool) -> list[np.ndarray]:
    """Equal batches, so that one compiled function serves all; the last is filled up by repeating a seed."""
    if together:
        return [np.asarray(seeds, np.uint32)]
    size = min(BATCH, -(-len(seeds) // workers))
    padded = [*seeds, *[seeds[-1]] * (-len(seeds) % size)]
    return [np.asarray(padded[i : i + size], np.uint32) for i in range(0, len(padded), size)]


def _run_batch(
    cell: Cell, seeds: np.ndarray, episodes: int, together: bool, stop: threading.Event, advanced: Callable[[int], None]
) -> Trace | None:
    """All episodes of a batch of seeds, a chunk at a time. None when there were no episodes to run."""
    sizes, built = cell.problem.sizes, cell.built
    world: World = jax.tree.map(jnp.asarray, cell.problem.world)
    one = drive.start(built.agent, sizes, built.share_values, built.share_costs)
    carry: Carry = jax.tree.map(lambda x: jnp.broadcast_to(x, (len(seeds), *x.shape)), one)
    chunks, visits_early = [], None
    for done in range(0, max(episodes, 1), CHUNK):
        if stop.is_set():
            return None
        count = min(CHUNK, episodes - done)
        carry, metrics = drive.scan_seeds(
            built.agent, world, sizes, carry, jnp.asarray(seeds), jnp.int32(count), CHUNK, together
        )
        if episodes == 0:
            return None
        chunks.append(jax.tree.map(lambda x, n=count: np.asarray(x[:, :n]), metrics))
        visits_early = np.asarray(carry.visits) if visits_early is None else visits_early
        advanced(count * len(seeds))
    assert visits_early is not None
    return Trace(jax.tree.map(lambda *parts: np.concatenate(parts, 1), *chunks), visits_early, np.asarray(carry.visits))
