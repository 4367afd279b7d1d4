"""The cost model of LSVI-NEW: regression on features of triples, with the known direction projected out.

The cost observed when (x, a) leads to x' is c = <gamma, phi(x, a, x')> plus noise; safe iff c <= tau, the `threshold`.
The exact cost c0_h of one triple per step, with features phi0_h, is known in advance. So the part along
p = phi0 / ||phi0|| is known, and only the rest is estimated:

    along(x, a, x') = <phi, p> / ||phi0||,      perp(phi) = phi - <phi, p> p
    Lambda = lam (I - p p^T) + sum_tau perp(phi_tau) perp(phi_tau)^T
    gamma = Lambda^+ sum_tau perp(phi_tau) [c_tau - along_tau c0]
    c(x, a, x') lies within  along c0 + <gamma, perp(phi)> +- radius ||perp(phi)||_{Lambda^+}

Since each step has one p, known before the first episode, features are projected once, when the model is made. With
lam I in place of lam (I - p p^T) nothing changes, because perp(phi) has no part along p: an ordinary inverse suffices.

At (x, a) the estimate is the interval from the lowest to the highest of these over the support of (x, a), minus tau:
LSVI-NEW requires its upper end to be <= 0, and the mean g(x, a) over x' lies inside it as well. `doubt` is the largest
||perp(phi)|| there, on which the bonuses of the agent depend.

`seed_episodes` is K': for the first K' episodes the estimate is not `trusted`, and the agent plays the known safe
actions. An agent that plans rarely does so until the first plan after them.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from everystep.lsvi.episode import Episode
from everystep.lsvi.radii import Radius, Scalar
from everystep.lsvi.regression import linalg
from everystep.lsvi.regression.linalg import by_estimator, for_each, repeat
from everystep.mdp.world import Sizes


class TripleEstimate(NamedTuple):
    """An interval for each constraint at each (x, a), the largest norm in its support, and whether to use it yet."""

    mean: Float[Array, "T m A S"]
    width: Float[Array, "T m A S"]
    doubt: Float[Array, "T A S"]
    trusted: Bool[Array, ""]


class TripleCostState(NamedTuple):
    """Lambda^-1, and sum perp(phi) [c - along c0]."""

    gram: linalg.Gram
    moment: Float[Array, "T m d"]


class KnownTriple(NamedTuple):
    """All triples relative to the known one, of one step or of each: T is 1 or H.

    perp is perp(phi), at the successors of every state; cost is along c0 - tau, the known part of every triple's cost.
    """

    perp: Float[Array, "T A d J S"]
    cost: Float[Array, "T m A J S"]


class TripleCosts(NamedTuple):
    """Intervals from projected regression, O(A J S d^2) per estimate. `support` marks the x' that may follow (x, a)."""

    radius: Radius
    lam: Scalar
    known: KnownTriple
    support: Bool[Array, "T A J S"]
    seed_episodes: Scalar

    def init(self, sizes: Sizes, steps: int) -> TripleCostState:
        d = self.known.perp.shape[2]
        return TripleCostState(repeat(linalg.unwatched(d, self.lam), steps), jnp.zeros((steps, sizes.constraints, d)))

    def update(self, state: TripleCostState, episode: Episode) -> TripleCostState:
        steps, H = len(state.moment), len(episode.x)
        h = jnp.arange(H) if len(self.known.perp) > 1 else jnp.zeros(H, int)
        X = self.known.perp[h, episode.a, :, episode.slot, episode.x]
        y = episode.cost - self.known.cost[h, :, episode.a, episode.slot, episode.x]  # = c - along c0

        def updated(gram: linalg.Gram, moment: Array, X: Array, y: Array) -> TripleCostState:
            return TripleCostState(linalg.add(gram, None, X), moment + y.T @ X)

        return for_each(updated, *state, by_estimator(steps, X), by_estimator(steps, y))

    def estimate(self, state: TripleCostState, k: Int[Array, ""]) -> TripleEstimate:
        _, A, d, J, S = self.known.perp.shape
        T = max(len(state.moment), len(self.known.perp), len(self.support))
        at_all_steps = lambda array: jnp.broadcast_to(array, (T, *array.shape[1:]))

        def estimated(
            inverse: Array, moment: Array, perp: Array, known: Array, support: Array
        ) -> tuple[Array, Array, Array]:
            flat = perp.reshape(A, d, J * S)
            gamma = moment @ inverse
            norm2 = linalg.quadratic(inverse, flat).reshape(A, J, S)
            mean = known + jnp.tensordot(gamma, perp, ((1,), (1,)))
            width = self.radius.width(norm2, k)[None]
            lower = jnp.where(support[None], mean - width, jnp.inf).min(2)
            upper = jnp.where(support[None], mean + width, -jnp.inf).max(2)
            return (lower + upper) / 2, (upper - lower) / 2, jnp.where(support, jnp.sqrt(norm2), 0).max(1)

        stacked = (state.gram.inverse, state.moment, *self.known, self.support)
        mean, width, doubt = for_each(estimated, *map(at_all_steps, stacked))
        return TripleEstimate(mean, width, doubt, k.astype(mean.dtype) > self.seed_episodes)
