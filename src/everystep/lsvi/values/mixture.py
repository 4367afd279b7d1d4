"""The value model of a linear mixture with known rewards: regression on expected values (LSVI-NEW, after UCRL-VTR).

P(x' | x, a) = <mu, phi(x, a, x')> with features of triples, so the expected value of the next state is linear as well:

    phi_V(x, a) = sum_{x' in S(x, a)} phi(x, a, x') V(x')                 [P V](x, a) = <mu, phi_V(x, a)>
    Lambda_h = lam I + sum_tau phi_{V^tau}(x_tau, a_tau) phi_{V^tau}(x_tau, a_tau)^T
    w_h = Lambda_h^-1 sum_tau phi_{V^tau}(x_tau, a_tau) V^tau(x'_tau)
    Q_h = min{r + <w_h, phi_V> + radius ||phi_V||_{Lambda_h^-1} + bonus_h, cap}                 V = V_{h+1}

V^tau is V_{h+1} of the plan in force when tau was observed: rows never change, so two sums are all that is stored. The
mean reward r is known. `bonus` is added for values that the known safe actions do not reveal yet; it comes from the
choice (`safe_graph.py`).

Departures from the paper (Shi, Liang and Shroff, ICML 2023): phi_V sums over the known support S(x, a) alone, outside
of which P is 0; mu does not depend on h, so steps may share the regression (T = 1), each row with the V of its step.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from everystep.lsvi.episode import Episode
from everystep.lsvi.radii import Radius, Scalar
from everystep.lsvi.regression import linalg
from everystep.lsvi.regression.linalg import by_estimator, for_each, repeat
from everystep.mdp.world import Sizes, at_step, over_successors


class MixtureState(NamedTuple):
    """Lambda^-1, and sum phi_V V(x')."""

    gram: linalg.Gram
    moment: Float[Array, "T d"]


class MixtureFit(NamedTuple):
    """w, Lambda^-1, the number of the episode, and the bonus that the choice adds to Q, if any."""

    w: Float[Array, "T d"]
    inverse: Float[Array, "T d d"]
    k: Int[Array, ""]
    bonus: Float[Array, "H A S"] | None


class MixtureValues(NamedTuple):
    """Q = min{r + <w, phi_V> + radius ||phi_V|| + bonus, cap}: a planning step takes O(A S d (J + d)).

    triples holds phi(x, a, x') at the successors of every state, 0 outside the support; r is the known mean reward.
    """

    radius: Radius
    lam: Scalar
    cap: Scalar
    successors: Int[Array, "J S"] | None
    triples: Float[Array, "A d J S"]
    r: Float[Array, "T A S"]

    @property
    def learns_from_plans(self) -> bool:
        """True: an episode carries the V of its plan."""
        return True

    def init(self, sizes: Sizes, steps: int) -> MixtureState:
        d = self.triples.shape[1]
        return MixtureState(repeat(linalg.unwatched(d, self.lam), steps), jnp.zeros((steps, d)))

    def update(self, state: MixtureState, episode: Episode) -> MixtureState:
        assert episode.V_next is not None
        phi = self.triples[episode.a, :, :, episode.x]  # (H, d, J)
        if self.successors is None:
            after = episode.V_next
        else:
            after = jnp.take_along_axis(episode.V_next, self.successors[:, episode.x].T, 1)
        X = (phi * after[:, None]).sum(-1)
        y = jnp.take_along_axis(episode.V_next, episode.x_next[:, None], 1)
        steps = state.moment.shape[0]

        def updated(gram: linalg.Gram, moment: Array, X: Array, y: Array) -> MixtureState:
            return MixtureState(linalg.add(gram, None, X), moment + X.T @ y[:, 0])

        return for_each(updated, *state, by_estimator(steps, X), by_estimator(steps, y))

    def fit(self, state: MixtureState, k: Int[Array, ""], bonus: Float[Array, "H A S"] | None = None) -> MixtureFit:
        w = (state.gram.inverse * state.moment[:, None]).sum(-1)
        return MixtureFit(w, state.gram.inverse, k, bonus)

    def log_det(self, state: MixtureState) -> Float[Array, " T"]:
        return state.gram.log_det

    def estimate(self, fit: MixtureFit, h: Int[Array, ""], V_next: Float[Array, " S"]) -> Float[Array, "A S"]:
        phi_V = self.expected(V_next)
        w = at_step(fit.w, h)
        norm2 = linalg.quadratic(at_step(fit.inverse, h), phi_V)
        Q = at_step(self.r, h) + (w[None, :, None] * phi_V).sum(1) + self.radius.width(norm2, fit.k)
        return jnp.minimum(Q if fit.bonus is None else Q + fit.bonus[h], self.cap)

    def expect(self, fit: MixtureFit, h: Int[Array, ""], C_next: Float[Array, " S"]) -> Float[Array, "A S"]:
        return (at_step(fit.w, h)[None, :, None] * self.expected(C_next)).sum(1)

    def squared_norms(self, state: MixtureState, V_next: Float[Array, "H S"] | None) -> Float[Array, "H A S"]:
        """||phi_V||^2 in Lambda^-1 at every step of a plan with these V."""
        assert V_next is not None
        at_h = lambda h: linalg.quadratic(at_step(state.gram.inverse, h), self.expected(V_next[h]))
        return lax.map(at_h, jnp.arange(len(V_next)))

    def expected(self, V: Float[Array, " S"]) -> Float[Array, "A d S"]:
        """phi_V."""
        if self.successors is None:
            return V @ self.triples
        return over_successors(self.triples * V[self.successors][None, None])
