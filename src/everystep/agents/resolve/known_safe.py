"""The cost side of agents that are told a safe action for every state: SLUCB-QVI and RSLUCB-QVI."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from everystep.agents.model_syntax import AUTO
from everystep.agents.resolve.costs import shown
from everystep.agents.settings import BETA_COST, LAM_COST
from everystep.errors import EverystepError
from everystep.lsvi import radii
from everystep.lsvi.costs.counts import CountCosts
from everystep.lsvi.costs.known_safe import ProjectedCosts, ProjectedCounts, Told
from everystep.lsvi.costs.linear import LinearCosts
from everystep.lsvi.regression.linalg import OnDemand
from everystep.mdp.cmdp import FiniteCMDP


@dataclass(frozen=True)
class SafeSetup:
    """What the agent is told, and its cost model, with every `auto` decided and checked on the problem."""

    problem: FiniteCMDP
    episodes: int
    agent: str
    given: Mapping[str, Any]  # what a person set
    values: Mapping[str, Any]  # with the defaults of everything else
    phi: np.ndarray | None
    safe_action: np.ndarray  # (S,)
    threshold: np.ndarray  # (m,)

    choices = ()  # of cost models by name: there are none
    known_safe = None

    @classmethod
    def on(
        cls,
        problem: FiniteCMDP,
        episodes: int,
        agent: str,
        given: Mapping[str, Any],
        values: Mapping[str, Any],
        phi: np.ndarray | None,
    ) -> SafeSetup:
        if values["radius_cost"] == "coordinate":
            raise EverystepError(
                f"setting radius_cost of {agent} is coordinate, which says nothing of actions never tried; "
                "choose paper (valid) or tuned."
            )
        safe = told_action(problem, agent, values["safe_action"])
        at_safe = None if phi is None else phi[np.arange(problem.states), safe]
        if at_safe is not None and (nothing := ~at_safe.any(-1)).any():
            raise EverystepError(
                f"the safe action of {problem.describe(int(nothing.argmax()))} has features that are all zero, so that "
                f"its cost tells {agent} nothing of others; give it features."
            )
        threshold = told_threshold(problem, agent, values["threshold"])
        return cls(problem, episodes, agent, given, values, phi, safe, threshold)

    def shown(self) -> dict[str, Any]:
        """The settings that were decided here, ready for JSON."""
        return {
            "beta_cost": self.beta,
            "lam_cost": self.lam,
            "sigma": self.sigma,
            "bound": self.bound,
            **what_was_told(self.values["safe_action"], self.threshold),
            "kappa": self.values["kappa"],
        }

    # --- numbers -----------------------------------------------------------------------------------------------------
    def _set(self, key: str, otherwise: float) -> float:
        value = self.given.get(key, AUTO)
        return otherwise if value == AUTO else float(value)

    @property
    def _tuned(self) -> bool:
        return bool(self.values["radius_cost"] == "tuned")

    @property
    def d(self) -> int:
        return self.problem.states * self.problem.actions if self.phi is None else int(self.phi.shape[-1])

    @property
    def beta(self) -> float:
        """`beta_cost`."""
        return self._set("beta_cost", max(BETA_COST, 2 * self.sigma) if self._tuned else 1.0)

    @property
    def lam(self) -> float:
        """`lam_cost`."""
        return self._set("lam_cost", LAM_COST if self._tuned else 1.0)

    @property
    def bound(self) -> float:
        """B >= ||gamma||: sqrt(d) unless somebody knows better."""
        return self._set("bound", math.sqrt(self.d))

    @property
    def _true_sigma(self) -> float:
        return float(np.max(self.problem.noise.cost_sigma)) + self.problem.arrival_spread

    @property
    def sigma(self) -> float:
        """The noise of observed costs."""
        return self._set("sigma", self._true_sigma)

    # --- parts -------------------------------------------------------------------------------------------------------
    @property
    def safe(self) -> np.ndarray:
        """a0, one-hot (A, S)."""
        return np.eye(self.problem.actions, dtype=bool)[self.safe_action].T

    @property
    def _g(self) -> np.ndarray:
        """g(x, a0), (T, m, S)."""
        return np.moveaxis(self.problem.g[:, :, np.arange(self.problem.states), self.safe_action], 0, 1)

    def model(self) -> ProjectedCosts | ProjectedCounts:
        told = Told(jnp.asarray(self.safe), jnp.asarray(self._g), jnp.asarray(self.threshold))
        m, H, K = self.problem.constraints, self.problem.horizon, float(self.episodes)
        seen, estimators = (K * H, m) if self.values["share_costs"] else (K, m * H)
        radius: radii.Radius = radii.Tuned(self.beta)
        if not self._tuned:
            delta = self.values["p"] / estimators
            radius = radii.ToldCost(self.beta, float(self.d), self.lam, self.bound, self.sigma, seen, delta)
        if self.phi is None:
            return ProjectedCounts(CountCosts(radius, self.lam), told)
        ridge = LinearCosts(radius, self.lam, jnp.asarray(self.phi.swapaxes(0, 1)), OnDemand())
        return ProjectedCosts(ridge, told, jnp.asarray(self.phi[np.arange(self.problem.states), self.safe_action]))

    def kappa(self) -> np.ndarray | None:
        """kappa_h(x) = 2 H / (tau - tau_h(x)) + 1, (T, 1, S), or a number everywhere; None for 1.

        tau - tau_h(x) = -g_h(x, a0), by the constraint that leaves least room. Exempt states have 1.
        """
        number = self.values["kappa"]
        if number != AUTO:
            return None if number == 1 else np.full((1, 1, self.problem.states), number)
        room = np.where(self.problem.exempt, np.inf, -self._g.max(1, keepdims=True))
        return np.asarray(2 * self.problem.horizon / room + 1)

    # --- what intervals are worth ------------------------------------------------------------------------------------
    def confidence(self) -> float | None:
        """p if the cost intervals are valid: all of them hold with probability 1 - p. None if they are a heuristic."""
        asked_for = not self._tuned and self.beta >= 1 and self.sigma >= self._true_sigma
        return float(self.values["p"]) if asked_for and self._misfit <= 1e-9 and self._norm <= self.bound else None

    @property
    def _fitted(self) -> tuple[np.ndarray, np.ndarray]:
        """gamma (d, m T) by least squares, and what it misses of c = g + threshold."""
        c = (
            (self.problem.g + self.threshold[:, None, None, None])
            .reshape(-1, self.problem.states * self.problem.actions)
            .T
        )
        if self.phi is None:
            return c, np.zeros_like(c)
        X = self.phi.reshape(-1, self.d)
        gamma = np.linalg.lstsq(X, c, rcond=None)[0]
        return gamma, X @ gamma - c

    @property
    def _norm(self) -> float:
        return float(np.linalg.norm(self._fitted[0], axis=0).max())

    @property
    def _misfit(self) -> float:
        return float(np.abs(self._fitted[1]).max())

    def remarks(self) -> tuple[str, ...]:
        """What a reader of the results should know about the cost model."""
        said = []
        if self._misfit > 1e-9:
            said.append(
                f"costs plus the threshold are not linear in the features, by up to {self._misfit:.2g}: the intervals "
                f"of {self.agent} carry no probability; set threshold, or give other features."
            )
        elif not self._tuned and self._norm > self.bound * (1 + 1e-9):
            said.append(
                f"the weights of costs have a norm of {self._norm:.4g}, above the bound {self.bound:.4g}: the "
                f"intervals of {self.agent} carry no probability; set bound to at least that."
            )
        return tuple(said)


def what_was_told(safe_action: Any, threshold: np.ndarray) -> dict[str, Any]:
    """Both as settings, ready for JSON: the actions as they were said, for `auto` and `safest` say it to a problem."""
    numbers = [float(each) for each in threshold]
    return {"safe_action": shown(safe_action), "threshold": numbers[0] if len(set(numbers)) == 1 else numbers}


def told_threshold(problem: FiniteCMDP, agent: str, given: Any) -> np.ndarray:
    """tau of every constraint, (m,)."""
    told = np.asarray(problem.known.threshold if isinstance(given, str) else given, float)
    if told.shape not in ((), (problem.constraints,)):
        raise EverystepError(
            f"setting threshold of {agent} has {len(told)} numbers for {problem.constraints} constraints; "
            "give one for each, or one for all."
        )
    return np.broadcast_to(told, (problem.constraints,))


def told_action(problem: FiniteCMDP, agent: str, given: Any) -> np.ndarray:
    """a0 of every state, (S,)."""
    S, A = problem.states, problem.actions
    worst = problem.g.max((0, 1))  # over constraints and steps
    if isinstance(given, str) and given == AUTO:
        if problem.known.safe_action is None:
            raise EverystepError(
                f"{agent} must be told a safe action for every state, and the problem '{problem.name}' names none; "
                "give FiniteCMDP(known=Known(safe_action=...)) or set safe_action=safest."
            )
        safe = problem.known.safe_action
    else:
        safe = worst.argmin(1) if isinstance(given, str) else np.asarray(given)
    if safe.shape != (S,):
        raise EverystepError(
            f"setting safe_action of {agent} has shape {safe.shape}; give {S} actions from 0 to {A - 1}."
        )
    if len(wrong := safe[(safe < 0) | (safe >= A)]):
        raise EverystepError(f"setting safe_action of {agent} holds {wrong[0]}; give {S} actions from 0 to {A - 1}.")
    cost = worst[np.arange(S), safe]
    if (bad := (cost >= 0) & ~problem.exempt).any():
        x = int(bad.argmax())
        raise EverystepError(
            f"the safe action of {problem.describe(x)} told to {agent} is {problem.describe_action(int(safe[x]))}, "
            f"whose g is {cost[x]:.6g}; it must be told one with g < 0 in every state."
        )
    return np.asarray(safe, np.int64)
