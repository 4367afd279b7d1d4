"""Value models: the least-squares estimate of Q and its width, lines 5 to 7 of Algorithm 1.

    Lambda_h = sum_tau phi_tau phi_tau^T + lam I                                     line 5
    w_h = Lambda_h^-1 sum_tau phi_tau [r_tau + V_{h+1}(x'_tau)]                      line 6
    Q_h = min{<w_h, phi> + beta ||phi||_{Lambda_h^-1}, cap}                          line 7

A model is a NamedTuple of hyper-parameters (all leaves of a pytree). It has `init` (a state that knows nothing),
`update` (one episode more), `fit` (what a plan needs and V does not change), `estimate` (Q at one step, given V at the
next) and `log_det` (of Lambda_h / lam: how much was learnt, by which rare planning decides). T, the leading axis of
every state array, is 1 when the estimator is shared over steps and H when there is one for each step.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from everystep.lsvi import rowwise
from everystep.lsvi.episode import Episode, step_index
from everystep.lsvi.radii import Norms, Radius, Scalar
from everystep.lsvi.regression import linalg
from everystep.mdp.cmdp import Sizes, at_step, over_successors, weighted


class CountState(NamedTuple):
    """N(a, j, x), how often each successor followed, and the sum of rewards."""

    arrivals: Float[Array, "T A J S"]
    rewards: Float[Array, "T A S"]


def nothing_counted(sizes: Sizes, steps: int) -> CountState:
    S, A, J = sizes.states, sizes.actions, sizes.successors
    return CountState(jnp.zeros((steps, A, J, S)), jnp.zeros((steps, A, S)))


def counted(state: CountState, episode: Episode) -> CountState:
    """One episode more."""
    h = step_index(state.rewards, episode)
    return CountState(
        state.arrivals.at[h, episode.a, episode.slot, episode.x].add(1),
        state.rewards.at[h, episode.a, episode.x].add(episode.reward),
    )


class CountFit(NamedTuple):
    """The counts, 1 / (n + lam), and mean reward plus bonus."""

    arrivals: Float[Array, "T A J S"]
    norm2: Float[Array, "T A S"]
    optimistic_reward: Float[Array, "T A S"]


class Counts(NamedTuple):
    """One-hot features phi = e_{x,a}: Lambda is diagonal, so tables of counts replace matrices.

    Q = min{(sum r + sum_j N_j V(x_j)) / (n + lam) + width, cap}. Departures from the paper: none; this is lines 5
    to 7 with Lambda = diag(n + lam). The successor lists only say where to store counts, never what is likely.
    """

    radius: Radius
    lam: Scalar
    cap: Scalar
    successors: Int[Array, "J S"] | None

    def init(self, sizes: Sizes, steps: int) -> CountState:
        return nothing_counted(sizes, steps)

    def update(self, state: CountState, episode: Episode) -> CountState:
        return counted(state, episode)

    def fit(self, state: CountState, k: Int[Array, ""]) -> CountFit:
        return CountFit(state.arrivals, *self.optimistic_reward(over_successors(state.arrivals), state.rewards, k))

    def optimistic_reward(self, n: Norms, rewards: Norms, k: Int[Array, ""]) -> tuple[Norms, Norms]:
        """1 / (n + lam), and sum r / (n + lam) + width: all of Q but the value of what comes after."""
        norm2 = 1 / (n + self.lam)  # line 5
        return norm2, rewards * norm2 + self.radius.width(norm2, k)

    def Q(self, V_after: Norms, norm2: Norms, optimistic_reward: Norms) -> Norms:
        """Q of one action, given sum_j N_j V(x_j)."""
        return rowwise.smaller(optimistic_reward + V_after * norm2, self.cap)  # lines 6 and 7

    def log_det(self, state: CountState) -> Float[Array, " T"]:
        return jnp.log1p(over_successors(state.arrivals) / self.lam).sum((1, 2))

    def estimate(self, fit: CountFit, h: Int[Array, ""], V_next: Float[Array, " S"]) -> Float[Array, "A S"]:
        here = jax.tree.map(lambda x: at_step(x, h), fit)
        if self.successors is None:
            return self.Q(V_next @ here.arrivals, here.norm2, here.optimistic_reward)
        V_after = V_next[self.successors]
        return rowwise.each(lambda N, *rest: self.Q(weighted(N, V_after), *rest), *here)


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

    sum_tau phi_tau V(x'_tau) = M V with M = `arrivals` (d, S), so a plan costs O(H d S A), whatever k is.
    Departures from the paper: none.
    """

    radius: Radius
    lam: Scalar
    cap: Scalar
    phi: Float[Array, "A S d"]
    norms: linalg.Watched | linalg.OnDemand = linalg.WATCHED

    def init(self, sizes: Sizes, steps: int) -> LinearState:
        d = self.phi.shape[-1]
        fresh = linalg.fresh(self.phi, self.lam, self.norms)
        gram = jax.tree.map(lambda x: jnp.broadcast_to(x, (steps, *x.shape)), fresh)
        return LinearState(gram, jnp.zeros((steps, d)), jnp.zeros((steps, d, sizes.states)))

    def update(self, state: LinearState, episode: Episode) -> LinearState:
        steps = state.rewards.shape[0]
        phi = self.phi[episode.a, episode.x]  # (H, d)
        X = phi.reshape(steps, -1, phi.shape[-1])  # rows of each estimator
        y = episode.reward.reshape(steps, -1)
        x_next = episode.x_next.reshape(steps, -1)

        def one(gram, rewards, arrivals, X, y, x_next):
            return LinearState(linalg.add(gram, self.phi, X), rewards + X.T @ y, arrivals.at[:, x_next].add(X.T))

        return jax.vmap(one)(*state, X, y, x_next)

    def fit(self, state: LinearState, k: Int[Array, ""]) -> LinearFit:
        norm2 = jax.vmap(lambda gram: linalg.squared_norms(gram, self.phi))(state.gram)
        return LinearFit(state, self.radius.width(norm2, k))

    def log_det(self, state: LinearState) -> Float[Array, " T"]:
        return state.gram.log_det

    def estimate(self, fit: LinearFit, h: Int[Array, ""], V_next: Float[Array, " S"]) -> Float[Array, "A S"]:
        state = jax.tree.map(lambda x: at_step(x, h), fit.state)
        w = state.gram.inverse @ (state.rewards + state.arrivals @ V_next)  # line 6
        return jnp.minimum(self.phi @ w + at_step(fit.width, h), self.cap)  # line 7
