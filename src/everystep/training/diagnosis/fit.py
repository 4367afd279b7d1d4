"""Does the cost model fit the constraint? Every step is predicted before it is learnt, by the current plan.

    error          ghat - g at the (x, a) of the step, where ghat is the mean of the cost model, without optimism; with
                   harm = events, ghat - max(g, 0)
    unsafe         some g_i > 0: the true mean where the environment reports it, else as observed
    believed safe  ghat_i <= 0 for every constraint i that was violated;
                   with harm = events: the estimate was below half of what was observed
    no safe action every action has some ghat_i > 0, with the optimism by which the agent chooses

Only the second half of the episodes counts, because at first there are no data. An unsafe step may also be believed
safe because no similar step was tried; the features do not fit if it is still believed safe after it was learnt.

Cost features are compared on the last transitions: each fits two thirds of them by least squares, with the ridge of the
agent, and predicts the rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from everystep.environments.play.batch import Batch
from everystep.environments.play.constraints import REWRITE
from everystep.errors import shown
from everystep.features import automatic
from everystep.features.maps import Features
from everystep.features.specs import bind, fourier, polynomial
from everystep.training.agent.encoders import FeatureEncoder, RawEncoder
from everystep.training.diagnosis.finding import Finding

if TYPE_CHECKING:
    from everystep.training.agent.contract import TrainingPlan
    from everystep.training.learner import Learner

FEWEST = 5  # unsafe steps in the second half, below which nothing is reported about them
MOST_STEPS = 1000  # that are predicted again after training
EXAMPLES, LONGEST_EXAMPLE = 3, 64  # observations without an action believed safe that are kept, and their length
WITHOUT = 0.01  # share of steps without an action believed safe, above which it is reported
FEWEST_COMPARED = 100  # transitions below which features are not compared
SMALL = 0.05  # error of the cost model, in units of the largest |g|, below which no other features are tried
HALF = 0.5


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


class FitFigures(TypedDict):
    """The second half of the episodes in numbers, ready for JSON."""

    episodes: int
    steps: int
    error: float | None
    unsafe: int
    believed_safe: int
    without_safe_action: int
    examples: list[list[float]]


class CostFit:
    """The errors of the cost estimates, episode by episode."""

    def __init__(self, estimators: int) -> None:
        self._estimators = estimators  # one for all steps, or one for each
        self._episodes: list[EpisodeFit] = []

    def add(self, plan: TrainingPlan, episode: Batch, true_costs: np.ndarray) -> None:
        """Compare an episode, before it is learnt, with the plan that was used; true means as (n, m)."""
        if not plan.has_costs:
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

    def findings(self, plan: TrainingPlan) -> list[Finding]:
        """Unsafe steps that were believed safe, and steps without a safe action; `plan` is the one after training."""
        late = self._late
        if not late or not plan.has_costs:
            return []
        possible = (self._about_surprises(late, plan), _about_no_safe_action(late))
        return [each for each in possible if each is not None]

    @property
    def _late(self) -> list[EpisodeFit]:
        return self._episodes[(len(self._episodes) + 1) // 2 :]

    @property
    def error(self) -> float | None:
        """The RMS error of ghat in the second half of the episodes, every step predicted before it was learnt."""
        late = self._late
        steps = sum(each.steps for each in late)
        return math.sqrt(sum(each.squared_error * each.steps for each in late) / steps) if steps else None

    @property
    def figures(self) -> FitFigures | None:
        """None if nothing was predicted."""
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
        return f"RMS one-step cost error in the second half of the episodes: {self.error:.2g}"

    def _about_surprises(self, late: list[EpisodeFit], plan: TrainingPlan) -> Finding | None:
        unsafe, surprises = sum(each.unsafe for each in late), sum(len(each.surprises) for each in late)
        if unsafe < FEWEST or surprises <= unsafe / 2 or not self._still_believed(late, plan):
            return None
        assert self.error is not None
        remedy = f"the features do not fit the constraint; {REWRITE}; else pass cost_features with more detail"
        if isinstance(plan.cost_encoder, RawEncoder):
            remedy = "the networks have not learnt the constraint yet; train for longer"
        return Finding(
            "fit",
            f"of {unsafe} unsafe steps in the second half {surprises} were believed safe (RMS one-step cost error: "
            f"{self.error:.2g})",
            f"unless costs are random, {remedy}",
            {"unsafe": unsafe, "believed_safe": surprises, "error": self.error},
        )

    def _still_believed(self, late: list[EpisodeFit], plan: TrainingPlan) -> bool:
        """Whether most of the unsafe steps that were believed safe still are, now that they were learnt."""
        left, count, still = MOST_STEPS, 0, 0
        for each in reversed(late):
            if left > 0 and len(some := each.surprises.rows(slice(left))):
                chosen = _of_actions(self._predict(plan, some)[0], some.actions)
                count, still = count + len(some), still + int(_believed_safe(plan, chosen, some.costs).sum())
                left -= len(some)
        return still > count / 2

    def _predict(self, plan: TrainingPlan, steps: Batch) -> tuple[np.ndarray, np.ndarray]:
        """The mean and the half width of every cost (m, A, n) at the observations of `steps`; ahead, the mean alone."""
        h, n = np.minimum(steps.steps, self._estimators - 1), len(steps)
        mean, width = (np.empty((steps.constraints, plan.actions, n)) for _ in range(2))
        for each in np.unique(h):
            at = np.flatnonzero(h == each)
            padded = np.resize(at, 2 ** math.ceil(math.log2(len(at))))  # few lengths: kernels are compiled for each
            widths = plan.ahead is None  # they take most of the time, and are not used ahead: see `add`
            found = plan.cost_intervals(int(each), steps.observations[padded], widths)
            mean[..., at], width[..., at] = found[0][..., : len(at)], found[1][..., : len(at)]
        return mean, width


def _about_no_safe_action(late: list[EpisodeFit]) -> Finding | None:
    steps, without = sum(each.steps for each in late), sum(each.without for each in late)
    if without <= WITHOUT * steps:
        return None
    example = next(each.example for each in late if each.example is not None)
    return Finding(
        "agent",
        f"at {without / steps:.0%} of the steps in the second half no action was believed to keep g <= 0, for "
        f"example at {shown(example)}",
        "if earlier actions lead there, use lsvi-ahead",
        {"steps": steps, "without_safe_action": without},
    )


def _events(plan: TrainingPlan) -> bool:
    return plan.ahead is not None and bool(plan.ahead.events)


def _of_actions(mean: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """(n, m): the estimates at the actions that were taken, from those of all actions (m, A, n)."""
    return mean[:, actions, np.arange(len(actions))].T


def _believed_safe(plan: TrainingPlan, estimate: np.ndarray, g: np.ndarray) -> np.ndarray:
    """(n,): whether unsafe steps with constraints g (n, m) were believed safe by their estimates (n, m)."""
    if plan.ahead is not None and plan.ahead.events:
        predicted, observed = (np.maximum(each, 0) @ plan.ahead.weights for each in (estimate, g))
        return np.asarray(predicted < observed / 2)
    return np.asarray(((estimate <= 0) | (g <= 0)).all(1))


# --- other cost features ----------------------------------------------------------------------------------------------
def about_cost_features(learner: Learner) -> Iterator[Finding]:
    """Other cost features that would halve the error on transitions that they were not fitted to."""
    resolved, batches = learner.resolved, learner.recent
    rows = sum(map(len, batches))
    if not resolved.has_costs or not isinstance(resolved.cost, FeatureEncoder) or rows < FEWEST_COMPARED:
        return
    x, actions, costs = (
        np.concatenate([getattr(each, name) for each in batches]) for name in ("observations", "actions", "costs")
    )
    if x.ndim != 2:
        return  # a list of states, each with a feature of its own
    events = resolved.values.get("harm") == "events" and "harm" in learner.recipe.definition.settings
    targets = np.maximum(costs, 0) if events else costs
    targets = targets / max(np.abs(targets).max(), 1e-12)
    held_out = np.arange(rows) % 3 == 2
    now = _error(resolved.cost.phi, x, actions, targets, held_out, resolved["lam_cost"])
    if now < SMALL:
        return
    errors = {
        text: _error(phi, x, actions, targets, held_out, resolved["lam_cost"]) for text, phi in _candidates(learner, x)
    }
    best = min(errors, key=errors.__getitem__)
    if errors[best] <= HALF * now:
        yield Finding(
            "fit",
            f"the error of the cost model on {int(held_out.sum())} transitions that it was not fitted to is {now:.2g} "
            f"of the largest |g|, and would be {errors[best]:.2g} with other features",
            f"set cost_features=es.features.{best}; or change the constraint: {REWRITE}",
        )


def _candidates(learner: Learner, x: np.ndarray) -> Iterator[tuple[str, Features]]:
    """A few features, with the call that makes them."""
    space, A = learner.stage.observation_space, learner.stage.action_points
    low, high = ([float(f"{each:.4g}") for each in bound] for bound in automatic.look(space, x))
    ends = f"low={low}, high={high}"
    for degree in (1, 2):
        yield f"polynomial({degree}, {ends})", bind(polynomial(degree, low, high), space, A)
    for scale in (1.0, 0.5):
        yield f"fourier(75, {scale}, {ends})", bind(fourier(75, scale, 0, low, high), space, A)


def _error(
    phi: Features, x: np.ndarray, actions: np.ndarray, targets: np.ndarray, held_out: np.ndarray, lam: float
) -> float:
    """The RMS error of least squares with ridge lam, on rows that are held out."""
    rows = phi.rows(x, actions)
    X, y = rows[~held_out], targets[~held_out]
    w = np.linalg.solve(X.T @ X + lam * np.eye(X.shape[1]), X.T @ y)
    return float(np.sqrt(((rows[held_out] @ w - targets[held_out]) ** 2).mean()))
