"""Named agents: each is one expression that names four parts.

value model      counts (one-hot features) | linear (the problem's features) | in the space of a kernel | mixture
cost model       counts | linear | Gaussian process, or one of these for each constraint | told a safe action, or triple
penalty          rectified with a floor | virtual queue | none
choice           penalised | greedy, and either made again at every step (react) | safe set | safe mixture
                 | safe graph | uniform
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from everystep import kernels
from everystep.agents.model_syntax import AUTO, GP, Choice, InKernel
from everystep.agents.resolve import mixture
from everystep.agents.resolve.costs import CostModel, CostSetup, fingerprint, shown
from everystep.agents.resolve.known_safe import SafeSetup
from everystep.agents.resolve.mixture import MixtureValueSetup, TripleCostSetup
from everystep.agents.resolve.values import ValueModel, ValueSetup
from everystep.agents.settings import (
    BETA,
    COST_SETTINGS,
    LAM,
    MIXTURE_SETTINGS,
    PRECISIONS,
    SAFE_SETTINGS,
    SETTINGS,
    SWITCH,
    VALUE_SETTINGS,
)
from everystep.errors import EverystepError, unknown
from everystep.lsvi.algorithm import Agent
from everystep.lsvi.choices.basic import Greedy, Penalised, Reacting, Uniform
from everystep.lsvi.choices.safe import SafeMixture, SafeSet
from everystep.lsvi.choices.safe_graph import SafeGraph
from everystep.lsvi.costs.gp import EachCost
from everystep.lsvi.costs.known_safe import ProjectedCosts, ProjectedCounts
from everystep.lsvi.costs.triples import TripleCosts
from everystep.lsvi.penalties import Floor, NoPenalty, Rectified, VirtualQueue
from everystep.lsvi.regression.kernel_points import Points
from everystep.lsvi.values.mixture import MixtureValues
from everystep.mdp import planner
from everystep.mdp.cmdp import FiniteCMDP


@dataclass(frozen=True)
class Recipe:
    """An agent to be: a name, what was set, and how to call it. `resolve(problem, episodes).build()` makes it."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    alias: str | None = None
    given: Mapping[str, Any] = field(init=False, repr=False, compare=False)  # the settings as somebody wrote them

    def __post_init__(self) -> None:
        object.__setattr__(self, "given", dict(self.settings))
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
        return Recipe(self.name, self.given, str(alias))

    def resolve(self, problem: FiniteCMDP, episodes: int) -> Resolved:
        """Every setting with its value on this problem; raises what does not fit."""
        return Resolved.on(problem, episodes, self)


