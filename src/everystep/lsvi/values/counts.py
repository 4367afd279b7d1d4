"""Values by counts: with one-hot features Lambda is diagonal, and tables of counts replace matrices.

Lines 5 to 7 of Algorithm 1; `protocols.ValueModel` is the contract.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from everystep.lsvi import rowwise
from everystep.lsvi.episode import Episode, step_index
from everystep.lsvi.radii import Norms, Radius, Scalar, with_bonus
from everystep.mdp.world import Sizes, at_step, over_successors, weighted


class CountState(NamedTuple):
    """N(a, j, x), the number of times each successor was reached, and the sum of rewards."""

    arrivals: Float[Array, "T A J S"]
    rewards: Float[Array, "T A S"]


def nothing_counted(sizes: Sizes, steps: int) -> CountState:
    S, A, J = sizes.states, sizes.actions, sizes.successors
    return CountState(jnp.zeros((steps, A, J, S)), jnp.zeros((steps, A, S)))


def counted(state: CountState, episode: Episode) -> CountState:
    """The counts after one more episode."""
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
    to 7 with Lambda = diag(n + lam). The successor lists only determine where counts are stored, not what is likely.
    """

    radius: Radius
    lam: Scalar
    cap: Scalar
    successors: Int[Array, "J S"] | Int[Array, "A J S"] | None

    @property
    def learns_from_plans(self) -> bool:
        return False

    def init(self, sizes: Sizes, steps: int) -> CountState:
        return nothing_counted(sizes, steps)

    def update(self, state: CountState, episode: Episode) -> CountState:
        return counted(state, episode)

    def fit(self, state: CountState, k: Int[Array, ""], bonus: Float[Array, "H A S"] | None = None) -> CountFit:
        norm2, reward = self.optimistic_reward(over_successors(state.arrivals), state.rewards, k)
        return CountFit(state.arrivals, norm2, with_bonus(reward, bonus))

    def optimistic_reward(self, n: Norms, rewards: Norms, k: Int[Array, ""]) -> tuple[Norms, Norms]:
        """1 / (n + lam), and sum r / (n + lam) + width: all of Q but the value of the next state."""
        norm2 = 1 / (n + self.lam)  # line 5
        return norm2, rewards * norm2 + self.radius.width(norm2, k)

    def Q(self, V_after: Norms, norm2: Norms, optimistic_reward: Norms) -> Norms:
        """Q of one action, given sum_j N_j V(x_j)."""
        return rowwise.smaller(optimistic_reward + V_after * norm2, self.cap)  # lines 6 and 7

    def squared_norms(self, state: CountState, V_next: Float[Array, "H S"] | None = None) -> Float[Array, "T A S"]:
        """||phi||^2_{Lambda^-1} at all (x, a), which does not depend on V."""
        return 1 / (over_successors(state.arrivals) + self.lam)

    def log_det(self, state: CountState) -> Float[Array, " T"]:
        return jnp.log1p(over_successors(state.arrivals) / self.lam).sum((1, 2))

    def estimate(self, fit: CountFit, h: Int[Array, ""], V_next: Float[Array, " S"]) -> Float[Array, "A S"]:
        fit = jax.tree.map(lambda leaf: at_step(leaf, h), fit)
        if self.successors is None:
            return self.Q(V_next @ fit.arrivals, fit.norm2, fit.optimistic_reward)
        V_after = V_next[self.successors]
        if V_after.ndim == 3:
            return rowwise.map_rows(lambda V, N, *rest: self.Q(weighted(N, V), *rest), V_after, *fit)
        return rowwise.map_rows(lambda N, *rest: self.Q(weighted(N, V_after), *rest), *fit)

    def expect(self, fit: CountFit, h: Int[Array, ""], C_next: Float[Array, " S"]) -> Float[Array, "A S"]:
        N, norm2 = at_step(fit.arrivals, h), at_step(fit.norm2, h)
        if self.successors is None:
            return (C_next @ N) * norm2
        C_after = C_next[self.successors]
        if C_after.ndim == 3:
            return rowwise.map_rows(lambda C, N, norm2: weighted(N, C) * norm2, C_after, N, norm2)
        return rowwise.map_rows(lambda N, norm2: weighted(N, C_after) * norm2, N, norm2)
