"""Costs linear in features: ridge regression of each constraint on phi(x, a).

theta_h = Lambda_h^-1 sum_tau phi_tau g_tau,    mean = <theta_h, phi>,    width = radius ||phi||_{Lambda_h^-1}
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from everystep.lsvi.costs.estimate import CostEstimate
from everystep.lsvi.episode import Episode
from everystep.lsvi.radii import Radius, Scalar
from everystep.lsvi.regression import linalg
from everystep.mdp.world import Sizes


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
