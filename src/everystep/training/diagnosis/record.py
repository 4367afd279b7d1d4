"""The record of a training in the spec.json of its folder, for its report and the card of its policy.

remarks      the notes of the result, one sentence each
fit          the errors of the cost estimates in the second half of the episodes (`fit.py`)
learnt       how well networks predicted each step before it was learnt (`learnt/quality.py`)
seen         the minimum, the median and the maximum of each coordinate of the observations at which it acted
constraint   the name of the constraint function, or that it is read from info
environment  the settings of the environment
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

import numpy as np

from everystep.features.automatic import MOST_COORDINATES
from everystep.training.diagnosis import learnt
from everystep.training.diagnosis.fit import FitFigures
from everystep.training.folder.checkpoint import environment_settings

if TYPE_CHECKING:
    from everystep.environments.play.constraints import Constraint
    from everystep.training.learner import Learner
    from everystep.training.learnt.quality import QualityFigures
    from everystep.training.policy.observed import Observed

KEY = "found"  # in spec.json: it grows with training, so two folders of one training may differ in it
FROM_INFO = "read from info"


class TrainingRecord(TypedDict):
    """See the module."""

    remarks: list[str]
    fit: FitFigures | None
    learnt: QualityFigures | None
    seen: dict[str, list[float]] | None
    constraint: str
    environment: object


def of(learner: Learner, remarks: tuple[str, ...]) -> TrainingRecord:
    """The record of a learner, ready for JSON."""
    return {
        "remarks": list(remarks),
        "fit": learner.fit.figures,
        "learnt": learnt.figures(learner),
        "seen": seen(learner.observed, _observations(learner)),
        "constraint": constraint_in_words(learner.stage.constraint),
        "environment": environment_settings(learner.stage.env),
    }


def _observations(learner: Learner) -> np.ndarray:
    """The observations at which plans compute values, and those of the last transitions."""
    assert learner.agent is not None
    o = learner.resolved.environment.coordinates
    recent = [part for each in learner.recent for part in (each.observations, each.next_observations)]
    parts = [each for each in (learner.agent.observations, *recent) if each.shape[1:] == (o,)]
    return np.concatenate([np.empty((0, o)), *(parts if o <= MOST_COORDINATES else ())])


def seen(observed: Observed, observations: np.ndarray) -> dict[str, list[float]] | None:
    """The range of the coordinates where actions were taken, and medians of some observations; None for images."""
    if observations.ndim != 2 or not len(observations) or observations.shape[1] > MOST_COORDINATES:
        return None
    low, high = observed.low, observed.high
    ends = {"low": low, "median": np.median(observations, 0).clip(low, high), "high": high}
    return {name: [float(each) for each in values] for name, values in ends.items()}


def constraint_in_words(constraint: Constraint | None) -> str:
    """module:function, as a command names it, where a function has such a name."""
    if constraint is None:
        return FROM_INFO
    inner = constraint if hasattr(constraint, "__qualname__") else type(constraint)
    return f"{inner.__module__}:{inner.__qualname__}"
