"""An agent's settings decided for an environment: models on stored data, because its states cannot be listed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from everystep.agents.model_syntax import AUTO, InKernel
from everystep.agents.registry import REGISTERED, Recipe
from everystep.agents.settings import AHEAD_SETTINGS, SETTINGS, UNCLIPPED, share
from everystep.errors import EverystepError
from everystep.features.maps import Features
from everystep.kernels import ALL, Kernel, looks_at
from everystep.lsvi.costs.gp import BETA_GP, GP, LAM_GP
from everystep.training.agent.countdown import Countdown
from everystep.training.agent.encoders import COORDINATES, Encoder, FeatureEncoder, KernelEncoder, ModelEncoder
from everystep.training.agent.stored_agent import StoredAgent
from everystep.training.learnt.limit import Limit

TABLES_ONLY = ("features", "known_safe", "bound", "sigma", "precision")  # settings that need a FiniteCMDP
MOST_BYTES = 2e9
STATES = 8192  # for which memory is counted where it has no limit
MATRICES = 3
ESTIMATES = 4  # values, costs, and their widths


class EnvironmentInfo(NamedTuple):
    """What is known of an environment before the first step.

    features, cost_features   of the value and the cost model; None if there are none
    coordinates, actions      the length of an observation, and A
    horizon, length           H, the steps a plan looks ahead, and L >= H, the most steps of an episode
    reward_range              None: the range of observed rewards and 0
    memory                    the most states that plans compute values at; None: all that were observed
    cost_ridge                lam_cost where it is left at auto; None: the default
    limit                     the constraint, to be called on imagined steps; None: it is learnt
    """

    features: Features | None
    cost_features: Features | None
    coordinates: int
    actions: int
    horizon: int
    length: int
    reward_range: tuple[float, float] | None = None
    memory: int | None = None
    cost_ridge: float | None = None
    limit: Limit | None = None


@dataclass(frozen=True)
class ResolvedForTraining:
    """An agent's settings on an environment, with every `auto` decided.

    value, cost   the encoders of both models
    """

    recipe: Recipe
    environment: EnvironmentInfo
    values: Mapping[str, Any]
    value: ModelEncoder
    cost: ModelEncoder
    learns_at_every_step = False

    @classmethod
    def resolve(cls, recipe: Recipe, environment: EnvironmentInfo) -> ResolvedForTraining:
        """Decide every setting; raise what does not fit."""
        name, H, L = recipe.name, environment.horizon, environment.length
        _check_agent(recipe)
        s = recipe.all_settings()
        s.decide("radius_cost", s["radius"])
        value = _encoder(name, "value", s["value"], environment.features, environment)
        cost = _encoder(name, "cost", s["cost"], environment.cost_features, environment)
        if value == cost:
            cost = value  # observations are encoded once for both
        for key, encoder in (("radius", value), ("radius_cost", cost)):
            if s[key] == "coordinate" or (s[key] == "paper" and not encoder.has_paper_radius):
                raise EverystepError(f"setting {key} of {name} is {s[key]}, which has no meaning here; choose tuned.")
        tuned, tuned_cost = s["radius"] == "tuned", s["radius_cost"] == "tuned"
        s.decide("cap", float(H))
        if s["cap"] == "none" or s["cap"] <= 0:
            raise EverystepError(
                f"setting cap of {name} is {s['cap']}; give a return above 0: the bonus raises untried actions to it."
            )
        for key in ("lam", *AHEAD_SETTINGS):
            s.decide(key, s.default(key, environment=True))
        # The estimate of an untried direction shrinks to 0; the bonus raises it to the cap: beta / sqrt(lam) = cap.
        s.decide("beta", math.sqrt(s["lam"]) * s["cap"] if tuned else 1.0)
        in_kernel, ridge = cost.keeps_points, environment.cost_ridge
        lam_cost, beta_cost = (float(s.default(key, environment=True)) for key in ("lam_cost", "beta_cost"))
        if ridge and tuned_cost:  # the width of an untried direction, beta_cost / sqrt(lam_cost), stays
            lam_cost, beta_cost = ridge, beta_cost * math.sqrt(ridge / lam_cost)
        s.decide("lam_cost", LAM_GP if in_kernel else lam_cost)
        s.decide("beta_cost", BETA_GP if in_kernel else beta_cost)
        s.update(_sharing(name, s, H, L))
        if s["react"] and (in_kernel or not s["share_costs"]):
            raise EverystepError(
                f"setting react of {name} is true, which needs linear costs shared over steps; set react to false."
            )
        estimators = 1 if s["share_values"] else H
        _check_size(name, value, cost if REGISTERED[name].uses_costs else None, estimators, environment.memory)
        return cls(recipe, environment, s, value, cost)

    def __getitem__(self, setting: str) -> Any:
        return self.values[setting]

    def to_json(self) -> dict[str, Any]:
        """The settings of this agent, ready for JSON."""
        kept = [key for key in self.recipe.definition.settings if key not in TABLES_ONLY]
        found = ((key, self.values[key]) for key in kept)
        return {key: each if isinstance(each, bool | int | float | str | None) else str(each) for key, each in found}

    @property
    def lowest_value(self) -> float:
        """What no value is below, on the scale of rewards: 0, unless an ended episode, which earns 0, is below it."""
        declared = self.environment.reward_range
        ends_below = declared is not None and declared[0] > 0
        return -UNCLIPPED if ends_below else self.recipe.definition.lowest_value(self["cap"])

    @property
    def horizon(self) -> int:
        return self.environment.horizon

    @property
    def length(self) -> int:
        return self.environment.length

    @property
    def actions(self) -> int:
        return self.environment.actions

    @property
    def steps(self) -> int:
        """T, the number of estimators of each kind."""
        return 1 if self["share_values"] else self.horizon

    @property
    def has_costs(self) -> bool:
        """Whether this agent looks at costs at all."""
        return REGISTERED[self.recipe.name].uses_costs

    @property
    def switch(self) -> float | None:
        """The factor by which a determinant must grow before a new plan is made; None: not decided by this."""
        return None if self["switch"] == "none" or self.switch_share is not None else float(self["switch"])

    @property
    def switch_share(self) -> float | None:
        """The share of new transitions that a new plan needs; None: not decided by this."""
        return share(self["switch"])

    @property
    def confidence(self) -> float | None:
        """p if all cost intervals hold with probability 1 - p, under the assumptions of `guarantee`; else None."""
        return self["p"] if self.has_costs and self["radius_cost"] != "tuned" else None

    @property
    def guarantee(self) -> str:
        """What certificates guarantee here, where the true costs are unknown, in a sentence."""
        if not self.has_costs:
            return "none: this agent does not look at costs"
        if self.confidence is None:
            return "heuristic: widths are tuned, and carry no probability"
        return (
            f"all labels hold with probability {1 - self.confidence:g}, if each constraint is linear in its features "
            "with weights of norm at most sqrt(d), and its noise is 1-sub-Gaussian"
        )

    @property
    def countdown(self) -> Countdown:
        """Which step of the plan is used at which step of an episode."""
        return Countdown(self.length, self.horizon)

    def agent(self, constraints: int, seed: int) -> StoredAgent:
        """A new agent, once the number of constraints is known."""
        return StoredAgent(self, constraints, seed)


def _check_agent(recipe: Recipe) -> None:
    """Refuse agents and settings that need a problem given as a table."""
    name = recipe.name
    if REGISTERED[name].requires_safe_action:
        raise EverystepError(
            f"{name} requires a known safe action and its cost for every state, but the states of an environment are "
            "not listed; use lsvi-ae, or give the problem as a FiniteCMDP."
        )
    if not recipe.definition.trainable:
        trainable = [name for name, each in REGISTERED.items() if each.trainable]
        raise EverystepError(f"{name} is for problems given as tables; train {', '.join(trainable)} instead.")
    for key in TABLES_ONLY:
        if key in recipe.settings and recipe.settings[key] is not SETTINGS[key].default:
            remedy = "give features= to train" if key == "features" else "leave it out"
            raise EverystepError(f"setting {key} of {name} is for problems given as tables; {remedy}.")


def _sharing(name: str, s: Mapping[str, Any], horizon: int, length: int) -> dict[str, bool]:
    """share_values and share_costs: the same for both, shared by default."""
    keys = ("share_values", "share_costs")
    given = {s[key] for key in keys} - {AUTO}
    if len(given) > 1:
        raise EverystepError(
            f"share_values of {name} is {s['share_values']} and share_costs {s['share_costs']}; on an environment "
            "both must be the same: leave one at auto."
        )
    shared = given != {False}
    if not shared and length > horizon:
        raise EverystepError(
            f"setting share_values of {name} is false, but episodes last up to {length} steps and a plan {horizon}; "
            f"set horizon to {length}, or leave share_values at auto."
        )
    return dict.fromkeys(keys, shared)


def _encoder(
    agent: str, key: str, given: object, features: Features | None, environment: EnvironmentInfo
) -> ModelEncoder:
    """The encoder of a model, from the setting that names the model."""
    where = f"setting {key} of {agent} is {given}"
    if isinstance(given, InKernel | GP):
        if given.kernel is None:
            raise EverystepError(f"{where}; give a kernel, such as rbf(1, on=observation)*categorical(on=action).")
        _check_kernel(where, given.kernel)
        return KernelEncoder(given.kernel, environment.coordinates, environment.actions)
    if isinstance(given, tuple) or str(given) not in (AUTO, "linear"):
        raise EverystepError(f"{where}, which needs a problem given as a table; choose auto, linear or a kernel.")
    if features is None:
        raise EverystepError(f"{where}, which needs features: give them, such as everystep.features.fourier(100).")
    return FeatureEncoder(features)


def _check_kernel(where: str, kernel: Kernel) -> None:
    for word in looks_at(kernel) - {*COORDINATES, ALL}:
        problem = "a kernel has no on=" if word is None else f"a kernel is on '{word}'"
        raise EverystepError(f"{where}: {problem}; choose on= from {' and '.join(COORDINATES)}.")


# --- size -------------------------------------------------------------------------------------------------------------
def bytes_of(encoder: FeatureEncoder, estimators: int, states: int) -> float:
    """What a linear model with e features (of a state, if they are crossed with actions) holds.

    For each of its T estimators and B blocks Lambda, its inverse and one copy of work, e^2 numbers each; and e F
    numbers for each of C states. Where actions have coordinates F is 1, and estimates of all actions count, too.
    """
    shape = encoder.shape
    matrices = MATRICES * estimators * shape.blocks * float(shape.e) ** 2
    estimates = ESTIMATES * shape.actions * states if shape.joint else 0
    return 8 * (matrices + estimators * (shape.e * shape.vectors * states + estimates))


def _check_size(agent: str, value: Encoder, cost: Encoder | None, estimators: int, memory: int | None) -> None:
    """Refuse features whose matrices would not fit, with what they would take."""
    encoders = {"features": value} | ({} if cost is None or cost is value else {"cost_features": cost})
    linear = {name: each for name, each in encoders.items() if isinstance(each, FeatureEncoder)}
    needed = {name: bytes_of(each, estimators, memory or STATES) for name, each in linear.items()}
    if sum(needed.values()) <= MOST_BYTES:
        return
    name = max(needed, key=lambda each: needed[each])
    shape = linear[name].shape
    raise EverystepError(
        f"{name} of {agent} make {shape.e} numbers for each of {shape.actions} actions (d = {linear[name].d}); their "
        f"matrices would take {needed[name] / 1e9:.3g} GB, and a refreshed inverse {2 * shape.blocks * shape.e**3:.1g} "
        f"operations: ask for fewer, so that they take at most {MOST_BYTES / 1e9:g} GB."
    )
