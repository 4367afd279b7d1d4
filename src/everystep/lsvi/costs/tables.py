"""Cost models: the estimate of g and its width, the line "update estimates of the cost" of Algorithm 1.

    theta_h = Lambda_h^-1 sum_tau phi_tau g_tau,    mean = <theta_h, phi>,    width = radius ||phi||_{Lambda_h^-1}

The agent then uses ghat = mean - optimism * width. A model has `init`, `update` and `estimate`; estimates carry a
leading axis T (1: shared over steps, H: one for each) and one axis m of constraints.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from everystep.lsvi.episode import Episode, step_index
from everystep.lsvi.radii import Norms, Radius, Scalar
from everystep.lsvi.regression import linalg
from everystep.mdp.cmdp import Sizes


class CostEstimate(NamedTuple):
    """An interval for each constraint at each (x, a): mean - width to mean + width."""

    mean: Float[Array, "T m A S"]
    width: Float[Array, "T w A S"]  # w is 1 where all constraints share it, else m


class CountCostState(NamedTuple):
    visits: Float[Array, "T A S"]
    total: Float[Array, "T m A S"]


class CountCosts(NamedTuple):
    """One-hot features: the mean of what was seen at (x, a), shrunk to 0 as n / (n + lam).

    Departures from the paper: none.
    """

    radius: Radius
    lam: Scalar

    def init(self, sizes: Sizes, steps: int) -> CountCostState:
        S, A, m = sizes.states, sizes.actions, sizes.constraints
        return CountCostState(jnp.zeros((steps, A, S)), jnp.zeros((steps, m, A, S)))

    def update(self, state: CountCostState, episode: Episode) -> CountCostState:
        h = step_index(state.visits, episode)
        return CountCostState(
            state.visits.at[h, episode.a, episode.x].add(1),
            state.total.at[h, :, episode.a, episode.x].add(episode.cost),
        )

    def estimate(self, state: CountCostState, k: Int[Array, ""]) -> CostEstimate:
        return CostEstimate(*self.interval(state.visits[:, None], state.total, k))

    def interval(self, n: Norms, total: Norms, k: Int[Array, ""]) -> tuple[Norms, Norms]:
        """Mean and width after n visits."""
        norm2 = 1 / (n + self.lam)
        return total * norm2, self.radius.width(norm2, k)


class LinearCostState(NamedTuple):
    gram: linalg.Gram
    moment: Float[Array, "T m d"]


class LinearCosts(NamedTuple):
    """Dense features: ridge regression of each constraint on phi(x, a), one Gram matrix for all of them.

    Departures from the paper: none; theta carries no (x, a), which is a misprint there.
    """

    radius: Radius
    lam: Scalar
    phi: Float[Array, "A S d"]
    norms: linalg.Watched | linalg.OnDemand = linalg.WATCHED

    def init(self, sizes: Sizes, steps: int) -> LinearCostState:
        fresh = linalg.fresh(self.phi, self.lam, self.norms)
        gram = jax.tree.map(lambda x: jnp.broadcast_to(x, (steps, *x.shape)), fresh)
        return LinearCostState(gram, jnp.zeros((steps, sizes.constraints, self.phi.shape[-1])))

    def update(self, state: LinearCostState, episode: Episode) -> LinearCostState:
        steps = state.moment.shape[0]
        phi = self.phi[episode.a, episode.x]
        X = phi.reshape(steps, -1, phi.shape[-1])
        y = episode.cost.reshape(steps, -1, episode.cost.shape[-1])

        def one(gram, moment, X, y):
            return LinearCostState(linalg.add(gram, self.phi, X), moment + y.T @ X)

        return jax.vmap(one)(*state, X, y)

    def estimate(self, state: LinearCostState, k: Int[Array, ""]) -> CostEstimate:
        theta = state.moment @ state.gram.inverse  # (T, m, d)
        norm2 = jax.vmap(lambda gram: linalg.squared_norms(gram, self.phi))(state.gram)
        return CostEstimate(jnp.einsum("tmd,asd->tmas", theta, self.phi), self.radius.width(norm2, k)[:, None])
