"""Does the cost model fit the constraint? Every step is predicted before it is learnt, by the plan in force.

    error          ghat - g at the (x, a) of the step, where ghat is the mean of the cost model, without optimism; with
                   harm = events of what is learnt there, ghat - max(g, 0)
    unsafe         some g_i > 0: the true mean where the environment reports it, else as observed
    believed safe  ghat_i <= 0 for every constraint i that was violated;
                   with harm = events: the estimated harm was below half of the harm that was observed
    no safe action every action has some ghat_i > 0, now with the optimism by which the agent chooses

Only the second half of the episodes counts: at first nothing is known. An unsafe step may also be believed safe because
nothing like it was ever tried; the features do not fit if it is still believed safe after it was learnt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from everystep.environments.play.batch import Batch
from everystep.environments.play.constraints import REWRITE
from everystep.errors import shown
from everystep.training.agent.acting import ActingPlan
from everystep.training.agent.models.linear import LinearPredictor
from everystep.training.diagnosis.finding import Finding

FEWEST = 5  # unsafe steps in the second half, below which nothing is said about them
MOST_STEPS = 1000  # that are predicted again after training
EXAMPLES, LONGEST_EXAMPLE = 3, 64  # observations without an action believed safe that are kept, and their length
WITHOUT = 0.01  # share of steps without an action believed safe, above which it is said


@dataclass(frozen=True)
class EpisodeFit:
    """The predictions of one episode.

    squared_error   the mean over steps and constraints
    surprises       the unsafe steps that were believed safe; costs as the definitions above take them
    unsafe          the number of unsafe steps
    without         the number of steps at which no action was believed safe
    example         the first observation of them
    """

    steps: int
    squared_error: float
    unsafe: int
    surprises: Batch
    without: int
    example: np.ndarray | None


class CostFit:
    """How the cost estimates did, episode by episode."""

    def __init__(self, estimators: int) -> None:
        self._estimators = estimators  # one for all steps, or one for each
        self._episodes: list[EpisodeFit] = []

    def add(self, plan: ActingPlan, episode: Batch, true_costs: np.ndarray) -> None:
        """Compare an episode, before it is learnt, with the plan that was in force; true means as (n, m)."""
        if plan.costs is None:
            return
        g = episode.costs if _events(plan) else true_costs
        mean, width = self._predict(plan, episode)
        chosen = _of_actions(mean, episode.actions)
        unsafe = (g > 0).any(1)
        surprise = unsafe & _believed_safe(plan, chosen, g)
        ghat = mean - plan.optimism * width
        without = (ghat.max(0).min(0) > 0) & (plan.ahead is None)
        error = chosen - (np.maximum(g, 0) if _events(plan) else g)
        self._episodes.append(
            EpisodeFit(
                steps=len(episode),
                squared_error=float((error**2).mean()),
                unsafe=int(unsafe.sum()),
                surprises=replace(episode, costs=g).rows(surprise),
                without=int(without.sum()),
                example=episode.observations[without.argmax()] if without.any() else None,
            )
        )

    def findings(self, plan: ActingPlan) -> list[Finding]:
        """What a reader should know; `plan` is the one after training."""
        late = self._late
        if not late or plan.costs is None:
            return []
        return [*self._about_surprises(late, plan), *_about_no_safe_action(late)]

    @property
    def _late(self) -> list[EpisodeFit]:
        return self._episodes[(len(self._episodes) + 1) // 2 :]

    @property
    def error(self) -> float | None:
        """The rms error of ghat in the second half of the episodes, every step predicted before it was learnt."""
        late = self._late
        steps = sum(each.steps for each in late)
        return math.sqrt(sum(each.squared_error * each.steps for each in late) / steps) if steps else None

    @property
    def figures(self) -> dict[str, Any] | None:
        """The second half of the episodes in numbers, ready for JSON; None if nothing was predicted."""
        late = self._late
        if not late:
            return None
        examples = [each.example for each in late if each.example is not None]
        return {
            "episodes": len(late),
            "steps": sum(each.steps for each in late),
            "error": self.error,
            "unsafe": sum(each.unsafe for each in late),
            "believed_safe": sum(len(each.surprises) for each in late),
            "without_safe_action": sum(each.without for each in late),
            "examples": [np.ravel(each).tolist() for each in examples[:EXAMPLES] if np.size(each) <= LONGEST_EXAMPLE],
        }

    @property
    def error_remark(self) -> str | None:
        if self.error is None:
            return None
        return (
            f"estimates of the constraint were off by {self.error:.2g} (rms) in the second half, each step predicted "
            "before it was learnt"
        )

    def _about_surprises(self, late: list[EpisodeFit], plan: ActingPlan) -> list[Finding]:
        unsafe, surprises = sum(each.unsafe for each in late), sum(len(each.surprises) for each in late)
        if unsafe < FEWEST or surprises <= unsafe / 2 or not self._still_believed(late, plan):
            return []
        assert self.error is not None
        return [
            Finding(
                "fit",
                f"of {unsafe} unsafe steps in the second half {surprises} were believed safe (rms error of the "
                f"estimates {self.error:.2g})",
                f"unless chance decides, the features do not fit the constraint; {REWRITE}; else give cost_features "
                "with more detail",
                {"unsafe": unsafe, "believed_safe": surprises, "error": self.error},
            )
        ]

    def _still_believed(self, late: list[EpisodeFit], plan: ActingPlan) -> bool:
        """Whether most of the unsafe steps that were believed safe still are, now that they were learnt."""
        left, count, still = MOST_STEPS, 0, 0
        for each in reversed(late):
            if left > 0 and len(some := each.surprises.rows(slice(left))):
                chosen = _of_actions(self._predict(plan, some)[0], some.actions)
                count, still = count + len(some), still + int(_believed_safe(plan, chosen, some.costs).sum())
                left -= len(some)
        return still > count / 2

    def _predict(self, plan: ActingPlan, steps: Batch) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the half width of every cost (m, A, n) at the observations of `steps`; ahead, the mean alone."""
        h, n = np.minimum(steps.steps, self._estimators - 1), len(steps)
        costs = plan.costs
        if plan.ahead is not None and isinstance(costs, LinearPredictor):
            costs = costs._replace(radius=0.0)  # widths, which take most of the time, say nothing here: see `add`
        mean, width = (np.empty((steps.constraints, plan.cost_encoder.actions, n)) for _ in range(2))
        for each in np.unique(h):
            at = np.flatnonzero(h == each)
            padded = np.resize(at, 2 ** math.ceil(math.log2(len(at))))  # few lengths: kernels are compiled for each
            found = costs.predict(int(each), plan.cost_encoder.encode(steps.observations[padded]))
            found = plan.in_units(found[0]), plan.in_units(np.broadcast_to(found[1], found[0].shape))
            mean[..., at], width[..., at] = found[0][..., : len(at)], found[1][..., : len(at)]
        return mean, width


