"""The cost models of an agent on a problem: made from the setting `cost`, with a check of their intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from everystep.agents import model_syntax
from everystep.agents.resolve.context import Context, custom_kernels, setting_as_text
from everystep.errors import EverystepError
from everystep.lsvi.costs.counts import CountSpec
from everystep.lsvi.costs.estimate import EachCost
from everystep.lsvi.costs.linear import LinearSpec
from everystep.lsvi.costs.spec import CostContext, CostSpec
from everystep.lsvi.protocols import FiniteCostModel, Pytree
from everystep.mdp.cmdp import FiniteCMDP


@dataclass(frozen=True, eq=False)
class ResolvedCosts:
    """Cost models with every `auto` decided, checked on the problem: one for all constraints, or one for each."""

    context: Context
    specs: tuple[CostSpec, ...]
    known_safe: np.ndarray | None  # (A, S)

    @classmethod
    def resolve(cls, context: Context) -> ResolvedCosts:
        problem, agent = context.problem, context.agent
        specs = _specs(problem, agent, context["cost"], context.phi)
        if context["radius_cost"] == "coordinate" and not all(spec.one_hot for spec in specs):
            key = "radius_cost" if "radius_cost" in context.given else "radius"
            raise EverystepError(
                f"setting {key} of {agent} is coordinate, which needs one-hot features for costs; "
                "set radius_cost to tuned or paper."
            )
        if context["react"] and not context["share_costs"]:
            remedy = "set share_costs to true, or react to false" if problem.stationary else "set react to false"
            raise EverystepError(
                f"setting react of {agent} is true, but each step has its own cost estimator, which earlier steps of "
                f"the episode cannot change; {remedy}."
            )
        return cls(context, specs, _known_safe(problem, agent, context["known_safe"]))

    def to_json(self) -> dict[str, Any]:
        """The settings decided here; lists where constraints differ."""
        decided: dict[str, Any] = {}
        contexts = [self.of_model(i) for i in range(len(self.specs))]
        units = [self.context.unit_of(self._constraint(i)) for i in range(len(self.specs))]
        every = {
            "beta_cost": [each.beta for each in contexts],
            "lam_cost": [each.lam for each in contexts],
            "sigma": [each.sigma * unit for each, unit in zip(contexts, units, strict=True)],  # in the units of g
        }
        for key, numbers in every.items():
            decided[key] = numbers[0] if len(set(numbers)) == 1 else numbers
        text = model_syntax.text(self.specs[0] if len(self.specs) == 1 else self.specs)
        text += custom_kernels(self.context.problem, [spec.kernel for spec in self.specs if spec.kernel is not None])
        return decided | {"cost": text, "known_safe": setting_as_text(self.context["known_safe"])}

    def _constraint(self, i: int) -> int | None:
        """The constraint of model i; None if one model serves all."""
        return None if len(self.specs) == 1 else i

    def of_model(self, i: int) -> CostContext:
        """Everything that the intervals of model i depend on, with beta and lam decided."""
        context, problem, spec = self.context, self.context.problem, self.specs[i]
        alone = len(self.specs) == 1
        sigmas = np.broadcast_to(np.asarray(problem.noise.cost_sigma, float), (problem.constraints,))
        true_sigma = float(sigmas.max() if alone else sigmas[i]) + problem.arrival_spread
        undecided = CostContext(
            agent=context.agent,
            problem=problem,
            episodes=context.episodes,
            phi=context.phi,
            radius=context["radius_cost"],
            sigma=context.sigma(true_sigma, self._constraint(i)),
            true_sigma=true_sigma,
            bound=context["bound"],
            p=context["p"],
            truth=problem.g if alone else problem.g[i : i + 1],
            shared=context["share_costs"],
            # A choice that reacts needs widths at every step, even if plans are rare.
            rarely_asked=context["switch"] != "none" and not context["react"],
        )
        tuned = context["radius_cost"] == "tuned"
        return undecided._replace(
            beta=context.number("beta_cost", spec.default_beta(undecided) if tuned else 1.0),
            lam=context.number("lam_cost", spec.default_lam(undecided)),
        )

    def model(self) -> FiniteCostModel[Pytree]:
        models = tuple(spec.model(self.of_model(i)) for i, spec in enumerate(self.specs))
        return models[0] if len(models) == 1 else EachCost(models)

    def confidence(self) -> float | None:
        """p if the cost intervals are valid: all hold with probability 1 - p. None if they are a heuristic."""
        worst = self.context.problem.g.max((0, 1)).T
        wrongly_known = self.known_safe is not None and (worst[self.known_safe] > 0).any()
        valid = not wrongly_known and all(self._is_valid(i) for i in range(len(self.specs)))
        return float(self.context["p"]) if valid else None

    def _is_valid(self, i: int) -> bool:
        """Whether the radius of model i meets the assumptions of its theorem, judged by the true costs."""
        context = self.of_model(i)
        if context.radius == "tuned" or context.beta < 1 or context.sigma < context.true_sigma:
            return False
        return self.specs[i].is_valid(context)

    def remarks(self) -> tuple[str, ...]:
        """What a reader of the results should know about the cost models."""
        all_remarks = (remark for i, spec in enumerate(self.specs) for remark in spec.remarks(self.of_model(i)))
        return tuple(dict.fromkeys(all_remarks))


def _specs(problem: FiniteCMDP, agent: str, cost: model_syntax.Cost, phi: np.ndarray | None) -> tuple[CostSpec, ...]:
    """The cost models with every `auto` and every kernel decided and checked."""
    where = f"setting cost of {agent} is {model_syntax.text(cost)}"
    if isinstance(cost, tuple) and len(cost) != problem.constraints:
        raise EverystepError(
            f"{where}, {len(cost)} models for {problem.constraints} constraints; give one for each, or one for all."
        )
    by_features = LinearSpec() if phi is not None and problem.linear_costs else CountSpec()
    specs = [by_features if isinstance(spec, str) else spec for spec in (cost if isinstance(cost, tuple) else (cost,))]
    return tuple(spec.decided(problem, phi, where) for spec in specs)


def _known_safe(problem: FiniteCMDP, agent: str, given: object) -> np.ndarray | None:
    """Actions that are known to be safe, (A, S), or None."""
    S, A = problem.states, problem.actions
    if isinstance(given, str):
        if given == "none":
            return None
        worst = problem.g.max((0, 1))  # over constraints and steps
        return np.asarray(np.eye(A, dtype=bool)[worst.argmin(1)].T & (worst.min(1) <= 0))
    known = np.asarray(given)
    if known.dtype == bool and known.shape == (S, A):
        return known.T
    if known.dtype.kind in "iu" and known.shape == (S,) and (known >= 0).all() and (known < A).all():
        return np.asarray(np.eye(A, dtype=bool)[known].T)
    raise EverystepError(
        f"setting known_safe of {agent} has shape {known.shape}; "
        f"give {S} actions below {A}, or booleans of shape ({S}, {A})."
    )
