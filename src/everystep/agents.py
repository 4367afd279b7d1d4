"""Named agents: each is one expression that names four parts.

value model      counts (one-hot features) | linear (the problem's features)
cost model       counts | linear | Gaussian process, or one of these for each constraint
penalty          rectified with a floor | virtual queue | none
choice           penalised | greedy, and either made again at every step (react)
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from everystep import models, planner
from everystep.errors import EverystepError, unknown
from everystep.lsvi import Agent
from everystep.models import AUTO, GP, Choice
from everystep.parts import kernels, radii
from everystep.parts.choices import Greedy, Penalised, Reacting
from everystep.parts.costs import CountCosts, LinearCosts
from everystep.parts.gp_costs import EachCost, GridGP, GrowingGP
from everystep.parts.penalties import Floor, NoPenalty, Rectified, VirtualQueue
from everystep.parts.points import Points
from everystep.parts.values import Counts, Linear, ValueModel
from everystep.problem import FiniteCMDP
from everystep.settings import (
    BETA,
    BETA_COST,
    BETA_GP,
    COST_SETTINGS,
    LAM,
    LAM_COST,
    LAM_GP,
    SETTINGS,
    VALUE_SETTINGS,
)

CostModel = CountCosts | LinearCosts | GridGP | GrowingGP


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
        return f"{self.name}({', '.join(f'{key}={_shown(value)}' for key, value in self.settings.items())})"

    def called(self, alias: str) -> Recipe:
        """The same agent under a name of your own in tables, figures and files."""
        return Recipe(self.name, self.settings, str(alias))

    def resolve(self, problem: FiniteCMDP, episodes: int) -> Resolved:
        """Every setting with its value on this problem; raises what does not fit."""
        return Resolved.on(problem, episodes, self)


def _shown(value: Any) -> str:
    """A setting in a name: short for an array, as typed for a cost model."""
    if isinstance(value, np.ndarray):
        return _fingerprint(value)
    return models.text(value) if isinstance(value, GP | tuple) else str(value)


def _fingerprint(phi: np.ndarray) -> str:
    """A short name for an array: its shape and a hash of its numbers."""
    digest = hashlib.sha256(np.ascontiguousarray(phi).tobytes()).hexdigest()[:16]
    return f"{'x'.join(map(str, phi.shape))}:{digest}"


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
    costs: tuple[Choice, ...]  # one for all constraints, or one for each
    known_safe: np.ndarray | None

    @classmethod
    def on(cls, problem: FiniteCMDP, episodes: int, recipe: Recipe) -> Resolved:
        s = {key: setting.default for key, setting in SETTINGS.items()} | dict(recipe.settings)
        s["radius_cost"] = s["radius"] if s["radius_cost"] == AUTO else s["radius_cost"]
        default = lambda key, value: value if s[key] == AUTO else s[key]
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
        noise = problem.noise
        s["sigma"] = default("sigma", float(np.max(noise.cost_sigma)) + problem.arrival_spread)
        features = s["features"]
        phi = features if isinstance(features, np.ndarray) else problem.features if features == AUTO else None
        if phi is not None and phi.shape[:2] != (problem.states, problem.actions):
            raise EverystepError(
                f"setting features of {recipe.name} has shape {phi.shape}; "
                f"the problem needs ({problem.states}, {problem.actions}, d)."
            )
        if phi is not None and (norm := float(np.linalg.norm(phi, axis=-1).max())) > 1 + 1e-9:
            raise EverystepError(f"features have a norm of {norm:.6g}; scale them so that ||phi(x, a)|| <= 1.")
        costs = _cost_choices(problem, recipe, s["cost"], phi)
        for key, one_hot in (("radius", phi is None), ("radius_cost", set(costs) == {"counts"})):
            if not one_hot and s[key] == "coordinate" and key in REGISTERED[recipe.name].settings:
                raise EverystepError(
                    f"setting {key} of {recipe.name} is coordinate, which needs one-hot features; "
                    "choose tuned or paper."
                )
        if s["react"] and not s["share_costs"]:
            raise EverystepError(
                f"setting react of {recipe.name} is true, but each step has a cost estimator of its own, which "
                "nothing seen earlier in the episode can change; set share_costs to true, or react to false."
            )
        known_safe = _known_safe(problem, recipe, s["known_safe"])
        s["features"] = "one-hot" if phi is None else _fingerprint(phi)
        s["known_safe"] = _shown(s["known_safe"])
        resolved = cls(problem, episodes, recipe, s, phi, costs, known_safe)
        for key in ("beta_cost", "lam_cost"):
            numbers = [resolved.cost_number(key, choice) for choice in costs]
            s[key] = numbers[0] if len(set(numbers)) == 1 else numbers
        s["cost"] = models.text(costs[0] if len(costs) == 1 else costs) + resolved._own_kernels()
        return resolved

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
        every = lambda gp: FitEvery(gp.fit, gp.kernel, self.points(gp))
        return tuple(every(choice) if isinstance(choice, GP) and choice.fit else None for choice in self.costs)

    # --- parts -----------------------------------------------------------------------------------------------------
    @property
    def _d(self) -> float:
        return float(self.problem.states * self.problem.actions if self.phi is None else self.phi.shape[-1])

    def value_model(self) -> ValueModel:
        s, H, K = self.values, float(self.problem.horizon), float(self.episodes)
        radius: radii.Radius
        if s["radius"] == "tuned":
            radius = radii.Tuned(s["beta"])
        elif s["radius"] == "paper":
            radius = radii.PaperValue(s["beta"], self._d, H, K, s["p"])
        else:
            radius = radii.CoordinateValue(s["beta"], s["lam"], s["cap"], math.log(self._d * H * K / s["p"]))
        if self.phi is None:
            return Counts(radius, s["lam"], s["cap"], self.problem.world.successors)
        return Linear(radius, s["lam"], s["cap"], jnp.asarray(self.phi.swapaxes(0, 1)))

    def cost_number(self, key: str, choice: Choice) -> float:
        """`beta_cost` or `lam_cost` of one of the cost models, decided where it is left to auto."""
        if (given := self.recipe.settings.get(key, AUTO)) != AUTO:
            return float(given)
        kind, is_gp = self["radius_cost"], isinstance(choice, GP)
        if key == "beta_cost":
            return 1.0 if kind != "tuned" else BETA_GP if is_gp else BETA_COST
        if is_gp:
            return max(self["sigma"] ** 2, LAM_GP) if kind == "tuned" else self._lam_paper
        return {"tuned": LAM_COST, "coordinate": 0.5, "paper": 1.0}[kind]

    @property
    def _lam_paper(self) -> float:
        """lam = 1 + 2 / T, T all observations of one estimator."""
        return 1 + 2 / (self.episodes * (self.problem.horizon if self["share_costs"] else 1))

    def cost_model(self) -> CostModel | EachCost:
        made = tuple(self._cost_model(choice) for choice in self.costs)
        return made[0] if len(made) == 1 else EachCost(made)

    def _cost_model(self, choice: Choice) -> CostModel:
        s, H, K, m = self.values, float(self.problem.horizon), float(self.episodes), float(self.problem.constraints)
        beta, lam = self.cost_number("beta_cost", choice), self.cost_number("lam_cost", choice)
        seen, estimators = (H, m) if s["share_costs"] else (1.0, m * H)
        radius: Any = radii.Tuned(beta)
        if isinstance(choice, GP):
            if s["radius_cost"] == "paper":
                radius = radii.PaperGP(beta, s["bound"], s["sigma"], math.log(2 * estimators / s["p"]))
            points = self.points(choice)
            assert choice.kernel is not None
            if choice.points == "grid":
                return GridGP(radius, lam, jnp.asarray(points.gram), jnp.asarray(points.which))
            return GrowingGP(
                radius, lam, choice.kernel, {name: each[points.which] for name, each in points.named.items()}
            )
        if s["radius_cost"] == "paper":
            d = float(self.problem.states * self.problem.actions) if choice == "counts" else self._d
            radius = radii.PaperCost(beta, d, lam, seen, estimators, s["p"])
        elif s["radius_cost"] == "coordinate":
            log_union = math.log(2 * m * self._d * H * K / s["p"])
            radius = radii.CoordinateCost(beta, lam, s["bound"], s["sigma"], log_union)
        if choice == "counts":
            return CountCosts(radius, lam)
        assert self.phi is not None
        return LinearCosts(radius, lam, jnp.asarray(self.phi.swapaxes(0, 1)))

    def points(self, choice: GP) -> Points:
        """Where a Gaussian process sees this problem."""
        assert choice.kernel is not None
        return Points.of(self.problem, choice.kernel)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader of the results should know about the cost models."""
        said = []
        for own, choice in self._constraints():
            if isinstance(choice, GP):
                assert choice.kernel is not None
                if kernels.looks_at(choice.kernel) & {"landing", "move"}:
                    said.append(
                        f"the cost kernel {choice.kernel} of {self.recipe.name} tells it where each action aims; "
                        "one-hot costs do not."
                    )
                if self["radius_cost"] == "paper" and (norm := self.points(choice).norm(own)) > self["bound"]:
                    said.append(
                        f"g has a norm of {norm:.3g} in the kernel {choice.kernel}, above the bound {self['bound']:g}: "
                        f"the intervals of {self.recipe.name} carry no probability; set bound to at least that."
                    )
        return tuple(dict.fromkeys(said))

    def _constraints(self) -> list[tuple[np.ndarray, Choice]]:
        """The true costs that each cost model has to learn."""
        g = self.problem.g
        return [(g, self.costs[0])] if len(self.costs) == 1 else [(g[i : i + 1], c) for i, c in enumerate(self.costs)]

    @property
    def confidence(self) -> float | None:
        """p if the cost intervals are valid: all of them hold with probability 1 - p. None if they are a heuristic."""
        s, noise = self.values, self.problem.noise
        least = float(np.max(noise.cost_sigma)) + self.problem.arrival_spread
        if s["radius_cost"] == "tuned" or s["sigma"] < least:
            return None
        for own, choice in self._constraints():
            if self.cost_number("beta_cost", choice) < 1:
                return None
            if isinstance(choice, GP):
                if choice.fit or self.cost_number("lam_cost", choice) != self._lam_paper:
                    return None
                if self.points(choice).norm(own) > s["bound"] * (1 + 1e-6):
                    return None
            elif s["radius_cost"] == "coordinate" and s["bound"] < np.abs(self.problem.g).max():
                return None
        return float(s["p"])

    def _own_kernels(self) -> str:
        """A hash of the kernels that are functions of one's own, whose text does not tell them apart."""
        used = [choice.kernel for choice in self.costs if isinstance(choice, GP) and choice.kernel is not None]
        own = [kernel for kernel in used if any(isinstance(each, kernels.Custom) for each in kernels.parts_of(kernel))]
        return "".join(f" #{_fingerprint(Points.of(self.problem, kernel).gram)}" for kernel in own)

    def penalised(self, rectify: bool) -> Penalised | Reacting:
        return Reacting(Penalised(rectify)) if self["react"] else Penalised(rectify)

    def told(self) -> tuple[Any, Any]:
        return self["optimism"], self.known_safe

    def floor(self) -> Floor:
        eta = self["floor"]
        return Floor(1.0, 1.0) if eta == "k" else Floor(1.0, 0.5) if eta == "sqrt" else Floor(eta, 0.0)