def _about_no_safe_action(late: list[EpisodeFit]) -> list[Finding]:
    steps, without = sum(each.steps for each in late), sum(each.without for each in late)
    if without <= WITHOUT * steps:
        return []
    example = next(each.example for each in late if each.example is not None)
    return [
        Finding(
            "agent",
            f"at {without / steps:.0%} of the steps in the second half no action was believed to keep g <= 0, for "
            f"example at {shown(example)}",
            "if earlier actions lead there, take lsvi-ahead",
            {"steps": steps, "without_safe_action": without},
        )
    ]


def _events(plan: ActingPlan) -> bool:
    return plan.ahead is not None and plan.ahead.events


def _of_actions(mean: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """(n, m): the estimates at the actions that were taken, from those of all actions (m, A, n)."""
    return mean[:, actions, np.arange(len(actions))].T


def _believed_safe(plan: ActingPlan, estimate: np.ndarray, g: np.ndarray) -> np.ndarray:
    """(n,): whether unsafe steps with constraints g (n, m) were believed safe by their estimates (n, m)."""
    if plan.ahead is not None and plan.ahead.events:
        predicted, observed = (np.maximum(each, 0) @ plan.ahead.weights for each in (estimate, g))
        return np.asarray(predicted < observed / 2)
    return np.asarray(((estimate <= 0) | (g <= 0)).all(1))
