"""Rounds of learning: the model on rows that were seen, then the critics on imagined steps of all actions.

Half of the states that critics learn from were seen. The others are met on imagined walks, which begin at states that
were seen and follow the rule, with random actions now and then, for as many steps as there are rounds: so critics know
the states that their own decisions would lead to, before these are visited.

One compiled function learns several rounds. Rows are drawn and put into units in NumPy, so that its shapes stay the
same however much is known, and everything random comes from one generator of NumPy.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from everystep.lsvi.protocols import Pytree
from everystep.mdp.world import AnyArray
from everystep.training.learnt import critics, world
from everystep.training.learnt.critics import Rule
from everystep.training.learnt.networks import Layers
from everystep.training.learnt.rows import Rows
from everystep.training.learnt.scales import Scales, Units
from everystep.training.learnt.world import Sizes

BATCH = 128  # rows for the model in a round; a fifth of them are of the last `NEW`
NEW = 64
POOL, RECENT = 256, 512  # residuals that imagined steps draw from, of the last ones
AVERAGED = 0.02  # the share of the newest parameters in their average, each round
WALKING, WANDERING = 0.5, 0.3  # the share of states that are imagined, and of their steps that are random
LINEAR_FROM = 5.0  # errors of critics above which the loss grows linearly
LEFT_OUT, WEIGHT = 200, 1.25  # of 997 residues of a row: a member leaves it out, or weighs it


def optimiser() -> optax.GradientTransformation:
    return optax.flatten(optax.adam(1e-3, b2=0.99))


class Learnt(NamedTuple):
    """Parameters and the state of their optimisers; `steady` is the average of the model, `average` of the critics.

    The averages act, and imagine the steps that critics learn from.
    """

    world: Layers
    world_moments: Pytree
    critics: Layers
    critics_moments: Pytree
    average: Layers
    steady: Layers


class Drawn(NamedTuple):
    """What k rounds learn from, in units: transitions (k, batch, ...), and states (k, E, n, o) to imagine steps from.

    weights (k, E, batch)   of transitions, for each member
    residuals (k, L, E, n, 1, o)  in predicted deviations
    steer (k, E, n)         the actions of imagined walks; -1 for that of the rule
    """

    z: AnyArray
    chosen: AnyArray
    change: AnyArray
    r: AnyArray
    g: AnyArray
    ended: AnyArray
    weights: AnyArray
    states: AnyArray
    residuals: AnyArray
    steer: AnyArray
    limit: AnyArray | None = None  # (k, E, n, A, m): the constraints of imagined steps, where they are not learnt


def start(rng: np.random.Generator, sizes: Sizes) -> Learnt:
    """New networks. JAX holds their arrays, as after every round."""
    of_world, of_critics = (jax.tree.map(jnp.asarray, each.new(rng, sizes)) for each in (world, critics))
    made = optimiser()
    steady, average = jax.tree.map(lambda leaf: jnp.array(leaf, copy=True), (of_world, of_critics))
    return Learnt(of_world, made.init(of_world), of_critics, made.init(of_critics), average, steady)


def states_of(sizes: Sizes) -> int:
    """Of each member: about 96 to 240 imagined steps in a round."""
    return max(min(max(240 // sizes.actions, 12), 48) // sizes.members, 1)


def draw(rng: np.random.Generator, rows: Rows, scales: Scales, sizes: Sizes, k: int) -> Drawn:
    n, new = len(rows), BATCH // 5
    at = rng.integers(0, n, (k, BATCH))
    at[:, :new] = np.maximum(n - 1 - rng.integers(0, NEW, (k, new)), 0)
    residue = (at[:, None] * 7919 + np.arange(sizes.members)[None, :, None] * 10007) % 997
    shape = (k, sizes.members, states_of(sizes))
    states, before = rng.integers(0, n, shape), rng.random(shape) < 0.5
    pool = n - 1 - rng.integers(0, min(n, RECENT), POOL)
    picked = pool[rng.integers(0, POOL, (k, critics.DEPTH_LEARNT, *shape[1:]))][..., None]
    x, y = rows["x"], rows["y"]
    steer = np.where(rng.random(shape) < WANDERING, rng.integers(0, sizes.actions, shape), -1)
    return Drawn(
        z=scales.inputs(x[at]),
        chosen=(rows["a"][at][..., None] == np.arange(sizes.actions)).astype(np.float32),
        change=scales.changes(y[at] - x[at]),
        r=scales.rewards(rows["r"][at]),
        g=scales.targets(rows["g"][at]),
        ended=rows["ended"][at].astype(np.float32),
        weights=np.where(residue < LEFT_OUT, 0.0, WEIGHT).astype(np.float32),
        states=scales.inputs(np.where(before[..., None], x[states], y[states])),
        residuals=rows["standard"][picked].astype(np.float32),
        steer=steer.astype(np.int32),
    )


def _stepped(gradient: Layers, moments: Pytree, layers: Layers) -> tuple[Layers, Pytree]:
    with jax.numpy_dtype_promotion("standard"):  # optax mixes counts and numbers
        updates, moments = optimiser().update(gradient, moments, layers)
    return jax.tree.map(lambda a, b: (a + b).astype(a.dtype), layers, updates), moments


def _round(
    sizes: Sizes, units: Units, rule: Rule, now: Learnt, walk: AnyArray, drawn: Drawn
) -> tuple[Learnt, AnyArray]:
    """The next parameters, and where the walks (E, n, o) have got to."""

    def error_of_world(layers: Layers) -> AnyArray:
        found = world.predict_at(layers, drawn.z[None], drawn.chosen[None])
        errors = world.loss(found, drawn.change, drawn.r, drawn.g, drawn.ended, units.two)
        total = (errors * drawn.weights).mean(1).sum()
        if drawn.limit is None:
            return total
        of_g = world.error_of_g(world.predict(layers, drawn.states, sizes.actions).g, drawn.limit, units.two)
        return total + of_g.mean((1, 2)).sum()

    averaged = lambda a, b: a + AVERAGED * (b - a)
    of_world, world_moments = _stepped(jax.grad(error_of_world)(now.world), now.world_moments, now.world)
    steady = jax.tree.map(averaged, now.steady, of_world)
    seen = drawn.states
    walks = (np.arange(seen.shape[1]) >= (1 - WALKING) * seen.shape[1])[None, :, None]
    states = jnp.where(walks, walk, seen)
    found = world.predict(steady, states, sizes.actions)
    limit = drawn.limit
    if limit is not None:  # it was called on steps from the states that were seen
        limit = jnp.where(walks[..., None], world.as_targets(units, found.g), limit)
    values = critics.scaled(now.average, sizes, units)
    targets = critics.imagined(found, steady, values, sizes, units, rule, states, drawn.residuals, limit)
    targets = targets.reshape(1, -1, sizes.actions, 2 * sizes.heads)
    wanted = (targets - units.q_mean.reshape(1, 1, 1, -1)) / units.q_size.reshape(1, 1, 1, -1)
    z = states.reshape(-1, sizes.coordinates)

    def error_of_critics(layers: Layers) -> AnyArray:
        error = jnp.abs(critics.heads(critics.centred(layers, sizes), sizes, z) - wanted)
        squares = jnp.where(error < LINEAR_FROM, error**2, 2 * LINEAR_FROM * error - LINEAR_FROM**2)
        return squares.mean((1, 2)).sum()

    of_critics, moments = _stepped(jax.grad(error_of_critics)(now.critics), now.critics_moments, now.critics)
    average = jax.tree.map(averaged, now.average, of_critics)
    values = critics.bounded(units, critics.heads(critics.scaled(average, sizes, units), sizes, z).mean(0))
    by_rule = critics.chosen(rule, values)[1].reshape(drawn.steer.shape).astype(drawn.steer.dtype)
    a = jnp.where(drawn.steer < 0, by_rule, drawn.steer)[..., None]
    y = world.arrive(units, states[:, :, None], found.change, drawn.residuals[0] * world.deviation(found))
    y, ends = jnp.take_along_axis(y, a[..., None], 2)[:, :, 0], jnp.take_along_axis(found.ends, a, 2)
    after = Learnt(of_world, world_moments, of_critics, moments, average, steady)
    return after, jnp.where(ends > 0, seen, y)


@partial(jax.jit, static_argnums=0)
def arrivals(sizes: Sizes, model: Layers, units: Units, states: AnyArray, residuals: AnyArray) -> AnyArray:
    """(k, E, n, A, o): the observations that follow imagined steps from `states` (k, E, n, o)."""

    def one(z: AnyArray, residual: AnyArray) -> AnyArray:
        found = world.predict(model, z, sizes.actions)
        return world.arrive(units, z[:, :, None], found.change, residual[:, :, None] * world.deviation(found))

    return jax.vmap(one)(states, residuals)


@partial(jax.jit, static_argnums=0)
def learn(sizes: Sizes, now: Learnt, units: Units, rule: Rule, drawn: Drawn) -> tuple[Learnt, AnyArray]:
    """After as many rounds as `drawn` has, and whether all parameters are finite."""
    begun = (now, drawn.states[0])  # walks begin at states that were seen
    (after, _), _ = lax.scan(lambda both, one: (_round(sizes, units, rule, *both, one), None), begun, drawn)
    learnt = (after.world, after.critics, after.average, after.steady)
    finite = [jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(learnt)]
    return after, jnp.stack(finite).all()
