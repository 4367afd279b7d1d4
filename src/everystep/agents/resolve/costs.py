"""The cost side of an agent on a problem: its models made from what was said, and what their intervals are worth."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from everystep import kernels
from everystep.agents import model_syntax
from everystep.agents.model_syntax import AUTO, GP, Choice
from everystep.agents.settings import BETA_COST, BETA_GP, LAM_COST, LAM_GP
from everystep.errors import EverystepError
from everystep.lsvi import radii
from everystep.lsvi.costs.counts import CountCosts
from everystep.lsvi.costs.gp import EachCost, GridGP, GrowingGP
from everystep.lsvi.costs.linear import LinearCosts
from everystep.lsvi.regression.kernel_points import Points, check_kernel
from everystep.lsvi.regression.linalg import OnDemand, Watched
from everystep.mdp.cmdp import FiniteCMDP

CostModel = CountCosts | LinearCosts | GridGP | GrowingGP


@dataclass(frozen=True)
class CostSetup:
    """Cost models with every `auto` decided, checked on the problem: one for all constraints, or one for each."""

    problem: FiniteCMDP
    episodes: int
    agent: str
    given: Mapping[str, Any]  # what a person set
    values: Mapping[str, Any]  # with the defaults of everything else
    phi: np.ndarray | None
    choices: tuple[Choice, ...]
    known_safe: np.ndarray | None  # (A, S)

    @classmethod
    def on(
        cls,
        problem: FiniteCMDP,
        episodes: int,
        agent: str,
        given: Mapping[str, Any],
        values: Mapping[str, Any],
        phi: np.ndarray | None,
    ) -> CostSetup:
        choices = _choices(problem, agent, values["cost"], phi)
        if values["radius_cost"] == "coordinate" and set(choices) != {"counts"}:
            key = "radius_cost" if "radius_cost" in given else "radius"
            raise EverystepError(
                f"setting {key} of {agent} is coordinate, which needs one-hot features for costs; "
                "set radius_cost to tuned or paper."
            )
        if values["react"] and not values["share_costs"]:
            remedy = "set share_costs to true, or react to false" if problem.stationary else "set react to false"
            raise EverystepError(
                f"setting react of {agent} is true, but each step has a cost estimator of its own, which nothing seen "
                f"earlier in the episode can change; {remedy}."
            )
        known_safe = _known_safe(problem, agent, values["known_safe"])
        return cls(problem, episodes, agent, given, values, phi, choices, known_safe)

    def shown(self) -> dict[str, Any]:
        """The settings that were decided here, ready for JSON; lists where constraints differ."""
        decided: dict[str, Any] = {}
        for key, number in (("beta_cost", self.beta), ("lam_cost", self.lam), ("sigma", self.sigma)):
            numbers = [number(i) for i in range(len(self.choices))]
            decided[key] = numbers[0] if len(set(numbers)) == 1 else numbers
        text = model_syntax.text(self.choices[0] if len(self.choices) == 1 else self.choices)
        used = [choice.kernel for choice in self.choices if isinstance(choice, GP) and choice.kernel is not None]
        text += own_functions(self.problem, used)
        return decided | {"cost": text, "known_safe": shown(self.values["known_safe"])}

    # --- numbers -----------------------------------------------------------------------------------------------------
    def _set(self, key: str) -> float | None:
        value = self.given.get(key, AUTO)
        return None if value == AUTO else float(value)

    def beta(self, i: int) -> float:
        """`beta_cost` of model i."""
        if (value := self._set("beta_cost")) is not None:
            return value
        if self.values["radius_cost"] != "tuned":
            return 1.0
        # Narrower than two standard deviations of the noise, a safe action with an unlucky start is ruled out for ever.
        return BETA_GP if isinstance(self.choices[i], GP) else max(BETA_COST, 2 * self.sigma(i))

    def lam(self, i: int) -> float:
        """`lam_cost` of model i: a ridge, or the noise variance of a Gaussian process."""
        if (value := self._set("lam_cost")) is not None:
            return value
        kind = self.values["radius_cost"]
        if isinstance(self.choices[i], GP):
            return max(self.sigma(i) ** 2, LAM_GP) if kind == "tuned" else self._lam_paper
        return {"tuned": LAM_COST, "coordinate": 0.5, "paper": 1.0}[kind]

    def sigma(self, i: int) -> float:
        """The noise of the costs that model i sees."""
        value = self._set("sigma")
        return self._true_sigma(i) if value is None else value

    def _true_sigma(self, i: int) -> float:
        each = np.broadcast_to(np.asarray(self.problem.noise.cost_sigma, float), (self.problem.constraints,))
        return float(each.max() if len(self.choices) == 1 else each[i]) + self.problem.arrival_spread

    @property
    def _lam_paper(self) -> float:
        """lam = 1 + 2 / T, T all observations of one estimator."""
        return 1 + 2 / (self.episodes * (self.problem.horizon if self.values["share_costs"] else 1))

    # --- models ------------------------------------------------------------------------------------------------------
    def model(self) -> CostModel | EachCost:
        made = tuple(self._model(i) for i in range(len(self.choices)))
        return made[0] if len(made) == 1 else EachCost(made)

    def _model(self, i: int) -> CostModel:
        choice, beta, lam = self.choices[i], self.beta(i), self.lam(i)
        kind, p = self.values["radius_cost"], self.values["p"]
        H, K, m = float(self.problem.horizon), float(self.episodes), float(self.problem.constraints)
        seen, estimators = (H, m) if self.values["share_costs"] else (1.0, m * H)
        pairs = float(self.problem.states * self.problem.actions)
        radius: Any = radii.Tuned(beta)
        if isinstance(choice, GP):
            if kind == "paper":
                radius = radii.PaperGP(beta, self.values["bound"], self.sigma(i), math.log(2 * estimators / p))
            assert choice.kernel is not None
            points = Points.of(self.problem, choice.kernel)
            if choice.points == "grid":
                return GridGP(radius, lam, jnp.asarray(points.gram), jnp.asarray(points.which))
            everywhere = {name: each[points.which] for name, each in points.named.items()}
            return GrowingGP(radius, lam, choice.kernel, everywhere)
        if kind == "paper":
            d = pairs if self.phi is None or choice == "counts" else float(self.phi.shape[-1])
            radius = radii.PaperCost(beta, d, lam, seen, estimators, p)
        elif kind == "coordinate":
            log_union = math.log(2 * m * pairs * H * K / p)
            radius = radii.CoordinateCost(beta, lam, self.values["bound"], self.sigma(i), log_union)
        if choice == "counts":
            return CountCosts(radius, lam)
        assert self.phi is not None
        # A choice made again at every step asks for widths at every step, however rare plans are.
        rarely_asked = self.values["switch"] != "none" and not self.values["react"]
        norms = OnDemand() if rarely_asked else Watched()
        return LinearCosts(radius, lam, jnp.asarray(self.phi.swapaxes(0, 1)), norms)

    # --- what intervals are worth ------------------------------------------------------------------------------------
    def _truth(self, i: int) -> np.ndarray:
        """The true costs that model i has to learn, (m, T, S, A)."""
        return self.problem.g if len(self.choices) == 1 else self.problem.g[i : i + 1]

    def _norm(self, i: int) -> float:
        """Of the true costs in the space of model i's kernel."""
        choice = self.choices[i]
        assert isinstance(choice, GP)
        assert choice.kernel is not None
        return Points.of(self.problem, choice.kernel).norm(self._truth(i))

    def confidence(self) -> float | None:
        """p if the cost intervals are valid: all of them hold with probability 1 - p. None if they are a heuristic."""
        told_wrong = self.known_safe is not None and (self.problem.g.max((0, 1)).T[self.known_safe] > 0).any()
        if told_wrong or not all(self._valid(i) for i in range(len(self.choices))):
            return None
        return float(self.values["p"])

    def _valid(self, i: int) -> bool:
        """Whether the radius of model i keeps what its theorem asks for, judged by the true costs."""
        choice, kind, bound = self.choices[i], self.values["radius_cost"], self.values["bound"]
        if kind == "tuned" or self.beta(i) < 1 or self.sigma(i) < self._true_sigma(i):
            return False
        if isinstance(choice, GP):
            return not choice.fit and self.lam(i) == self._lam_paper and self._norm(i) <= bound * (1 + 1e-6)
        if kind == "coordinate":
            return bool(np.abs(self._truth(i)).max() <= bound)
        # The printed linear radius has noise 1 and ||theta|| <= sqrt(d) in it.
        return self._true_sigma(i) <= 1 and (choice == "counts" or self._is_linear(i))

    def _is_linear(self, i: int) -> bool:
        assert self.phi is not None
        d = self.phi.shape[-1]
        X, g = self.phi.reshape(-1, d), self._truth(i).reshape(-1, self.problem.states * self.problem.actions).T
        theta = np.linalg.lstsq(X, g, rcond=None)[0]
        return bool(np.abs(X @ theta - g).max() <= 1e-9 and np.linalg.norm(theta, axis=0).max() <= math.sqrt(d))

    def remarks(self) -> tuple[str, ...]:
        """What a reader of the results should know about the cost models."""
        said = []
        for i, choice in enumerate(self.choices):
            if not isinstance(choice, GP):
                continue
            assert choice.kernel is not None
            if kernels.looks_at(choice.kernel) & {"landing", "move", kernels.ALL}:
                said.append(
                    f"the cost kernel {choice.kernel} of {self.agent} tells it where each action aims; "
                    "one-hot costs do not."
                )
            if choice.fit > self.episodes:
                said.append(f"the kernel {choice.kernel} is never fitted: fit={choice.fit} is more than all episodes.")
            if self.values["radius_cost"] == "paper" and (norm := self._norm(i)) > self.values["bound"] * (1 + 1e-6):
                said.append(
                    f"g has a norm of {norm:.4g} in the kernel {choice.kernel}, above the bound "
                    f"{self.values['bound']:g}: the intervals of {self.agent} carry no probability; "
                    "set bound to at least that."
                )
        return tuple(dict.fromkeys(said))


