"""Many seeds of an agent on counts in one GPU kernel: `loop.scan_seeds` implemented by gpu_kernel.py.

Draws, ties, formulas, the carry and the metrics are those of `loop.scan_seeds`. Only rounding differs, because the
compiler combines products and sums differently: episodes agree unless two scores differ by about the tolerance of
ties. In single precision (64-bit numbers off) the draws are different ones, in both implementations, and scores within
1e-5 tie instead of 1e-9: compared with double precision, statistics agree, individual seeds do not.

The kernel supports agents on counts that are shared over steps, with costs on counts, a plan in every episode, and a
penalised or greedy choice, also if they look ahead; and stationary worlds with few successors and actions. `supports`
tests for them; for all others, and without a GPU, `scan_seeds` calls `loop.scan_seeds`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import partial
from types import ModuleType
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from everystep.agents.registry import Recipe, recipe
from everystep.agents.resolve.agent import BuiltAgent
from everystep.errors import EverystepError
from everystep.experiments.engines import gpu_kernel
from everystep.experiments.engines.gpu_kernel import Book, Chance, Learnt, Scratch, Tables
from everystep.lsvi import loop, reachable
from everystep.lsvi.ahead import HarmToGo
from everystep.lsvi.algorithm import Agent, State
from everystep.lsvi.choices.basic import Greedy, Penalised
from everystep.lsvi.costs.counts import CountCosts, CountCostState
from everystep.lsvi.loop import Carry, Job, Metrics
from everystep.lsvi.radii import Multiplied
from everystep.lsvi.values.counts import Counts, CountState
from everystep.mdp.cmdp import Factored, FiniteCMDP
from everystep.mdp.world import FEW, AnyArray, Observed, Sizes, World, start_state

EPISODES = 100  # per call of the kernel: the draws, a few hundred bytes per episode, are made before it

MOST_WARPS = 16


class Layout(NamedTuple):
    """The layout of a program: threads / 32 (0: a thread per state), and how many numbers are loaded at once.

    width is 1, 2 or 4; 0 stands for 16 bytes. `interpret` runs the kernel as plain JAX, for tests.
    """

    warps: int = 0
    width: int = 0
    interpret: bool = False


LAYOUT = Layout()


class Scan(Protocol):
    """A compiled loop over episodes: `scan_seeds`, which calls `scan_in_kernel` or `loop.scan_seeds`."""

    def __call__(
        self, job: Job, carries: Carry, seeds: AnyArray, count: AnyArray, capacity: int
    ) -> tuple[Carry, Metrics]:
        """`count` <= `capacity` episodes of every seed; the rows of `Metrics` after `count` are zeros.

        A seed does the same alone as among others, and, up to rounding, in every loop.
        """
        ...


class Sums(NamedTuple):
    """The sums of a run, computed on the device: over seeds (K,) for each episode, over episodes (n,) for each seed."""

    by_episode: Metrics
    by_seed: Metrics


def supports(job: Job) -> bool:
    """Whether the kernel can run this agent in this world."""
    agent, world = job.agent, job.world
    return (
        type(agent.values) is Counts
        and type(agent.costs) is CountCosts
        and type(agent.choice) in (Penalised, Greedy)
        and not isinstance(agent.values.radius, Multiplied)
        and job.share_values
        and job.share_costs
        and agent.known_safe is None
        and agent.switch is None
        and (agent.ahead is None or type(agent.ahead) is HarmToGo)
        and not isinstance(world.P, Factored)
        and world.successors is not None
        and world.successors.ndim == 2
        and {len(each) for each in (world.P, world.r, world.g)} == {1}
        and max(len(world.successors), world.r.shape[1], world.g.shape[1]) <= FEW
    )


def scan_seeds(job: Job, carries: Carry, seeds: AnyArray, count: AnyArray, capacity: int) -> tuple[Carry, Metrics]:
    """`count` <= `capacity` episodes of every seed: by the kernel if it runs this job here, otherwise by `lsvi`."""
    scan: Scan = partial(loop.scan_seeds, together=jax.default_backend() != "cpu")
    if runs_here(job):
        scan = scan_in_kernel
    elif job.reach is not None:
        scan = reachable.scan_seeds
    return scan(job, carries, seeds, count, capacity)


def runs_here(job: Job) -> bool:
    """Whether the kernel runs this job on this machine. It records neither labels nor what a probe returns."""
    records_more = job.certified is not None or job.probe is not None
    here = jax.default_backend() == "gpu" and _triton() is not None
    return here and not records_more and supports(job)


@partial(jax.jit, static_argnames=("capacity", "layout"))
def scan_in_kernel(
    job: Job, carries: Carry, seeds: AnyArray, count: AnyArray, capacity: int, layout: Layout = LAYOUT
) -> tuple[Carry, Metrics]:
    """The same as `loop.scan_seeds`; the rows of `Metrics` after `count` are zeros, as there."""
    agent, world, sizes = job.agent, job.world, job.sizes
    n, Sp = len(seeds), gpu_kernel.lanes(sizes.states)
    width = layout.width or 16 // carries.agent.price.dtype.itemsize
    tables, chance = _tables(world, sizes, width), all_draws(world, sizes, carries, seeds, capacity)
    before = _learnt(carries, sizes)
    float_, K, m = before.rewards.dtype, capacity, sizes.constraints
    row, rows_of = jax.ShapeDtypeStruct((n, K), float_), jax.ShapeDtypeStruct((n, K, m), float_)
    book = Book(row, row, row, rows_of, jax.ShapeDtypeStruct((n, K), jnp.int32), row)
    shape = (n, 2, gpu_kernel.groups(gpu_kernel.columns(agent), width), Sp, width)
    scratch = Scratch(jax.ShapeDtypeStruct(shape, float_), jax.ShapeDtypeStruct((n, sizes.horizon, Sp), jnp.int8))
    given = (jnp.reshape(count, 1), carries.agent.k, _numbers(agent), tables, chance)
    after, book, _ = _call(sizes, layout, n, given, before, book, scratch)
    happened = jnp.arange(K, dtype=jnp.int32) < count
    keep = lambda leaf: jnp.where(happened.reshape(1, K, *(1,) * (leaf.ndim - 2)), leaf, jnp.zeros_like(leaf))
    metrics = Metrics(
        chance.start,
        book.earned,
        book.value,
        book.expected_violation,
        book.violation,
        book.unsafe_steps,
        book.soft_violation,
    )
    return _carried(carries, sizes, before, after, count), jax.tree.map(keep, metrics)


def _triton() -> ModuleType | None:
    """The Triton back end of Pallas, or None where this version of JAX lacks it."""
    try:
        return importlib.import_module("jax.experimental.pallas.triton")
    except ImportError:
        return None


def _call(
    sizes: Sizes, layout: Layout, n: int, given: tuple[object, ...], before: Learnt, book: Book, scratch: Scratch
) -> tuple[Learnt, Book, Scratch]:
    """`run_seed` over the grid of seeds; `before` is updated in place and returned as the first result."""
    from jax.experimental import pallas  # without a GPU it need not be imported

    triton = _triton()
    assert triton is not None or layout.interpret
    inputs, tree_in = jax.tree.flatten((given, before))
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), before)
    outputs, tree_out = jax.tree.flatten((shapes, book, scratch))
    warps = layout.warps or min(gpu_kernel.lanes(sizes.states) // 32, MOST_WARPS)
    barrier = (lambda: None) if layout.interpret or triton is None else triton.debug_barrier

    parameters = None if layout.interpret or triton is None else triton.CompilerParams(num_warps=warps, num_stages=1)

    def kernel(*references: AnyArray) -> None:
        (count, k, agent, world, chance), _ = jax.tree.unflatten(tree_in, references[: len(inputs)])
        made = jax.tree.unflatten(tree_out, references[len(inputs) :])
        gpu_kernel.run_seed(gpu_kernel.Program(sizes, barrier, agent, world, chance, *made), count, k)

    first = len(inputs) - len(before)
    made = pallas.pallas_call(
        kernel,
        out_shape=outputs,
        grid=(n,),
        input_output_aliases={first + i: i for i in range(len(before))},
        compiler_params=parameters,
        interpret=layout.interpret,
        name="episodes",
    )(*inputs)
    results: tuple[Learnt, Book, Scratch] = jax.tree.unflatten(tree_out, made)
    return results


def _numbers(agent: Agent) -> Agent:
    """The agent's numbers, each as an array (1,); its successors are in the tables."""
    assert isinstance(agent.values, Counts)
    ahead = agent.ahead
    if isinstance(ahead, HarmToGo):
        ahead = ahead._replace(weights=tuple(ahead.weights))
    agent = agent._replace(values=agent.values._replace(successors=None), ahead=ahead)
    numbers: Agent = jax.tree.map(lambda leaf: jnp.asarray(leaf).reshape(1), agent)
    return numbers


