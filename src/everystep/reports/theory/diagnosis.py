"""The quantities of the proofs, measured inside a run: errors, potentials, information gain, valid confidence sets.

Before each episode k the probe reads the agent's estimates; after it, the visited states and actions:

    sum_h e_h^k                 e = 2 * width of the cost interval at the visited (x_h, a_h), over all constraints
    Condition 1 (eq. 15)        |g - mean| <= width at all (h, x, a), that is 0 <= g - ghat <= e, ghat = mean - width
    Lemma over-est              Q_h^k(x, a) >= Q*_h(x, a) at all (h, x, a)
    elliptical potential        sum_h min(1, ||phi||^2_{Lambda^-1}) of the value and the cost model
    information gain            1/2 log det(Lambda / lam), of each estimator

Which Q*: the lemma's is Q*_h = r_h + P_h V*_{h+1} with V* the optimum over *safe* actions (`planner.solve`). So
Q*(x, a) of an unsafe a is its return if all later actions are safe and optimal: the claim includes such a.

The probe runs inside `loop.run_episode`, so the run is the same as without it. It records margins; a claim holds if
its margin is at least -SLACK, which allows for rounding. States in `problem.exempt` are excluded, because they are
never entered. An agent that plans rarely is judged by the Q of its last plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from everystep.agents.registry import REGISTERED
from everystep.agents.resolve.agent import Resolved
from everystep.experiments.engines import local
from everystep.experiments.experiment import Experiment
from everystep.lsvi import algorithm
from everystep.lsvi.algorithm import Agent, Plan, State
from everystep.lsvi.costs.lemmas import covered
from everystep.lsvi.episode import Episode
from everystep.lsvi.loop import Metrics
from everystep.lsvi.protocols import FiniteValueModel
from everystep.mdp import planner
from everystep.mdp.cmdp import FiniteCMDP
from everystep.mdp.world import World

SLACK = 1e-9


class ProofQuantities(NamedTuple):
    """The record of one episode. Axis M runs over the cost models that the lemmas cover, T over estimators."""

    error: Float[Array, ""]  # sum_h e_h^k
    condition: Float[Array, ""]  # smallest width - |g - mean| over all (i, h, x, a)
    optimism: Float[Array, ""]  # smallest Q - Q* over all (h, x, a)
    optimism_at_start: Float[Array, ""]  # V_1^k(x_1) - V*_1(x_1)
    value_potential: Float[Array, ""]
    value_gain: Float[Array, " T"]  # after the episode
    cost_potential: Float[Array, " M"] | None  # None if the lemmas cover no cost model
    cost_gain: Float[Array, "M T"] | None  # after the episode
    cost_radius: Float[Array, "M T"] | None  # before the episode; NaN if widths are not proportional to norms


class ProofProbe(NamedTuple):
    """Compares an agent's estimates with the truth: Q* (H, A, S), V*_1 (S,), and the states that count."""

    Q_star: Float[Array, "H A S"]
    V_star: Float[Array, " S"]
    counted: Bool[Array, " S"]

    @classmethod
    def from_problem(cls, problem: FiniteCMDP) -> ProofProbe:
        problem = problem.in_units  # as the agent's estimates
        V = planner.solve(problem).V
        Q = [planner.action_values(problem.world, h, V[h + 1]) for h in range(problem.horizon)]
        return cls(np.stack(Q), V[0], ~problem.exempt)  # type: ignore[arg-type]

    def __call__(
        self, agent: Agent, world: World, before: State, after: State, plan: Plan, episode: Episode
    ) -> ProofQuantities:
        H = len(self.Q_star)
        steps = jnp.arange(H, dtype=jnp.int32)
        smallest = lambda margin: jnp.where(jnp.broadcast_to(self.counted, margin.shape), margin, jnp.inf).min()
        visited = lambda table: _by_step(table, H)[steps, ..., episode.a, episode.x]  # (H, ...)

        Q = estimated_values(agent, before, plan)
        V_start = (plan.policy[0, :, episode.x[0]].astype(Q.dtype) * Q[0, :, episode.x[0]]).sum()
        cost = agent.costs.estimate(before.costs, before.k)
        width = jnp.broadcast_to(cost.width, cost.mean.shape)
        assert isinstance(agent.values, FiniteValueModel)
        value_norms = agent.values.squared_norms(before.values, plan.V_next)
        earlier, later = (covered(agent.costs, each.costs) for each in (before, after))
        stacked = lambda rows: jnp.stack(rows) if rows else None
        potential = lambda norms: jnp.minimum(visited(norms), 1).sum()
        return ProofQuantities(
            error=2 * visited(width).sum(),  # eq. (15)
            condition=smallest(width - jnp.abs((world if world.units is None else world.units).g - cost.mean)),
            optimism=smallest(Q - self.Q_star),
            optimism_at_start=V_start - self.V_star[episode.x[0]],
            value_potential=potential(value_norms),
            value_gain=agent.values.log_det(after.values) / 2,
            cost_potential=stacked([potential(model.squared_norms(state)) for model, state in earlier]),
            cost_gain=stacked([model.information_gain(state) for model, state in later]),
            cost_radius=stacked([model.radius_at(before.k, model.information_gain(state)) for model, state in earlier]),
        )


