"""A kernel value model: Q in the space of a kernel, optimistic kernel regression (KOVI, Yang et al. 2020).

With z = (x, a), the n observations z_tau, y_tau = r_tau + V_{h+1}(x'_tau), K = k(z_tau, z_tau'), k_z = k(z_tau, z):

    Q_h(z) = clip(k_z^T (K + lam I)^-1 y + beta lam^{-1/2} sqrt(k(z, z) - k_z^T (K + lam I)^-1 k_z), lowest, cap)

On N distinct points no array needs to grow. Let G be the kernel at all of them, E (n, N) the matrix that selects the
points seen (K = E G E^T), D = E^T E the diagonal matrix of their visits, s = E^T y the sum of y at each point. The
posterior covariance at the points is

    C = G - G E^T (E G E^T + lam I)^-1 E G = lam (lam G^-1 + D)^-1            (Woodbury)

and from (lam G^-1 + D) G E^T = E^T (lam I + E G E^T) follows

    G E^T (K + lam I)^-1 y = (lam G^-1 + D)^-1 E^T y = C s / lam,

so the estimate is C s / lam with width beta sqrt(diag C / lam). V enters through s alone; C is the same for every V and
is updated by rank-H downdates (`gp_posterior.seen_at`), which never need G^-1. With k = <phi, phi'> this is ridge
regression, diag C / lam = ||phi||^2 in Lambda^-1; with a kernel that distinguishes all (x, a) it is counting.

Departures from the paper: it prints lam = 1 + 1 / T and a beta from covering numbers of the kernel's space; here both
are settings. `lowest` is its 0; values that are not clipped above (`cap=none`, as in RPOL) are not clipped below.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from everystep.lsvi import rowwise
from everystep.lsvi.episode import Episode
from everystep.lsvi.radii import Radius, Scalar, with_bonus
from everystep.lsvi.regression import gp_posterior
from everystep.lsvi.regression.linalg import by_estimator, for_each, repeat
from everystep.lsvi.values.counts import CountState, counted, nothing_counted
from everystep.mdp.world import Sizes, at_step, weighted


class KernelState(NamedTuple):
    """The counts of what followed each (x, a), which turn V into s; the covariance C; and 1/2 log det(I + K / lam)."""

    seen: CountState
    cov: Float[Array, "T N N"]
    gain: Float[Array, " T"]


class KernelFit(NamedTuple):
    state: KernelState
    width: Float[Array, "T A S"]


class KernelValues(NamedTuple):
    """Q = clip(C s / lam + radius(diag C / lam), lowest, cap): O(H N^2) per episode, whatever k is.

    gram (N, N) is the kernel at the N distinct points, point (A, S) the index of the point of each (x, a).
    """

    radius: Radius
    lam: Scalar
    cap: Scalar
    successors: Int[Array, "J S"] | Int[Array, "A J S"] | None
    gram: Float[Array, "N N"]
    point: Int[Array, "A S"]
    lowest: Scalar = 0.0

    @property
    def learns_from_plans(self) -> bool:
        return False

    def init(self, sizes: Sizes, steps: int) -> KernelState:
        return KernelState(nothing_counted(sizes, steps), repeat(self.gram, steps), jnp.zeros(steps))

    def update(self, state: KernelState, episode: Episode) -> KernelState:
        i = by_estimator(len(state.gain), self.point[episode.a, episode.x])

        def updated(cov: Array, gain: Array, i: Array) -> tuple[Array, Array]:
            _, U, gained = gp_posterior.seen_at(cov, i, self.lam)
            return cov - U.T @ U, gain + gained

        return KernelState(counted(state.seen, episode), *for_each(updated, state.cov, state.gain, i))

    def fit(self, state: KernelState, k: Int[Array, ""], bonus: Float[Array, "H A S"] | None = None) -> KernelFit:
        return KernelFit(state, with_bonus(self.radius.width(self.squared_norms(state), k), bonus))

    def squared_norms(self, state: KernelState, V_next: Float[Array, "H S"] | None = None) -> Float[Array, "T A S"]:
        """diag C / lam at all (x, a), which is ||phi||^2_{Lambda^-1} where k = <phi, phi'>; it does not depend on V."""
        return jnp.maximum(jnp.diagonal(state.cov, axis1=1, axis2=2), 0)[:, self.point] / self.lam

    def estimate(self, fit: KernelFit, h: Int[Array, ""], V_next: Float[Array, " S"]) -> Float[Array, "A S"]:
        fit = jax.tree.map(lambda leaf: at_step(leaf, h), fit)
        seen = fit.state.seen
        s = jnp.zeros(len(self.gram)).at[self.point].add(seen.rewards + self._sums(seen.arrivals, V_next))
        mean = fit.state.cov @ s / self.lam
        return (mean[self.point] + fit.width).clip(self.lowest, self.cap)

    def expect(self, fit: KernelFit, h: Int[Array, ""], C_next: Float[Array, " S"]) -> Float[Array, "A S"]:
        state = jax.tree.map(lambda leaf: at_step(leaf, h), fit.state)
        s = jnp.zeros(len(self.gram)).at[self.point].add(self._sums(state.seen.arrivals, C_next))
        return (state.cov @ s / self.lam)[self.point]

    def _sums(self, arrivals: Float[Array, "A J S"], V_next: Float[Array, " S"]) -> Float[Array, "A S"]:
        """The sum of V(x') over the visits of each (x, a)."""
        if self.successors is None:
            return V_next @ arrivals
        V_after = V_next[self.successors]
        if V_after.ndim == 3:
            return rowwise.map_rows(weighted, arrivals, V_after)
        return rowwise.map_rows(lambda N: weighted(N, V_after), arrivals)

    def log_det(self, state: KernelState) -> Float[Array, " T"]:
        """log det(I + K / lam) of each estimator, which is log det Lambda - log det(lam I) where k = <phi, phi'>."""
        return 2 * state.gain
