"""The local engine: the seeds of every agent in batches, on all cores, or side by side on one GPU.

The engine advances a batch of seeds of an agent in chunks of episodes (`chunks`). A caller may stop after any chunk and
continue later from the `BatchState` it has reached. On a GPU, batches of the same seeds whose agents differ in numbers
alone advance side by side (`groups`).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import takewhile
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from everystep.agents.resolve.agent import BuiltAgent
from everystep.experiments.engines import gpu
from everystep.lsvi import ahead_bounds, loop, reachable
from everystep.lsvi.loop import CHUNK, Carry, Job, Metrics
from everystep.lsvi.regression.gp_posterior import Growing
from everystep.mdp.cmdp import FiniteCMDP

BATCH = 2  # seeds in one compiled call on a CPU: larger ones are 4 % faster, but each size is compiled separately
SHARE = 0.4  # of a device's free memory for a batch: its state, that of the next chunk, and what is recorded
PIECE = 2.0  # seconds of computation, about, after which a run can be seen, stored and stopped
FIRST = 1  # episodes of a piece whose pace is unknown
AHEAD = 4  # batches that wait for each core
T = TypeVar("T")
_pace: dict[Hashable, float] = {}  # seconds of an episode of a batch, as measured last, by what is compiled


class AgentOnProblem(NamedTuple):
    """One agent built for one problem, and what is recorded of it (see `loop.Job`)."""

    problem: FiniteCMDP
    built: BuiltAgent
    probe: Any = None
    certify: bool = False

    def in_precision(self) -> AbstractContextManager[object]:
        """Switch on the precision this agent computes in."""
        precision: AbstractContextManager[object] = jax.enable_x64(self.built.precision == "float64")
        return precision

    def job(self) -> Job:
        """The agent and its world as arrays of that precision, and what is recorded."""
        built, problem = self.built, self.problem
        job = Job(
            agent=built.agent,
            world=problem.world,
            sizes=problem.sizes,
            share_values=built.share_values,
            share_costs=built.share_costs,
            certified=~problem.exempt if self.certify else None,
            probe=self.probe,
        )
        if not _together() and self.probe is None and reachable.supports(built.agent, job.world):
            order, spans = problem.reach or (None, ())
            job = replace(job, reach=order, spans=spans)
        with self.in_precision():
            made: Job = jax.tree.map(gpu.in_precision, job)
            return made

    def structure(self) -> Hashable:
        """What must be equal for two agents to be one compiled program."""
        built, leaves = self.built, jax.tree.leaves(self.built.agent)
        shapes = tuple((np.shape(leaf), leaf.dtype) for leaf in leaves)
        return jax.tree.structure(built.agent), shapes, built.share_values, built.share_costs, built.precision

    def start_seeds(self, seeds: int) -> Carry:
        """`seeds` seeds before their first episode."""
        built, sizes = self.built, self.problem.sizes
        with self.in_precision():
            carry: Carry = loop.start_seeds(self.job().agent, sizes, built.share_values, built.share_costs, seeds)
            return carry


class BatchState(NamedTuple):
    """The state of a batch of seeds after `done` episodes: all that its next chunk depends on, and early results."""

    done: int
    carry: Carry
    visits_early: np.ndarray


class FinalState(NamedTuple):
    """The arrays of a batch of seeds beside its columns.

    visits (seeds, S) after the first chunk and at the end; the ends of every cost interval (seeds, T, m, A, S) at the
    end; of agents that look ahead, bounds on the harm that each action leads to (seeds, H, A, S) (of others H is 0).
    """

    visits_early: np.ndarray
    visits_end: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    ahead_lower: np.ndarray
    ahead_upper: np.ndarray

    def first_seeds(self, count: int) -> FinalState:
        """Without the seeds that only fill up the last batch."""
        return FinalState(*(array[:count] for array in self))


class Trace(NamedTuple):
    """All that an agent did: metrics (seeds, K, ...), and its final state."""

    metrics: Metrics
    final: FinalState


# Returns the state from which a batch continues, or None to start it. It receives a function that makes a carry of the
# shape that the batch has after a number of episodes.
Restore = Callable[[Callable[[int], Carry]], BatchState | None]


class Batch(NamedTuple):
    """Seeds, and the positions of the agents that run on them side by side."""

    agents: tuple[int, ...]
    seeds: np.ndarray


def run(
    pairs: Sequence[AgentOnProblem], seeds: Sequence[int], episodes: int, advanced: Callable[[int], None]
) -> list[Trace]:
    """Run every agent on every seed. `advanced(n)` is called whenever n more episodes are done."""
    batches = [Batch(group, part) for group in groups(pairs) for part in seed_batches(pairs, seeds, episodes)]

    def run_batch(batch: Batch, stop: threading.Event) -> list[Trace]:
        recorded: list[list[Metrics]] = [[] for _ in batch.agents]
        done = 0
        states: list[BatchState] = []
        for states, metrics in chunks([pairs[i] for i in batch.agents], batch.seeds, episodes):
            for kept, new in zip(recorded, metrics, strict=True):
                kept.append(new)
            advanced((states[0].done - done) * len(batch.seeds) * len(batch.agents))
            done = states[0].done
            if stop.is_set():
                return []
        joined = [jax.tree.map(lambda *parts: np.concatenate(parts, 1), *each) for each in recorded]
        ends = [final_state(pairs[i], state) for i, state in zip(batch.agents, states, strict=True)]
        return [Trace(*each) for each in zip(joined, ends, strict=True)]

    parts: list[list[Trace]] = [[] for _ in pairs]
    for batch, traces in zip(batches, run_all(pairs, batches, run_batch), strict=True):
        for i, trace in zip(batch.agents, traces, strict=True):
            parts[i].append(trace)
    return [_joined(traces, seeds) for traces in parts]


def run_all(
    pairs: Sequence[AgentOnProblem], batches: Sequence[Batch], run_batch: Callable[[Batch, threading.Event], T]
) -> list[T]:
    """The results of `run_batch` for all batches, in their order; several run at a time.

    When one fails or the user stops the run, the event is set for the others and the error is raised.
    """
    stop = threading.Event()
    running: list[Future[T]] = []

    failed = threading.Event()

    def in_double(batch: Batch) -> T:
        try:
            with jax.enable_x64(True):  # the setting belongs to the thread
                return run_batch(batch, stop)
        except BaseException:
            failed.set()
            raise

    def compiled(batch: Batch) -> None:
        with jax.enable_x64(True):
            measure([pairs[i] for i in batch.agents], batch.seeds, 0)

    pool = ThreadPoolExecutor(workers(), "everystep-run")
    try:
        # A run of no episodes compiles: once for each structure of agent, and several of them at a time.
        kinds = {i: pairs[i].structure() for i in dict.fromkeys(batch.agents[0] for batch in batches)}
        structures = [(kinds[batch.agents[0]], len(batch.agents)) for batch in batches]
        one_of_each = dict(zip(reversed(structures), reversed(batches), strict=True))
        ready_when = {
            structure: pool.submit(compiled, one_of_each[structure]) for structure in dict.fromkeys(structures)
        }
        slots = threading.Semaphore(AHEAD * workers())  # so that a stop need not cancel a million batches
        for batch, structure in zip(batches, structures, strict=True):
            ready_when[structure].result()
            slots.acquire()
            running.append(pool.submit(in_double, batch))
            running[-1].add_done_callback(lambda future: slots.release())
            if failed.is_set():
                break
        results = [future.result() for future in running]
    except BaseException:
        stop.set()
        pool.shutdown(wait=False, cancel_futures=True)
        # Until those under way have stopped; not until compilations end, because they cannot be stopped.
        wait([future for future in running if not future.cancelled()])
        raise
    pool.shutdown()
    return results


def _together() -> bool:
    """Whether seeds run side by side."""
    return jax.default_backend() != "cpu"


def workers() -> int:
    """How many batches run at a time."""
    if _together():
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _joined(parts: Sequence[Trace], seeds: Sequence[int]) -> Trace:
    """The traces of batches as one, without the seeds that fill up the last batch."""
    joined: Trace = jax.tree.map(lambda *each: np.concatenate(each)[: len(seeds)], *parts)
    return joined


# --- groups and batches -----------------------------------------------------------------------------------------------
def groups(pairs: Sequence[AgentOnProblem]) -> list[tuple[int, ...]]:
    """Which agents run side by side: on a GPU those that differ in numbers alone."""
    alike: dict[Hashable, list[int]] = {}
    for i, pair in enumerate(pairs):
        alike.setdefault(pair.structure() if _together() else i, []).append(i)
    return [tuple(group) for group in alike.values()]


def seed_batches(pairs: Sequence[AgentOnProblem], seeds: Sequence[int], episodes: int) -> list[np.ndarray]:
    """The seeds in batches of the size that suits this machine; a seed does the same in any."""
    return in_batches(seeds, batch_size(pairs, len(seeds), episodes))


def batch_size(pairs: Sequence[AgentOnProblem], seeds: int, episodes: int) -> int:
    """On a CPU two seeds, or one where cores would idle; on a GPU as many as its memory holds."""
    if not _together():
        return min(BATCH, -(-seeds // workers()))
    memory = jax.devices()[0].memory_stats() or {}
    free = memory.get("bytes_limit", 2**33) - memory.get("bytes_in_use", 0)
    bytes_of_a_group = lambda group: sum(bytes_of_a_seed(pairs[i], episodes) for i in group)
    fitting = max(1, int(SHARE * free / max(map(bytes_of_a_group, groups(pairs)))))
    return -(-seeds // -(-seeds // fitting))


def bytes_of_a_seed(pair: AgentOnProblem, episodes: int) -> int:
    """The memory of one seed on a device: its state at the end, twice, and what is recorded of a chunk.

    A state that grows is measured after one chunk, and grows with the square of the episodes.
    """
    count = min(episodes, CHUNK)
    with pair.in_precision():
        job = replace(pair.job(), probe=None)
        fresh = pair.start_seeds(1)
        later = loop.shaped(job.agent, job.sizes, fresh, [count])
        recorded = jax.eval_shape(
            lambda carry: loop.scan_seeds(job, carry, np.zeros(1, np.uint32), np.int32(1), CHUNK, True)[1], later
        )

    def size(leaves: object) -> int:
        return sum(int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(leaves))

    grown = (episodes / count) ** 2 if size(later) > size(fresh) else 1
    return int(2 * grown * size(later)) + size(recorded)


def growth(fresh: Carry, horizon: int) -> tuple[float, float, int]:
    """How a model grows that keeps its observations: bytes per observation^2, and per observation; and how many
    observations an episode adds. `fresh` are the shapes of a seed before its first episode."""
    is_growing = lambda leaf: isinstance(leaf, Growing)
    found = [each for each in jax.tree.leaves(fresh.agent.costs, is_leaf=is_growing) if is_growing(each)]
    if not found:
        return 0.0, 0.0, 0
    steps = found[0].gain.shape[-1] if found[0].gain.ndim else 1
    watched = sum(each.mean.shape[-1] for each in found)
    return 8.0 * len(found) * steps, 8.0 * watched * steps, horizon if steps == 1 else 1


def in_batches(seeds: Sequence[int], size: int) -> list[np.ndarray]:
    """Equal batches, so that one compiled function serves all; the last is filled up by repeating a seed."""
    padded = [*seeds, *[seeds[-1]] * (-len(seeds) % size)]
    return [np.asarray(padded[i : i + size], np.uint32) for i in range(0, len(padded), size)]


# --- one batch --------------------------------------------------------------------------------------------------------
def chunk_spans(episodes: int, done: int = 0) -> Iterator[tuple[int, int]]:
    """The first and last of each chunk of CHUNK episodes, from the chunk of the episode after `done`."""
    for start in range(done // CHUNK * CHUNK, episodes, CHUNK):
        yield start, min(episodes, start + CHUNK)


def chunks(
    pairs: Sequence[AgentOnProblem], seeds: np.ndarray, episodes: int, restore: Sequence[Restore] = ()
) -> Iterator[tuple[list[BatchState], list[Metrics]]]:
    """All episodes of a batch of seeds, a chunk at a time: the state of each agent after it, and its metrics.

    A chunk that would take longer than PIECE seconds is yielded in pieces, which change no result. How long an episode
    takes differs between agents, problems and machines by orders of magnitude, so the first piece is one episode.
    `restore` returns the state in which each agent continues; all must have done the same number of episodes.
    """
    jobs = [pair.job() for pair in pairs]
    restored = restore or [lambda shaped: None] * len(pairs)
    states = [
        find(shaped(pair, len(seeds), episodes)) or initial_state(pair, len(seeds))
        for find, pair in zip(restored, pairs, strict=True)
    ]
    sizes = pairs[0].problem.sizes
    kind = (pairs[0].structure(), sizes, len(pairs), len(seeds))
    while (done := states[0].done) < episodes:
        piece = max(1, int(PIECE / _pace[kind])) if kind in _pace else FIRST
        began = time.perf_counter()
        states, metrics = advance(pairs, jobs, states, seeds, min(episodes, done + piece), episodes)
        _pace[kind] = (time.perf_counter() - began) / (states[0].done - done)
        yield states, metrics


def advance(
    pairs: Sequence[AgentOnProblem],
    jobs: Sequence[Job],
    states: Sequence[BatchState],
    seeds: np.ndarray,
    until: int,
    episodes: int,
) -> tuple[list[BatchState], list[Metrics]]:
    """Continue a run of `episodes` episodes: to `until`, but at most to the end of the present chunk.

    What grows is enlarged at the beginning of a chunk, for all of it: a pause within a chunk has no effect. Then it
    is one episode, because a larger program is compiled for it, of unknown pace. `jobs` are those of the pairs, made
    once.
    """
    done = states[0].done
    start, end = next(chunk_spans(episodes, done))
    until = min(until, end)
    carries = [state.carry for state in states]
    if done == start:
        before, carries = carries, _with_room(pairs, jobs, carries, end - start)
        if jax.tree.map(np.shape, carries) != jax.tree.map(np.shape, before):
            until = min(until, done + FIRST)
    scanned = _scan(pairs, jobs, carries, seeds, until - done)
    after = [
        BatchState(until, carry, np.asarray(carry.visits) if until <= CHUNK else state.visits_early)
        for state, (carry, _) in zip(states, scanned, strict=True)
    ]
    # Cut in NumPy: a slice of a device's array is compiled for every length.
    return after, [jax.tree.map(lambda x: np.asarray(x)[:, : until - done], metrics) for _, metrics in scanned]


def initial_state(pair: AgentOnProblem, seeds: int) -> BatchState:
    """The state of `seeds` seeds before their first episode."""
    return BatchState(0, pair.start_seeds(seeds), np.zeros((seeds, pair.problem.states), np.int32))


def shaped(pair: AgentOnProblem, seeds: int, episodes: int) -> Callable[[int], Carry]:
    """A function that makes a carry of the shape that `seeds` seeds have after a number of episodes."""

    def lengths(done: int) -> list[int]:
        return [end - start for start, end in takewhile(lambda span: span[1] <= done, chunk_spans(episodes))]

    def shaped_after(done: int) -> Carry:
        agent, sizes, fresh = pair.job().agent, pair.problem.sizes, pair.start_seeds(seeds)
        with pair.in_precision():
            carry = loop.shaped(agent, sizes, fresh, lengths(done))
            if done < episodes:
                start, end = next(chunk_spans(episodes, done))
                carry = loop.with_room(agent, sizes, carry, end - start) if start < done else carry
            return carry

    return shaped_after


def final_state(pair: AgentOnProblem, state: BatchState) -> FinalState:
    """The final state of a batch that has done all its episodes."""
    agent, sizes = pair.job().agent, pair.problem.sizes
    ahead_lower = ahead_upper = np.zeros((len(state.carry.visits), 0, sizes.actions, sizes.states))
    with pair.in_precision():
        lower, upper = _bounds(agent, state.carry.agent)
        if ahead_bounds.are_kept(agent, sizes):
            unit = 1.0 if pair.problem.scale is None else float(np.max(pair.problem.scale))
            ahead = _bounds_ahead(agent, state.carry.agent, ~pair.problem.exempt)
            ahead_lower, ahead_upper = (np.asarray(end) * unit for end in ahead)
    visits, scale = np.asarray(state.carry.visits), pair.problem.scale
    in_units_of_g = lambda ends: np.asarray(ends) if scale is None else np.asarray(ends) * scale[:, None, None]
    ends = (in_units_of_g(lower), in_units_of_g(upper), ahead_lower, ahead_upper)
    return FinalState(state.visits_early, visits, *ends)


def _scan(
    pairs: Sequence[AgentOnProblem], jobs: Sequence[Job], carries: Sequence[Carry], seeds: np.ndarray, count: int
) -> list[tuple[Carry, Metrics]]:
    """`count` episodes of every seed of every agent: in one call, or in one call each where the GPU kernel runs."""
    with pairs[0].in_precision():
        if len(jobs) == 1 or gpu.runs_here(jobs[0]):
            return [
                gpu.scan_seeds(job, carry, seeds, np.int32(count), CHUNK)
                for job, carry in zip(jobs, carries, strict=True)
            ]
        stacked = replace(jobs[0], agent=_stacked([job.agent for job in jobs]))
        together = loop.scan_agents(stacked, _stacked(carries), seeds, np.int32(count), CHUNK)
        return [jax.tree.map(lambda leaf, i=i: leaf[i], together) for i in range(len(jobs))]


def _with_room(
    pairs: Sequence[AgentOnProblem], jobs: Sequence[Job], carries: Sequence[Carry], count: int
) -> list[Carry]:
    with pairs[0].in_precision():
        both = zip(jobs, carries, strict=True)
        return [loop.with_room(job.agent, job.sizes, carry, count) for job, carry in both]


def _stacked(trees: Sequence[T]) -> T:
    stacked: T = jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)
    return stacked


def measure(pairs: Sequence[AgentOnProblem], seeds: np.ndarray, count: int) -> None:
    """Run the first `count` episodes of a batch, at most a chunk, and discard them; `count` 0 compiles."""
    jobs = [pair.job() for pair in pairs]
    carries = _with_room(pairs, jobs, [pair.start_seeds(len(seeds)) for pair in pairs], count)
    jax.block_until_ready([carry.visits for carry, _ in _scan(pairs, jobs, carries, seeds, count)])


_bounds = jax.jit(jax.vmap(loop.bounds, in_axes=(None, 0)))
_bounds_ahead = jax.jit(jax.vmap(ahead_bounds.bounds, in_axes=(None, 0, None)))
