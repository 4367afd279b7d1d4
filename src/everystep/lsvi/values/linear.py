"""Values linear in features: least-squares regression with a running inverse.

Lambda_h = sum_tau phi_tau phi_tau^T + lam I                                     line 5 of Algorithm 1
w_h = Lambda_h^-1 sum_tau phi_tau [r_tau + V_{h+1}(x'_tau)]                      line 6
Q_h = clip(<w_h, phi> + beta ||phi||_{Lambda_h^-1}, lowest, cap)                 line 7
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from everystep.lsvi.episode import Episode
from everystep.lsvi.radii import Radius, Scalar, with_bonus
from everystep.lsvi.regression import linalg
from everystep.mdp.world import Sizes, at_step


class LinearState(NamedTuple):
    """Lambda^-1 and norms; sum phi r; and sum phi 1[x' = y] for each y, which turns V into regression targets."""

    gram: linalg.Gram
    rewards: Float[Array, "T d"]
    arrivals: Float[Array, "T d S"]


class LinearFit(NamedTuple):
    state: LinearState
    width: Float[Array, "T A S"]


class Linear(NamedTuple):
    """Dense features phi(x, a) on finitely many states: ridge regression with a running inverse.

    sum_tau phi_tau V(x'_tau) = M V with M = `arrivals` (d, S), so a plan takes O(H d S A), whatever k is.
    Departures from the paper: Q is also at least `lowest`, 0 where rewards are in [0, 1]. Algorithm 1 clips above only,
    and its proofs use Q in [0, H]; no value is below 0, so the clip only brings Q closer to it (docs/look-ahead.md).
    """

    radius: Radius
    lam: Scalar
    cap: Scalar
    phi: Float[Array, "A S d"]
    norms: linalg.Watched | linalg.OnDemand = linalg.WATCHED
    lowest: Scalar = 0.0

    @property
    def learns_from_plans(self) -> bool:
        return False

    def init(self, sizes: Sizes, steps: int) -> LinearState:
        d = self.phi.shape[-1]
        gram = linalg.repeat(linalg.fresh(self.phi, self.lam, self.norms), steps)
        return LinearState(gram, jnp.zeros((steps, d)), jnp.zeros((steps, d, sizes.states)))

    def update(self, state: LinearState, episode: Episode) -> LinearState:
        rows = (self.phi[episode.a, episode.x], episode.reward, episode.x_next)
        X, y, x_next = (linalg.by_estimator(len(state.rewards), each) for each in rows)

        def updated(
            gram: linalg.Gram, rewards: Array, arrivals: Array, X: Array, y: Array, x_next: Array
        ) -> LinearState:
            return LinearState(linalg.add(gram, self.phi, X), rewards + X.T @ y, arrivals.at[:, x_next].add(X.T))

        return jax.vmap(updated)(*state, X, y, x_next)

    def fit(self, state: LinearState, k: Int[Array, ""], bonus: Float[Array, "H A S"] | None = None) -> LinearFit:
        return LinearFit(state, with_bonus(self.radius.width(self.squared_norms(state), k), bonus))

    def squared_norms(self, state: LinearState, V_next: Float[Array, "H S"] | None = None) -> Float[Array, "T A S"]:
        """||phi||^2_{Lambda^-1} at all (x, a), which does not depend on V."""
        return jax.vmap(lambda gram: linalg.squared_norms(gram, self.phi))(state.gram)

    def log_det(self, state: LinearState) -> Float[Array, " T"]:
        return state.gram.log_det

    def estimate(self, fit: LinearFit, h: Int[Array, ""], V_next: Float[Array, " S"]) -> Float[Array, "A S"]:
        state = jax.tree.map(lambda x: at_step(x, h), fit.state)
        w = state.gram.inverse @ (state.rewards + state.arrivals @ V_next)  # line 6
        return (self.phi @ w + at_step(fit.width, h)).clip(self.lowest, self.cap)  # line 7

    def expect(self, fit: LinearFit, h: Int[Array, ""], C_next: Float[Array, " S"]) -> Float[Array, "A S"]:
        state = jax.tree.map(lambda x: at_step(x, h), fit.state)
        return self.phi @ (state.gram.inverse @ (state.arrivals @ C_next))
