"""Named agents: each is one expression that names four parts.

value model      counts (one-hot features) | linear (the problem's features) | in the space of a kernel
cost model       counts | linear | Gaussian process, or one of these for each constraint | told a safe action
penalty          rectified with a floor | virtual queue | none
choice           penalised | greedy, and either made again at every step (react) | safe set | safe mixture
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from everystep import planner
from everystep.cost_setup import CostModel, CostSetup, fingerprint, shown
from everystep.errors import EverystepError, unknown
from everystep.lsvi import Agent
from everystep.models import AUTO, GP, Choice
from everystep.parts import kernels
from everystep.parts.choices import Greedy, Penalised, Reacting
from everystep.parts.gp_costs import EachCost
from everystep.parts.penalties import Floor, NoPenalty, Rectified, VirtualQueue
from everystep.parts.points import Points
from everystep.parts.projected import ProjectedCosts, ProjectedCounts
from everystep.parts.safe_choices import SafeMixture, SafeSet
from everystep.problem import FiniteCMDP
from everystep.safe_setup import SafeSetup
from everystep.settings import (
    BETA,
    COST_SETTINGS,
    LAM,
    SAFE_SETTINGS,
    SETTINGS,
    VALUE_SETTINGS,
)
from everystep.value_setup import ValueModel, ValueSetup


@dataclass(frozen=True)
class Recipe:
    """An agent to be: a name, what was set, and how to call it. `resolve(problem, episodes).build()` makes it."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    alias: str | None = None

    def __post_init__(self) -> None:
        if self.name not in REGISTERED:
            raise unknown("agent", self.name, REGISTERED, "`everystep list` shows all.")
        allowed = REGISTERED[self.name].settings
        read = {}
        for key, value in self.settings.items():
            if key not in allowed:
                raise unknown(f"setting of {self.name} called", key, allowed, "`everystep list` shows all.")
            try:
                read[key] = SETTINGS[key].read(value)
            except ValueError as error:
                raise EverystepError(f"setting {key} of {self.name} is {value!r}; {error}.") from None
        object.__setattr__(self, "settings", read)

    @property
    def label(self) -> str:
        """The name that tells it from its namesakes: 'lsvi-ae', or 'lsvi-ae(beta=0.3)' when something was set."""
        if self.alias is not None:
            return self.alias
        if not self.settings:
            return self.name
        return f"{self.name}({', '.join(f'{key}={shown(value)}' for key, value in self.settings.items())})"

    def called(self, alias: str) -> Recipe:
        """The same agent under a name of your own in tables, figures and files."""
        return Recipe(self.name, self.settings, str(alias))

    def resolve(self, problem: FiniteCMDP, episodes: int) -> Resolved:
        """Every setting with its value on this problem; raises what does not fit."""
        return Resolved.on(problem, episodes, self)


class Built(NamedTuple):
    """An agent made for a problem: the composition of parts, and which estimators are shared over steps."""

    agent: Any
    share_values: bool
    share_costs: bool
    fits: tuple[FitEvery | None, ...] = ()  # of each cost model


class FitEvery(NamedTuple):
    """That a cost model's kernel is to be fitted again after every so many episodes."""

    episodes: int
    kernel: kernels.Kernel
    points: Points


