"""Costs linear in features: ridge regression of each constraint on phi(x, a).

theta_h = Lambda_h^-1 sum_tau phi_tau g_tau,    mean = <theta_h, phi>,    width = radius ||phi||_{Lambda_h^-1}
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from everystep.lsvi.costs.estimate import CostEstimate
from everystep.lsvi.costs.lemmas import Capacity
from everystep.lsvi.costs.spec import CostContext, CostSpec, no_features, ridge_radius
from everystep.lsvi.episode import Episode
from everystep.lsvi.radii import Radius, Scalar, factor_of_norm
from everystep.lsvi.regression import linalg
from everystep.mdp.cmdp import FiniteCMDP
from everystep.mdp.world import Sizes


class LinearCostState(NamedTuple):
    gram: linalg.Gram
    moment: Float[Array, "T m d"]


class LinearCosts(NamedTuple):
    """Dense features: ridge regression of each constraint on phi(x, a), one Gram matrix for all of them.

    Departures from the paper: none; its theta carries (x, a) as arguments, which is a misprint.
    """

    radius: Radius
    lam: Scalar
    phi: Float[Array, "A S d"]
    norms: linalg.Watched | linalg.OnDemand = linalg.WATCHED

    def init(self, sizes: Sizes, steps: int) -> LinearCostState:
        gram = linalg.repeat(linalg.fresh(self.phi, self.lam, self.norms), steps)
        return LinearCostState(gram, jnp.zeros((steps, sizes.constraints, self.phi.shape[-1])))

    def update(self, state: LinearCostState, episode: Episode) -> LinearCostState:
        rows = (self.phi[episode.a, episode.x], episode.cost)
        X, y = (linalg.by_estimator(len(state.moment), each) for each in rows)

        def updated(gram: linalg.Gram, moment: Array, X: Array, y: Array) -> LinearCostState:
            return LinearCostState(linalg.add(gram, self.phi, X), moment + y.T @ X)

        return jax.vmap(updated)(*state, X, y)

    def estimate(self, state: LinearCostState, k: Int[Array, ""]) -> CostEstimate:
        theta = state.moment @ state.gram.inverse  # (T, m, d)
        width = self.radius.width(self.squared_norms(state), k)
        return CostEstimate(jnp.einsum("tmd,asd->tmas", theta, self.phi), width[:, None])

    # --- for the lemmas (see lemmas.py) ------------------------------------------------------------------------------
    def squared_norms(self, state: LinearCostState) -> Float[Array, "T A S"]:
        return jax.vmap(lambda gram: linalg.squared_norms(gram, self.phi))(state.gram)

    def information_gain(self, state: LinearCostState) -> Float[Array, " T"]:
        return state.gram.log_det / 2

    def radius_at(self, k: Int[Array, ""], gain: Float[Array, "*T"]) -> Float[Array, "*T"]:
        return factor_of_norm(self.radius, k, gain)

    def capacity(self, sizes: Sizes) -> Capacity:
        return Capacity(float(self.phi.shape[-1]))


@dataclass(frozen=True)
class LinearSpec(CostSpec):
    """`cost=linear`, in the features of the problem."""

    def __str__(self) -> str:
        return "linear"

    def decided(self, problem: FiniteCMDP, phi: np.ndarray | None, where: str) -> LinearSpec:
        if phi is None:
            raise no_features(where, problem)
        return self

    def model(self, context: CostContext) -> LinearCosts:
        assert context.phi is not None
        norms = linalg.OnDemand() if context.rarely_asked else linalg.Watched()
        radius = ridge_radius(context, float(context.phi.shape[-1]))
        return LinearCosts(radius, context.lam, jnp.asarray(context.phi.swapaxes(0, 1)), norms)

    def is_valid(self, context: CostContext) -> bool:
        """The printed radius assumes noise of at most 1, and costs <theta, phi> with ||theta|| <= sqrt(d)."""
        if context.true_sigma > 1:
            return False
        assert context.phi is not None
        d = context.phi.shape[-1]
        X, g = context.phi.reshape(-1, d), context.truth.reshape(-1, context.pairs).T
        theta = np.linalg.lstsq(X, g, rcond=None)[0]
        return bool(np.abs(X @ theta - g).max() <= 1e-9 and np.linalg.norm(theta, axis=0).max() <= math.sqrt(d))
