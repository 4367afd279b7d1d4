"""The algorithm stepped from Python, one episode at a time: what tests compare the compiled loop and oracles with."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from everystep.lsvi import algorithm, loop
from everystep.lsvi.algorithm import Agent
from everystep.lsvi.choices.ties import ties
from everystep.lsvi.episode import Episode
from everystep.mdp.world import Sizes, World, start_state, step

_new_plan = jax.jit(
    lambda agent, world, state, word, shape: loop.new_plan(agent, world, state, ties(word, *shape)),
    static_argnames="shape",
)
_is_due = jax.jit(loop.is_due)
_learn = jax.jit(algorithm.learn)
_react = jax.jit(algorithm.react)
_observe_one = jax.jit(loop.observe_one)
_draws = jax.jit(loop.draws, static_argnames="sizes")


def episodes(
    agent: Agent, world: World, sizes: Sizes, carry: loop.Carry, seed: int, count: int
) -> Iterator[tuple[loop.Carry, loop.Metrics, Episode]]:
    """Episodes of one seed, one at a time, with a Python loop over steps: the same trajectory as `loop.scan`.

    Planning and learning are compiled once per episode; acting is a look-up in host arrays.
    """
    host = jax.tree.map(np.asarray, world)
    for _ in range(count):
        draw = jax.tree.map(np.asarray, _draws(world, sizes, jnp.uint32(seed), carry.agent.k))
        due = None if agent.switch is None else np.asarray(_is_due(agent, carry))
        if carry.planned is None or due:
            planned = _new_plan(agent, world, carry.agent, draw.tie_word, (sizes.horizon, sizes.states))
        else:
            planned = carry.planned
        plan = planned.plan
        reacts = agent.choice.reacts
        tie = np.asarray(ties(jnp.asarray(draw.tie_word), sizes.horizon, sizes.states)) if reacts else None
        costs = carry.agent.costs if reacts else None
        policy = np.asarray(plan.policy)
        x = start_state(host, int(carry.agent.k), draw.start)
        rows, recorded = [], []
        first = x
        for h in range(sizes.horizon):
            pi = policy[h, :, x]
            if tie is not None:
                pi = np.asarray(_react(agent, carry.agent, plan, costs, np.int32(h), np.int32(x), tie[h, x]))
            a = algorithm.act(pi, draw.mixing[h])
            noise = 0.0 if draw.reward_noise is None else draw.reward_noise[h]
            cost_noise = 0.0 if draw.cost_noise is None else draw.cost_noise[h]
            outcome = step(host, h, x, a, draw.transition[h], noise, cost_noise)
            rows.append((np.int32(x), a, outcome.slot, outcome.x_next, outcome.learnt_reward, outcome.learnt_cost))
            recorded.append((outcome.reward, outcome.g))
            if reacts:
                costs = _observe_one(agent, costs, Episode(*map(jnp.asarray, rows[-1])))
            x = outcome.x_next
        seen = Episode(*(jnp.asarray(np.stack(column)) for column in zip(*rows, strict=True)))
        episode = seen._replace(V_next=plan.V_next)
        V, C = np.asarray(planned.V), np.asarray(planned.C)
        mixture = loop.violation_of_mixture(host, plan._replace(policy=policy), np.asarray(episode.x))
        metrics = loop.tally(first, V, C, *(np.stack(column) for column in zip(*recorded, strict=True)))
        metrics = metrics._replace(planned=due, mixture_violation=mixture)
        visits = carry.visits + np.bincount(episode.x, minlength=sizes.states).astype(np.int32)
        learnt = _learn(agent, carry.agent, episode, costs)
        carry = loop.Carry(learnt, jnp.asarray(visits), None if due is None else planned)
        yield carry, metrics, episode
