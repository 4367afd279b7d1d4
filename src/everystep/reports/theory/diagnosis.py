"""What the proofs speak of, measured inside a run: errors, potentials, information, and whether confidence sets held.

Before each episode k the watcher looks at the agent's beliefs, after it at what was visited:

    sum_h e_h^k                 e = 2 * width of the cost interval at the visited (x_h, a_h), over all constraints
    Condition 1 (eq. 15)        |g - mean| <= width at all (h, x, a), that is 0 <= g - ghat <= e, ghat = mean - width
    Lemma over-est              Q_h^k(x, a) >= Q*_h(x, a) at all (h, x, a)
    elliptical potential        sum_h min(1, ||phi||^2_{Lambda^-1}) of the value and the cost model
    information gained          1/2 log det(Lambda / lam), of each estimator

Which Q*: the lemma's is Q*_h = r_h + P_h V*_{h+1} with V* the optimum over *safe* actions (`planner.solve`). So
Q*(x, a) of an unsafe a is what it earns if all later actions are safe and best: such a are part of the claim, too.

It is the run itself that is watched (`drive.run_episode`), so everything an experiment does is done here alike. Margins
are recorded instead of verdicts; a claim holds if its margin is at least -SLACK, which forgives rounding. States that
`problem.exempt` excuses are left out, as they are never entered. An agent that plans rarely is judged on the Q of its
last plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from everystep.agents.registry import REGISTERED, Resolved
from everystep.experiments.engines import local
from everystep.experiments.experiment import Experiment
from everystep.lsvi import algorithm
from everystep.lsvi.algorithm import Agent, Plan, State
from everystep.lsvi.costs.counts import CountCosts
from everystep.lsvi.costs.gp import EachCost, GridGP, GrowingGP
from everystep.lsvi.costs.linear import LinearCosts
from everystep.lsvi.episode import Episode
from everystep.lsvi.loop import Metrics
from everystep.lsvi.radii import CoordinateCost, Tuned
from everystep.mdp import planner
from everystep.mdp.cmdp import FiniteCMDP
from everystep.mdp.world import World

SLACK = 1e-9
KNOWN_COSTS = (CountCosts, LinearCosts, GridGP, GrowingGP)


class Seen(NamedTuple):
    """What the watcher writes down in one episode. Cost models are counted along M, estimators along T."""

    error: Float[Array, ""]  # sum_h e_h^k
    condition: Float[Array, ""]  # least width - |g - mean| over all (i, h, x, a)
    optimism: Float[Array, ""]  # least Q - Q* over all (h, x, a)
    optimism_at_start: Float[Array, ""]  # V_1^k(x_1) - V*_1(x_1)
    value_potential: Float[Array, ""]
    value_gain: Float[Array, " T"]  # after the episode
    cost_potential: Float[Array, " M"] | None  # None for cost models of which no norm is known
    cost_gain: Float[Array, "M T"] | None  # after the episode
    cost_radius: Float[Array, "M T"] | None  # radius in force; NaN where widths are no multiple of norms


class Watch(NamedTuple):
    """Somebody who knows the truth and watches: Q* (H, A, S), V*_1 (S,), and which states count."""

    Q_star: Float[Array, "H A S"]
    V_star: Float[Array, " S"]
    counted: Bool[Array, " S"]

    @classmethod
    def on(cls, problem: FiniteCMDP) -> Watch:
        V = planner.solve(problem).V
        Q = [planner.action_values(problem.world, h, V[h + 1]) for h in range(problem.horizon)]
        return cls(np.stack(Q), V[0], ~problem.exempt)  # type: ignore[arg-type]

    def __call__(self, agent: Agent, world: World, before: State, after: State, plan: Plan, episode: Episode) -> Seen:
        H = len(self.Q_star)
        steps = jnp.arange(H, dtype=jnp.int32)
        least = lambda margin: jnp.where(jnp.broadcast_to(self.counted, margin.shape), margin, jnp.inf).min()
        visited = lambda table: _by_step(table, H)[steps, ..., episode.a, episode.x]  # (H, ...)

        Q = believed_values(agent, before, plan)
        V_start = (plan.policy[0, :, episode.x[0]].astype(Q.dtype) * Q[0, :, episode.x[0]]).sum()
        cost = agent.costs.estimate(before.costs, before.k)
        width = jnp.broadcast_to(cost.width, cost.mean.shape)
        norms = value_norms(agent.values, before, plan)
        models = of_each(agent.costs, before.costs)
        learnt = of_each(agent.costs, after.costs)
        stacked = lambda rows: jnp.stack(rows) if rows else None
        return Seen(
            error=2 * visited(width).sum(),  # eq. (15)
            condition=least(width - jnp.abs(world.g - cost.mean)),
            optimism=least(Q - self.Q_star),
            optimism_at_start=V_start - self.V_star[episode.x[0]],
            value_potential=jnp.minimum(visited(norms), 1).sum(),
            value_gain=agent.values.log_det(after.values) / 2,
            cost_potential=stacked([jnp.minimum(visited(cost_norms(*each)), 1).sum() for each in models]),
            cost_gain=stacked([information(*each) for each in learnt]),
            cost_radius=stacked([radius(model, state, before.k) for model, state in models]),
        )


def _by_step(table: Array, H: int) -> Array:
    """(T, ...) to (H, ...)."""
    return jnp.broadcast_to(table, (H, *table.shape[1:]))


def believed_values(agent: Agent, state: State, plan: Plan) -> Float[Array, "H A S"]:
    """Q_h^k, from which a plan was made: the same backward pass, along the actions the plan chose."""
    H, _, S = plan.policy.shape
    fit, _ = algorithm.fitted(agent, state)

    def backward(V_next: Array, h: Array) -> tuple[Array, Array]:
        Q = agent.values.estimate(fit, h, V_next)
        return planner.under(plan.policy[h].astype(Q.dtype), Q), Q

    _, Q = lax.scan(backward, jnp.zeros(S), jnp.arange(H, dtype=jnp.int32), reverse=True)
    return Q


# --- what the parts know beside their estimates -----------------------------------------------------------------------
ONE = lambda: Tuned(jnp.ones(()))  # a radius of 1 shows the norm itself


def value_norms(values: Any, state: State, plan: Plan) -> Float[Array, "T A S"]:
    """||phi||^2_{Lambda^-1} of the value model at all (x, a); of a mixture, ||phi_V|| with the V of the plan."""
    if plan.V_next is not None:
        return values.norms(state.values, plan.V_next)
    fit: Any = values._replace(radius=ONE()).fit(state.values, state.k)
    return fit.norm2 if hasattr(fit, "norm2") else fit.width**2


def of_each(model: Any, state: Any) -> list[tuple[Any, Any]]:
    """Cost models with their states, one by one; none of them if there is one of which nothing more is known."""
    each = list(zip(model.models, state, strict=True)) if isinstance(model, EachCost) else [(model, state)]
    return each if all(isinstance(one, KNOWN_COSTS) for one, _ in each) else []


def cost_norms(model: Any, state: Any) -> Float[Array, "T A S"]:
    """||phi||^2_{Lambda^-1} of a cost model at all (x, a); of a Gaussian process, its variance over lam."""
    width = model._replace(radius=ONE()).estimate(state, jnp.int32(1)).width[:, 0]
    return width**2 / model.lam if isinstance(model, GridGP | GrowingGP) else width**2


def information(model: Any, state: Any) -> Float[Array, " T"]:
    """1/2 log det(Lambda / lam) of each estimator: the realised information gain."""
    if isinstance(model, GridGP):
        return state.posterior.gain
    if isinstance(model, GrowingGP):
        return state.gain
    if isinstance(model, LinearCosts):
        return state.gram.log_det / 2
    return jnp.log1p(state.visits / model.lam).sum((1, 2)) / 2


def radius(model: Any, state: Any, k: Array) -> Float[Array, " T"]:
    """What multiplies the norm in the width of each estimator."""
    gain = information(model, state)
    if isinstance(model.radius, CoordinateCost):
        return jnp.full_like(gain, jnp.nan)
    told = (gain,) if isinstance(model, GridGP | GrowingGP) else ()
    return jnp.broadcast_to(model.radius.width(jnp.ones_like(gain), k, *told), gain.shape)


# --- runs watched -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Diagnosed:
    """One agent's run with what the watcher saw: arrays (seeds, K, ...)."""

    resolved: Resolved
    metrics: Metrics
    seen: Seen

    @property
    def has_costs(self) -> bool:
        return REGISTERED[self.resolved.recipe.name].has_costs

    @property
    def condition_held(self) -> np.ndarray:
        """(seeds, K): whether every cost interval held before the episode."""
        return np.asarray(self.seen.condition >= -SLACK)

    @property
    def optimism_held(self) -> np.ndarray:
        """(seeds, K): whether Q >= Q* everywhere, for the Q in force."""
        return self._in_force(self.seen.optimism >= -SLACK)

    @property
    def optimism_held_at_start(self) -> np.ndarray:
        """(seeds, K): whether V_1^k(x_1) >= V*_1(x_1), for the V in force."""
        return self._in_force(self.seen.optimism_at_start >= -SLACK)

    def _in_force(self, held: Any) -> np.ndarray:
        """Of an agent that plans rarely, what held when it planned last."""
        if self.metrics.planned is None:
            return np.asarray(held)
        K = np.asarray(held).shape[1]
        last = np.maximum.accumulate(np.where(self.metrics.planned, np.arange(K), 0), 1)
        return np.take_along_axis(np.asarray(held), last, 1)


def diagnose(experiment: Experiment, progress: Callable[[int], None] | None = None) -> dict[str, Diagnosed]:
    """Every agent of an experiment on every seed, watched."""
    problem = experiment.problem
    watch = Watch.on(problem)
    with jax.enable_x64(True):
        cells = [local.Cell(problem, each.build(), watch) for each in experiment.agents.values()]
        traces = local.run(cells, experiment.spec["seeds"], experiment.spec["episodes"], progress or (lambda n: None))
    return {
        label: Diagnosed(each, trace.metrics, trace.metrics.watched)
        for (label, each), trace in zip(experiment.agents.items(), traces, strict=True)
    }