def _cost_choices(problem: FiniteCMDP, recipe: Recipe, cost: models.Cost, phi: np.ndarray | None) -> tuple[Choice, ...]:
    """The cost models with every `auto` and every kernel decided, checked on the problem."""
    where = f"setting cost of {recipe.name} is {models.text(cost)}"
    if isinstance(cost, tuple) and len(cost) != problem.constraints:
        raise EverystepError(
            f"{where}, {len(cost)} models for {problem.constraints} constraints; give one for each, or one for all."
        )
    decided: list[Choice] = []
    for choice in cost if isinstance(cost, tuple) else (cost,):
        if choice == AUTO:
            choice = "counts" if phi is None else "linear"
        if choice == "linear" and phi is None:
            raise EverystepError(
                f"{where}, but the problem '{problem.name}' has no features; give some, or use counts."
            )
        if isinstance(choice, GP):
            kernel = choice.kernel
            if kernel is None and problem.kernel is None:
                raise EverystepError(f"{where}, but the problem '{problem.name}' suggests no kernel; give one.")
            kernel = kernels.read(str(problem.kernel)) if kernel is None else kernel
            choice = GP(kernel, choice.fit, choice.points)
            unknown_names = kernels.looks_at(kernel) - set(problem.points)
            if unknown_names - ({None} if isinstance(kernel, kernels.Custom) else set()):
                word = next(iter(unknown_names))
                said = "does not say what it is on" if word is None else f"is on '{word}', which the problem has not"
                raise EverystepError(f"{where}: a kernel {said}; choose on= from {', '.join(problem.points)}.")
            kernels.check_gram(Points.of(problem, kernel).gram, kernel)
        decided.append(choice)
    return tuple(decided)


