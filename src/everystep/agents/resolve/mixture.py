"""LSVI-NEW made for a problem: what it is told in advance, checked, and the numbers of its paper.

Told: the features of all triples, their supports, the mean reward, a safe action for every state of the seed subgraph,
the threshold tau, and at each step the exact cost c0_h of one triple of the seed (here: the safest).

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

The cost radius stands by default as printed (with p split over estimators and constraints): safety is what the agent
promises. The others keep Q at its cap, and K' above K, for any K that can be run. So by default e1 is the tuned `beta`,
e2 = e3 = e4 = `safety_bonus` and K' = `seed_episodes` are plain numbers; `radius=paper`, `safety_bonus=printed` and
`seed_episodes=printed` ask for the formulas. The ridge is printed as lam = d; the radius holds for any, and a small one
makes it small.

Readings of the paper: delta, the Lipschitz constant of star-convexity, is a setting (`lipschitz`); lambda0 is taken as
the smallest eigenvalue of the mean perp(phi) perp(phi)^T over the seed's triples, beside the direction that is told; p
is the p of all intervals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from everystep.agents.model_syntax import AUTO
from everystep.agents.resolve.known_safe import told_action, told_threshold, what_was_told
from everystep.agents.settings import BETA_COST, LAM_TRIPLES, PRINTED
from everystep.errors import EverystepError
from everystep.lsvi import radii
from everystep.lsvi.choices.safe_graph import Bonuses, SafeGraph
from everystep.lsvi.costs.triples import Told, TripleCosts
from everystep.lsvi.values.mixture import MixtureValues
from everystep.mdp.cmdp import Factored, FiniteCMDP


@dataclass(frozen=True, eq=False)
class Mixture:
    """A problem as LSVI-NEW sees it: what it is told, and its numbers."""

    problem: FiniteCMDP
    episodes: int
    agent: str
    given: Mapping[str, Any]  # what a person set
    values: Mapping[str, Any]  # with the defaults of everything else

    def check(self) -> None:
        """Raise what it must be told and is not."""
        problem = self.problem
        if problem.known.triples is None:
            raise EverystepError(
                f"{self.agent} must be told the features of all triples (x, a, x'), and the problem '{problem.name}' "
                "has none; give FiniteCMDP(known=Known(triples=...)), an array (S, A, S, d)."
            )
        starts = problem.start if np.issubdtype(problem.start.dtype, np.integer) else np.flatnonzero(problem.start)
        if outside := [int(x) for x in starts if not self.seed_states[x]]:
            action = problem.describe_action(int(self.safe_action[outside[0]]))
            raise EverystepError(
                f"{self.agent} must be told a subgraph that its safe actions never leave, but {action} in "
                f"{problem.describe(outside[0])}, where an episode starts, may meet a cost above the threshold, then "
                "or later; give a safe_action whose every next state is safe."
            )
        if not self._usable.any((1, 2, 3)).all():
            raise EverystepError(
                f"{self.agent} must be told a triple of the seed whose features are not all zero and which is possible "
                f"at every step, and the problem '{problem.name}' has none; give triples of safe actions such features."
            )
        for key in ("radius", "radius_cost"):
            if self.values[key] == "coordinate":
                raise EverystepError(
                    f"setting {key} of {self.agent} is coordinate, which needs one-hot features; choose tuned or paper."
                )
        if self.values["safety_bonus"] == PRINTED:
            self.bonuses()

    # --- what is told ------------------------------------------------------------------------------------------------
    @cached_property
    def safe_action(self) -> np.ndarray:
        return told_action(self.problem, self.agent, self.values["safe_action"])

    @cached_property
    def threshold(self) -> np.ndarray:
        return told_threshold(self.problem, self.agent, self.values["threshold"])

    @property
    def d(self) -> int:
        return int(np.asarray(self.problem.known.triples).shape[-1])

    @cached_property
    def support(self) -> np.ndarray:
        """Which successors may follow (x, a), (T, A, J, S)."""
        P = self.problem.world.P
        return np.asarray((np.einsum("tads,tdy->tays", P.phi, P.mu) if isinstance(P, Factored) else P) > 0)

    @property
    def ever(self) -> np.ndarray:
        """Which may at some step, (A, J, S)."""
        return np.asarray(self.support.any(0))

    @cached_property
    def triples(self) -> np.ndarray:
        """phi(x, a, x') at the successors, 0 outside the support, (A, d, J, S)."""
        phi = np.asarray(self.problem.known.triples).transpose(1, 3, 2, 0)
        if (successors := self.problem.world.successors) is not None:
            phi = np.take_along_axis(phi, np.asarray(successors, np.int64)[None, None], 2)
        return np.where(self.ever[:, None], phi, 0.0)

    @cached_property
    def excess(self) -> np.ndarray:
        """The true c - tau of every triple, (T, m, A, J, S): what is seen on arrival, without noise."""
        world = self.problem.world
        if world.cost_seen is not None:
            return np.asarray(world.cost_seen)
        g = np.asarray(world.g)[:, :, :, None]
        return np.broadcast_to(g, (*g.shape[:3], self.support.shape[2], g.shape[-1]))

    @property
    def told(self) -> np.ndarray:
        """The action told, one-hot, (A, S)."""
        return np.eye(self.problem.actions, dtype=bool)[self.safe_action].T

    @cached_property
    def seed_states(self) -> np.ndarray:
        """The largest set of states that the told actions keep safe, triple by triple, and never leave, (S,)."""
        x, successors = np.arange(self.problem.states), self.problem.world.successors
        at = np.tile(x, (len(x), 1)) if successors is None else np.asarray(successors).T
        follows = self.ever[self.safe_action, :, x]  # (S, J)
        worst = np.where(self.support[:, None], self.excess, -np.inf).max((0, 1, 3))  # over steps, constraints, x'
        inside = (worst[self.safe_action, x] <= 0) & ~self.problem.exempt
        while True:
            closed = inside & (inside[at] | ~follows).all(1)
            if (closed == inside).all():
                return np.asarray(inside)
            inside = closed

    @property
    def seed(self) -> np.ndarray:
        """The told actions of the seed's states, (A, S)."""
        return self.told & self.seed_states

    @cached_property
    def _usable(self) -> np.ndarray:
        """Triples of the seed that may be the one told, (T, A, J, S)."""
        T = len(self.excess)
        possible = self.support if len(self.support) == T else self.support.all(0, keepdims=True)
        usable = possible & self.seed[:, None] & (np.linalg.norm(self.triples, axis=1) > 0)
        return np.broadcast_to(usable, (T, *usable.shape[1:]))

    @cached_property
    def told_triple(self) -> tuple[np.ndarray, np.ndarray]:
        """phi0 (T, d) and c0 - tau (T, m) of the seed's safest triple, at each step if costs depend on it."""
        T, m = self.excess.shape[:2]
        which = np.where(self._usable, self.excess.max(1), np.inf).reshape(T, -1).argmin(1)
        phi0 = np.moveaxis(self.triples, 1, -1).reshape(-1, self.d)[which]
        return phi0, np.take_along_axis(self.excess.reshape(T, m, -1), which[:, None, None], 2)[..., 0]

    def seen_from_told(self) -> tuple[np.ndarray, np.ndarray]:
        """perp(phi), (T, A, d, J, S), and along = <phi, p> / ||phi0||, (T, A, J, S)."""
        phi0, _ = self.told_triple
        length = np.linalg.norm(phi0, axis=-1, keepdims=True)
        p = phi0 / length
        on_p = np.einsum("td,adjs->tajs", p, self.triples)
        perp = self.triples[None] - on_p[:, :, None] * p[:, None, :, None, None]
        return perp, on_p / length[:, :, None, None]

    # --- numbers -----------------------------------------------------------------------------------------------------
    def _number(self, key: str, otherwise: float) -> float:
        value = self.given.get(key, AUTO)
        return otherwise if value == AUTO else float(value)

    @property
    def true_sigma(self) -> float:
        """The noise of observed costs; where x' led is no noise here, because triples have features."""
        return float(np.max(self.problem.noise.cost_sigma))

    @property
    def sigma(self) -> float:
        return self._number("sigma", self.true_sigma)

    @property
    def bound(self) -> float:
        """L."""
        return self._number("bound", math.sqrt(self.d))

    @property
    def lam_cost(self) -> float:
        return self._number("lam_cost", LAM_TRIPLES)

    @property
    def beta_cost(self) -> float:
        """The cost radius itself where it is tuned, else a factor on the formula."""
        return self._number(
            "beta_cost", max(BETA_COST, 2 * self.sigma) if self.values["radius_cost"] == "tuned" else 1.0
        )

    @property
    def longest(self) -> float:
        """D_phi."""
        return float(np.linalg.norm(self.triples, axis=1).max())

    @property
    def observations(self) -> float:
        """T."""
        return float(self.episodes * (self.problem.horizon if self.values["share_costs"] else 1))

    @property
    def cost_radius(self) -> radii.Radius:
        if self.values["radius_cost"] == "tuned":
            return radii.Tuned(self.beta_cost)
        estimators = self.problem.constraints * (1 if self.values["share_costs"] else self.problem.horizon)
        numbers = (self.beta_cost, float(self.d), self.lam_cost, self.bound, self.sigma)
        return radii.ToldCost(*numbers, self.observations * self.longest**2, self.values["p"] / estimators)

    @property
    def printed_beta(self) -> float:
        """The one beta of the paper; b is `beta` where the value radius is printed, too."""
        d, b = float(self.d), float(self.values["beta"]) if self.values["radius"] == "paper" else 1.0
        values = b * d * self.problem.horizon * math.sqrt(math.log(d * self.observations / self.values["p"]))
        with jax.enable_x64(True):
            costs = float(self.cost_radius.width(jnp.ones(()), jnp.asarray(1, jnp.int32)))
        return max(costs, values)

    @property
    def value_radius(self) -> float:
        """e1."""
        return self.printed_beta + 1 if self.values["radius"] == "paper" else float(self.values["beta"])

    @property
    def seed_episodes(self) -> float:
        """K'."""
        if self.values["seed_episodes"] != PRINTED:
            return float(self.values["seed_episodes"])
        several = math.sqrt(self.observations) * math.log(self.d / self.values["p"])
        return float(math.ceil(4 * self.printed_beta * self.longest * several))

    def bonuses(self) -> Bonuses:
        """e2, e3 and e4."""
        H = self.problem.horizon
        if self.values["safety_bonus"] != PRINTED:
            e = float(self.values["safety_bonus"])
            return Bonuses(jnp.full(H, e), jnp.full(H, e), jnp.asarray(e))
        beta = self.printed_beta
        kappa = 4 * beta * self.longest / (self.lam_cost + self.lambda0 * self.seed_episodes)
        B = np.broadcast_to(-self.told_triple[1].max(1), (H,)) - self.bound * self.spread
        remedy = "raise seed_episodes" if B.min() > 0 else "lower bound if ||gamma|| is known to be smaller"
        if B.min() <= kappa:
            raise EverystepError(
                f"setting safety_bonus of {self.agent} is printed, but its formulas need margins above kappa = "
                f"{kappa:.4g}, and tau - c0 - L max ||phi(x, a, x') - phi(x, a, x'')|| is {B.min():.4g} with L = "
                f"{self.bound:.4g}; {remedy}, or give a number."
            )
        B_f = np.minimum.accumulate(B[::-1])[::-1]
        scale = 4 * beta * H / float(self.values["lipschitz"])
        e2, e3, e4 = scale * (B_f / B) / (B_f - B_f / B * kappa), scale / (B_f - kappa), 4 * beta * H / B[0]
        return Bonuses(jnp.asarray(e2), jnp.asarray(e3), jnp.asarray(e4))

    @property
    def lambda0(self) -> float:
        """How well the seed's triples show costs: the smallest eigenvalue of their mean perp(phi) perp(phi)^T."""
        perp, _ = self.seen_from_told()
        seed = (self.ever & self.seed[:, None]).reshape(-1)
        rows = np.moveaxis(perp, 2, -1).reshape(len(perp), -1, self.d)[:, seed]
        spectra = np.linalg.eigvalsh(np.einsum("tnd,tne->tde", rows, rows) / rows.shape[1])
        return float(spectra[:, 1].min()) if self.d > 1 else 0.0  # the first, 0, belongs to the direction told

    @property
    def spread(self) -> float:
        """max ||phi(x, a, x') - phi(x, a, x'')|| over pairs in one support."""
        support = self.ever
        widest = 0.0
        for j in range(support.shape[1]):
            apart = np.linalg.norm(self.triples - self.triples[:, :, j : j + 1], axis=1)
            widest = max(widest, float(np.where(support & support[:, j : j + 1], apart, 0).max()))
        return widest

    @cached_property
    def is_mixture(self) -> bool:
        """Whether transitions are linear in the features of triples, with one parameter for all steps."""
        world = self.problem.world
        if isinstance(world.P, Factored):
            return True  # not multiplied out to be looked at
        X = np.moveaxis(self.triples, 1, -1)[self.ever]
        P = np.moveaxis(np.asarray(world.P), 0, -1)[self.ever]
        mu = np.linalg.lstsq(X, P.mean(1), rcond=None)[0]
        return bool(np.abs((X @ mu)[:, None] - P).max() <= 1e-9)

    @cached_property
    def is_linear(self) -> bool:
        """Whether the true costs of triples are linear in their features, with parameters of norm at most L."""
        X = np.moveaxis(self.triples, 1, -1)[self.ever]
        costs = self.excess + self.threshold[:, None, None, None]
        c = np.moveaxis(costs, (0, 1), (-2, -1))[self.ever].reshape(len(X), -1)
        gamma = np.linalg.lstsq(X, c, rcond=None)[0]
        short = np.linalg.norm(gamma, axis=0).max() <= self.bound * (1 + 1e-9)
        return bool(short and np.abs(X @ gamma - c).max() <= 1e-9)


@dataclass(frozen=True, eq=False)
class MixtureValueSetup:
    """The value side of LSVI-NEW."""

    mixture: Mixture

    choice = "mixture"

    @property
    def longest(self) -> float:
        """What ||phi_V(x, a)|| is at most, for V in [0, cap]."""
        return float(self.mixture.values["cap"] * np.linalg.norm(self.mixture.triples, axis=1).sum(1).max())

    @property
    def d(self) -> float:
        return float(self.mixture.d)

    def model(self) -> MixtureValues:
        mixture, world, s = self.mixture, self.mixture.problem.world, self.mixture.values
        common = (radii.Tuned(mixture.value_radius), float(s["lam"]), s["cap"])
        return MixtureValues(*common, world.successors, jnp.asarray(mixture.triples), jnp.asarray(world.r))

    def shown(self) -> dict[str, Any]:
        return {}

    def remarks(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True, eq=False)
class TripleCostSetup:
    """The safety side of LSVI-NEW: its cost model, its choice, and what its intervals are worth."""

    mixture: Mixture

    choices = ()  # of cost models by name: there are none

    @property
    def known_safe(self) -> np.ndarray:
        return self.mixture.seed

    def model(self) -> TripleCosts:
        mixture = self.mixture
        perp, along = mixture.seen_from_told()
        tau = mixture.threshold[:, None, None, None]
        c0 = mixture.told_triple[1][:, :, None, None, None] + tau
        told = Told(jnp.asarray(perp), jnp.asarray(along[:, None] * c0 - tau))
        support = jnp.asarray(mixture.support)
        return TripleCosts(mixture.cost_radius, mixture.lam_cost, told, support, mixture.seed_episodes)

    def choice(self) -> SafeGraph:
        mixture = self.mixture
        support, seed, told = (jnp.asarray(table) for table in (mixture.support, mixture.seed, mixture.told))
        return SafeGraph(mixture.problem.world.successors, support, seed, told, mixture.bonuses())

    def shown(self) -> dict[str, Any]:
        """The settings that were decided here, ready for JSON."""
        numbers = {key: getattr(self.mixture, key) for key in ("beta_cost", "lam_cost", "sigma", "bound")}
        return numbers | what_was_told(self.mixture.values["safe_action"], self.mixture.threshold)

    def confidence(self) -> float | None:
        """p if the cost intervals are valid: all of them hold with probability 1 - p. None if they are a heuristic."""
        mixture, s = self.mixture, self.mixture.values
        printed = s["radius_cost"] == "paper" and mixture.beta_cost >= 1 and mixture.sigma >= mixture.true_sigma
        return float(s["p"]) if printed and mixture.is_linear else None

    def remarks(self) -> tuple[str, ...]:
        """What a reader of the results should know."""
        mixture, said = self.mixture, []
        if mixture.seed_episodes >= mixture.episodes:
            said.append(
                f"{mixture.agent} plays what it was told in all {mixture.episodes} episodes, for seed_episodes is "
                f"{mixture.seed_episodes:.0f}."
            )
        if not mixture.is_linear:
            said.append(
                f"the costs of '{mixture.problem.name}' are not linear in its triples with a parameter of norm "
                f"{mixture.bound:.4g} at most: the intervals of {mixture.agent} carry no probability."
            )
        if not mixture.is_mixture:
            said.append(
                f"transitions of '{mixture.problem.name}' are not linear in its triples: the values of {mixture.agent} "
                "may be far off, its safety does not rest on them."
            )
        return tuple(said)


def sides(
    problem: FiniteCMDP, episodes: int, agent: str, given: Mapping[str, Any], values: Mapping[str, Any]
) -> tuple[MixtureValueSetup, TripleCostSetup]:
    """Both sides of one mixture, with everything the agent must be told checked."""
    mixture = Mixture(problem, episodes, agent, given, values)
    mixture.check()
    return MixtureValueSetup(mixture), TripleCostSetup(mixture)
