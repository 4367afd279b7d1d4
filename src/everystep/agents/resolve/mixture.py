"""LSVI-NEW built for a problem: its requirements, checked, and the numbers of its paper.

Known in advance: the features of all triples, their supports, the mean reward, a safe action for every state of the
seed subgraph, the threshold tau, and at each step the exact cost c0_h of one triple of the seed (here: the safest).

    T             observations of one cost estimator: K H where it is shared over steps, K where each step has its own
    L             `bound` >= ||gamma||, the parameter of costs (auto: sqrt(d))
    D_phi         the largest ||phi(x, a, x')||
    cost radius   sigma sqrt(d log((2 + 2 T D_phi^2 / lam) / p)) + sqrt(lam) L
    beta          max{cost radius, b d H sqrt(log(d T / p))}
    K'            4 beta D_phi sqrt(T) log(d / p)
    kappa         4 beta D_phi / (lam + lambda0 K')
    B_h, B_f      tau - c0_h - L max ||phi(x, a, x') - phi(x, a, x'')||, and the smallest B_h' of steps h' >= h
    e1            beta + 1
    e2_h          (4 beta H / delta) (B_f / B_h) / (B_f - (B_f / B_h) kappa)
    e3_h          (4 beta H / delta) / (B_f - kappa)
    e4            4 beta H / B_1

By default the cost radius is as printed (with p split over estimators and constraints), because the agent promises
safety. The other formulas keep Q at its cap, and K' above K, for any feasible K. So by default e1 is the tuned `beta`,
and e2 = e3 = e4 = `safety_bonus` and K' = `seed_episodes` are plain numbers; `radius=paper`, `safety_bonus=printed` and
`seed_episodes=printed` select the formulas. The ridge is printed as lam = d; the radius holds for any ridge, and is
small for a small one.

Readings of the paper: delta, the Lipschitz constant of star-convexity, is a setting (`lipschitz`); lambda0 is taken as
the smallest eigenvalue of the mean perp(phi) perp(phi)^T over the seed's triples, without the known direction; p
is that of all intervals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from everystep.agents.resolve.context import Context
from everystep.agents.resolve.known_safe import knowledge_as_json
from everystep.agents.resolve.mixture_graph import TripleGraph
from everystep.agents.settings import LAM_TRIPLES, PRINTED
from everystep.errors import EverystepError
from everystep.lsvi import radii
from everystep.lsvi.choices.safe_graph import Bonuses, SafeGraph
from everystep.lsvi.costs.spec import BETA_COST, CostSpec
from everystep.lsvi.costs.triples import KnownTriple, TripleCosts
from everystep.lsvi.values.mixture import MixtureValues


@dataclass(frozen=True, eq=False)
class MixtureNumbers:
    """The numbers of the paper of LSVI-NEW, or those set instead."""

    context: Context
    graph: TripleGraph

    def check(self) -> None:
        """Raise an error if a setting does not fit."""
        for key in ("radius", "radius_cost"):
            if self.context[key] == "coordinate":
                raise EverystepError(
                    f"setting {key} of {self.context.agent} is coordinate, which needs one-hot features; "
                    "choose tuned or paper."
                )
        if self.context["safety_bonus"] == PRINTED:
            self.bonuses()

    @property
    def true_sigma(self) -> float:
        """The noise of observed costs; x' itself adds none, because triples have features."""
        return float(np.max(self.context.problem.noise.cost_sigma))

    @property
    def sigma(self) -> float:
        return self.context.sigma(self.true_sigma)

    @property
    def bound(self) -> float:
        """L."""
        return self.context.number("bound", math.sqrt(self.graph.d))

    @property
    def lam_cost(self) -> float:
        return self.context.number("lam_cost", LAM_TRIPLES)

    @property
    def beta_cost(self) -> float:
        """The cost radius itself where it is tuned, else a factor on the formula."""
        return self.context.number(
            "beta_cost", max(BETA_COST, 2 * self.sigma) if self.context["radius_cost"] == "tuned" else 1.0
        )

    @property
    def observations(self) -> float:
        """T."""
        return float(self.context.episodes * (self.context.problem.horizon if self.context["share_costs"] else 1))

    @property
    def cost_radius(self) -> radii.Radius:
        if self.context["radius_cost"] == "tuned":
            return radii.Tuned(self.beta_cost)
        estimators = self.context.problem.constraints * (
            1 if self.context["share_costs"] else self.context.problem.horizon
        )
        numbers = (self.beta_cost, float(self.graph.d), self.lam_cost, self.bound, self.sigma)
        return radii.KnownSafeCost(*numbers, self.observations * self.graph.longest**2, self.context["p"] / estimators)

    @property
    def printed_beta(self) -> float:
        """beta of the paper; b is `beta` if the value radius is printed as well."""
        d, b = float(self.graph.d), float(self.context["beta"]) if self.context["radius"] == "paper" else 1.0
        values = b * d * self.context.problem.horizon * math.sqrt(math.log(d * self.observations / self.context["p"]))
        with jax.enable_x64(True):
            costs = float(self.cost_radius.width(jnp.ones(()), jnp.asarray(1, jnp.int32)))
        return max(costs, values)

    @property
    def value_radius(self) -> float:
        """e1."""
        return self.printed_beta + 1 if self.context["radius"] == "paper" else float(self.context["beta"])

    @property
    def seed_episodes(self) -> float:
        """K'."""
        if self.context["seed_episodes"] != PRINTED:
            return float(self.context["seed_episodes"])
        growth = math.sqrt(self.observations) * math.log(self.graph.d / self.context["p"])
        return float(math.ceil(4 * self.printed_beta * self.graph.longest * growth))

    def bonuses(self) -> Bonuses:
        """e2, e3 and e4."""
        H = self.context.problem.horizon
        if self.context["safety_bonus"] != PRINTED:
            e = float(self.context["safety_bonus"])
            return Bonuses(jnp.full(H, e), jnp.full(H, e), jnp.asarray(e))
        beta = self.printed_beta
        kappa = 4 * beta * self.graph.longest / (self.lam_cost + self.graph.lambda0 * self.seed_episodes)
        B = np.broadcast_to(-self.graph.known_triple[1].max(1), (H,)) - self.bound * self.graph.spread
        remedy = "raise seed_episodes" if B.min() > 0 else "lower bound if ||gamma|| is known to be smaller"
        if B.min() <= kappa:
            raise EverystepError(
                f"setting safety_bonus of {self.context.agent} is printed, but its formulas need margins above kappa = "
                f"{kappa:.4g}, and tau - c0 - L max ||phi(x, a, x') - phi(x, a, x'')|| is {B.min():.4g} with L = "
                f"{self.bound:.4g}; {remedy}, or give a number."
            )
        B_f = np.minimum.accumulate(B[::-1])[::-1]
        scale = 4 * beta * H / float(self.context["lipschitz"])
        e2, e3, e4 = scale * (B_f / B) / (B_f - B_f / B * kappa), scale / (B_f - kappa), 4 * beta * H / B[0]
        return Bonuses(jnp.asarray(e2), jnp.asarray(e3), jnp.asarray(e4))

    @cached_property
    def is_linear(self) -> bool:
        """Whether the true costs of triples are linear in their features, with parameters of norm at most L."""
        X = np.moveaxis(self.graph.triples, 1, -1)[self.graph.ever]
        costs = self.graph.excess + self.graph.threshold[:, None, None, None]
        c = np.moveaxis(costs, (0, 1), (-2, -1))[self.graph.ever].reshape(len(X), -1)
        gamma = np.linalg.lstsq(X, c, rcond=None)[0]
        short = np.linalg.norm(gamma, axis=0).max() <= self.bound * (1 + 1e-9)
        return bool(short and np.abs(X @ gamma - c).max() <= 1e-9)


