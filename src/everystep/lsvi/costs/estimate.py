"""Estimates of constraints: an interval for each at every (x, a), and those of a separate model for each."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from everystep.lsvi.episode import Episode
from everystep.lsvi.protocols import FiniteCostModel, Pytree
from everystep.mdp.world import Sizes


class CostEstimate(NamedTuple):
    """An interval for each constraint at each (x, a): mean - width to mean + width."""

    mean: Float[Array, "T m A S"]
    width: Float[Array, "T w A S"]  # w is 1 where all constraints share it, else m


class EachCost(NamedTuple):
    """A separate model for each constraint: counts for one, a Gaussian process for another, for example."""

    models: tuple[FiniteCostModel[Pytree], ...]

    def init(self, sizes: Sizes, steps: int) -> tuple[Pytree, ...]:
        return tuple(model.init(sizes._replace(constraints=1), steps) for model in self.models)

    def update(self, state: tuple[Pytree, ...], episode: Episode) -> tuple[Pytree, ...]:
        own = lambda i: episode._replace(cost=episode.cost[:, i : i + 1])
        return tuple(model.update(state[i], own(i)) for i, model in enumerate(self.models))

    def estimate(self, state: tuple[Pytree, ...], k: Int[Array, ""]) -> CostEstimate:
        estimates = [model.estimate(own, k) for model, own in zip(self.models, state, strict=True)]
        return CostEstimate(*(jnp.concatenate(part, axis=1) for part in zip(*estimates, strict=True)))
