"""Acting on unseen observations: the last plan as NumPy arrays, evaluated at one observation or a few at a time.

    a = argmax_a {Q_h(x, a) - sum_i Z_i [ghat_i(x, a)]_+}                                    eq. (11)

Q_h and ghat_h are computed at x from the predictors of the plan; an agent that looks ahead prices the avoidable part of
the harm that a leads to instead of ghat (`lsvi/ahead.py`). NumPy, because a compiled call for every step would take
longer than the step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypedDict

import numpy as np

from everystep.lsvi.ahead import HarmToGo
from everystep.lsvi.choices.basic import Penalised, Reacting
from everystep.lsvi.choices.ties import TIE
from everystep.lsvi.protocols import ScoringChoice
from everystep.mdp import certificates
from everystep.training.agent.encoders import ModelEncoder
from everystep.training.agent.models.linear import LinearPredictor
from everystep.training.agent.models.protocols import AnyPredictor
from everystep.training.agent.slot_table import PlannedActions


class Estimates(NamedTuple):
    """At n observations: optimistic values (A, n), and the centre and half width of each cost interval (m, A, n).

    after, after_width  (A, n): the harm after this step and its half width, if the agent looks ahead
    """

    Q: np.ndarray
    mean: np.ndarray
    width: np.ndarray
    after: np.ndarray | None = None
    after_width: np.ndarray | None = None

    def after_harm(self, optimism: float) -> np.ndarray:
        """(A, n): the end of the interval of the harm after this step."""
        assert self.after is not None
        assert self.after_width is not None
        return self.after - optimism * self.after_width


SIDE = "_side_"  # in the names of arrays of encoders, whose numbers have no unit


class AheadJson(TypedDict):
    """`HarmToGo` as a plan needs it."""

    events: bool
    weights: list[float]
    tolerance: float
    cap: float
    optimism: float


class PlanJson(TypedDict):
    """A plan but its arrays and encoders."""

    choice: str
    rectify: bool
    optimism: float
    cap: float
    lowest: float
    cost_scale: list[float] | None
    ahead: AheadJson | None


@dataclass(frozen=True)
class EstimatingPlan:
    """What follows from the estimates of a plan, however it makes them: scores, choices, labels, intervals."""

    if TYPE_CHECKING:

        @property
        def price(self) -> np.ndarray: ...
        @property
        def choice(self) -> ScoringChoice: ...
        @property
        def optimism(self) -> float: ...
        @property
        def ahead(self) -> HarmToGo | None: ...
        @property
        def cost_scale(self) -> np.ndarray | None: ...
        @property
        def has_costs(self) -> bool: ...
        def estimates(self, h: int, observations: np.ndarray) -> Estimates: ...

    def in_units(self, costs: np.ndarray) -> np.ndarray:
        """Estimates (m, A, n), or harm (1, A, n), in the units of the constraints."""
        return costs if self.cost_scale is None else costs * divisor(self.cost_scale)[: len(costs), None, None]

    def scores(self, h: int, observations: np.ndarray) -> np.ndarray:
        """(A, n): what the choice maximises."""
        found = self.estimates(h, observations)
        if not self.has_costs:
            return found.Q
        estimated = found.mean - self.optimism * found.width
        if self.ahead is not None:
            estimated = self.ahead.avoidable(self.ahead.led_to(estimated, found.after_harm(float(self.ahead.optimism))))
        return self.choice.score(found.Q, estimated, self.price[:, h])

    def choose(self, h: int, observations: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """An action for each observation; `rng` breaks ties."""
        tied = self.best(h, observations)
        if (tied.sum(0) == 1).all():
            return np.asarray(tied.argmax(0))
        return np.asarray(np.where(tied, rng.random(tied.shape), -1).argmax(0))

    def best(self, h: int, observations: np.ndarray) -> np.ndarray:
        """(A, n): which actions have the highest score, up to rounding."""
        scores = self.scores(h, observations)
        top = scores.max(0)
        return np.asarray(scores >= top - TIE * np.maximum(np.abs(top), 1))

    def labels(self, h: int, observations: np.ndarray) -> np.ndarray:
        """(n, A): 1 for actions certified safe by the cost intervals, -1 for certified unsafe, 0 for unknown.

        Of an agent that looks ahead: whether the harm that an action leads to is at most the tolerance.
        """
        lower, upper = self.bounds(h, observations)
        return np.asarray(certificates.labels(lower[None], upper[None])[0].T)

    def bounds(self, h: int, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The ends of every cost interval (m, A, n); of an agent that looks ahead, of harm less tolerance (1, A, n)."""
        found = self.estimates(h, observations)
        return self.ends(found, 1.0), self.ends(found, -1.0)

    def ends(self, found: Estimates, optimism: float) -> np.ndarray:
        """mean - optimism * width of every cost (m, A, n); ahead, of harm less tolerance (1, A, n)."""
        cost = found.mean - optimism * found.width
        if self.ahead is None:
            return self.in_units(cost)
        return self.in_units(self.ahead.led_to(cost, found.after_harm(optimism))[None] - self.ahead.tolerance)

    def harm(self, found: Estimates, optimism: float) -> np.ndarray:
        """(A, n): the worst cost of each action, or the harm that it leads to if the agent looks ahead."""
        cost = found.mean - optimism * found.width
        if self.ahead is None:
            return np.asarray(self.in_units(cost).max(0))
        return np.asarray(self.in_units(self.ahead.led_to(cost, found.after_harm(optimism))[None])[0])


