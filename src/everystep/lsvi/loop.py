"""The driver of the algorithm (plan, act, react, learn): a compiled loop over episodes.

Randomness. The run of seed s depends on (problem, agent, s) alone. The draws of the world are keyed by
(s, episode, step), so all agents meet the same draws and comparisons pair by seed. Ties are keyed by (s, episode).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, UInt32

from everystep.lsvi import algorithm, rowwise
from everystep.lsvi.algorithm import Agent, Plan, State
from everystep.lsvi.choices.ties import ties
from everystep.lsvi.episode import Episode
from everystep.lsvi.protocols import CostModel, GrowingCostModel, Pytree
from everystep.mdp import certificates, planner
from everystep.mdp.reach import Reach, Span
from everystep.mdp.world import AnyArray, Sizes, World, start_state, step

CHUNK = 500  # episodes in one compiled call; visits are also recorded after the first call, as <agent>_500


class Draws(NamedTuple):
    """All random draws of one episode. Noise is None where the world has none."""

    start: Float[Array, ""]
    transition: Float[Array, " H"]
    mixing: Float[Array, " H"]
    tie_word: UInt32[Array, ""]
    reward_noise: Float[Array, " H"] | None
    cost_noise: Float[Array, "H m"] | None


class Metrics(NamedTuple):
    """The record of an episode. `value` and `expected_violation` are exact values of the policy as planned."""

    start: Int[Array, ""]
    earned: Float[Array, ""]
    value: Float[Array, ""]
    expected_violation: Float[Array, ""]
    violation: Float[Array, " m"]
    unsafe_steps: Int[Array, ""]
    soft_violation: Float[Array, ""]
    labels: certificates.LabelCounts | None = None  # what the cost intervals certify before the episode
    planned: Bool[Array, ""] | None = None  # whether a plan was made, for agents that plan rarely
    mixture_violation: Float[Array, ""] | None = None  # of the mean over each draw, for agents that mix actions
    probed: Pytree = None  # what the probe of the job returned


class Planned(NamedTuple):
    """A plan, its exact V_1 and expected hard violation from every state, and its log det(Lambda) if plans are rare."""

    plan: Plan
    V: Float[Array, " S"]
    C: Float[Array, " S"]
    log_det: Float[Array, " T"] | None


class Carry(NamedTuple):
    """The agent's state, the number of visits to each state so far, and the plan in force if plans are rare."""

    agent: State
    visits: Int[Array, " S"]
    planned: Planned | None = None


def draws(world: World, sizes: Sizes, seed: UInt32[Array, ""], k: Int[Array, ""]) -> Draws:
    """The draws of episode k of a seed. Element h of each array is the draw of step h, whatever H is."""
    H, m = sizes.horizon, sizes.constraints
    root = jax.random.fold_in(jax.random.key(seed), k)
    stream = lambda i: jax.random.fold_in(root, i)
    return Draws(
        start=jax.random.uniform(stream(0)),
        transition=jax.random.uniform(stream(1), (H,)),
        mixing=jax.random.uniform(stream(2), (H,)),
        tie_word=jax.random.bits(stream(3), (), jnp.uint32),
        reward_noise=None if world.reward_sigma is None else jax.random.normal(stream(4), (H,)),
        cost_noise=None if world.cost_sigma is None else jax.random.normal(stream(5), (H, m)),
    )


def evaluate(world: World, plan: Plan) -> tuple[Float[Array, " S"], Float[Array, " S"]]:
    """V_1 and the expected hard violation of a plan's policy, exactly, from every state."""
    H, _, S = plan.policy.shape
    policy, actions = plan.policy, plan.actions

    def backward(packed: Array, h: Array) -> tuple[Array, None]:
        under_pi = partial(planner.mean_under, policy[h]) if actions is None else partial(rowwise.picked, actions[h])
        V, C = rowwise.unpack(packed)
        return rowwise.pack(*planner.policy_backup(world, h, under_pi, V, C)), None

    packed, _ = lax.scan(backward, jnp.zeros(S, complex), jnp.arange(H), reverse=True)
    return rowwise.unpack(packed)