@dataclass(frozen=True, eq=False)
class ResolvedMixtureValues:
    """The value model of LSVI-NEW."""

    numbers: MixtureNumbers

    choice: ClassVar[str] = "mixture"

    @property
    def longest(self) -> float:
        """An upper bound of ||phi_V(x, a)|| for V in [0, cap]."""
        numbers = self.numbers
        return float(numbers.context.cap * np.linalg.norm(numbers.graph.triples, axis=1).sum(1).max())

    @property
    def d(self) -> float:
        return float(self.numbers.graph.d)

    def model(self) -> MixtureValues:
        context, world = self.numbers.context, self.numbers.context.problem.world
        common = (radii.Tuned(self.numbers.value_radius), float(context["lam"]), context.cap)
        return MixtureValues(*common, world.successors, jnp.asarray(self.numbers.graph.triples), jnp.asarray(world.r))

    def to_json(self) -> dict[str, Any]:
        return {}

    def remarks(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True, eq=False)
class ResolvedTripleCosts:
    """The cost model and the choice of LSVI-NEW, and whether its intervals are valid."""

    numbers: MixtureNumbers

    specs: ClassVar[tuple[CostSpec, ...]] = ()  # the setting `cost` does not apply

    @property
    def known_safe(self) -> np.ndarray:
        return self.numbers.graph.seed

    def model(self) -> TripleCosts:
        numbers, graph = self.numbers, self.numbers.graph
        perp, along = graph.projections()
        tau = graph.threshold[:, None, None, None]
        c0 = graph.known_triple[1][:, :, None, None, None] + tau
        known = KnownTriple(jnp.asarray(perp), jnp.asarray(along[:, None] * c0 - tau))
        return TripleCosts(
            numbers.cost_radius, numbers.lam_cost, known, jnp.asarray(graph.support), numbers.seed_episodes
        )

    def choice(self) -> SafeGraph:
        graph, successors = self.numbers.graph, self.numbers.context.problem.world.successors
        support, seed, safe = (jnp.asarray(table) for table in (graph.support, graph.seed, graph.safe))
        return SafeGraph(successors, support, seed, safe, self.numbers.bonuses())

    def to_json(self) -> dict[str, Any]:
        """The settings decided here."""
        numbers = self.numbers
        return {
            "beta_cost": numbers.beta_cost,
            "lam_cost": numbers.lam_cost,
            "sigma": numbers.sigma * numbers.context.unit_of(),
            "bound": numbers.bound,
            **knowledge_as_json(numbers.context, numbers.graph.threshold),
        }

    def confidence(self) -> float | None:
        """p if the cost intervals are valid: all hold with probability 1 - p. None if they are a heuristic."""
        numbers, context = self.numbers, self.numbers.context
        printed = context["radius_cost"] == "paper" and numbers.beta_cost >= 1 and numbers.sigma >= numbers.true_sigma
        return float(context["p"]) if printed and numbers.is_linear else None

    def remarks(self) -> tuple[str, ...]:
        """What a reader of the results should know."""
        numbers, context, remarks = self.numbers, self.numbers.context, []
        if numbers.seed_episodes >= context.episodes:
            remarks.append(
                f"{context.agent} plays the known safe actions in all {context.episodes} episodes, because "
                f"seed_episodes is {numbers.seed_episodes:.0f}."
            )
        if not numbers.is_linear:
            remarks.append(
                f"the costs of '{context.problem.name}' are not linear in its triples with a parameter of norm at most "
                f"{numbers.bound:.4g}: the intervals of {context.agent} carry no probability."
            )
        if not numbers.graph.is_mixture:
            remarks.append(
                f"the transitions of '{context.problem.name}' are not linear in its triples: the values of "
                f"{context.agent} may be wrong; its safety does not depend on them."
            )
        return tuple(remarks)


def resolve_mixture(context: Context) -> tuple[ResolvedMixtureValues, ResolvedTripleCosts]:
    """Both models, with all requirements of the agent checked."""
    graph = TripleGraph(context)
    graph.check()
    numbers = MixtureNumbers(context, graph)
    numbers.check()
    return ResolvedMixtureValues(numbers), ResolvedTripleCosts(numbers)