@dataclass(frozen=True)
class ActingPlan(EstimatingPlan):
    """A plan that can be evaluated at any observation.

    values, costs       the predictors of both models; costs is None for an agent that never looks at costs
    harm_ahead          the predictor of the mean of C_{h+1} at the next state, for an agent that looks ahead
    value_encoder,      how each model represents observations
    cost_encoder
    price (m, H)        Z_h; (1, H) if the agent looks ahead
    choice              greedy or penalised
    optimism            the end of the cost interval that the choice uses
    look_up             the action the plan chose at step h for an observation with a slot, else None
    ahead               how harm is counted, for an agent that looks ahead; its numbers are NumPy's
    cost_scale (m,)     by which costs were divided before they were learnt, 0 while all were 0; estimates are of the
                        quotients; None: nothing was divided
    """

    values: AnyPredictor
    costs: AnyPredictor | None
    value_encoder: ModelEncoder
    cost_encoder: ModelEncoder
    price: np.ndarray
    choice: ScoringChoice
    optimism: float
    cap: float
    look_up: PlannedActions | None = None
    ahead: HarmToGo | None = None
    harm_ahead: AnyPredictor | None = None
    cost_scale: np.ndarray | None = None
    lowest: float = 0.0

    @property
    def horizon(self) -> int:
        return int(self.price.shape[1])

    @property
    def actions(self) -> int:
        return self.value_encoder.actions

    @property
    def has_costs(self) -> bool:
        return self.costs is not None

    def estimates(self, h: int, observations: np.ndarray) -> Estimates:
        """Values and cost intervals at step h, on the scale on which costs are learnt."""
        encoded = self.value_encoder.encode(observations)
        mean, width = self.values.predict(h, encoded)
        Q = (mean + width).clip(self.lowest, self.cap)  # line 7
        if self.costs is None:
            unknown = np.zeros((1, *Q.shape))
            return Estimates(Q, unknown, unknown + np.inf)
        same = self.cost_encoder is self.value_encoder
        g, g_width = self.costs.predict(h, encoded if same else self.cost_encoder.encode(observations))
        after = (None, None) if self.harm_ahead is None else self.harm_ahead.predict(h, encoded)
        return Estimates(Q, g, np.broadcast_to(g_width, g.shape), *after)

    def choose(self, h: int, observations: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """An action for each observation: the planned one where it has a slot. `rng` breaks ties."""
        if self.look_up is not None:
            actions = [self.look_up(h, each) for each in observations]
            if None not in actions:
                return np.array(actions)
        return super().choose(h, observations, rng)

    def cost_intervals(self, h: int, observations: np.ndarray, widths: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Centre and half width of every cost interval (m, A, n), in the units of the constraints.

        Without `widths` the half widths may be 0: computing them takes most of the time.
        """
        assert self.costs is not None
        predictor = self.costs if widths else self.costs.without_width()
        mean, width = predictor.predict(h, self.cost_encoder.encode(observations))
        return self.in_units(mean), self.in_units(np.broadcast_to(width, mean.shape))

    def with_cost(self, h: int, observation: np.ndarray, a: int, cost: np.ndarray) -> ActingPlan:
        """The same plan after one more observed cost at (x, a)."""
        plan = self if self.cost_scale is None else self._rescaled(cost)
        cost = cost if plan.cost_scale is None else cost / divisor(plan.cost_scale)
        if self.ahead is not None and self.ahead.events:
            cost = np.maximum(cost, 0)
        assert isinstance(plan.costs, LinearPredictor)  # `react` needs linear costs
        phi = self.cost_encoder.encode(observation)
        assert isinstance(phi, np.ndarray)
        costs = plan.costs.updated(h, phi, a, cost)
        return replace(plan, costs=costs, look_up=None)

    def to_json(self) -> PlanJson:
        """Everything but the arrays and the encoders, ready for JSON."""
        choice, ahead = self.choice.choice if isinstance(self.choice, Reacting) else self.choice, self.ahead
        content: PlanJson = {
            "choice": "penalised" if isinstance(choice, Penalised) else "greedy",
            "rectify": isinstance(choice, Penalised) and bool(choice.rectify),
            "optimism": self.optimism,
            "cap": self.cap,
            "lowest": self.lowest,
            "cost_scale": None if self.cost_scale is None else [float(each) for each in self.cost_scale],
            "ahead": None,
        }
        if ahead is not None:
            content["ahead"] = {
                "events": bool(ahead.events),
                "weights": [float(each) for each in np.asarray(ahead.weights)],
                "tolerance": float(ahead.tolerance),
                "cap": float(ahead.cap),
                "optimism": float(ahead.optimism),
            }
        return content

    def arrays(self) -> dict[str, np.ndarray]:
        """The prices, and the arrays of the encoders and of the predictors."""
        found = {"price": self.price}
        for name, encoder in (("value", self.value_encoder), ("cost", self.cost_encoder)):
            found |= {f"{name}{SIDE}{key}": array for key, array in encoder.arrays().items()}
        for name, predictor in (("value", self.values), ("cost", self.costs), ("harm", self.harm_ahead)):
            if predictor is not None:
                found |= {f"{name}_plan_{key}": array for key, array in predictor.arrays().items()}
        return found

    def _rescaled(self, cost: np.ndarray) -> ActingPlan:
        """The same plan with costs divided by a larger number, if this one is larger than all before."""
        assert self.cost_scale is not None
        scale = largest_size(self.cost_scale, cost[None], together=self.ahead is not None)
        if (scale == self.cost_scale).all():
            return self
        factor, harm_ahead = self.cost_scale / divisor(scale), self.harm_ahead
        if harm_ahead is not None:
            harm_ahead = harm_ahead.rescaled(factor[0])
        assert self.costs is not None
        costs = self.costs.rescaled(factor[:, None, None])
        return replace(self, costs=costs, harm_ahead=harm_ahead, cost_scale=scale)


def largest_size(scale: np.ndarray, costs: np.ndarray, *, together: bool) -> np.ndarray:
    """The largest |g| of each constraint (m,), of those before, `scale`, and of costs (n, m).

    With `together` one number for all: an agent that looks ahead adds up constraints.
    """
    largest = np.maximum(np.abs(costs).max(0), scale)
    return np.full_like(largest, largest.max()) if together else largest


def divisor(scale: np.ndarray) -> np.ndarray:
    """What costs are divided by; 1 while all were 0."""
    return np.where(scale > 0, scale, 1.0)
