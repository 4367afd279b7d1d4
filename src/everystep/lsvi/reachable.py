"""The same episodes as `loop.scan`, but planned and evaluated only at states that can be reached by then.

For one-hot features, where every state has its own numbers: what is learnt, done and observed is the same as in
`loop.scan`, to the last bit, and exact values differ by rounding. The states are put in the order of `mdp/reach.py`
when a compiled call begins, and back when it ends. Four things differ inside:

- step h is planned for the first states of its span alone;
- the models are fitted again only at the pairs that an episode visited, where their radii do not depend on k;
- the exact values of policies are computed for a block of episodes at once, because learning does not need them;
- an agent that looks ahead first plans as if no harm were to go, and again only if that turns out to be wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, UInt32

from everystep.lsvi import algorithm, loop, rowwise
from everystep.lsvi.algorithm import Agent, Plan, State
from everystep.lsvi.choices.basic import Greedy, Penalised
from everystep.lsvi.choices.ties import tie_words
from everystep.lsvi.costs.counts import CountCosts, CountCostState
from everystep.lsvi.episode import Episode, step_index
from everystep.lsvi.loop import Carry, Draws, Job, Metrics
from everystep.lsvi.protocols import LookAhead
from everystep.lsvi.radii import Tuned
from everystep.lsvi.values.counts import CountFit, Counts, CountState
from everystep.mdp import planner
from everystep.mdp.reach import Reach, Span, first_states, in_order
from everystep.mdp.world import FEW, World, at_step

Fitted = tuple[CountFit, Float[Array, "T m A S"]]  # `algorithm.fit_models` for these parts

BLOCK = 20  # policies evaluated at once, if their actions are few: a divisor of loop.CHUNK
FEW_ACTIONS = 2**21  # (h, x) of one policy or of a block: beyond them arrays of all steps leave the cache
SHORTCUT = True  # whether agents that look ahead try `plan_if_harmless` first


def supports(agent: Agent, world: World) -> bool:
    """Whether an agent can be planned in this order: counts for values and costs, and the best action at each state."""
    return (
        isinstance(agent.values, Counts)
        and isinstance(agent.costs, CountCosts)
        and isinstance(agent.choice, Greedy | Penalised)
        and agent.switch is None
        and world.successors is not None
        and max(world.successors.shape[-2], world.r.shape[1]) <= FEW
    )


# --- states in the order of reach -------------------------------------------------------------------------------------
def job_in_order(job: Job, reach: Reach) -> Job:
    """A job whose states are in the order of `reach`."""
    agent = job.agent
    world = in_order(job.world, reach)
    known = None if agent.known_safe is None else agent.known_safe[..., reach.states]
    values = cast(Counts, agent.values)._replace(successors=world.successors)
    agent = agent._replace(values=values, known_safe=known)
    certified = None if job.certified is None else job.certified[reach.states]
    return replace(job, agent=agent, world=world, certified=certified)


def carry_in_order(carry: Carry, order: Int[Array, " S"]) -> Carry:
    """A carry whose states are in another order. All that count models learn has states last."""
    by = partial(jax.tree.map, lambda leaf: leaf[..., order])
    state = carry.agent
    return carry._replace(
        agent=state._replace(values=by(state.values), costs=by(state.costs)), visits=carry.visits[order]
    )


# --- plan, evaluate ---------------------------------------------------------------------------------------------------
def refitted(agent: Agent, state: State, fitted: Fitted, episode: Episode) -> Fitted:
    """The estimates after an episode, given those before it: only the pairs it visited differ.

    For radii that do not depend on k. The small states below have one "state" for each step of the episode.
    """
    fit, belief = fitted
    at = (step_index(state.values.rewards, episode), episode.a)
    counts = CountState(
        state.values.arrivals[(*at, slice(None), episode.x)].T[None, None],
        state.values.rewards[(*at, episode.x)][None, None],
    )
    seen = (step_index(state.costs.visits, episode), episode.a, episode.x)
    costs = CountCostState(
        state.costs.visits[seen][None, None],
        state.costs.total[seen[0], :, episode.a, episode.x].T[None, :, None],
    )
    small, ghat = algorithm.fit_models(agent, state._replace(values=counts, costs=costs))
    fit = fit._replace(
        arrivals=state.values.arrivals,
        norm2=fit.norm2.at[(*at, episode.x)].set(small.norm2[0, 0]),
        optimistic_reward=fit.optimistic_reward.at[(*at, episode.x)].set(small.optimistic_reward[0, 0]),
    )
    return fit, belief.at[seen[0], :, episode.a, episode.x].set(ghat[0, :, 0].T)


class Planning(NamedTuple):
    """What a plan is made from, in the order of reach.

    estimated  what the choice prices at each step: the estimated costs, or the avoidable harm where C is 0
    words_at   the words of ties of step h at the first n states
    """

    agent: Agent
    fit: CountFit
    estimated: Float[Array, "T m A S"]
    price: Float[Array, "m H"]
    words_at: Callable[[Array, int], UInt32[Array, " n"]]
    spans: tuple[Span, ...]

    def first(self, span: Span) -> tuple[Counts, CountFit, Float[Array, "T m A n"]]:
        """The value model, its fit and the estimated costs at the first states of a span."""
        values = cast(Counts, self.agent.values)
        few = lambda leaf: leaf[..., : span.states]
        return values._replace(successors=few(values.successors)), jax.tree.map(few, self.fit), few(self.estimated)

    @property
    def numbers(self) -> np.ndarray:
        """The numbers of the actions."""
        return np.arange(self.fit.norm2.shape[1], dtype=float)

    def decide(self, h: Array, Q: Array, estimated: Array) -> Array:
        """V and the best action of step h, packed."""
        pi = self.agent.choice(Q, estimated, self.price[:, h], self.words_at(h, Q.shape[1]))  # eq. (11)
        # Without the barrier Q would be computed twice, for the next step and for the table of actions.
        return lax.optimization_barrier(rowwise.pack(rowwise.under(pi, Q), rowwise.under(pi, self.numbers)))  # line 9

    def chosen(self, a: Array) -> Array:
        """The policy that takes the actions `a` (n,), as booleans (A, n)."""
        return rowwise.map_rows(lambda number: a == number, self.numbers.astype(a.dtype))


def plan(
    agent: Agent,
    fitted: Fitted,
    state: State,
    word: UInt32[Array, ""],
    reach: Reach,
    spans: tuple[Span, ...],
    actions: Array,
) -> Array:
    """`actions` (H, S) with the actions of a plan at the first states of every span: `algorithm.plan` in this order."""
    made_from = planning(agent, fitted, state, word, reach, spans)
    if agent.ahead is None:
        return plan_steps(made_from, actions)
    width = agent.ahead.width(agent.values, state.values, state.k)
    if not SHORTCUT:
        return plan_ahead(made_from, width, actions)
    actions, valid = plan_if_harmless(made_from, width, actions)
    return lax.cond(valid, lambda: actions, lambda: plan_ahead(made_from, width, actions))


def planning(
    agent: Agent, fitted: Fitted, state: State, word: UInt32[Array, ""], reach: Reach, spans: tuple[Span, ...]
) -> Planning:
    """What a plan is made from; `word` is the random word of its ties."""
    H, S = state.price.shape[1], len(reach.states)
    states = reach.states.astype(jnp.uint32)
    word_of = lambda h, states: tie_words(word, h.astype(jnp.uint32) * np.uint32(S) + states)
    if H * S <= FEW_ACTIONS:  # faster, but takes memory
        words = word_of(jnp.arange(H, dtype=jnp.int32)[:, None], states[None])
        words_at = lambda h, n: words[h, :n]
    else:
        words_at = lambda h, n: word_of(h, states[:n])
    return Planning(agent, *fitted, state.price, words_at, spans)


def plan_steps(plan: Planning, actions: Array) -> Array:
    """The plan of an agent that prices the estimated costs of each step."""

    def backward(span: Span, carry: tuple[Array, Array], h: Array) -> tuple[tuple[Array, Array], None]:
        planned, actions = carry
        values, fit, estimated = plan.first(span)
        V_next, _ = rowwise.unpack(planned)
        planned = plan.decide(h, values.estimate(fit, h, V_next), at_step(estimated, h))  # lines 5 to 9
        return (planned, _with_row(actions, h, planned.imag)), None

    planned = jnp.zeros(plan.spans[-1].states, complex)
    for span in reversed(plan.spans):
        steps = jnp.arange(span.first, span.stop, dtype=jnp.int32)
        (planned, actions), _ = lax.scan(
            partial(backward, span), (planned[: span.states], actions), steps, reverse=True
        )
    return actions


def plan_ahead(plan: Planning, width: Array | None, actions: Array) -> Array:
    """The plan of an agent that looks ahead: C is carried backward beside V, see `ahead.py`."""
    ahead = cast(LookAhead, plan.agent.ahead)

    def backward(span: Span, carry: tuple[Array, Array, Array], h: Array) -> tuple[tuple[Array, Array, Array], None]:
        planned, C, actions = carry
        values, fit, ghat = plan.first(span)
        V_next, _ = rowwise.unpack(planned)
        lowered = None if width is None else at_step(width, h)[:, : span.states]
        # Computed once, for the choice and for C: the barrier makes it an array.
        G = lax.optimization_barrier(ahead.led_to(at_step(ghat, h), ahead.after(values, fit, h, C, lowered)))
        planned = plan.decide(h, values.estimate(fit, h, V_next), ahead.avoidable(G))
        C = ahead.carried(G, plan.chosen(planned.imag))
        return (planned, C, _with_row(actions, h, planned.imag)), None

    most = plan.spans[-1].states
    planned, C = jnp.zeros(most, complex), jnp.zeros(most)
    for span in reversed(plan.spans):
        steps = jnp.arange(span.first, span.stop, dtype=jnp.int32)
        carry = (planned[: span.states], C[: span.states], actions)
        (planned, C, actions), _ = lax.scan(partial(backward, span), carry, steps, reverse=True)
    return actions


def plan_if_harmless(plan: Planning, width: Array | None, actions: Array) -> tuple[Array, Array]:
    """The plan of an agent that looks ahead if C = 0 everywhere, and whether that is so; then `plan_ahead` is the same.

    C_{H+1} = 0. If C_{h+1} = 0, then Ghat_h does not depend on the plan, and the choice and C_h follow from it. So if
    every C_h that follows is 0, all of them are those of `plan_ahead`, by induction from the last step. A step then
    costs no more than without looking ahead. It is not tried if harm is unavoidable somewhere, because C > 0 there.
    """
    ahead, everywhere = cast(LookAhead, plan.agent.ahead), plan.spans[-1]
    values, fit, ghat = plan.first(everywhere)
    # No successors: the mean of C after each (x, a) is 0.
    none = lambda array: array[..., :0, :]
    values, fit = values._replace(successors=none(values.successors)), fit._replace(arrivals=none(fit.arrivals))

    def led_to(h: Array) -> Array:
        lowered = None if width is None else at_step(width, h)[:, : everywhere.states]
        return ahead.led_to(at_step(ghat, h), ahead.after(values, fit, h, jnp.zeros(everywhere.states), lowered))

    own = len(fit.norm2) > 1 or len(ghat) > 1
    H = actions.shape[0]
    G = jax.vmap(led_to)(jnp.arange(H, dtype=jnp.int32)) if own else led_to(jnp.int32(0))[None]  # (T, A, n)

    def carried(span: Span) -> Array:
        """C of the steps of a span."""
        of_step = lambda a, G: ahead.carried(G, plan.chosen(a))
        steps = slice(span.first, span.stop)
        at = G[steps, :, : span.states] if own else G[0, :, : span.states]
        return jax.vmap(of_step, (0, 0 if own else None))(actions_then[steps, : span.states], at)

    avoidable = (jax.vmap(rowwise.lowest)(G) == 0).all()
    priced = plan._replace(estimated=jax.vmap(ahead.avoidable)(G))
    actions_then = lax.cond(avoidable, lambda: plan_steps(priced, actions), lambda: actions)
    return actions_then, avoidable & jnp.stack([(carried(span) == 0).all() for span in plan.spans]).all()


def _with_row(actions: Array, h: Array, row: Array) -> Array:
    """The table of actions with those of the first states at step h."""
    return lax.dynamic_update_slice(actions, row.astype(actions.dtype)[None], (h, jnp.zeros_like(h)))


def evaluate(
    world: World, actions: Int[Array, "B H S"], spans: tuple[Span, ...]
) -> tuple[Float[Array, "N B"], Float[Array, "N B"]]:
    """V_1 and the expected hard violation of B policies, exactly, at the first states: `planner.policy_backup`.

    The policies come last: V at a successor is then a row of B numbers, and nothing is gathered one by one unless every
    action has its own list of next states.
    """
    if len(actions) == 1:
        V, C = _evaluate_one(world, actions[0], spans)
        return V[:, None], C[:, None]
    of_policies = lax.optimization_barrier(jnp.moveaxis(actions, 0, -1))  # (H, S, B)

    def backward(span: Span, packed: Array, h: Array) -> tuple[Array, None]:
        few = first_states(world, span.states)
        a = of_policies[h, : span.states]
        picked = lambda array: rowwise.picked(a, array[..., None])  # array (A, N)
        P, after = at_step(few.P, h), jnp.asarray(few.successors)
        V_pi, C_pi = picked(at_step(few.r, h)), picked(at_step(few.g, h).clip(min=0).sum(0))
        for j in range(P.shape[1]):
            at_next = (
                packed[after[j]]
                if after.ndim == 2
                else jnp.take_along_axis(packed, picked(after[:, j]), 0, mode="clip")
            )
            P_pi, (V_next, C_next) = picked(P[:, j]), rowwise.unpack(at_next)
            V_pi, C_pi = V_pi + P_pi * V_next, C_pi + P_pi * C_next
        return rowwise.pack(V_pi, C_pi), None

    packed = jnp.zeros((spans[-1].states, len(actions)), complex)
    for span in reversed(spans):
        steps = jnp.arange(span.first, span.stop, dtype=jnp.int32)
        packed, _ = lax.scan(partial(backward, span), packed[: span.states], steps, reverse=True)
    return rowwise.unpack(packed)


def _evaluate_one(world: World, actions: Int[Array, "H S"], spans: tuple[Span, ...]) -> tuple[Array, Array]:
    """`evaluate` for one policy."""

    def backward(span: Span, packed: Array, h: Array) -> tuple[Array, None]:
        under_pi = partial(rowwise.picked, actions[h, : span.states])
        few = first_states(world, span.states)
        return rowwise.pack(*planner.policy_backup(few, h, under_pi, *rowwise.unpack(packed))), None

    packed = jnp.zeros(spans[-1].states, complex)
    for span in reversed(spans):
        steps = jnp.arange(span.first, span.stop, dtype=jnp.int32)
        packed, _ = lax.scan(partial(backward, span), packed[: span.states], steps, reverse=True)
    return rowwise.unpack(packed)


# --- episodes ---------------------------------------------------------------------------------------------------------
def scan(
    job: Job, carry: Carry, seed: UInt32[Array, ""], count: Int[Array, ""], capacity: int
) -> tuple[Carry, Metrics]:
    """`loop.scan` for a job with `reach`: the same carry and the same metrics."""
    assert job.reach is not None
    reach, spans = job.reach, job.spans
    H, S = job.sizes.horizon, job.sizes.states
    block = BLOCK if H * S * BLOCK <= FEW_ACTIONS and capacity % BLOCK == 0 else 1
    inside = job_in_order(job, reach)
    episodes = carry.agent.k + jnp.arange(capacity, dtype=jnp.int32)
    drawn = jax.vmap(lambda k: loop.draws(job.world, job.sizes, seed, k))(episodes)
    actions = jnp.zeros((block, H, S), jnp.int8)
    started = carry_in_order(carry, reach.states)
    fitted = algorithm.fit_models(inside.agent, started.agent)
    one_draw = jax.tree.map(lambda x: x[0], drawn)
    episode = jax.jit(partial(_episode, inside), inline=True)  # traced once: for the shapes, and for the loop
    shape = jax.eval_shape(lambda: episode(started, fitted, one_draw, actions[0])[-1])
    book = jax.tree.map(lambda leaf: jnp.zeros((capacity, *leaf.shape), leaf.dtype), shape)

    def one(i: Array, loop_state: tuple[Any, ...]) -> tuple[Any, ...]:
        carry, fitted, book, actions = loop_state
        draw: Draws = jax.tree.map(lambda x: x[i], drawn)
        carry, fitted, mine, metrics = episode(carry, fitted, draw, actions[i % block])
        book = jax.tree.map(lambda rows, new: rows.at[i].set(new), book, metrics)
        return carry, fitted, book, lax.dynamic_update_index_in_dim(actions, mine, i % block, 0)

    def many(b: Array, loop_state: tuple[Any, ...]) -> tuple[Any, ...]:
        first = b * block
        last = jnp.minimum(first + block, count)
        carry, fitted, book, actions = lax.fori_loop(first, last, one, loop_state)
        V, C = evaluate(inside.world, actions, spans)
        rows = jnp.arange(block, dtype=jnp.int32)
        start = lax.dynamic_slice_in_dim(book.start, first, block)
        done = first + rows < count
        put = lambda column, new: lax.dynamic_update_slice_in_dim(
            column, jnp.where(done, new[start, rows], 0.0).astype(column.dtype), first, 0
        )
        book = book._replace(value=put(book.value, V), expected_violation=put(book.expected_violation, C))
        return carry, fitted, book, actions

    carry, _, book, _ = lax.fori_loop(0, (count + block - 1) // block, many, (started, fitted, book, actions))
    happened = jnp.arange(capacity, dtype=jnp.int32) < count
    start = jnp.where(happened, jnp.asarray(reach.states)[book.start], 0)
    return carry_in_order(carry, reach.place), book._replace(start=start)


def _episode(
    job: Job, carry: Carry, fitted: Fitted, draw: Draws, actions: Array
) -> tuple[Carry, Fitted, Array, Metrics]:
    """One episode in the order of reach: its carry, its actions, and its metrics without the exact values."""
    assert job.reach is not None
    actions = plan(job.agent, fitted, carry.agent, draw.tie_word, job.reach, job.spans, actions)
    nothing = jnp.zeros(actions.shape[1])
    planned = loop.Planned(Plan(actions, actions=actions), nothing, nothing, None)
    carry, episode, metrics = loop.play_and_learn(job, carry, draw, planned, None)
    agent = job.agent
    radii = cast(Counts, agent.values).radius, cast(CountCosts, agent.costs).radius
    if all(isinstance(radius, Tuned) for radius in radii) and agent.known_safe is None:
        fitted = refitted(agent, carry.agent, fitted, episode)
    else:
        fitted = algorithm.fit_models(agent, carry.agent)
    return carry, fitted, actions, metrics


@partial(jax.jit, static_argnames="capacity")
def scan_seeds(
    job: Job, carries: Carry, seeds: UInt32[Array, " n"], count: Int[Array, ""], capacity: int
) -> tuple[Carry, Metrics]:
    """`scan` for many seeds, one after another."""
    return lax.map(lambda row: scan(job, row[0], row[1], count, capacity), (carries, seeds))