# --- what a person said, decided on a problem ------------------------------------------------------------------------
def _choices(problem: FiniteCMDP, agent: str, cost: model_syntax.Cost, phi: np.ndarray | None) -> tuple[Choice, ...]:
    """The cost models with every `auto` and every kernel decided and checked."""
    where = f"setting cost of {agent} is {model_syntax.text(cost)}"
    if isinstance(cost, tuple) and len(cost) != problem.constraints:
        raise EverystepError(
            f"{where}, {len(cost)} models for {problem.constraints} constraints; give one for each, or one for all."
        )
    decided: list[Choice] = []
    for choice in cost if isinstance(cost, tuple) else (cost,):
        if choice == AUTO:
            choice = "linear" if phi is not None and problem.linear_costs else "counts"
        if choice == "linear" and phi is None:
            raise EverystepError(f"{where}, but the problem '{problem.name}' has no features; give some, or counts.")
        if isinstance(choice, GP):
            kernel = _suggested(problem, where) if choice.kernel is None else choice.kernel
            check_kernel(problem, where, kernel)
            choice = GP(kernel, choice.fit, choice.points)
        decided.append(choice)
    return tuple(decided)


def _suggested(problem: FiniteCMDP, where: str) -> kernels.Kernel:
    if problem.kernel is None:
        raise EverystepError(f"{where}, but the problem '{problem.name}' suggests no kernel; give one.")
    try:
        return kernels.read(problem.kernel)
    except ValueError as error:
        raise EverystepError(f"problem '{problem.name}': its kernel is '{problem.kernel}'; {error}.") from None


