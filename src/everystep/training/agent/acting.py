"""Acting on unseen observations: the last plan as NumPy arrays, evaluated at one observation or a few at a time.

    a = argmax_a {Q_h(x, a) - sum_i Z_i [ghat_i(x, a)]_+}                                    eq. (11)

Q_h and ghat_h are computed at x from the predictors of the plan; an agent that looks ahead prices the avoidable part of
the harm that a leads to instead of ghat (`lsvi/ahead.py`). NumPy, because a compiled call for every step would take
longer than the step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from everystep.lsvi.choices.ties import TIE
from everystep.lsvi.protocols import ScoringChoice
from everystep.mdp import certificates
from everystep.training.agent.encoders import Encoder


class Estimates(NamedTuple):
    """At n observations: optimistic values (A, n), and the centre and half width of each cost interval (m, A, n).

    after, after_width  (A, n): the harm after this step and its half width, if the agent looks ahead
    """

    Q: np.ndarray
    mean: np.ndarray
    width: np.ndarray
    after: Any = None
    after_width: Any = None


class HarmAhead(NamedTuple):
    """What looking ahead takes besides the models: `lsvi.ahead.HarmToGo` in NumPy.

    predictor  the mean of C_{h+1} at the next state
    optimism   1: the choice lowers this mean by its width, 0: it takes the mean
    """

    predictor: Any
    events: bool
    tolerance: float
    weights: np.ndarray
    cap: float
    optimism: float = 1.0

    def led_to(self, cost: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Ghat (A, n), from costs (m, A, n) of this step and the harm after it (A, n)."""
        return (np.tensordot(self.weights, np.maximum(cost, 0), 1) + after).clip(0, self.cap)

    def avoidable(self, cost: np.ndarray, after: np.ndarray) -> np.ndarray:
        """[Ghat - min_b Ghat - tolerance]_+, (1, A, n)."""
        G = self.led_to(cost, after)
        return np.maximum(G - G.min(0) - self.tolerance, 0)[None]


@dataclass(frozen=True)
class ActingPlan:
    """A plan that can be evaluated at any observation.

    values, costs       the predictors of both models; costs is None for an agent that never looks at costs
    value_encoder,      how each model represents observations
    cost_encoder
    price (m, H)        Z_h; (1, H) if the agent looks ahead
    choice              greedy or penalised
    optimism            the end of the cost interval that the choice uses
    look_up             the action the plan chose at step h for an observation with a slot, else None
    ahead               the harm-to-go, for an agent that looks ahead
    cost_scale (m,)     by which costs were divided before they were learnt, 0 while all were 0; estimates are of the
                        quotients; None: nothing was divided
    """

    values: Any
    costs: Any
    value_encoder: Encoder
    cost_encoder: Encoder
    price: np.ndarray
    choice: ScoringChoice
    optimism: float
    cap: float
    look_up: Callable[[int, np.ndarray], int | None] | None = None
    ahead: HarmAhead | None = None
    cost_scale: np.ndarray | None = None
    lowest: float = 0.0

    def in_units(self, costs: np.ndarray) -> np.ndarray:
        """Estimates (m, A, n), or harm (1, A, n), in the units of the constraints."""
        return costs if self.cost_scale is None else costs * divisor(self.cost_scale)[: len(costs), None, None]

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
        after = (None, None) if self.ahead is None else self.ahead.predictor.predict(h, encoded)
        return Estimates(Q, g, np.broadcast_to(g_width, g.shape), *after)

    def scores(self, h: int, observations: np.ndarray) -> np.ndarray:
        """(A, n): what the choice maximises."""
        found = self.estimates(h, observations)
        if self.costs is None:
            return found.Q
        estimated = found.mean - self.optimism * found.width
        if self.ahead is not None:
            estimated = self.ahead.avoidable(estimated, found.after - self.ahead.optimism * found.after_width)
        return self.choice.score(found.Q, estimated, self.price[:, h])

    def choose(self, h: int, observations: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """An action for each observation; `rng` breaks ties."""
        if self.look_up is not None:
            actions = [self.look_up(h, each) for each in observations]
            if None not in actions:
                return np.array(actions)
        tied = self.best(h, observations)
        if (tied.sum(0) == 1).all():
            return tied.argmax(0)
        return np.where(tied, rng.random(tied.shape), -1).argmax(0)

    def best(self, h: int, observations: np.ndarray) -> np.ndarray:
        """(A, n): which actions have the highest score, up to rounding."""
        scores = self.scores(h, observations)
        top = scores.max(0)
        return scores >= top - TIE * np.maximum(np.abs(top), 1)

    def labels(self, h: int, observations: np.ndarray) -> np.ndarray:
        """(n, A): 1 for actions certified safe by the cost intervals, -1 for certified unsafe, 0 for unknown.

        Of an agent that looks ahead: whether the harm that an action leads to is at most the tolerance.
        """
        lower, upper = self.bounds(h, observations)
        return certificates.labels(lower[None], upper[None])[0].T

    def bounds(self, h: int, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The ends of every cost interval (m, A, n); of an agent that looks ahead, of harm less tolerance (1, A, n)."""
        found = self.estimates(h, observations)
        lower, upper = found.mean - found.width, found.mean + found.width
        if self.ahead is None:
            return self.in_units(lower), self.in_units(upper)
        least = self.ahead.led_to(lower, found.after - found.after_width)
        most = self.ahead.led_to(upper, found.after + found.after_width)
        return self.in_units(least[None] - self.ahead.tolerance), self.in_units(most[None] - self.ahead.tolerance)

    def with_cost(self, h: int, observation: np.ndarray, a: int, cost: np.ndarray) -> ActingPlan:
        """The same plan after one more observed cost at (x, a)."""
        plan = self if self.cost_scale is None else self._rescaled(cost)
        cost = cost if plan.cost_scale is None else cost / divisor(plan.cost_scale)
        if self.ahead is not None and self.ahead.events:
            cost = np.maximum(cost, 0)
        costs = plan.costs.updated(h, self.cost_encoder.encode(observation), a, cost)
        return replace(plan, costs=costs, look_up=None)

    def _rescaled(self, cost: np.ndarray) -> ActingPlan:
        """The same plan with costs divided by a larger number, if this one is larger than all before."""
        assert self.cost_scale is not None
        scale = largest_size(self.cost_scale, cost[None], together=self.ahead is not None)
        if (scale == self.cost_scale).all():
            return self
        factor, ahead = self.cost_scale / divisor(scale), self.ahead
        if ahead is not None:
            ahead = ahead._replace(predictor=ahead.predictor.rescaled(factor[0]))
        return replace(self, costs=self.costs.rescaled(factor[:, None, None]), ahead=ahead, cost_scale=scale)


def largest_size(scale: np.ndarray, costs: np.ndarray, *, together: bool) -> np.ndarray:
    """The largest |g| of each constraint (m,), of those before, `scale`, and of costs (n, m).

    With `together` one number for all: an agent that looks ahead adds up constraints.
    """
    largest = np.maximum(np.abs(costs).max(0), scale)
    return np.full_like(largest, largest.max()) if together else largest


def divisor(scale: np.ndarray) -> np.ndarray:
    """What costs are divided by; 1 while all were 0."""
    return np.where(scale > 0, scale, 1.0)
