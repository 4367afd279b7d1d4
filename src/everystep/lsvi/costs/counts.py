"""Costs by counts: with one-hot features the estimate is a shrunken mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from everystep.lsvi.costs.estimate import CostEstimate
from everystep.lsvi.costs.lemmas import Capacity
from everystep.lsvi.costs.spec import CostContext, CostSpec, ridge_radius
from everystep.lsvi.episode import Episode, step_index
from everystep.lsvi.radii import Norms, Radius, Scalar, factor_of_norm
from everystep.mdp.world import Sizes


class CountCostState(NamedTuple):
    visits: Float[Array, "T A S"]
    total: Float[Array, "T m A S"]


class CountCosts(NamedTuple):
    """One-hot features: the mean of the costs observed at (x, a), shrunk towards 0 by n / (n + lam).

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

    # --- for the lemmas (see lemmas.py) ------------------------------------------------------------------------------
    def squared_norms(self, state: CountCostState) -> Float[Array, "T A S"]:
        return 1 / (state.visits + self.lam)

    def information_gain(self, state: CountCostState) -> Float[Array, " T"]:
        return jnp.log1p(state.visits / self.lam).sum((1, 2)) / 2

    def radius_at(self, k: Int[Array, ""], gain: Float[Array, "*T"]) -> Float[Array, "*T"]:
        return factor_of_norm(self.radius, k, gain)

    def capacity(self, sizes: Sizes) -> Capacity:
        return Capacity(float(sizes.states * sizes.actions))


@dataclass(frozen=True)
class CountSpec(CostSpec):
    """`cost=counts`."""

    def __str__(self) -> str:
        return "counts"

    @property
    def one_hot(self) -> bool:
        return True

    def model(self, context: CostContext) -> CountCosts:
        return CountCosts(ridge_radius(context, float(context.pairs)), context.lam)

    def is_valid(self, context: CostContext) -> bool:
        """The printed radius assumes noise of at most 1; the radius per coordinate assumes |g| <= bound."""
        if context.radius == "coordinate":
            return bool(np.abs(context.truth).max() <= context.bound)
        return context.true_sigma <= 1
