"""The cost model of agents that require a known safe action in every state: SLUCB-QVI and RSLUCB-QVI."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from everystep.agents.model_syntax import AUTO
from everystep.agents.resolve.context import Context, setting_as_text
from everystep.errors import EverystepError
from everystep.lsvi import radii
from everystep.lsvi.costs.counts import CountCosts
from everystep.lsvi.costs.known_safe import KnownSafeAction, ProjectedCosts, ProjectedCounts
from everystep.lsvi.costs.linear import LinearCosts
from everystep.lsvi.costs.spec import BETA_COST, LAM_COST, CostSpec
from everystep.lsvi.regression.linalg import OnDemand


@dataclass(frozen=True, eq=False)
class KnownSafeCosts:
    """The known safe actions and the cost model, with every `auto` decided and checked on the problem."""

    context: Context
    safe_action: np.ndarray  # (S,)
    threshold: np.ndarray  # (m,)

    specs: ClassVar[tuple[CostSpec, ...]] = ()  # the setting `cost` does not apply
    known_safe: ClassVar[None] = None

    @classmethod
    def resolve(cls, context: Context) -> KnownSafeCosts:
        problem, agent, values, phi = context.problem, context.agent, context.values, context.phi
        if values["radius_cost"] == "coordinate":
            raise EverystepError(
                f"setting radius_cost of {agent} is coordinate, which has no interval for untried actions; "
                "choose paper (valid) or tuned."
            )
        safe = known_safe_action(context)
        at_safe = None if phi is None else phi[np.arange(problem.states), safe]
        if at_safe is not None and (nothing := ~at_safe.any(-1)).any():
            raise EverystepError(
                f"the safe action of {problem.describe(int(nothing.argmax()))} has features that are all zero, so "
                f"{agent} learns nothing from its cost about other actions; give it other features."
            )
        return cls(context, safe, known_threshold(context))

    def to_json(self) -> dict[str, Any]:
        """The settings decided here."""
        return {
            "beta_cost": self.beta,
            "lam_cost": self.lam,
            "sigma": self.sigma * self.context.unit_of(),
            "bound": self.bound,
            **knowledge_as_json(self.context, self.threshold),
            "kappa": self.context["kappa"],
        }

    # --- numbers -----------------------------------------------------------------------------------------------------
    @property
    def _tuned(self) -> bool:
        return bool(self.context["radius_cost"] == "tuned")

    @property
    def d(self) -> int:
        phi, (states, actions) = self.context.phi, self.context.problem.g.shape[2:]
        return states * actions if phi is None else int(phi.shape[-1])

    @property
    def beta(self) -> float:
        """`beta_cost`."""
        return self.context.number("beta_cost", max(BETA_COST, 2 * self.sigma) if self._tuned else 1.0)

    @property
    def lam(self) -> float:
        """`lam_cost`."""
        return self.context.number("lam_cost", LAM_COST if self._tuned else 1.0)

    @property
    def bound(self) -> float:
        """B >= ||gamma||: sqrt(d) unless the user sets it."""
        return self.context.number("bound", math.sqrt(self.d))

    @property
    def _true_sigma(self) -> float:
        return float(np.max(self.context.problem.noise.cost_sigma)) + self.context.problem.arrival_spread

    @property
    def sigma(self) -> float:
        """The noise of observed costs."""
        return self.context.sigma(self._true_sigma)

    # --- parts -------------------------------------------------------------------------------------------------------
    @property
    def safe(self) -> np.ndarray:
        """a0, one-hot (A, S)."""
        return np.asarray(np.eye(self.context.problem.actions, dtype=bool)[self.safe_action].T)

    @property
    def _g(self) -> np.ndarray:
        """g(x, a0), (T, m, S)."""
        return np.moveaxis(self.context.problem.g[:, :, np.arange(self.context.problem.states), self.safe_action], 0, 1)

    def model(self) -> ProjectedCosts | ProjectedCounts:
        known = KnownSafeAction(jnp.asarray(self.safe), jnp.asarray(self._g), jnp.asarray(self.threshold))
        m, H, K = self.context.problem.constraints, self.context.problem.horizon, float(self.context.episodes)
        seen, estimators = (K * H, m) if self.context["share_costs"] else (K, m * H)
        radius: radii.Radius = radii.Tuned(self.beta)
        if not self._tuned:
            delta = self.context["p"] / estimators
            radius = radii.KnownSafeCost(self.beta, float(self.d), self.lam, self.bound, self.sigma, seen, delta)
        if self.context.phi is None:
            return ProjectedCounts(CountCosts(radius, self.lam), known)
        phi = jnp.asarray(self.context.phi)
        ridge = LinearCosts(radius, self.lam, phi.swapaxes(0, 1), OnDemand())
        return ProjectedCosts(ridge, known, phi[np.arange(len(phi)), self.safe_action])

    def kappa(self) -> np.ndarray | None:
        """kappa_h(x) = 2 H / (tau - tau_h(x)) + 1, (T, 1, S), or a number everywhere; None for 1.

        tau - tau_h(x) = -g_h(x, a0), of the constraint with the smallest margin. Exempt states have 1.
        """
        number = self.context["kappa"]
        if number != AUTO:
            return None if number == 1 else np.full((1, 1, self.context.problem.states), number)
        room = np.where(self.context.problem.exempt, np.inf, -self._g.max(1, keepdims=True))
        return np.asarray(2 * self.context.problem.horizon / room + 1)

    # --- whether intervals are valid ---------------------------------------------------------------------------------
    def confidence(self) -> float | None:
        """p if the cost intervals are valid: all hold with probability 1 - p. None if they are a heuristic."""
        asked_for = not self._tuned and self.beta >= 1 and self.sigma >= self._true_sigma
        return float(self.context["p"]) if asked_for and self._misfit <= 1e-9 and self._norm <= self.bound else None

    @property
    def _fitted(self) -> tuple[np.ndarray, np.ndarray]:
        """gamma (d, m T) by least squares, and its residuals from c = g + threshold."""
        costs = self.context.problem.g + self.threshold[:, None, None, None]
        c = costs.reshape(-1, costs.shape[2] * costs.shape[3]).T
        if self.context.phi is None:
            return c, np.zeros_like(c)
        X = self.context.phi.reshape(-1, self.d)
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
        remarks = []
        if self._misfit > 1e-9:
            remarks.append(
                f"costs plus the threshold are not linear in the features, by up to {self._misfit:.2g}: the intervals "
                f"of {self.context.agent} carry no probability; set threshold, or give other features."
            )
        elif not self._tuned and self._norm > self.bound * (1 + 1e-9):
            remarks.append(
                f"the weights of costs have a norm of {self._norm:.4g}, above the bound {self.bound:.4g}: the "
                f"intervals of {self.context.agent} carry no probability; set bound to at least that."
            )
        return tuple(remarks)


def knowledge_as_json(context: Context, threshold: np.ndarray) -> dict[str, Any]:
    """The settings safe_action and threshold; the actions as configured, because `auto` and `safest` name them."""
    numbers = [float(number) for number in threshold * context.scale]
    return {
        "safe_action": setting_as_text(context["safe_action"]),
        "threshold": numbers[0] if len(set(numbers)) == 1 else numbers,
    }


def known_threshold(context: Context) -> np.ndarray:
    """tau of every constraint, (m,), in the units that agents learn in; the setting is in those of g."""
    problem, given = context.problem, context["threshold"]
    threshold = np.asarray(problem.known.threshold * context.scale if isinstance(given, str) else given, float)
    if threshold.shape not in ((), (problem.constraints,)):
        raise EverystepError(
            f"setting threshold of {context.agent} has {len(threshold)} numbers for {problem.constraints} constraints; "
            "give one for each, or one for all."
        )
    return np.asarray(np.broadcast_to(threshold, (problem.constraints,)) / context.scale)


def known_safe_action(context: Context) -> np.ndarray:
    """a0 of every state, (S,)."""
    problem, agent, given = context.problem, context.agent, context["safe_action"]
    S, A = problem.states, problem.actions
    worst = problem.g.max((0, 1))  # over constraints and steps
    if isinstance(given, str) and given == AUTO:
        if problem.known.safe_action is None:
            raise EverystepError(
                f"{agent} requires a known safe action in every state, and the problem '{problem.name}' has none; "
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
            f"the known safe action of {problem.describe(x)} for {agent} is {problem.describe_action(int(safe[x]))}, "
            f"whose g is {cost[x]:.6g}; it must have g < 0 in every state."
        )
    return np.asarray(safe, np.int64)
