"""What stands in the way of a training? Findings, each with the setting to change: `print(learner.diagnose())`.

    violations    do they decline (`violation_trend.py`)?
    endings       does it pay to violate the constraint, because that ends an episode (`early_ends.py`)?
    fit           were unsafe steps believed safe (`fit.py`)? Which features would halve the error of the cost model?
    agent         were there states in which no action was believed safe, so that an agent should look ahead (`fit.py`)?
    horizon       is a violation unavoidable further ahead than the first half of the horizon shows (`look_ahead.py`)?
    rewards       does one low reward squeeze the others (`reward_outliers.py`)?
    seeds         does the environment draw from a generator that its seed does not set (`global_draws.py`)?
    length        were episodes cut by a limit that neither the environment nor the user gave?
    optimism      is the width of an untried direction large enough? beta / sqrt(lam) ||phi|| should reach the cap, so
                  that an untried action has the highest value, and beta_cost / sqrt(lam_cost) ||phi|| the largest |g|,
                  so that it may be safe
    constraints   which of them was never violated?

All but the last two are also notes of a result.

Features are compared on the last transitions: each fits a part of them by least squares, with the ridge in use, and
predicts the rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from everystep.environments.play.batch import Batch
from everystep.environments.play.constraints import REWRITE
from everystep.errors import EverystepError
from everystep.features import automatic
from everystep.features.maps import Features
from everystep.features.specs import bind, fourier, polynomial
from everystep.training.agent.acting import ActingPlan
from everystep.training.agent.encoders import FeatureEncoder
from everystep.training.diagnosis import early_ends, violation_trend
from everystep.training.diagnosis.finding import Diagnosis, Finding
from everystep.training.diagnosis.look_ahead import horizon_finding
from everystep.training.diagnosis.repeatability import global_draws_finding
from everystep.training.diagnosis.reward_outliers import outlier_finding

if TYPE_CHECKING:
    from everystep.training.learner import Learner

RECENT = 1000  # transitions that are kept for it
FEWEST = 100  # transitions below which features are not compared
ENOUGH = 0.2  # share of the cap, and of the largest |g|, below which an untried width is too small
SMALL = 0.05  # error of the cost model, in units of the largest |g|, below which no other features are tried
HALF = 0.5


def recent(before: list[Batch], batch: Batch) -> list[Batch]:
    """The last batches, of at least `RECENT` transitions if there are as many; none of images."""
    if math.prod(batch.observations.shape[1:]) > automatic.MOST_COORDINATES:
        return []
    kept = [*before, batch]
    while sum(map(len, kept[1:])) >= RECENT:
        kept = kept[1:]
    return kept


def diagnose(learner: Learner) -> Diagnosis:
    """Everything that can be said about a training so far."""
    if learner.agent is None:
        raise EverystepError("there is no data yet; train for an episode, or learn from logged data.")
    return Diagnosis(tuple(_findings(learner)))


def _findings(learner: Learner) -> Iterator[Finding]:
    plan = learner.policy().plan
    yield from observed(learner, plan)
    yield from _about_optimism(learner)
    yield from _about_constraints(learner)
    yield from about_cost_features(learner)


def observed(learner: Learner, plan: ActingPlan) -> list[Finding]:
    """What went wrong in the episodes so far, the worst first; `plan` is that of the policy. Results note it, too."""
    agent = learner.agent
    assert agent is not None
    declared = learner.resolved.environment.reward_range is not None
    fit = learner.fit.findings(plan)
    possible = [
        early_ends.finding(learner.recent),
        *fit,
        horizon_finding(agent, plan, learner.length),
        None if declared else outlier_finding(agent.rewards),
    ]
    causes = [each for each in possible if each is not None]
    notes = [global_draws_finding(learner.stage.global_draws), _about_length(learner)]
    declines = violation_trend.finding(learner.columns, _remedy(learner, causes))
    return [each for each in (declines, *causes, *notes) if each is not None]


def _remedy(learner: Learner, causes: list[Finding]) -> str:
    """What to do if violations do not decline."""
    if not learner.resolved.has_costs:
        return f"{learner.recipe.name} never learns costs; train lsvi-ae or lsvi-ahead"
    if causes:
        return f"first change what other findings name ({', '.join(dict.fromkeys(each.about for each in causes))})"
    return "es.check_constraint tells whether it can be kept, and by which agent; if this is the one, train for longer"


def _about_length(learner: Learner) -> Finding | None:
    """That episodes were cut by a limit that neither the environment nor the user gave."""
    if not learner.cuts_unasked or learner.length not in learner.columns["length"]:
        return None
    return Finding(
        "length",
        f"episodes were cut after {learner.length} steps, because the environment has no limit of its own",
        "set length",
        {"length": learner.length},
    )


def _about_optimism(learner: Learner) -> Iterator[Finding]:
    """Widths of a direction that was never tried, by the settings and the length of features."""
    resolved = learner.resolved
    tuned = lambda key: resolved.values.get(key) == "tuned"
    if isinstance(resolved.value, FeatureEncoder) and tuned("radius"):
        length = _length(learner, resolved.value)
        width, cap = resolved["beta"] / math.sqrt(resolved["lam"]) * length, resolved["cap"]
        if width < ENOUGH * cap:
            yield Finding(
                "optimism",
                f"an untried action is raised by {width:.2g}, and values reach {cap:.3g}, so it may never be tried",
                f"set beta to {math.sqrt(resolved['lam']) * cap / max(length, 0.1):.2g}",
            )
    if resolved.has_costs and isinstance(resolved.cost, FeatureEncoder) and tuned("radius_cost"):
        length, optimism = _length(learner, resolved.cost), resolved["optimism"]
        width = optimism * resolved["beta_cost"] / math.sqrt(resolved["lam_cost"]) * length
        ahead = "harm" in learner.recipe.definition.settings  # harm is at least 0, and the mean of an untried step is 0
        if optimism > 0 and width < ENOUGH and not ahead:  # costs are learnt in units of the largest
            yield Finding(
                "optimism",
                f"the cost of an untried action is lowered by {width:.2g}, where costs are up to 1 in size, so it may "
                "look unsafe before it is tried",
                f"set beta_cost to {math.sqrt(resolved['lam_cost']) / max(length, 0.1) / optimism:.2g}",
            )


def _length(learner: Learner, encoder: FeatureEncoder) -> float:
    """The mean norm of phi(x, a) where the agent was."""
    batches = learner.recent
    if not batches:
        return 1.0
    x, actions = (np.concatenate([getattr(each, name) for each in batches]) for name in ("observations", "actions"))
    if encoder.phi.joint:
        return float(np.linalg.norm(encoder.phi.rows(x, actions), axis=1).mean())
    vectors = encoder.encode(x[:RECENT])
    return float(np.linalg.norm(vectors[0] if isinstance(vectors, tuple) else vectors, axis=0).mean())


def _about_constraints(learner: Learner) -> Iterator[Finding]:
    columns, agent = learner.columns, learner.agent
    assert agent is not None
    if not len(columns["return"]):
        return
    names = [f"violation_{i + 1}" for i in range(agent.constraints)]
    for i, name in enumerate(names):
        column = columns.get(name, columns["violation"] if agent.constraints == 1 else None)
        if column is not None and not column.any():
            yield Finding(
                "constraints",
                f"constraint {i + 1} was never violated in {len(column)} episodes",
                "leave it out, or check its sign and its scale with es.check_constraint",
            )


def about_cost_features(learner: Learner) -> Iterator[Finding]:
    """Other cost features that would halve the error on transitions that they were not fitted to."""
    resolved, batches = learner.resolved, learner.recent
    rows = sum(map(len, batches))
    if not resolved.has_costs or not isinstance(resolved.cost, FeatureEncoder) or rows < FEWEST:
        return
    column = lambda name: np.concatenate([getattr(each, name) for each in batches])
    x, actions, costs = column("observations"), column("actions"), column("costs")
    if x.ndim != 2:
        return  # a list of states, each with a feature of its own
    events = resolved.values.get("harm") == "events" and "harm" in learner.recipe.definition.settings
    targets = np.maximum(costs, 0) if events else costs
    targets = targets / max(np.abs(targets).max(), 1e-12)
    held_out = np.arange(rows) % 3 == 2
    error = lambda phi: _error(phi, x, actions, targets, held_out, resolved["lam_cost"])
    now = error(resolved.cost.phi)
    if now < SMALL:
        return
    found = {text: error(phi) for text, phi in _candidates(learner, x)}
    best = min(found, key=lambda text: found[text])
    if found[best] <= HALF * now:
        yield Finding(
            "fit",
            f"the error of the cost model on {int(held_out.sum())} transitions that it was not fitted to is {now:.2g} "
            f"of the largest |g|, and would be {found[best]:.2g} with other features",
            f"set cost_features=es.features.{best}; or change the constraint: {REWRITE}",
        )


def _candidates(learner: Learner, x: np.ndarray) -> Iterator[tuple[str, Features]]:
    """A few features, with how to ask for them."""
    space, A = learner.stage.observation_space, learner.stage.action_points
    low, high = ([float(f"{each:.4g}") for each in bound] for bound in automatic.look(space, x))
    ends = f"low={low}, high={high}"
    made: dict[str, Any] = {
        f"polynomial(1, {ends})": polynomial(1, low, high),
        f"polynomial(2, {ends})": polynomial(2, low, high),
        f"fourier(75, 1.0, {ends})": fourier(75, 1.0, 0, low, high),
        f"fourier(75, 0.5, {ends})": fourier(75, 0.5, 0, low, high),
    }
    for text, spec in made.items():
        yield text, bind(spec, space, A)


def _error(
    phi: Features, x: np.ndarray, actions: np.ndarray, targets: np.ndarray, held_out: np.ndarray, lam: float
) -> float:
    """The rms error of least squares with ridge lam, on rows that are held out."""
    rows = phi.rows(x, actions)
    X, y = rows[~held_out], targets[~held_out]
    w = np.linalg.solve(X.T @ X + lam * np.eye(X.shape[1]), X.T @ y)
    return float(np.sqrt(((rows[held_out] @ w - targets[held_out]) ** 2).mean()))