def new_plan(agent: Agent, world: World, state: State, tie: UInt32[Array, "H S"]) -> Planned:
    """A plan from the current state of the agent, and its exact value and violation in the true world."""
    plan, _ = algorithm.plan(agent, state, tie)
    log_det = None if agent.switch is None else agent.values.log_det(state.values)
    return Planned(plan, *evaluate(world, plan), log_det)


def is_due(agent: Agent, carry: Carry) -> Bool[Array, ""]:
    """Whether an agent that plans rarely must plan before the next episode."""
    assert carry.planned is not None
    assert carry.planned.log_det is not None
    return algorithm.due(agent, agent.values.log_det(carry.agent.values), carry.planned.log_det)


def nothing_planned(agent: Agent, state: State, sizes: Sizes) -> Planned:
    """What an agent that plans rarely carries before its first plan, which is due at once."""
    H, S = sizes.horizon, sizes.states
    shapes = jax.eval_shape(lambda: algorithm.plan(agent, state, ties(jnp.uint32(0), H, S))[0])
    plan = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    log_det = jnp.full_like(agent.values.log_det(state.values), -jnp.inf)
    return Planned(plan, jnp.zeros(S), jnp.zeros(S), log_det)


class Recorded(NamedTuple):
    """An episode in the user's units: the rewards observed, and the true means of the constraints."""

    reward: Float[Array, " H"]
    g: Float[Array, "H m"]


def play(
    agent: Agent,
    world: World,
    state: State,
    plan: Plan,
    tie: UInt32[Array, "H S"] | None,
    x: Int[Array, ""],
    draw: Draws,
) -> tuple[Episode, Recorded, Any]:
    """Act for H steps from x: the episode as the agent learns from it, what is recorded, the state of the cost model.

    That state is None unless the agent reacts: then it has learnt every step of the episode already, and needs `tie`.
    """
    nothing = jnp.zeros(())
    reacts = agent.choice.reacts

    def forward(carry: tuple[Array, Pytree], h: Array) -> tuple[tuple[Array, Pytree], tuple[Episode, Array, Pytree]]:
        x, costs = carry
        if plan.actions is None or reacts:
            pi = (
                algorithm.react(agent, state, plan, costs, h, x, tie[h, x]) if tie is not None else plan.policy[h, :, x]
            )
            a = algorithm.act(pi, draw.mixing[h])
        else:
            a = plan.actions[h, x].astype(jnp.int32)
        reward_noise = nothing if draw.reward_noise is None else draw.reward_noise[h]
        cost_noise = nothing if draw.cost_noise is None else draw.cost_noise[h]
        outcome = step(world, h, x, a, draw.transition[h], reward_noise, cost_noise)
        seen = Episode(x, a, outcome.slot, outcome.x_next, outcome.learnt_reward, outcome.learnt_cost)
        if reacts:
            costs = observe_one(agent, costs, seen)
        return (outcome.x_next, costs), (seen, outcome.g, None if world.units is None else outcome.reward)

    before = (x, state.costs if reacts else None)
    (_, costs), (episode, g, reward) = lax.scan(forward, before, jnp.arange(len(draw.transition)))
    recorded = Recorded(episode.reward if reward is None else reward, g)
    return episode._replace(V_next=plan.V_next), recorded, costs


def observe_one(agent: Agent, costs: Pytree, seen: Episode) -> Pytree:
    """The state of the cost model after one step of an episode."""
    row = seen._replace(cost=agent.learnt(seen.reward, seen.cost)[1])
    return algorithm.finite_models(agent)[1].update(costs, jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], row))


def tally(x: AnyArray, V: AnyArray, C: AnyArray, reward: AnyArray, g: AnyArray) -> Metrics:
    """The metrics of one episode that started at x, in the user's units; for NumPy and JAX arrays. See `Recorded`."""
    return Metrics(
        start=x,
        earned=reward.sum(),
        value=V[x],
        expected_violation=C[x],
        violation=g.clip(min=0).sum(0),
        unsafe_steps=(g > 0).any(1).sum(dtype=np.int32),
        soft_violation=g.sum(),
    )


