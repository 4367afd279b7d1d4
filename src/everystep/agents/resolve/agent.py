"""An agent's settings, resolved on a finite problem: every `auto` decided, every part made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from everystep.agents.model_syntax import AUTO
from everystep.agents.registry import Recipe
from everystep.agents.resolve.context import Context, fingerprint
from everystep.agents.resolve.costs import ResolvedCosts
from everystep.agents.resolve.known_safe import KnownSafeCosts
from everystep.agents.resolve.mixture import ResolvedMixtureValues, ResolvedTripleCosts, resolve_mixture
from everystep.agents.resolve.parts import SharedParts
from everystep.agents.resolve.values import ResolvedValues
from everystep.agents.settings import AHEAD_SETTINGS, PRECISIONS, UNCLIPPED, share
from everystep.errors import EverystepError
from everystep.lsvi import radii
from everystep.lsvi.ahead import HarmToGo, Marked
from everystep.lsvi.algorithm import Agent
from everystep.lsvi.choices.safe import SafeMixture
from everystep.lsvi.choices.safe_graph import SafeGraph
from everystep.lsvi.protocols import FiniteCostModel, FiniteValueModel, Pytree
from everystep.mdp.cmdp import FiniteCMDP
from everystep.mdp.units import RewardRange


class BuiltAgent(NamedTuple):
    """An agent built for a problem: the composition of parts, and which estimators are shared over steps."""

    agent: Agent
    share_values: bool
    share_costs: bool
    precision: str = PRECISIONS[0]


@dataclass(frozen=True, eq=False)
class Resolved(SharedParts):
    """Settings with every `auto` decided. Its methods make the parts (`registry.Parts`).

    The settings are as the user sets them; `cap` is in the units that the agent learns in (`FiniteCMDP.in_units`).
    """

    problem: FiniteCMDP
    episodes: int
    recipe: Recipe
    values: Mapping[str, Any]
    phi: np.ndarray | None
    cost: ResolvedCosts | KnownSafeCosts | ResolvedTripleCosts
    value: ResolvedValues | ResolvedMixtureValues
    cap: float

    @classmethod
    def resolve(cls, problem: FiniteCMDP, episodes: int, recipe: Recipe) -> Resolved:
        definition, rewards = recipe.definition, problem.reward_range
        if definition.networks:
            raise EverystepError(
                f"{recipe.name} learns in environments, and '{problem.name}' is a table; train it with es.train on "
                "es.gym.make_env(problem), or run lsvi-ahead."
            )
        s = recipe.all_settings(definition.suited(problem))
        # An agent that requires a known safe action promises safety: its cost intervals are valid by default.
        s.decide("radius_cost", "paper" if definition.requires_safe_action else s["radius"])
        # As for costs, a width below two standard deviations of the noise may rule out a good action for good.
        noise = 2 * float(problem.in_units.noise.reward_sigma) if s["radius"] == "tuned" else 0.0
        s.decide("beta", max(float(s.default("beta", environment=False)), noise))
        for key in ("lam", *AHEAD_SETTINGS):
            s.decide(key, s.default(key, environment=False))
        if share(s["switch"]) is not None:
            raise EverystepError(
                f"setting switch of {recipe.name} is {s['switch']}; a percentage is for environments: give a factor."
            )
        H = problem.horizon
        cap = _cap(s["cap"], rewards, H)
        s.decide("cap", rewards.highest(float(H), H))
        for key in ("share_values", "share_costs"):
            if s[key] is True and not problem.stationary:
                raise EverystepError(
                    f"setting {key} of {recipe.name} is true, but the problem '{problem.name}' depends on the step; "
                    "leave it at auto or set it to false."
                )
            s.decide(key, problem.stationary)
        phi = _features(problem, recipe.name, s["features"]) if not definition.uses_triple_features else None
        s["features"] = "one-hot" if phi is None else fingerprint(phi)
        scale = np.ones(problem.constraints) if problem.scale is None else problem.scale
        lowest = definition.lowest_value(cap)
        context = Context(problem.in_units, episodes, recipe.name, recipe.settings, s, phi, cap, lowest, scale)
        value: ResolvedValues | ResolvedMixtureValues
        cost: ResolvedCosts | KnownSafeCosts | ResolvedTripleCosts
        if definition.uses_triple_features:
            value, cost = resolve_mixture(context)
        elif definition.requires_safe_action:
            cost = KnownSafeCosts.resolve(context)
            value = ResolvedValues.resolve(context, cost.kappa())
        else:
            cost = ResolvedCosts.resolve(context)
            value = ResolvedValues.resolve(context)
        counted = value.choice == "counts" and bool(cost.specs) and all(spec.one_hot for spec in cost.specs)
        if s["precision"] != PRECISIONS[0] and not counted:
            remedy = "" if definition.requires_safe_action else "set value and cost to counts, or "
            raise EverystepError(
                f"setting precision of {recipe.name} is {s['precision']}, which requires counts for values and costs; "
                f"{remedy}set precision to float64."
            )
        return cls(problem, episodes, recipe, s | cost.to_json() | value.to_json(), phi, cost, value, cap)

    def to_json(self) -> dict[str, Any]:
        """The settings of this agent, resolved."""
        return {key: self.values[key] for key in self.recipe.definition.settings}

    def build(self) -> BuiltAgent:
        """The composition itself, as JAX arrays; requires 64-bit numbers to be enabled."""
        agent = jax.tree.map(jnp.asarray, self.recipe.definition.compose(self))
        return BuiltAgent(agent, self["share_values"], self["share_costs"], self["precision"])

    # --- parts -------------------------------------------------------------------------------------------------------
    def value_model(self) -> FiniteValueModel[Pytree, Pytree]:
        return self.value.model()

    def cost_model(self) -> FiniteCostModel[Pytree]:
        return self.cost.model()

    def safe_mixture(self) -> SafeMixture:
        assert isinstance(self.cost, KnownSafeCosts)
        return SafeMixture(jnp.asarray(self.cost.safe))

    def safe_graph(self) -> SafeGraph:
        assert isinstance(self.cost, ResolvedTripleCosts)
        return self.cost.choice()

    def harm_to_go(self) -> HarmToGo:
        """Harm is counted in units of the largest scale of a constraint, as agents learn from g / scale."""
        unit, factor, H = float(self._scale.max()), self["beta_harm"], self.problem.horizon
        radius: radii.Radius | None = None
        if factor and self["radius"] == "tuned":
            radius = radii.Tuned(factor / unit)
        elif factor:
            assert isinstance(self.value, ResolvedValues)
            radius = self.value.radius(factor, float(H * self.problem.constraints))
        return self.harm_in_units(unit, self._scale / unit, H, radius)

    def marked(self) -> Marked:
        return Marked(self._scale / self._scale.max())

    @property
    def _scale(self) -> np.ndarray:
        """What each constraint was divided by, (m,)."""
        return np.ones(self.problem.constraints) if self.problem.scale is None else np.asarray(self.problem.scale)

    @property
    def known_safe(self) -> np.ndarray | None:
        return self.cost.known_safe

    @property
    def switch(self) -> float | None:
        """The factor by which det(Lambda) must grow before a new plan; None for a plan in every episode."""
        return None if self["switch"] == "none" else float(self["switch"])

    # --- for readers of the results ----------------------------------------------------------------------------------
    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader of the results should know about the models."""
        return self._scaled() + self.cost.remarks() + self.value.remarks()

    def _scaled(self) -> tuple[str, ...]:
        """What was divided, where the problem has a `scale`."""
        if (scale := self.problem.scale) is None:
            return ()
        divisors = ", ".join(f"{number:.6g}" for number in scale)
        each = "" if len(scale) == 1 else " (one for each constraint)"
        return (f"agents learn from g divided by {divisors}{each}; violations are in the units of g.",)

    @property
    def confidence(self) -> float | None:
        """p if the cost intervals are valid: all hold with probability 1 - p. None if they are a heuristic.

        Of an agent that learns the harm of events they are intervals for E max(g, 0), which tells the sign of g only
        where costs are observed without noise.
        """
        noisy = self.problem.world.cost_seen is not None or self.problem.world.cost_sigma is not None
        if not self.recipe.definition.uses_costs or (self._counts_events and noisy):
            return None
        return self.cost.confidence()

    @property
    def _counts_events(self) -> bool:
        return "harm" in self.recipe.definition.settings and self["harm"] == "events"

    @property
    def labels_ahead(self) -> dict[str, Any] | None:
        """What certificates ahead mean (`lsvi/ahead_bounds.py`), ready for JSON; None for agents that have none.

        p        their probability of a false label, 2 p if cost intervals are valid and values are counted, else None
        events   whether harm is E max(g, 0) instead of max(E g, 0)
        """
        if "harm" not in self.recipe.definition.settings:
            return None
        events = self._counts_events
        counted = isinstance(self.value, ResolvedValues) and self.value.choice == "counts"
        unbounded = events and self.problem.world.cost_sigma is not None  # E max(g, 0) may exceed 1 with normal noise
        valid = counted and not unbounded and self.cost.confidence() is not None
        p = min(2 * float(self["p"]), 1.0) if valid else None
        return {"p": p, "tolerance": float(self["tolerance"]), "events": events}

    @property
    def plan_scale(self) -> tuple[str, float]:
        """The order of the number of plans in theory, as text and as a number: d log(1 + K) for each estimator."""
        estimators, words = (1, "d log(1 + K)") if self["share_values"] else (self.problem.horizon, "d H log(1 + K)")
        return words, self.value.d * estimators * math.log1p(self.episodes)


def _cap(cap: float | str, rewards: RewardRange, horizon: int) -> float:
    """The setting `cap` in units of the range of rewards: H, as in the paper, unless the user sets another return."""
    if isinstance(cap, str):
        return UNCLIPPED if cap == "none" else float(horizon)
    return rewards.scaled_cap(float(cap), horizon)


def _features(problem: FiniteCMDP, agent: str, features: object) -> np.ndarray | None:
    """The features (S, A, d) that the setting selects, checked; None for one-hot features."""
    phi = features if isinstance(features, np.ndarray) else problem.features if features == AUTO else None
    if phi is not None and phi.shape[:2] != (problem.states, problem.actions):
        raise EverystepError(
            f"setting features of {agent} has shape {phi.shape}; "
            f"the problem needs ({problem.states}, {problem.actions}, d)."
        )
    if phi is not None:
        with np.errstate(over="ignore"):  # a norm of inf is above 1
            norm = float(np.linalg.norm(phi, axis=-1).max())
        if norm > 1 + 1e-9:
            raise EverystepError(f"features have a norm of {norm:.6g}; scale them so that ||phi(x, a)|| <= 1.")
    return phi