def _by_step(table: Array, H: int) -> Array:
    """(T, ...) to (H, ...)."""
    return jnp.broadcast_to(table, (H, *table.shape[1:]))


def estimated_values(agent: Agent, state: State, plan: Plan) -> Float[Array, "H A S"]:
    """Q_h^k of a plan: the same backward pass, along the actions that the plan chose."""
    H, _, S = plan.policy.shape
    fit, _ = algorithm.fit_models(agent, state)

    def backward(V_next: Array, h: Array) -> tuple[Array, Array]:
        Q = agent.values.estimate(fit, h, V_next)
        return planner.mean_under(plan.policy[h].astype(Q.dtype), Q), Q

    _, Q = lax.scan(backward, jnp.zeros(S), jnp.arange(H, dtype=jnp.int32), reverse=True)
    return Q


# --- diagnosed runs ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Diagnosed:
    """One agent's run with the quantities of the proofs: arrays (seeds, K, ...)."""

    resolved: Resolved
    metrics: Metrics
    measured: ProofQuantities

    @property
    def has_costs(self) -> bool:
        return REGISTERED[self.resolved.recipe.name].uses_costs

    @property
    def condition_held(self) -> np.ndarray:
        """(seeds, K): whether all cost intervals held before the episode."""
        return np.asarray(self.measured.condition >= -SLACK)

    @property
    def optimism_held(self) -> np.ndarray:
        """(seeds, K): whether Q >= Q* everywhere, for the Q in force."""
        return self._in_force(self.measured.optimism >= -SLACK)

    @property
    def optimism_held_at_start(self) -> np.ndarray:
        """(seeds, K): whether V_1^k(x_1) >= V*_1(x_1), for the V in force."""
        return self._in_force(self.measured.optimism_at_start >= -SLACK)

    def _in_force(self, held: object) -> np.ndarray:
        """The verdict at the last plan, for agents that plan rarely."""
        if self.metrics.planned is None:
            return np.asarray(held)
        K = np.asarray(held).shape[1]
        last = np.maximum.accumulate(np.where(self.metrics.planned, np.arange(K), 0), 1)
        return np.take_along_axis(np.asarray(held), last, 1)


def diagnose(experiment: Experiment, progress: Callable[[int], None] | None = None) -> dict[str, Diagnosed]:
    """Run every agent of an experiment on every seed, with the probe."""
    problem = experiment.problem
    probe = ProofProbe.from_problem(problem)
    with jax.enable_x64(True):
        pairs = [pair._replace(probe=probe, certify=False) for pair in experiment.pairs]
        traces = local.run(pairs, experiment.spec["seeds"], experiment.spec["episodes"], progress or (lambda n: None))
    return {
        label: Diagnosed(each, trace.metrics, trace.metrics.probed)
        for (label, each), trace in zip(experiment.agents.items(), traces, strict=True)
    }
