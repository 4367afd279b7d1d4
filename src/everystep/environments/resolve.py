"""An agent's settings decided for an environment whose states nobody listed: models on stored data, not on tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from everystep.agents.model_syntax import AUTO, GP, InKernel, Regression
from everystep.agents.registry import REGISTERED, Recipe
from everystep.agents.settings import BETA_COST, BETA_GP, LAM, LAM_COST, LAM_GP, SETTINGS
from everystep.environments.encoders import POINTS, KernelSide, LinearSide, RegressionSide, Side
from everystep.environments.models.kernel import StoredGP, StoredKernel
from everystep.environments.models.linear import Nothing, StoredCosts, StoredLinear
from everystep.errors import EverystepError
from everystep.features.specs import Features
from everystep.kernels import ALL, Kernel, looks_at
from everystep.lsvi import radii
from everystep.lsvi.algorithm import Agent, State
from everystep.lsvi.choices.basic import Penalised, Reacting
from everystep.lsvi.penalties import Floor

TRAINED = ("lsvi-ae", "lsvi", "lsvi-primal")  # agents that learn on environments
TABLES_ONLY = ("features", "known_safe", "bound", "sigma", "precision")  # settings that speak of a FiniteCMDP


@dataclass(frozen=True)
class OpenSetup:
    """What an agent is to be on an environment, with every `auto` decided.

    value, cost   how each model sees transitions
    horizon       H, how many steps a plan looks ahead           length   L >= H, the most steps of an episode
    With L > H the plan of step 1 is used until H steps are left; then the steps are counted down.
    """

    recipe: Recipe
    values: Mapping[str, Any]
    value: Side
    cost: Side
    horizon: int
    length: int
    constraints: int
    reward_range: tuple[float, float] | None  # None: the range of what was seen, and 0

    @classmethod
    def of(
        cls,
        recipe: Recipe,
        features: Features | None,
        cost_features: Features | None,
        sizes: tuple[int, int],
        horizon: int,
        length: int,
        constraints: int,
        reward_range: tuple[float, float] | None,
    ) -> OpenSetup:
        """`sizes` are the length of an observation and the number of actions."""
        name = recipe.name
        if REGISTERED[name].told:
            raise EverystepError(
                f"{name} must be told a safe action and its cost for every state, and nobody can list the states of an "
                "environment; use lsvi-ae, or give the problem as a FiniteCMDP."
            )
        if name not in TRAINED:
            raise EverystepError(f"{name} is for problems given as tables; train {', '.join(TRAINED)} instead.")
        for key in TABLES_ONLY:
            if key in recipe.settings and recipe.settings[key] is not SETTINGS[key].default:
                remedy = "give features= to train" if key == "features" else "leave it out"
                raise EverystepError(f"setting {key} of {name} is for problems given as tables; {remedy}.")
        s = {key: setting.default for key, setting in SETTINGS.items()} | dict(REGISTERED[name].defaults)
        s |= dict(recipe.settings)
        default = lambda key, value: value if s[key] == AUTO else s[key]
        s["radius_cost"] = default("radius_cost", s["radius"])
        value = _side(name, "value", s["value"], features, sizes)
        cost = _side(name, "cost", s["cost"], cost_features, sizes)
        if type(value) is LinearSide and value == cost:
            cost = value  # features are computed once for both
        for key, side in (("radius", value), ("radius_cost", cost)):
            if s[key] == "coordinate" or (s[key] == "paper" and type(side) is not LinearSide):
                raise EverystepError(f"setting {key} of {name} is {s[key]}, which has no meaning here; choose tuned.")
        tuned, tuned_cost = s["radius"] == "tuned", s["radius_cost"] == "tuned"
        s["cap"] = default("cap", float(horizon))
        s["lam"] = default("lam", LAM if tuned else 1.0)
        # An untried direction is shrunk to 0 and must be lifted to what could be earned: beta / sqrt(lam) = cap.
        s["beta"] = default("beta", math.sqrt(s["lam"]) * s["cap"] if tuned else 1.0)
        in_kernel = isinstance(cost, KernelSide)
        s["lam_cost"] = default("lam_cost", LAM_GP if in_kernel else LAM_COST if tuned_cost else 1.0)
        s["beta_cost"] = default("beta_cost", BETA_GP if in_kernel else BETA_COST if tuned_cost else 1.0)
        keys = ("share_values", "share_costs")
        said = {s[key] for key in keys} - {AUTO}
        if len(said) > 1:
            raise EverystepError(
                f"share_values of {name} is {s['share_values']} and share_costs {s['share_costs']}; on an environment "
                "both must be the same: leave one at auto."
            )
        for key in keys:
            s[key] = said == {True} or not said
            if not s[key] and length > horizon:
                raise EverystepError(
                    f"setting {key} of {name} is false, but episodes last up to {length} steps and a plan {horizon}; "
                    f"set horizon to {length}, or leave {key} at auto."
                )
        if s["react"] and (in_kernel or not s["share_costs"]):
            raise EverystepError(
                f"setting react of {name} is true, which needs linear costs that steps share; set react to false."
            )
        return cls(recipe, s, value, cost, horizon, length, constraints, reward_range)

    def __getitem__(self, setting: str) -> Any:
        return self.values[setting]

    def shown(self) -> dict[str, Any]:
        """The settings this agent has, decided, ready for JSON."""
        kept = [key for key in REGISTERED[self.recipe.name].settings if key not in TABLES_ONLY]
        plain = lambda value: value if isinstance(value, bool | int | float | str | None) else str(value)
        return {key: plain(self.values[key]) for key in kept}

    # --- parts, as `agents.REGISTERED` asks for them -----------------------------------------------------------------
    def value_model(self) -> StoredLinear | StoredKernel:
        H, lam, cap = float(self.horizon), self["lam"], self["cap"]
        radius: radii.Radius = radii.Tuned(self["beta"])
        if isinstance(self.value, KernelSide):
            return StoredKernel(radius, lam, cap, H, self.value.kernel)
        if self["radius"] == "paper":
            radius = radii.PaperValue(self["beta"], float(self.value.phi.d), H, None, self["p"])
        return StoredLinear(radius, lam, cap, H)

    def cost_model(self) -> StoredCosts | StoredGP | Nothing:
        if not self.has_costs:
            return Nothing()
        lam, radius = self["lam_cost"], radii.Tuned(self["beta_cost"])
        if isinstance(self.cost, KernelSide):
            return StoredGP(radius, lam, self.cost.kernel)
        if self["radius_cost"] == "tuned":
            return StoredCosts(radius, lam)
        m, d = float(self.constraints), float(self.cost.phi.d)
        seen, estimators = (float(self.length), m) if self["share_costs"] else (1.0, m * self.horizon)
        return StoredCosts(radii.PaperCost(self["beta_cost"], d, lam, seen, estimators, self["p"]), lam)

    def penalised(self, rectify: bool) -> Penalised | Reacting:
        return Reacting(Penalised(rectify)) if self["react"] else Penalised(rectify)

    def told(self) -> tuple[Any, None, float | None]:
        return self["optimism"], None, self.switch

    def floor(self) -> Floor:
        return Floor.of(self["floor"])

    @property
    def actions(self) -> int:
        return self.value.actions if isinstance(self.value, KernelSide) else self.value.phi.actions

    @property
    def has_costs(self) -> bool:
        """Whether this agent looks at costs at all."""
        return REGISTERED[self.recipe.name].has_costs

    @property
    def regression(self) -> Regression | None:
        """The regressors in place of the linear model, if there are any."""
        return self["value"] if isinstance(self["value"], Regression) else None

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
            f"all labels hold with probability {1 - self['p']:g}, if each constraint is linear in its features with "
            "weights of norm at most sqrt(d), and its noise is 1-sub-Gaussian"
        )

    def build(self) -> Agent:
        """The composition, as JAX arrays; call it with 64-bit numbers on."""
        agent: Agent = REGISTERED[self.recipe.name].compose(self)  # type: ignore[arg-type]
        return jax.tree.map(jnp.asarray, agent)

    @property
    def steps(self) -> int:
        """T: how many estimators there are of each kind."""
        return 1 if self["share_values"] else self.horizon

    def start(self, agent: Agent, capacity: int) -> State:
        """The state before the first episode."""
        H, m = self.horizon, self.constraints
        T, scale = self.steps, self.reward_range or (0.0, 1.0)
        # Norms at slots are kept up to date where that takes less than making them when planning: see `Slots`.
        kept = lambda side: self.switch is None and self.length < side.e
        dense = lambda side: (side.phi.actions, side.phi.crossed, side.e, capacity, kept(side))
        value, cost = self.value, self.cost
        if isinstance(value, KernelSide):
            values = agent.values.init(value.like, T, value.actions, capacity, scale)
        else:
            values = agent.values.init(T, *dense(value), scale)
        if not self.has_costs:
            costs = agent.costs.init(self.actions, capacity)
        elif isinstance(cost, KernelSide):
            costs = agent.costs.init(cost.like, T, m, cost.actions, capacity)
        else:
            costs = agent.costs.init(T, m, *dense(cost))
        return State(values, costs, agent.penalty.init(m, H), jnp.asarray(1, jnp.int32))


def _side(agent: str, key: str, said: Any, features: Features | None, sizes: tuple[int, int]) -> Side:
    """How a model sees transitions, from what was said of it."""
    where = f"setting {key} of {agent} is {said}"
    if isinstance(said, InKernel | GP):
        if said.kernel is None or getattr(said, "fit", False):
            raise EverystepError(
                f"{where}; give a kernel, and no fit, such as rbf(1, on=observation)*categorical(on=action)."
            )
        _check_kernel(where, said.kernel)
        return KernelSide(said.kernel, *sizes)
    if isinstance(said, tuple) or said == "counts":
        raise EverystepError(f"{where}, which needs a problem given as a table; choose auto, linear or a kernel.")
    if features is None:
        raise EverystepError(f"{where}, which needs features: give them, such as everystep.features.fourier(100).")
    return RegressionSide(features) if isinstance(said, Regression) else LinearSide(features)


def _check_kernel(where: str, kernel: Kernel) -> None:
    for word in looks_at(kernel) - {*POINTS, ALL}:
        told = "does not say what it is on" if word is None else f"is on '{word}'"
        raise EverystepError(f"{where}: a kernel {told}; choose on= from {' and '.join(POINTS)}.")