class Built(NamedTuple):
    """An agent made for a problem: the composition of parts, and which estimators are shared over steps."""

    agent: Any
    share_values: bool
    share_costs: bool
    fits: tuple[FitEvery | None, ...] = ()  # of each cost model
    precision: str = PRECISIONS[0]


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
    cost: CostSetup | SafeSetup | TripleCostSetup
    value: ValueSetup | MixtureValueSetup

    @classmethod
    def on(cls, problem: FiniteCMDP, episodes: int, recipe: Recipe) -> Resolved:
        named = REGISTERED[recipe.name]
        s = {key: setting.default for key, setting in SETTINGS.items()} | dict(named.defaults)
        s |= named.suited(problem) | dict(recipe.settings)
        default = lambda key, value: value if s[key] == AUTO else s[key]
        # To be told what is safe is to promise safety: cost intervals are then valid ones.
        s["radius_cost"] = default("radius_cost", "paper" if named.told else s["radius"])
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
        phi = None if named.of_triples else phi
        if phi is not None and phi.shape[:2] != (problem.states, problem.actions):
            raise EverystepError(
                f"setting features of {recipe.name} has shape {phi.shape}; "
                f"the problem needs ({problem.states}, {problem.actions}, d)."
            )
        if phi is not None and (norm := float(np.linalg.norm(phi, axis=-1).max())) > 1 + 1e-9:
            raise EverystepError(f"features have a norm of {norm:.6g}; scale them so that ||phi(x, a)|| <= 1.")
        s["features"] = "one-hot" if phi is None else fingerprint(phi)
        value: ValueSetup | MixtureValueSetup
        cost: CostSetup | SafeSetup | TripleCostSetup
        if named.of_triples:
            value, cost = mixture.sides(problem, episodes, recipe.name, recipe.settings, s)
        else:
            cost = (SafeSetup if named.told else CostSetup).on(problem, episodes, recipe.name, recipe.settings, s, phi)
            kappa = cost.kappa() if isinstance(cost, SafeSetup) else None
            value = ValueSetup.on(problem, episodes, recipe.name, s, phi, kappa)
            counted = value.choice == "counts" and set(cost.choices) == {"counts"}
            if s["precision"] != PRECISIONS[0] and not counted:
                raise EverystepError(
                    f"setting precision of {recipe.name} is {s['precision']}, which is for counts of values and costs; "
                    f"{'' if named.told else 'set value and cost to counts, or '}set precision to float64."
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
        agent = jax.tree.map(jnp.asarray, agent)
        return Built(agent, self["share_values"], self["share_costs"], self._fits(), self["precision"])

    def _fits(self) -> tuple[FitEvery | None, ...]:
        every = lambda gp: FitEvery(gp.fit, gp.kernel, Points.of(self.problem, gp.kernel))
        return tuple(every(choice) if isinstance(choice, GP) and choice.fit else None for choice in self.costs)

    # --- parts -----------------------------------------------------------------------------------------------------
    def value_model(self) -> ValueModel | MixtureValues:
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

    def cost_model(self) -> CostModel | EachCost | ProjectedCosts | ProjectedCounts | TripleCosts:
        return self.cost.model()

    def safe_mixture(self) -> SafeMixture:
        assert isinstance(self.cost, SafeSetup)
        return SafeMixture(jnp.asarray(self.cost.safe))

    def safe_graph(self) -> SafeGraph:
        assert isinstance(self.cost, TripleCostSetup)
        return self.cost.choice()

    def penalised(self, rectify: bool) -> Penalised | Reacting:
        return Reacting(Penalised(rectify)) if self["react"] else Penalised(rectify)

    def told(self, optimism: Any = None) -> tuple[Any, Any, Any]:
        return self["optimism"] if optimism is None else optimism, self.cost.known_safe, self.switch

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
    """A registered agent: its composition, its settings, what it must be told in advance, and a line on it.

    defaults are those of its settings that differ from other agents'; suited: those that depend on the problem.
    """

    compose: Callable[[Resolved], Any]
    settings: tuple[str, ...]
    needs: str
    summary: str
    defaults: Mapping[str, Any] = MappingProxyType({})
    suited: Callable[[FiniteCMDP], dict[str, Any]] = lambda problem: {}

    @property
    def has_costs(self) -> bool:
        """Whether it looks at costs at all."""
        return "beta_cost" in self.settings

    @property
    def told(self) -> bool:
        """Whether it must be told a safe action for every state."""
        return "safe_action" in self.settings

    @property
    def of_triples(self) -> bool:
        """Whether it sees a linear mixture, by features of triples."""
        return "seed_episodes" in self.settings


UPPER: Any = -1.0  # optimism of agents that admit nothing but what is safe by the upper end of its cost interval
UNCLIPPED = 1e9  # a cap that never binds


def _kernels_of_a_bandit(problem: FiniteCMDP) -> dict[str, Any]:
    """Reward and cost by the kernel the problem suggests, or linear in its features."""
    if problem.horizon != 1:
        raise EverystepError(
            f"rpol is for bandits, and the horizon of '{problem.name}' is {problem.horizon}; use lsvi-ae, whose case "
            "H = 1 it is."
        )
    kernel = None if problem.kernel is None else kernels.read(problem.kernel)
    if kernel is None and problem.features is not None:
        kernel = kernels.Linear(on="features")
    return {"value": InKernel(kernel), "cost": GP(kernel)}


REGISTERED: dict[str, Named] = {
    "lsvi-ae": Named(
        lambda s: Agent(s.value_model(), s.cost_model(), Rectified(s.floor()), s.penalised(s["rectify"]), *s.told()),
        settings=(*VALUE_SETTINGS, *COST_SETTINGS, "floor", "rectify"),
        needs="nothing",
        summary="optimistic values and costs, a growing price on harm",
        defaults={"rectify": True},
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
        defaults={"switch": SWITCH},  # a plan solves a cone program at every (h, x)
    ),
    "lsvi-new": Named(
        lambda s: Agent(s.value_model(), s.cost_model(), NoPenalty(), s.safe_graph(), *s.told(UPPER)),
        settings=MIXTURE_SETTINGS,
        needs="safe subgraph",
        summary="the best of a subgraph of triples that is sure to be safe, grown from one that is told",
    ),
    "rpol": Named(
        lambda s: Agent(s.value_model(), s.cost_model(), Rectified(s.floor()), s.penalised(rectify=True), *s.told()),
        settings=(*VALUE_SETTINGS, *COST_SETTINGS, "floor"),
        needs="H = 1",
        summary="LSVI-AE's relative for bandits: Gaussian processes, a floor of sqrt k",
        defaults={"floor": "sqrt", "cap": UNCLIPPED},
        suited=_kernels_of_a_bandit,
    ),
    "uniform": Named(
        lambda s: Agent(s.value_model(), s.cost_model(), NoPenalty(), Uniform(), s["optimism"]),
        settings=(),
        needs="nothing",
        summary="all actions alike, a yardstick for learning",
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
    A plan solves a cone program at every state and step, so that plans are rare by default (`switch=none`: all).
    With the valid radius and one-hot features it leaves a0 but learns slowly: on the lake (d = 400) it finds no goal in
    1000 episodes; `radius_cost=tuned, kappa=1` does, and then promises nothing.
    """
    return Recipe("rslucb-qvi", settings)


def lsvi_new(**settings: Any) -> Recipe:
    """LSVI-NEW, Shi, Liang and Shroff, ICML 2023: no harm at all, inside a safe subgraph that grows from a known one.

    ctil(x, a, x') = along c0 + <gamma, perp(phi)> + beta ||perp(phi)||
    admit a at (h, x) iff ctil <= tau on the support of (x, a), which is safe itself at the next step
    Q_h = min{r + <w, phi_V> + e1 ||phi_V|| + bonus, H},     a_h = argmax of Q_h over what is admitted

    Must be told: the features phi(x, a, x') of a linear mixture (`Known.triples`), which x' may follow (x, a), the mean
    reward, the threshold tau, a safe action for every state (`Known.safe_action`: its graph is the seed, all that is
    played for `seed_episodes`), and the exact cost of one triple of the seed. Supports, rewards and that cost are read
    off the problem. With one-hot triples nothing is learnt of one from others, and the seed stays all there is.

    The cost radius is the printed one, so the promise of safety is kept. The printed e1, bonuses and seed phase exceed
    every Q and K that can be run, and are settings. `mixture_setup.py` has all formulas, and the readings of the paper
    that they needed; no other part was rebuilt without its text.
    """
    return Recipe("lsvi-new", settings)


def rpol(**settings: Any) -> Recipe:
    """RPOL, rectified pessimistic-optimistic learning (Guo, Zhu and Liu, L4DC 2023): a bandit under hard constraints.

    x_t = argmax_x {f_t(x) - Z_t [g_t(x)]_+},   Z_{t+1} = max{Z_t + [c_t]_+, eta_t},   eta_t = sqrt(t)

    with f_t = mean + beta_f sigma_f(x), the upper end of a Gaussian process of the reward,
    g_t = mean - beta_g sigma_g(x), the lower end of one of the cost, and c_t, the noisy cost.
    This is LSVI-AE with H = 1, `value=kernel(...)`, `cost=gp(...)` and `floor=sqrt`; a test holds the runs equal.
    What must be known: nothing, but H must be 1.

    Symbols: t is k. KOVI's width is beta lam^{-1/2} sqrt(C) where C is the posterior variance of a process with noise
    variance lam: beta_f = beta / sqrt(lam), 2 by default (0.2 and 0.01), as `beta_cost` is.
    RPOL does not clip, so `cap` is out of reach here. Kernels are the problem's own unless they are given.
    Reconstructed: the first price is 1, as LSVI-AE's is, and widths are numbers.
    """
    return Recipe("rpol", settings)


def uniform() -> Recipe:
    """All actions alike at every step, whatever was seen. What must be known: nothing; nothing is learnt either."""
    return Recipe("uniform")


def recipe(agent: str | Recipe) -> Recipe:
    """An agent from a name, or as it is."""
    return agent if isinstance(agent, Recipe) else Recipe(str(agent))
