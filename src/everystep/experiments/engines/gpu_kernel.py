"""Episodes of one seed as one program of a GPU kernel (Pallas, Triton): plan, exact value, act, learn, repeat.

Compiled by XLA, an episode is about a hundred small kernels, each of which reads and writes the tables of all seeds in
the memory of the GPU. Here a program of the grid is a seed. Its counts are read once per episode and then stay in
registers, one lane per state, through all H steps of

    Q_h(a) = min{optimistic reward + norm2 sum_j N(a, j) V_{h+1}(x_j), cap}
    a_h = argmax_a {Q_h(a) - Z_h priced_cost(a)},   V_h = Q_h(a_h)
    V^pi_h = r(a_h) + sum_j P(a_h, j) V^pi_{h+1}(x_j),   and C^pi_h likewise with max(g, 0) in place of r

and for an agent that looks ahead (`lsvi/ahead.py`) the harm-to-go C_h beside V_h. Then it acts for H steps and adds
what it observes to the tables, number by number. The formulas are those of the parts (`Counts`, `CountCosts`, the
choice, the penalty, `HarmToGo`), traced a second time.

Constraints on the implementation. Triton works on blocks of 2^n lanes: states are padded to that, and an array
(A, J, S) is A J blocks, because Triton cannot look up one row of a block. Nor can it look up lanes of a block by
number, so V goes through memory: it is stored, and read at the successors from the nearest cache; `barrier`
synchronizes the threads of a program. Numbers that are looked up together are adjacent, 16 bytes of them, and are one
load. Numbers of one step (x, a, the draw) are scalars; scalars are stored by one thread, which also reads them back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from everystep.lsvi import rowwise
from everystep.lsvi.ahead import HarmToGo
from everystep.lsvi.algorithm import Agent
from everystep.lsvi.choices.ties import tie_words, winner
from everystep.lsvi.costs.counts import CountCosts
from everystep.lsvi.protocols import PricedChoice
from everystep.lsvi.values.counts import Counts
from everystep.mdp.world import AnyArray, Sizes, weighted

V_PI, C_PI = 1, 2  # columns of `Scratch.values`, after V; the harm-to-go C is the last, if the agent looks ahead
FIRST = np.int32(0)  # loops count in 32 bits in any precision


class Tables(NamedTuple):
    """The world as a program looks it up: states last, padded to Sp, everything stationary."""

    successors: AnyArray  # (J, Sp)
    outlook: AnyArray  # (A, groups, Sp, width): P of each successor, r, and sum_i max(g_i, 0)
    cumulative: AnyArray  # (A, J, Sp)
    g: AnyArray  # (m, A, Sp)
    reward: AnyArray  # (A, J, Sp), as observed on arrival, in the units that agents learn in
    cost: AnyArray  # (m, A, J, Sp), likewise
    earned: AnyArray | None  # (A, J, Sp): the reward in the user's units, None where they are the same


class Chance(NamedTuple):
    """The draws of n seeds and K episodes; noise is the amount that is added, None without noise."""

    start: AnyArray  # (n, K), the state x_1
    tie_word: AnyArray  # (n, K)
    transition: AnyArray  # (n, K, H)
    reward_noise: AnyArray | None  # (n, K, H)
    cost_noise: AnyArray | None  # (n, K, H, m)
    earned_noise: AnyArray | None  # (n, K, H): of the reward in the user's units, where they differ


class Learnt(NamedTuple):
    """What a seed has learnt: counts N(a, j, x), sums of rewards and of costs, prices."""

    arrivals: AnyArray  # (n, A, J, Sp)
    rewards: AnyArray  # (n, A, Sp)
    costs: AnyArray  # (n, m, A, Sp)
    price: AnyArray  # (n, m, H), or (n, 1, H) if the agent looks ahead


class Book(NamedTuple):
    """What is recorded of n seeds and K episodes: see `loop.Metrics`."""

    earned: AnyArray
    value: AnyArray
    expected_violation: AnyArray
    violation: AnyArray  # (n, K, m)
    unsafe_steps: AnyArray
    soft_violation: AnyArray


class Scratch(NamedTuple):
    """Memory shared by the lanes: V, V^pi, C^pi (and C) of this step and the next; the actions of the plan."""

    values: AnyArray  # (n, 2, groups, Sp, width)
    actions: AnyArray  # (n, H, Sp)


class Program(NamedTuple):
    """What the program of one seed works on. Arrays are references; `learnt`, `book` and `scratch` are written."""

    sizes: Sizes
    barrier: Callable[[], object]
    agent: Agent
    world: Tables
    chance: Chance
    learnt: Learnt
    book: Book
    scratch: Scratch


def lanes(states: int) -> int:
    """The smallest power of two that holds all states, at least a warp."""
    return max(32, 1 << (states - 1).bit_length())


def columns(agent: Agent) -> int:
    """The numbers of a state that a step of the plan passes to the step before it: V, V^pi, C^pi, and C if there is."""
    return 3 if agent.ahead is None else 4


def groups(columns: int, width: int) -> int:
    """How many groups of `width` hold `columns` columns."""
    return -(-columns // width)


def look_up(table: AnyArray, before: tuple[AnyArray | int, ...], lane: AnyArray, columns: int) -> tuple[AnyArray, ...]:
    """The numbers of each lane in a table (..., groups, Sp, width), as a block for each column.

    The numbers of a group are adjacent; a width of 16 bytes is loaded by one instruction.
    """
    width = table.shape[-1]
    if width == 1:
        return tuple(table[(*before, column, lane, 0)] for column in range(columns))
    upright = lambda index: index[:, None] if getattr(index, "ndim", 0) else index
    across = lax.iota(jnp.int32, width)[None]
    found: list[AnyArray] = []
    for group in range(groups(columns, width)):
        block = table[(*map(upright, before), group, upright(lane), across)]
        found += [column.reshape(len(lane)) for column in jnp.split(block, width, 1)]
    return tuple(found[:columns])


def put_down(table: AnyArray, before: tuple[AnyArray | int, ...], columns: tuple[AnyArray, ...]) -> None:
    """Store a number for each lane and column where `look_up` finds it."""
    width = table.shape[-1]
    columns += (jnp.zeros_like(columns[0]),) * (-len(columns) % width)
    for group in range(groups(len(columns), width)):
        some = columns[group * width : (group + 1) * width]
        if width == 1:
            table[(*before, group, slice(None), 0)] = some[0]
        else:
            table[(*before, group, slice(None), slice(None))] = side_by_side(some)


def side_by_side(columns: tuple[AnyArray, ...]) -> AnyArray:
    """Two or four blocks (Sp,) as one (Sp, 2 or 4). Triton joins two at a time, along a new axis."""
    if len(columns) == 2:
        return jnp.stack(columns, 1)
    a, b, c, d = columns
    return jnp.stack([jnp.stack([a, c], 1), jnp.stack([b, d], 1)], 2).reshape(*a.shape, 4)


def run_seed(program: Program, count: AnyArray, k: AnyArray) -> None:
    """`count` episodes, from number `k` on, of the seed that has the number of this program."""
    from jax.experimental import pallas  # without a GPU it need not be imported

    seed, chance, book = pallas.program_id(0), program.chance, program.book
    program = program._replace(agent=jax.tree.map(lambda leaf: leaf[0], program.agent))  # numbers now

    def episode(i: AnyArray, _: None) -> None:
        now = k[seed] + i
        plan(program, seed, now, chance.tie_word[seed, i])
        x = chance.start[seed, i]
        book.value[seed, i] = values_at(program.scratch, seed, x, V_PI)
        book.expected_violation[seed, i] = values_at(program.scratch, seed, x, C_PI)
        act_and_learn(program, seed, now, i)
        program.barrier()

    lax.fori_loop(FIRST, count[0], episode, None)


def values_at(scratch: Scratch, seed: AnyArray, x: AnyArray, column: int) -> AnyArray:
    """V^pi_1(x) or C^pi_1(x) after a plan."""
    width = scratch.values.shape[-1]
    return scratch.values[seed, 0, column // width, x, column % width]


def plan(program: Program, seed: AnyArray, k: AnyArray, word: AnyArray) -> None:
    """The backward pass: writes the actions of all (h, x), and V^pi and C^pi from every x, to `scratch`."""
    (S, A, J, H, m), barrier, agent, world = program.sizes, program.barrier, program.agent, program.world
    learnt, scratch = program.learnt, program.scratch
    Sp = scratch.values.shape[-2]
    lane = lax.iota(jnp.int32, Sp)
    after = tuple(world.successors[j, :] for j in range(J))

    N = tuple(tuple(learnt.arrivals[seed, a, j, :] for j in range(J)) for a in range(A))
    n = tuple(sum(N[a]) for a in range(A))
    values, costs, choice = agent.values, agent.costs, agent.choice
    assert isinstance(values, Counts)
    assert isinstance(costs, CountCosts)
    assert isinstance(choice, PricedChoice)
    fit = tuple(values.optimistic_reward(n[a], learnt.rewards[seed, a, :], k) for a in range(A))

    def ghat(i: int, a: int) -> AnyArray:
        return agent.ghat(*costs.interval(n[a], learnt.costs[seed, i, a, :], k))

    estimated = tuple(tuple(ghat(i, a) for a in range(A)) for i in range(m))
    ahead = agent.ahead
    assert ahead is None or isinstance(ahead, HarmToGo)
    if ahead is None:  # the same at every step
        estimated = tuple(tuple(map(choice.priced_cost, row)) for row in estimated)
    widths = None if ahead is None or ahead.radius is None else [ahead.radius.width(norm2, k) for norm2, _ in fit]

    def harm_after(a: int, C_after: tuple[AnyArray, ...]) -> AnyArray:
        """[Phat C_{h+1}](a)."""
        mean = weighted(N[a], C_after) * fit[a][0]
        return mean if widths is None else mean - widths[a]

    put_down(scratch.values, (seed, H & 1), (jnp.zeros(Sp, scratch.values.dtype),) * columns(agent))
    barrier()

    def backward(steps_done: AnyArray, _: None) -> None:
        h = H - 1 - steps_done
        found = (look_up(scratch.values, (seed, (h + 1) & 1), after[j], columns(agent)) for j in range(J))
        V_after, V_pi, C_pi, *C_after = zip(*found, strict=True)
        Q = tuple(values.Q(weighted(N[a], V_after), *fit[a]) for a in range(A))
        priced, G = estimated, ()
        if ahead is not None:
            G = ahead.led_to(estimated, tuple(harm_after(a, *C_after) for a in range(A)))
            priced = tuple(tuple(map(choice.priced_cost, row)) for row in ahead.avoidable(G))
        price = tuple(learnt.price[seed, i, h] for i in range(len(priced)))
        score = tuple(choice.scored(Q[a], tuple(row[a] for row in priced), price) for a in range(A))  # eq. (11)
        tie = tie_words(word, (h * S + lane).astype(jnp.uint32))
        action = winner(score, tie).astype(jnp.int32) - 1
        scratch.actions[seed, h, :] = action.astype(scratch.actions.dtype)

        *P, r, violation = look_up(world.outlook, (action,), lane, J + 2)
        V = rowwise.picked(action, Q)  # line 9
        C = () if ahead is None else (ahead.carried(G, tuple(action == a for a in range(A))),)
        put_down(scratch.values, (seed, h & 1), (V, r + weighted(P, V_pi), violation + weighted(P, C_pi), *C))
        barrier()

    lax.fori_loop(FIRST, np.int32(H), backward, None)


Steps: TypeAlias = tuple[AnyArray, AnyArray, tuple[AnyArray, ...], AnyArray, AnyArray]
"""Along an episode: x, what was earned, the violation of each constraint, unsafe steps, soft violation."""


def act_and_learn(program: Program, seed: AnyArray, k: AnyArray, i: AnyArray) -> None:
    """H steps from the start of episode i. Each is added to `learnt` at once, because the plan is fixed by then."""
    (_, _, J, H, m), agent, world, chance = program.sizes, program.agent, program.world, program.chance
    learnt, book, scratch = program.learnt, program.book, program.scratch
    dtype = book.earned.dtype
    none = jnp.zeros((), dtype)

    def forward(h: AnyArray, so_far: Steps) -> Steps:
        x, earned, violation, unsafe, soft = so_far
        a = scratch.actions[seed, h, x].astype(jnp.int32)
        u = chance.transition[seed, i, h]
        slot = FIRST + sum((u >= world.cumulative[a, j, x]).astype(jnp.int32) for j in range(J - 1))
        reward = world.reward[a, slot, x]
        if chance.reward_noise is not None:
            reward += chance.reward_noise[seed, i, h]
        gained = reward if world.earned is None else world.earned[a, slot, x]
        if chance.earned_noise is not None:
            gained += chance.earned_noise[seed, i, h]
        cost = tuple(world.cost[c, a, slot, x] for c in range(m))
        if chance.cost_noise is not None:
            cost = tuple(cost[c] + chance.cost_noise[seed, i, h, c] for c in range(m))
        if agent.violation_price is not None:  # as in Agent.learnt
            reward -= agent.violation_price * sum(rowwise.larger(each, 0.0) for each in cost)
        learnt.arrivals[seed, a, slot, x] = learnt.arrivals[seed, a, slot, x] + 1
        learnt.rewards[seed, a, x] = learnt.rewards[seed, a, x] + reward
        for c, each in enumerate(cost if agent.ahead is None else map(agent.ahead.learnt, cost)):
            learnt.costs[seed, c, a, x] = learnt.costs[seed, c, a, x] + each
        for c, each in enumerate(cost if agent.ahead is None else (agent.ahead.harm(cost),)):
            learnt.price[seed, c, h] = agent.penalty.update(learnt.price[seed, c, h], each, k)  # eq. (13)
        harmful = jnp.zeros((), bool)
        harms = []
        for c in range(m):
            g = world.g[c, a, x]
            harms.append(violation[c] + rowwise.larger(g, 0.0))
            harmful, soft = harmful | (g > 0), soft + g
        unsafe = unsafe + harmful.astype(jnp.int32)
        return world.successors[slot, x], earned + gained, tuple(harms), unsafe, soft

    first = (chance.start[seed, i], none, (none,) * m, FIRST, none)
    _, earned, violation, unsafe, soft = lax.fori_loop(FIRST, np.int32(H), forward, first)
    book.earned[seed, i] = earned
    for c in range(m):
        book.violation[seed, i, c] = violation[c]
    book.unsafe_steps[seed, i] = unsafe
    book.soft_violation[seed, i] = soft