def violation_of_mixture(world: World, plan: Plan, x: AnyArray) -> AnyArray:
    """sum_h sum_i max(sum_a pi_h(a | x_h) g_i(x_h, a), 0) along the states x (H,); None for deterministic plans.

    For NumPy and JAX arrays.
    """
    if plan.actions is not None:
        return None
    steps = np.arange(len(x))
    g = world.g[steps if len(world.g) > 1 else np.zeros_like(steps), :, :, x]  # (H, m, A)
    return (g * plan.policy[steps, :, x][:, None]).sum(-1).clip(min=0).sum()


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Job:
    """An agent in a world, and what is recorded: everything that stays the same from episode to episode.

    agent, world:  arrays
    sizes:         of the world
    share_values, share_costs: whether the estimators are shared over steps
    certified:     boolean (S,): the states whose labels are counted in every episode; None records no labels
    probe:         called with the agent, the world, the agent's states before and after, the plan and the episode; its
                   result is recorded. A pytree of arrays whose class defines `__call__`; the run stays the same.
    reach, spans:  the order of states and the spans of steps, if `lsvi/reachable.py` runs the job

    Arrays are traced; the sizes, the two flags and the spans are static.
    """

    agent: Agent
    world: World
    sizes: Sizes = field(metadata={"static": True})
    share_values: bool = field(default=True, metadata={"static": True})
    share_costs: bool = field(default=True, metadata={"static": True})
    certified: Bool[Array, " S"] | np.ndarray | None = None
    probe: Any = None
    reach: Reach | None = None
    spans: tuple[Span, ...] = field(default=(), metadata={"static": True})


def run_episode(job: Job, carry: Carry, draw: Draws) -> tuple[Carry, Metrics]:
    """Plan, act, learn, and record."""
    agent, world = job.agent, job.world
    H, S = carry.agent.price.shape[1], world.r.shape[-1]
    tie = partial(ties, draw.tie_word, H, S)  # computed where it is used: an episode without a plan needs none
    replan = lambda: new_plan(agent, world, carry.agent, tie())
    rarely = agent.switch is not None
    due = is_due(agent, carry) if rarely else None
    planned = lax.cond(due, replan, lambda: carry.planned) if rarely else replan()
    carry, _, metrics = play_and_learn(job, carry, draw, planned, tie() if agent.choice.reacts else None)
    return carry._replace(planned=planned if rarely else None), metrics._replace(planned=due)


def play_and_learn(
    job: Job, carry: Carry, draw: Draws, planned: Planned, words: UInt32[Array, "H S"] | None
) -> tuple[Carry, Episode, Metrics]:
    """An episode once it is planned: act, learn, and record. An agent that reacts needs the words of ties."""
    agent, world = job.agent, job.world
    x = start_state(world, carry.agent.k, draw.start)
    x = x if job.reach is None else job.reach.place[x]
    episode, recorded, costs = play(agent, world, carry.agent, planned.plan, words, x, draw)
    visits = carry.visits.at[episode.x].add(1)
    mixture = violation_of_mixture(world, planned.plan, episode.x)
    metrics = tally(x, planned.V, planned.C, *recorded)._replace(mixture_violation=mixture)
    if job.certified is not None:
        label = certificates.labels(*bounds(agent, carry.agent))
        metrics = metrics._replace(labels=certificates.count_labels(label, world.g, job.certified[None, None]))
    learnt = algorithm.learn(agent, carry.agent, episode, costs)
    if job.probe is not None:
        metrics = metrics._replace(probed=job.probe(agent, world, carry.agent, learnt, planned.plan, episode))
    return Carry(learnt, visits), episode, metrics


def bounds(agent: Agent, state: State) -> tuple[Float[Array, "T m A S"], Float[Array, "T m A S"]]:
    """The lower and the upper end of every cost interval; both are at most 0 for actions known to be safe."""
    cost = agent.costs.estimate(state.costs, state.k)
    lower, upper = cost.mean - cost.width, cost.mean + cost.width
    if agent.known_safe is None:
        return lower, upper
    known = agent.known_safe[None, None]
    return jnp.where(known, jnp.minimum(lower, 0), lower), jnp.where(known, jnp.minimum(upper, 0), upper)


def start(agent: Agent, sizes: Sizes, share_values: bool, share_costs: bool) -> Carry:
    """What a run carries before the first episode."""
    state = algorithm.init(agent, sizes, share_values, share_costs)
    planned = None if agent.switch is None else nothing_planned(agent, state, sizes)
    return Carry(state, jnp.zeros(sizes.states, jnp.int32), planned)


