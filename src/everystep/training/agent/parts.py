"""The parts of an agent on stored data (`registry.Parts`), made from its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from everystep.agents.resolve.parts import SharedParts
from everystep.errors import EverystepError
from everystep.lsvi import radii
from everystep.lsvi.ahead import HarmToGo
from everystep.lsvi.algorithm import Agent, State
from everystep.training.agent.models.linear import NoCosts
from everystep.training.agent.models.protocols import AnyCostModel, AnyValueModel, StoredSizes, stored_models

if TYPE_CHECKING:
    from everystep.training.agent.resolve import ResolvedForTraining


@dataclass(frozen=True)
class StoredParts(SharedParts):
    """The parts of an agent on stored data, once the number of constraints is known."""

    resolved: ResolvedForTraining
    constraints: int

    @property
    def values(self) -> Mapping[str, Any]:  # type: ignore[override]
        return self.resolved.values

    def value_model(self) -> AnyValueModel:
        encoder, H = self.resolved.value, float(self.resolved.horizon)
        radius: radii.Radius = radii.Tuned(self["beta"])
        if self["radius"] == "paper":
            assert encoder.d is not None
            radius = radii.PaperValue(self["beta"], float(encoder.d), H, None, self["p"])
        return encoder.value_model(radius, self["lam"], self["cap"], self.resolved.lowest_value, H)

    def cost_model(self) -> AnyCostModel:
        resolved = self.resolved
        if not resolved.has_costs:
            return NoCosts()
        encoder, lam = resolved.cost, self["lam_cost"]
        radius: radii.Radius = radii.Tuned(self["beta_cost"])
        if self["radius_cost"] == "paper":
            assert encoder.d is not None
            m, d = float(self.constraints), float(encoder.d)
            shared = self["share_costs"]
            rows, estimators = (float(resolved.length), m) if shared else (1.0, m * resolved.horizon)
            radius = radii.PaperCost(self["beta_cost"], d, lam, rows, estimators, self["p"])
        return encoder.cost_model(radius, lam)

    def harm_to_go(self) -> HarmToGo:
        radius = None if self["beta_harm"] == 0 else radii.Tuned(self["beta_harm"])
        return self.harm_in_units(1.0, np.ones(self.constraints), self.resolved.horizon, radius)

    def marked(self) -> NoReturn:
        raise EverystepError("agents that mark unsafe states need a problem given as a FiniteCMDP.")

    def safe_mixture(self) -> NoReturn:
        raise EverystepError("agents that require a known safe action need a problem given as a FiniteCMDP.")

    safe_graph = safe_mixture

    @property
    def known_safe(self) -> None:
        """No actions are known to be safe: the states of an environment are not listed."""
        return None

    @property
    def switch(self) -> float | None:
        return self.resolved.switch

    def build(self) -> Agent:
        """The composition, as JAX arrays; call it with 64-bit numbers enabled."""
        made: Agent = jax.tree.map(jnp.asarray, self.resolved.recipe.definition.compose(self))
        return made

    def start(self, agent: Agent, capacity: int) -> State:
        """The state before the first episode."""
        resolved, m = self.resolved, self.constraints
        sizes = StoredSizes(resolved.steps, m, capacity, resolved.length, plans_every_episode=self["switch"] == "none")
        values, costs = stored_models(agent)
        return State(
            values.init(resolved.value.shape, sizes, resolved.environment.reward_range or (0.0, 1.0)),
            costs.init(resolved.cost.shape, sizes),
            agent.penalty.init(agent.prices(m), resolved.horizon),
            jnp.asarray(1, jnp.int32),
        )