@dataclass(frozen=True)
class Resolved:
    """Settings with every `auto` decided. Its methods make the parts."""

    problem: FiniteCMDP
    episodes: int
    recipe: Recipe
    values: Mapping[str, Any]
    phi: np.ndarray | None
    cost: CostSetup | SafeSetup
    value: ValueSetup

    @classmethod
    def on(cls, problem: FiniteCMDP, episodes: int, recipe: Recipe) -> Resolved:
        s = {key: setting.default for key, setting in SETTINGS.items()} | dict(recipe.settings)
        default = lambda key, value: value if s[key] == AUTO else s[key]
        told = REGISTERED[recipe.name].told
        s["radius_cost"] = default("radius_cost", "paper" if told else s["radius"])  # to be told is to promise safety
        tuned = s["radius"] == "tuned"
        s["beta"] = default("beta", BETA if tuned else 1.0)
        s["lam"] = default("lam", LAM if tuned else 1.0)
        # The paper clips at H because its rewards are at most 1; larger ones need a larger clip where H is too low.
        H, best = float(problem.horizon), planner.highest(problem)
        s["cap"] = default("cap", H if best <= H else H * float(problem.r.max()))
        for key in ("share_values", "share_costs"):
            if s[key] is True and not problem.stationary:
                raise EverystepError(
                    f"setting {key} of {recipe.name} is true, but the problem '{problem.name}' depends on the step; "
                    "leave it at auto or set it to false."
                )
            s[key] = default(key, problem.stationary)
        features = s["features"]
        phi = features if isinstance(features, np.ndarray) else problem.features if features == AUTO else None
        if phi is not None and phi.shape[:2] != (problem.states, problem.actions):
            raise EverystepError(
                f"setting features of {recipe.name} has shape {phi.shape}; "
                f"the problem needs ({problem.states}, {problem.actions}, d)."
            )
        if phi is not None and (norm := float(np.linalg.norm(phi, axis=-1).max())) > 1 + 1e-9:
            raise EverystepError(f"features have a norm of {norm:.6g}; scale them so that ||phi(x, a)|| <= 1.")
        s["features"] = "one-hot" if phi is None else fingerprint(phi)
        cost = (SafeSetup if told else CostSetup).on(problem, episodes, recipe.name, recipe.settings, s, phi)
        value = ValueSetup.on(
            problem, episodes, recipe.name, s, phi, cost.kappa() if isinstance(cost, SafeSetup) else None
        )
        return cls(problem, episodes, recipe, s | cost.shown() | value.shown(), phi, cost, value)

    def __getitem__(self, setting: str) -> Any:
        return self.values[setting]

    def shown(self) -> dict[str, Any]:
        """The settings this agent has, resolved, ready for JSON."""
        return {key: self.values[key] for key in REGISTERED[self.recipe.name].settings}

    def build(self) -> Built:
        """The composition itself, as JAX arrays; call it with 64-bit numbers on."""
        agent = REGISTERED[self.recipe.name].compose(self)
        return Built(jax.tree.map(jnp.asarray, agent), self["share_values"], self["share_costs"], self._fits())

    def _fits(self) -> tuple[FitEvery | None, ...]:
        every = lambda gp: FitEvery(gp.fit, gp.kernel, Points.of(self.problem, gp.kernel))
        return tuple(every(choice) if isinstance(choice, GP) and choice.fit else None for choice in self.costs)

    # --- parts -----------------------------------------------------------------------------------------------------
    def value_model(self) -> ValueModel:
        return self.value.model()

    @property
    def costs(self) -> tuple[Choice, ...]:
        return self.cost.choices

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader of the results should know about the models."""
        return self.cost.remarks() + self.value.remarks()

    @property
    def confidence(self) -> float | None:
        """p if the cost intervals are valid: all of them hold with probability 1 - p. None if they are a heuristic."""
        return self.cost.confidence() if REGISTERED[self.recipe.name].has_costs else None

    def cost_model(self) -> CostModel | EachCost | ProjectedCosts | ProjectedCounts:
        return self.cost.model()

    def safe_mixture(self) -> SafeMixture:
        assert isinstance(self.cost, SafeSetup)
        return SafeMixture(jnp.asarray(self.cost.safe))

    def penalised(self, rectify: bool) -> Penalised | Reacting:
        return Reacting(Penalised(rectify)) if self["react"] else Penalised(rectify)

    def told(self) -> tuple[Any, Any, Any]:
        return self["optimism"], self.cost.known_safe, self.switch

    @property
    def switch(self) -> Any:
        """By which factor det(Lambda) must grow before a new plan; None for a plan every episode."""
        return None if self["switch"] == "none" else float(self["switch"])

    @property
    def plan_scale(self) -> tuple[str, float]:
        """What theory counts rare plans by, up to a constant, in words and as a number: d log(1 + K) an estimator."""
        estimators, words = (1, "d log(1 + K)") if self["share_values"] else (self.problem.horizon, "d H log(1 + K)")
        return words, self.value.d * estimators * math.log1p(self.episodes)

    def floor(self) -> Floor:
        return Floor.of(self["floor"])


class Named(NamedTuple):
    """A registered agent: its composition, its settings, what it must be told in advance, and a line on it."""

    compose: Callable[[Resolved], Any]
    settings: tuple[str, ...]
    needs: str
    summary: str

    @property
    def has_costs(self) -> bool:
        """Whether it looks at costs at all."""
        return "beta_cost" in self.settings

    @property
    def told(self) -> bool:
        """Whether it must be told a safe action for every state."""
        return "safe_action" in self.settings


UPPER: Any = -1.0  # optimism of agents that admit nothing but what is safe by the upper end of its cost interval

REGISTERED: dict[str, Named] = {
    "lsvi-ae": Named(
        lambda s: Agent(s.value_model(), s.cost_model(), Rectified(s.floor()), s.penalised(rectify=True), *s.told()),
        settings=(*VALUE_SETTINGS, *COST_SETTINGS, "floor"),
        needs="nothing",
        summary="optimistic values and costs, a growing price on harm",
    ),
    "lsvi": Named(
        lambda s: Agent(s.value_model(), s.cost_model(), NoPenalty(), Greedy(), s["optimism"], switch=s.switch),
        settings=VALUE_SETTINGS,
        needs="nothing",
        summary="optimistic values, harm ignored (LSVI-UCB)",
    ),
    "lsvi-primal": Named(
        lambda s: Agent(s.value_model(), s.cost_model(), VirtualQueue(), s.penalised(s["rectify"]), *s.told()),
        settings=(*VALUE_SETTINGS, *COST_SETTINGS, "rectify"),
        needs="nothing",
        summary="a virtual queue as price, the primal-dual rival",
    ),
    "slucb-qvi": Named(
        lambda s: Agent(s.value_model(), s.cost_model(), NoPenalty(), SafeSet(), UPPER, switch=s.switch),
        settings=(*VALUE_SETTINGS, *SAFE_SETTINGS),
        needs="safe actions",
        summary="optimistic values, only actions that are surely safe",
    ),
    "rslucb-qvi": Named(
        lambda s: Agent(s.value_model(), s.cost_model(), NoPenalty(), s.safe_mixture(), UPPER, switch=s.switch),
        settings=(*VALUE_SETTINGS, *SAFE_SETTINGS),
        needs="safe actions",
        summary="optimistic values, mixtures of actions that are surely safe in the mean",
    ),
}


def lsvi_ae(**settings: Any) -> Recipe:
    """LSVI-AE, Algorithm 1 of Wei, Liu and Ying: aggressive exploration under constraints that hold at every step.

    a_h = argmax_a {Q_h(x, a) - Z_h [ghat_h(x, a)]_+},   Z_h <- max{Z_h + [g_h]_+, eta_k}

    Rectified(floor) + Penalised(rectify) on the lower end of the cost interval. Settings: `everystep list`.
    """
    return Recipe("lsvi-ae", settings)


def lsvi(**settings: Any) -> Recipe:
    """LSVI(-UCB), Jin et al. 2020: the same value model, greedy, blind to harm. LSVI-AE with Z = 0."""
    return Recipe("lsvi", settings)


def lsvi_primal(**settings: Any) -> Recipe:
    """LSVI-Primal, the paper's rival: a_h = argmax_a {Q_h - Z_h ghat_h},  Z_h <- max{Z_h + g_h, 0},  Z starts at 0.

    `rectify=True` prices [ghat]_+ instead. The paper only describes this agent, by its eqs. (12) and (14).
    """
    return Recipe("lsvi-primal", settings)


def slucb_qvi(**settings: Any) -> Recipe:
    """SLUCB-QVI, Amani, Thrampoulidis and Yang (ICML 2021): never an action that is not surely safe.

    a_h = argmax Q_h(x, a) over {a : upper end of c_h(x, a) <= tau},   Q_h = min{<w, phi> + kappa_h(x) beta ||phi||, H}

    Must be told: for every state an action a0(x) with its exact cost c0(x) < tau, and tau (`threshold`), in which costs
    c = g + tau are linear in the features (`FiniteCMDP(known=Known(...))`, or `safe_action` and `threshold`).
    Reconstructed: the formulas are rebuilt from what later papers say of the algorithm, not read from its own.

    Its promise is safety, so the cost radius is the valid one (`radius_cost=paper`), the cost part of the printed
    maximum alone. The value radius is tuned, times kappa_h(x) = 2 H / (tau - c0(x)) + 1 as printed, which makes up for
    what a small safe set leaves out and keeps Q at its cap for long; `kappa=1` leaves it out. With one-hot features
    nothing is ever known of an action but a0, which it then plays for ever: it needs features that actions have in
    common, and actions near a0 to begin with.
    """
    return Recipe("slucb-qvi", settings)


def rslucb_qvi(**settings: Any) -> Recipe:
    """RSLUCB-QVI, of the same paper: a distribution over actions that is surely safe in the mean over its own draws.

    pi_h(x) = argmax <Q_h(x), theta> over distributions with <mean, theta> + beta ||E_theta[phi]||_{A^+} <= tau

    Must be told: the same as `slucb_qvi`. Reconstructed: likewise. It needs no features in common, but single draws
    may be unsafe: `violation` counts those, `mixture_violation` the mean over the draw, which is what it promises.
    With dense features it solves a cone program at every state and step of a plan: `switch=2` makes plans rare.
    With the valid radius and one-hot features it leaves a0 but learns slowly: on the lake (d = 400) it finds no goal in
    1000 episodes; `radius_cost=tuned, kappa=1` does, and then promises nothing.
    """
    return Recipe("rslucb-qvi", settings)


def recipe(agent: str | Recipe) -> Recipe:
    """An agent from a name, or as it is."""
    return agent if isinstance(agent, Recipe) else Recipe(str(agent))