def _filled(array: AnyArray, states: int) -> AnyArray:
    """The last axis, states, padded with zeros to the number of lanes of a program."""
    return jnp.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, gpu_kernel.lanes(states) - states)])


def _tables(world: World, sizes: Sizes, width: int) -> Tables:
    S, A, J, _, m = sizes
    rewards = lambda of: jnp.broadcast_to(of.r[0, :, None], (A, J, S)) if of.reward_seen is None else of.reward_seen[0]
    learnt: World | Observed = world if world.units is None else world.units
    reward, cost_seen = rewards(learnt), learnt.cost_seen
    cost = jnp.broadcast_to(learnt.g[0, :, :, None], (m, A, J, S)) if cost_seen is None else cost_seen[0]
    earned = None if world.units is None else rewards(world)
    violation = world.g[0].clip(min=0).sum(0)
    outlook = jnp.concatenate([world.P[0], world.r[0][:, None], violation[:, None]], 1)  # (A, J + 2, S)
    outlook = jnp.pad(outlook, [(0, 0), (0, -(J + 2) % width), (0, 0)]).reshape(A, -1, width, S)
    tables = Tables(world.successors, outlook, world.cumulative[0], world.g[0], reward, cost, earned)
    filled: Tables = jax.tree.map(lambda leaf: _filled(jnp.asarray(leaf), S), tables)
    return filled._replace(outlook=filled.outlook.swapaxes(-1, -2))