def _known_safe(problem: FiniteCMDP, recipe: Recipe, given: Any) -> np.ndarray | None:
    """Actions told to be safe, (A, S), or None."""
    S, A = problem.states, problem.actions
    if isinstance(given, str):
        if given == "none":
            return None
        worst = problem.g.max((0, 1))  # over constraints and steps
        return np.eye(A, dtype=bool)[worst.argmin(1)].T & (worst.min(1) <= 0)
    known = np.asarray(given)
    if known.dtype == bool and known.shape == (S, A):
        return known.T
    if known.dtype.kind == "i" and known.shape == (S,) and (known >= 0).all() and (known < A).all():
        return np.eye(A, dtype=bool)[known].T
    raise EverystepError(
        f"setting known_safe of {recipe.name} has shape {known.shape}; "
        f"give {S} actions below {A}, or booleans of shape ({S}, {A})."
    )


class Named(NamedTuple):
    """A registered agent: its composition, its settings, what it must be told in advance, and a line on it."""

    compose: Callable[[Resolved], Any]
    settings: tuple[str, ...]
    needs: str
    summary: str


REGISTERED: dict[str, Named] = {
    "lsvi-ae": Named(
        lambda s: Agent(s.value_model(), s.cost_model(), Rectified(s.floor()), s.penalised(rectify=True), *s.told()),
        settings=(*VALUE_SETTINGS, *COST_SETTINGS, "floor"),
        needs="nothing",
        summary="optimistic values and costs, a growing price on harm",
    ),
    "lsvi": Named(
        lambda s: Agent(s.value_model(), s.cost_model(), NoPenalty(), Greedy(), s["optimism"]),
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


def recipe(agent: str | Recipe) -> Recipe:
    """An agent from a name, or as it is."""
    return agent if isinstance(agent, Recipe) else Recipe(str(agent))