@partial(jax.jit, static_argnames=("sizes", "share_values", "share_costs", "seeds"))
def start_seeds(agent: Agent, sizes: Sizes, share_values: bool, share_costs: bool, seeds: int) -> Carry:
    """`start` for `seeds` seeds; compiled, because array by array it takes a millisecond: as long as 40 episodes."""
    carry = start(agent, sizes, share_values, share_costs)
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (seeds, *leaf.shape)), carry)


def scan(
    job: Job, carry: Carry, seed: UInt32[Array, ""], count: Int[Array, ""], capacity: int
) -> tuple[Carry, Metrics]:
    """`count` <= `capacity` episodes of one seed; the rows of `Metrics` after `count` are zeros.

    The number of episodes is data, not a shape, so that another number compiles nothing.
    """
    episodes = carry.agent.k + jnp.arange(capacity, dtype=jnp.int32)
    drawn = jax.vmap(lambda k: draws(job.world, job.sizes, seed, k))(episodes)
    row = lambda i: jax.tree.map(lambda x: x[i], drawn)
    episode = jax.jit(partial(run_episode, job), inline=True)  # traced once: for the shapes, and for the loop
    shape = jax.eval_shape(lambda: episode(carry, row(0))[1])
    book = jax.tree.map(lambda leaf: jnp.zeros((capacity, *leaf.shape), leaf.dtype), shape)

    def body(i: Array, loop: tuple[Carry, Metrics]) -> tuple[Carry, Metrics]:
        carry, book = loop
        carry, metrics = episode(carry, row(i))
        return carry, jax.tree.map(lambda rows, new: rows.at[i].set(new), book, metrics)

    return lax.fori_loop(0, count, body, (carry, book))


def with_room(agent: Agent, sizes: Sizes, carries: Carry, episodes: int) -> Carry:
    """Room for `episodes` more episodes in a cost model that grows, for many seeds at once. Not for compiled code."""
    return _grown(agent, carries, lambda model, state: model.with_room(state, episodes, sizes.horizon))


def shaped(agent: Agent, sizes: Sizes, carries: Carry, chunks: Sequence[int]) -> Carry:
    """A fresh carry in the shape it would have after chunks of these numbers of episodes. Not for compiled code."""
    for episodes in chunks:
        carries = with_room(agent, sizes, carries, episodes)
        carries = _grown(agent, carries, lambda model, state: model.as_if_seen(state, episodes, sizes.horizon))  # noqa: B023
    return carries


def _grown(agent: Agent, carries: Carry, grow: Callable[[GrowingCostModel[Pytree], Pytree], Pytree]) -> Carry:
    """The states of cost models that grow, changed; there may be one model for each constraint."""

    def grown(model: CostModel[Pytree], state: Pytree) -> Pytree:
        if isinstance(model, GrowingCostModel):
            return grow(model, state)
        models = getattr(model, "models", None)
        return state if models is None else tuple(map(grown, models, state))

    return carries._replace(agent=carries.agent._replace(costs=grown(agent.costs, carries.agent.costs)))


@partial(jax.jit, static_argnames=("capacity", "together"))
def scan_seeds(
    job: Job, carries: Carry, seeds: UInt32[Array, " n"], count: Int[Array, ""], capacity: int, together: bool
) -> tuple[Carry, Metrics]:
    """`scan` for many seeds: side by side on a GPU (`together`), one after another on a CPU."""
    scan_seed = lambda carry, seed: scan(job, carry, seed, count, capacity)
    return jax.vmap(scan_seed)(carries, seeds) if together else lax.map(lambda row: scan_seed(*row), (carries, seeds))


@partial(jax.jit, static_argnames="capacity")
def scan_agents(
    job: Job, carries: Carry, seeds: UInt32[Array, " n"], count: Int[Array, ""], capacity: int
) -> tuple[Carry, Metrics]:
    """`scan_seeds` for agents that differ in numbers alone, side by side, along the first axis of `job.agent`."""
    scan_agent = lambda agent, carry: scan_seeds(replace(job, agent=agent), carry, seeds, count, capacity, True)
    return jax.vmap(scan_agent)(job.agent, carries)
