"""All checks of a training, each with the setting to change: `print(learner.diagnose())` (docs/gymnasium.md#diagnosis).

    violations, endings, rewards, seeds   `played.py`
    fit, agent                            `fit.py`
    model, imagined, certificates         `learnt.py`, of networks
    horizon                               `look_ahead.py`
    length, constraints                   here
    optimism      is the width of an untried direction large enough? beta / sqrt(lam) ||phi|| should reach the cap, so
                  that an untried action has the highest value, and beta_cost / sqrt(lam_cost) ||phi|| the largest |g|,
                  so that it may be safe

The notes of a result are all of these except `optimism` and `constraints`, and `certificates` where most labels held.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from everystep.environments.play.batch import Batch
from everystep.features.automatic import MOST_COORDINATES
from everystep.training.agent.contract import TrainingPlan
from everystep.training.agent.encoders import FeatureEncoder
from everystep.training.diagnosis import learnt, played
from everystep.training.diagnosis.finding import Diagnosis, Finding
from everystep.training.diagnosis.fit import about_cost_features
from everystep.training.diagnosis.look_ahead import horizon_finding

if TYPE_CHECKING:
    from everystep.training.learner import Learner

RECENT = 1000  # transitions that are kept for the checks
ENOUGH = 0.2  # share of the cap, and of the largest |g|, below which an untried width is too small


def recent(before: list[Batch], batch: Batch) -> list[Batch]:
    """The last batches, with at least `RECENT` transitions if there are as many; none of images."""
    if math.prod(batch.observations.shape[1:]) > MOST_COORDINATES:
        return []
    kept = [*before, batch]
    while sum(map(len, kept[1:])) >= RECENT:
        kept = kept[1:]
    return kept


def diagnose(learner: Learner) -> Diagnosis:
    """The findings of all checks."""
    found = observed(learner, learner.policy().plan)
    settings = (*_about_optimism(learner), *_about_constraints(learner))
    return Diagnosis((*found, *settings, *about_cost_features(learner), *learnt.certificates(learner)))


def observed(learner: Learner, plan: TrainingPlan) -> list[Finding]:
    """The findings about the episodes so far, the most severe first; `plan` is that of the policy."""
    agent = learner.agent
    assert agent is not None
    declared = learner.resolved.environment.reward_range is not None
    possible = [
        played.early_ends(learner.recent),
        *learner.fit.findings(plan),
        *learnt.findings(learner),
        horizon_finding(agent, plan, learner.length),
        None if declared else played.reward_outlier(agent.rewards),
    ]
    causes = [each for each in possible if each is not None]
    notes = [played.global_draws(learner.stage.global_draws), _about_length(learner)]
    declines = played.violation_trend(learner.columns, _remedy(learner, causes))
    return [each for each in (declines, *causes, *notes) if each is not None]


def _remedy(learner: Learner, causes: list[Finding]) -> str:
    """What to do if violations do not decline."""
    if not learner.resolved.has_costs:
        return f"{learner.recipe.name} never learns costs; train lsvi-ae or lsvi-ahead"
    if causes:
        return f"first change what other findings name ({', '.join(dict.fromkeys(each.about for each in causes))})"
    return "es.check_constraint tests whether it can be satisfied, and by which agent; if by this one, train for longer"


def _about_length(learner: Learner) -> Finding | None:
    """Episodes cut by a limit that neither the environment nor the user set."""
    if not learner.cuts_unasked or learner.length not in learner.columns["length"]:
        return None
    return Finding(
        "length",
        f"episodes were cut after {learner.length} steps, because the environment has no limit of its own",
        "set length",
        {"length": learner.length},
    )


def _about_optimism(learner: Learner) -> Iterator[Finding]:
    """Whether the width of an untried direction is large enough, by the settings and the norm of features."""
    resolved = learner.resolved
    if isinstance(resolved.value, FeatureEncoder) and resolved.values.get("radius") == "tuned":
        norm = _mean_norm(learner, resolved.value)
        width, cap = resolved["beta"] / math.sqrt(resolved["lam"]) * norm, resolved["cap"]
        if width < ENOUGH * cap:
            yield Finding(
                "optimism",
                f"the bonus of an untried action is {width:.2g}, and values reach {cap:.3g}, so it may never be tried",
                f"set beta to {math.sqrt(resolved['lam']) * cap / max(norm, 0.1):.2g}",
            )
    costs_tuned = resolved.has_costs and resolved.values.get("radius_cost") == "tuned"
    if costs_tuned and isinstance(resolved.cost, FeatureEncoder):
        norm, optimism = _mean_norm(learner, resolved.cost), resolved["optimism"]
        width = optimism * resolved["beta_cost"] / math.sqrt(resolved["lam_cost"]) * norm
        ahead = "harm" in learner.recipe.definition.settings  # harm is at least 0, and the mean of an untried step is 0
        if optimism > 0 and width < ENOUGH and not ahead:  # costs are learnt in units of the largest
            yield Finding(
                "optimism",
                f"the cost of an untried action is lowered by {width:.2g}, where costs are up to 1 in size, so it may "
                "look unsafe before it is tried",
                f"set beta_cost to {math.sqrt(resolved['lam_cost']) / max(norm, 0.1) / optimism:.2g}",
            )


def _mean_norm(learner: Learner, encoder: FeatureEncoder) -> float:
    """The mean norm of phi(x, a) over the last transitions."""
    batches = learner.recent
    if not batches:
        return 1.0
    x, actions = (np.concatenate([getattr(each, name) for each in batches]) for name in ("observations", "actions"))
    if encoder.phi.joint:
        return float(np.linalg.norm(encoder.phi.rows(x, actions), axis=1).mean())
    return float(np.linalg.norm(encoder.encode(x[:RECENT]), axis=0).mean())


def _about_constraints(learner: Learner) -> Iterator[Finding]:
    columns, agent = learner.columns, learner.agent
    assert agent is not None
    for i in range(agent.constraints) if len(columns["return"]) else ():
        column = columns["violation"] if agent.constraints == 1 else columns.get(f"violation_{i + 1}")
        if column is not None and not column.any():
            yield Finding(
                "constraints",
                f"constraint {i + 1} was never violated in {len(column)} episodes",
                "leave it out, or check its sign and its scale with es.check_constraint",
            )
