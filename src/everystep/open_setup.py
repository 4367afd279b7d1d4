"""An agent's settings decided for an environment whose states nobody listed: models on stored data instead of tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from everystep.agents import REGISTERED, Recipe
from everystep.errors import EverystepError
from everystep.lsvi import Agent, State
from everystep.models import AUTO
from everystep.parts import radii
from everystep.parts.choices import Penalised, Reacting
from everystep.parts.features import Features
from everystep.parts.penalties import Floor
from everystep.parts.stored import Nothing, Seen, StoredCosts, StoredLinear
from everystep.settings import BETA_COST, LAM, LAM_COST, SETTINGS

TABLES_ONLY = ("features", "known_safe", "bound", "sigma")  # settings that speak of a FiniteCMDP


@dataclass(frozen=True)
class OpenSetup:
    """What an agent is to be on an environment, with every `auto` decided.

    horizon     H, how many steps a plan looks ahead            length   L >= H, the most steps of an episode
    With L > H the plan of step 1 is used until H steps are left; then the steps are counted down.
    """

    recipe: Recipe
    values: Mapping[str, Any]
    features: Features
    cost_features: Features
    horizon: int
    length: int
    constraints: int
    reward_range: tuple[float, float] | None  # None: the range of what was seen, and 0

    @classmethod
    def of(
        cls,
        recipe: Recipe,
        features: Features,
        cost_features: Features,
        horizon: int,
        length: int,
        constraints: int,
        reward_range: tuple[float, float] | None,
    ) -> OpenSetup:
        name = recipe.name
        for key in TABLES_ONLY:
            if key in recipe.settings and recipe.settings[key] != SETTINGS[key].default:
                raise EverystepError(
                    f"setting {key} of {name} is for problems given as tables; leave it out"
                    + (", and give features to train." if key == "features" else ".")
                )
        s = {key: setting.default for key, setting in SETTINGS.items()} | dict(recipe.settings)
        default = lambda key, value: value if s[key] == AUTO else s[key]
        s["radius_cost"] = default("radius_cost", s["radius"])
        for key in ("radius", "radius_cost"):
            if s[key] == "coordinate":
                raise EverystepError(
                    f"setting {key} of {name} is coordinate, which needs a table; choose tuned or paper."
                )
        s["cap"] = default("cap", float(horizon))
        s["lam"] = default("lam", LAM if s["radius"] == "tuned" else 1.0)
        # An untried direction is shrunk to 0 and must be lifted to what could be earned: beta / sqrt(lam) = cap.
        s["beta"] = default("beta", math.sqrt(s["lam"]) * s["cap"] if s["radius"] == "tuned" else 1.0)
        s["lam_cost"] = default("lam_cost", LAM_COST if s["radius_cost"] == "tuned" else 1.0)
        s["beta_cost"] = default("beta_cost", BETA_COST if s["radius_cost"] == "tuned" else 1.0)
        for key in ("share_values", "share_costs"):
            s[key] = default(key, True)
            if not s[key] and length > horizon:
                raise EverystepError(
                    f"setting {key} of {name} is false, but episodes last up to {length} steps and a plan {horizon}; "
                    f"set horizon to {length}, or leave {key} at auto."
                )
        if s["react"] and not s["share_costs"]:
            raise EverystepError(f"setting react of {name} is true; set share_costs to true, or react to false.")
        return cls(recipe, s, features, cost_features, horizon, length, constraints, reward_range)

    def __getitem__(self, setting: str) -> Any:
        return self.values[setting]

    def shown(self) -> dict[str, Any]:
        """The settings this agent has, decided, ready for JSON."""
        kept = [key for key in REGISTERED[self.recipe.name].settings if key not in TABLES_ONLY]
        return {key: self.values[key] for key in kept}

    # --- parts, as `agents.REGISTERED` asks for them -------------------------------------------------------------------
    def value_model(self) -> StoredLinear:
        radius: radii.Radius = radii.Tuned(self["beta"])
        if self["radius"] == "paper":
            radius = radii.PaperValue(self["beta"], float(self.features.d), float(self.horizon), None, self["p"])
        return StoredLinear(radius, self["lam"], self["cap"], float(self.horizon))

    def cost_model(self) -> StoredCosts | Nothing:
        if not self.has_costs:
            return Nothing()
        radius: radii.Radius = radii.Tuned(self["beta_cost"])
        if self["radius_cost"] == "paper":
            m, d = float(self.constraints), float(self.cost_features.d)
            seen, estimators = (float(self.length), m) if self["share_costs"] else (1.0, m * self.horizon)
            radius = radii.PaperCost(self["beta_cost"], d, self["lam_cost"], seen, estimators, self["p"])
        return StoredCosts(radius, self["lam_cost"])

    def penalised(self, rectify: bool) -> Penalised | Reacting:
        return Reacting(Penalised(rectify)) if self["react"] else Penalised(rectify)

    def told(self) -> tuple[Any, None]:
        return self["optimism"], None

    def floor(self) -> Floor:
        return Floor.of(self["floor"])

    @property
    def switch(self) -> float | None:
        """By which factor a determinant must grow before a new plan is made; None: a plan for every episode."""
        return None if self["switch"] == "none" else float(self["switch"])

    @property
    def confidence(self) -> str:
        """What certificates are worth here, where nobody knows the true costs."""
        if not self.has_costs:
            return "none: this agent does not look at costs"
        if self["radius_cost"] == "tuned":
            return "heuristic: widths are tuned, and carry no probability"
        return (
            f"all labels hold with probability {1 - self['p']:g}, if each constraint is linear in its features with weights "
            "of norm at most sqrt(d), and its noise is 1-sub-Gaussian"
        )

    @property
    def has_costs(self) -> bool:
        return "cost" in REGISTERED[self.recipe.name].settings

    def build(self) -> Agent:
        """The composition, as JAX arrays; call it with 64-bit numbers on."""
        agent: Agent = REGISTERED[self.recipe.name].compose(self)  # type: ignore[arg-type]
        return jax.tree.map(jnp.asarray, agent)

    def start(self, agent: Agent, capacity: int) -> State:
        """The state before the first episode."""
        H, m = self.horizon, self.constraints
        shape = lambda phi: (phi.actions, phi.crossed, phi.d // phi.actions if phi.crossed else phi.d, capacity)
        kept = lambda phi: self.switch is None and self.length < shape(phi)[2]  # see `Slots`
        steps = lambda shared: 1 if shared else H
        values = agent.values.init(
            steps(self["share_values"]), *shape(self.features), kept(self.features), self.reward_range or (0.0, 1.0)
        )
        phi = self.cost_features
        costs = (
            agent.costs.init(steps(self["share_costs"]), m, *shape(phi), kept(phi))
            if self.has_costs
            else agent.costs.init(phi.actions)
        )
        return State(values, costs, agent.penalty.init(m, H), jnp.asarray(1, jnp.int32))


def seen(phi: Features, observations: np.ndarray, actions: np.ndarray, after: np.ndarray) -> Seen:
    """Features of n transitions, as the models on stored data take them."""
    here = phi.state(observations) if phi.crossed else phi(observations)[np.arange(len(actions)), actions]
    return Seen(here, columns(phi, after))


def columns(phi: Features, observations: np.ndarray) -> np.ndarray:
    """(F, e, n): psi once when crossed, else phi for every action."""
    return phi.state(observations).T[None] if phi.crossed else phi(observations).transpose(1, 2, 0)