def all_draws(world: World, sizes: Sizes, carries: Carry, seeds: AnyArray, capacity: int) -> Chance:
    """The draws of `loop.draws` for all seeds and episodes of a call."""

    def one(seed: AnyArray, k: AnyArray) -> Chance:
        draw = loop.draws(world, sizes, seed, k)
        noise = lambda sigma, drawn: None if sigma is None or drawn is None else sigma * drawn
        learnt: World | Observed = world if world.units is None else world.units
        cost_sigma = None if learnt.cost_sigma is None else learnt.cost_sigma[None]
        return Chance(
            start_state(world, k, draw.start),
            draw.tie_word,
            draw.transition,
            noise(learnt.reward_sigma, draw.reward_noise),
            noise(cost_sigma, draw.cost_noise),
            None if world.units is None else noise(world.reward_sigma, draw.reward_noise),
        )

    episodes = carries.agent.k[:, None] + jnp.arange(capacity, dtype=jnp.int32)[None]
    return jax.vmap(jax.vmap(one, (None, 0)))(jnp.asarray(seeds), episodes)


def _learnt(carries: Carry, sizes: Sizes) -> Learnt:
    values, costs = carries.agent.values, carries.agent.costs
    filled = lambda leaf: _filled(leaf[:, 0], sizes.states)
    return Learnt(filled(values.arrivals), filled(values.rewards), filled(costs.total), carries.agent.price)


def _carried(carries: Carry, sizes: Sizes, before: Learnt, after: Learnt, count: AnyArray) -> Carry:
    """The carry of `loop`. New arrivals at (x, a) are its visits."""
    S, state = sizes.states, carries.agent
    new = (after.arrivals - before.arrivals).sum(2)[..., :S]
    shared = lambda leaf: leaf[:, None, ..., :S]
    learnt = State(
        CountState(shared(after.arrivals), shared(after.rewards)),
        CountCostState(state.costs.visits + new[:, None], shared(after.costs)),
        after.price,
        state.k + jnp.asarray(count, jnp.int32),
    )
    return Carry(learnt, carries.visits + new.sum(1).astype(jnp.int32))


# --- sums of whole runs, computed on the device -----------------------------------------------------------------------
def run(
    problem: FiniteCMDP,
    agent: str | Recipe,
    seeds: AnyArray,
    episodes: int,
    capacity: int = EPISODES,
    scan: Scan = scan_seeds,
) -> Sums:
    """All seeds side by side for `episodes` episodes, in the precision of the agent; only sums leave the device."""
    with jax.enable_x64(True):
        built = recipe(agent).resolve(problem, episodes).build()
    with jax.enable_x64(built.precision == "float64"):
        return _joined(list(chunks(problem, built, seeds, episodes, capacity, scan)), episodes)


def chunks(
    problem: FiniteCMDP,
    built: BuiltAgent,
    seeds: AnyArray,
    episodes: int,
    capacity: int = EPISODES,
    scan: Scan = scan_seeds,
) -> Iterator[Sums]:
    """The sums of `capacity` episodes at a time, in the precision that is switched on."""
    job = Job(built.agent, problem.world, problem.sizes, built.share_values, built.share_costs)
    job = jax.tree.map(in_precision, job)
    seeds = jnp.asarray(np.asarray(seeds, np.uint32))
    carry = loop.start_seeds(job.agent, job.sizes, job.share_values, job.share_costs, len(seeds))
    for done in range(0, episodes, capacity):
        count = np.int32(min(capacity, episodes - done))
        carry, metrics = scan(job, carry, seeds, count, capacity)
        yield sums(metrics)


def in_precision(leaf: AnyArray) -> AnyArray:
    """In 32 bits where 64-bit numbers are off: through NumPy, because an array of JAX would keep its 64."""
    array = np.asarray(leaf)
    with np.errstate(over="ignore"):
        narrow = array.astype(jax.dtypes.canonicalize_dtype(array.dtype))
    if (lost := np.isfinite(array) & ~np.isfinite(narrow)).any():
        raise EverystepError(
            f"a setting, or a number of the problem, is {array[lost][0]:g}, which is too large for precision float32; "
            "choose float64, or a smaller number."
        )
    return jnp.asarray(narrow)


@jax.jit
def sums(metrics: Metrics) -> Sums:
    """The sums of metrics (n, K, ...) over seeds and over episodes."""
    return Sums(jax.tree.map(lambda leaf: leaf.sum(0), metrics), jax.tree.map(lambda leaf: leaf.sum(1), metrics))


def _joined(parts: list[Sums], episodes: int) -> Sums:
    by_episode = jax.tree.map(lambda *each: np.concatenate(each)[:episodes], *(part.by_episode for part in parts))
    return Sums(by_episode, jax.tree.map(lambda *each: np.sum(each, 0), *(part.by_seed for part in parts)))
