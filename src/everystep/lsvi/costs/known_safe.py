"""Cost models that use a known safe action in every state, with its cost: those of SLUCB-QVI and RSLUCB-QVI.

Costs are c = g + threshold, linear in features, c(x, a) = <phi(x, a), gamma>. With c0(x) = c(x, a0(x)) known
for every x, what remains to be learnt for x is the part of gamma orthogonal to p = phi0 / ||phi0||, phi0 = phi(x, a0):
with perp(y) = y - <y, p> p,

    A_x = lam (I - p p^T) + sum_t perp(phi_t) perp(phi_t)^T
    gamma_x = A_x^+ sum_t perp(phi_t) [c_t - <phi_t, p> c0(x) / ||phi0||]
    mean(x, a) = <phi, p> c0(x) / ||phi0|| + <gamma_x, perp(phi)>,    norm(x, a) = ||perp(phi)||_{A_x^+}

of Amani, Thrampoulidis and Yang (ICML 2021), reconstructed from later papers that describe it: S regressions over all
transitions. But [ours] A_x^+ = Lambda^-1 - Lambda^-1 p p^T Lambda^-1 / (p^T Lambda^-1 p) with one ordinary matrix
Lambda = lam I + sum_t phi_t phi_t^T, so that with theta = Lambda^-1 sum_t phi_t c_t

    mean(x, a) = <theta, phi> + (c0(x) - <theta, phi0>) <phi, phi0>_{Lambda^-1} / ||phi0||^2_{Lambda^-1}
    norm(x, a) = ||U_a||,   U_a = R phi - R phi0 <R phi, R phi0> / ||R phi0||^2,   R^T R = Lambda^-1

which is ridge regression that has also seen c0(x) once, without noise. A test compares both. As A_x^+ <= Lambda^-1,
one bound on the noise in the norm of Lambda^-1 serves all states: no union over them is needed [ours].

Estimates are of g = c - threshold again. With one-hot features nothing is shared between actions, and only the entry of
a0 itself differs from plain counts.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from everystep.lsvi.costs.counts import CountCosts, CountCostState
from everystep.lsvi.costs.linear import LinearCosts, LinearCostState
from everystep.lsvi.episode import Episode
from everystep.lsvi.regression.linalg import for_each
from everystep.mdp.world import Sizes


class SafeEstimate(NamedTuple):
    """An interval for each constraint at each (x, a), with width 0 at a0; and U, which gives the width of a mixture.

    A distribution theta over actions has width ||U theta||; U is None where it is diagonal, with the widths on it.
    """

    mean: Float[Array, "T m A S"]
    width: Float[Array, "T 1 A S"]
    U: Float[Array, "T d A S"] | None


class KnownSafeAction(NamedTuple):
    """Known in advance: the safe action, one-hot; its g; and the threshold in c = g + threshold."""

    safe: Bool[Array, "A S"]
    g: Float[Array, "T m S"]
    threshold: Float[Array, " m"]

    def raised(self, episode: Episode) -> Episode:
        """The episode with costs c instead of g."""
        return episode._replace(cost=episode.cost + self.threshold[None])

    def lowered(self, c: Float[Array, "T m A S"]) -> Float[Array, "T m A S"]:
        """g from estimates of c, with the known g at a0."""
        return jnp.where(self.safe[None, None], self.g[:, :, None], c - self.threshold[None, :, None, None])


class ProjectedCounts(NamedTuple):
    """One-hot features: each (x, a) is estimated separately, and a0 is known."""

    ridge: CountCosts
    known: KnownSafeAction

    def init(self, sizes: Sizes, steps: int) -> CountCostState:
        return self.ridge.init(sizes, steps)

    def update(self, state: CountCostState, episode: Episode) -> CountCostState:
        return self.ridge.update(state, self.known.raised(episode))

    def estimate(self, state: CountCostState, k: Int[Array, ""]) -> SafeEstimate:
        mean, width = self.ridge.estimate(state, k)
        return SafeEstimate(self.known.lowered(mean), jnp.where(self.known.safe[None, None], 0.0, width), None)


class ProjectedCosts(NamedTuple):
    """Dense features: ridge regression of c, corrected at every state by its known cost. See the module.

    Departures from the paper: one Gram matrix instead of one per state, which changes nothing else.
    """

    ridge: LinearCosts
    known: KnownSafeAction
    at_safe: Float[Array, "S d"]  # phi(x, a0)

    def init(self, sizes: Sizes, steps: int) -> LinearCostState:
        return self.ridge.init(sizes, steps)

    def update(self, state: LinearCostState, episode: Episode) -> LinearCostState:
        return self.ridge.update(state, self.known.raised(episode))

    def estimate(self, state: LinearCostState, k: Int[Array, ""]) -> SafeEstimate:
        phi, safe = self.ridge.phi, self.known.safe
        g = jnp.broadcast_to(self.known.g, (len(state.moment), *self.known.g.shape[1:]))

        def estimated(inverse: Array, moment: Array, g: Array) -> tuple[Array, Array]:
            R = jnp.linalg.cholesky(inverse).T
            turned, turned_safe = jnp.moveaxis(phi @ R.T, 2, 0), (self.at_safe @ R.T).T  # (d, A, S), (d, S)
            share = (turned * turned_safe[:, None]).sum(0) / (turned_safe**2).sum(0)[None]
            theta = moment @ inverse
            missed = g + self.known.threshold[:, None] - theta @ self.at_safe.T  # (m, S)
            mean = jnp.einsum("md,asd->mas", theta, phi) + missed[:, None] * share[None]
            return mean, jnp.where(safe[None], 0.0, turned - turned_safe[:, None] * share[None])

        mean, U = for_each(estimated, state.gram.inverse, state.moment, g)
        scale = self.ridge.radius.width(jnp.ones(()), k)
        U = scale * U
        return SafeEstimate(self.known.lowered(mean), jnp.sqrt((U**2).sum(1))[:, None], U)