def _known_safe(problem: FiniteCMDP, agent: str, given: Any) -> np.ndarray | None:
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
    if known.dtype.kind in "iu" and known.shape == (S,) and (known >= 0).all() and (known < A).all():
        return np.eye(A, dtype=bool)[known].T
    raise EverystepError(
        f"setting known_safe of {agent} has shape {known.shape}; "
        f"give {S} actions below {A}, or booleans of shape ({S}, {A})."
    )


def own_functions(problem: FiniteCMDP, used: list[kernels.Kernel]) -> str:
    """A hash of the kernels that are functions of one's own, whose text does not tell them apart."""
    own = [kernel for kernel in used if any(isinstance(each, kernels.Custom) for each in kernels.parts_of(kernel))]
    return "".join(f" #{fingerprint(Points.of(problem, kernel).gram)}" for kernel in own)


def shown(value: Any) -> str:
    """A setting in a name: short for an array, as typed for a cost model."""
    if isinstance(value, np.ndarray):
        return fingerprint(value)
    return model_syntax.text(value) if isinstance(value, GP | tuple) else str(value)


def fingerprint(array: np.ndarray) -> str:
    """A short name for an array: its shape and a hash of its numbers."""
    digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]
    return f"{'x'.join(map(str, array.shape))}:{digest}"
