"""What a seed of a training has learnt, from its folder: the policy, what was found, and the last transitions.

Of a finished seed all of it is saved, and of one that was stopped likewise, in its last checkpoint. No environment is
made: the policy of a seed that was killed is unknown until it is resumed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from everystep.environments.play.batch import Batch
from everystep.errors import UNLIKE, EverystepError
from everystep.reports.training import results as training_results
from everystep.reports.training.results import SeedResult
from everystep.training.diagnosis import record
from everystep.training.folder import training_folder, training_spec
from everystep.training.folder.checkpoint import SavedLearner
from everystep.training.folder.plain_values import from_plain
from everystep.training.folder.training_folder import LEARNER, SO_FAR
from everystep.training.learnt.quality import QualityFigures
from everystep.training.policy.policy import Policy
from everystep.training.seeds.run import AGAIN


@dataclass(frozen=True)
class Learnt:
    """What a seed has learnt.

    policy     None if there is none, for the reason `why`
    spec       of the training; {} of an unfinished one that was not stopped
    remarks    of the training, one sentence each
    fit        how the cost estimates did (`fit.py`), None if nothing is known
    quality    how well networks predicted (`learnt/quality.py`), None of other agents
    seen       the ends and medians of observations, None if unknown
    recent     some of the last transitions, if they are kept
    """

    policy: Policy | None = None
    why: str = ""
    spec: dict[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    fit: dict[str, Any] | None = None
    quality: QualityFigures | None = None
    seen: dict[str, list[float]] | None = None
    constraint: str | None = None
    recent: tuple[Batch, ...] = ()


def read(seed: SeedResult, findings_only: bool = False) -> Learnt:
    """What a seed has learnt; with `findings_only` without its policy and its transitions, if it is finished."""
    if seed.finished:
        return _saved(seed.folder, seed.spec, None if findings_only else seed.folder / LEARNER)
    for place in training_folder.saved_learners(seed.folder)[:1]:
        if (place / SO_FAR / "spec.json").is_file():
            return _saved(place / SO_FAR, training_results.read_spec(place / SO_FAR), place)
    return Learnt(why="The training is unfinished: its policy is known once it is finished, or stopped by Ctrl-C.")


def quality(seed: SeedResult) -> QualityFigures | None:
    """How well the networks of a seed predicted; None of other agents, and where it is unknown."""
    if seed.finished and record.KEY not in seed.spec:
        return None
    return read(seed, findings_only=True).quality


def _saved(folder: Path, spec: dict[str, Any], learner: Path | None) -> Learnt:
    """What `TrainingResult.fill` wrote; with the `learner` also its policy and transitions."""
    found = spec.get(record.KEY, {})
    where = training_spec.fault(spec) or training_spec.fault_of_found(found, record.KEY)
    seen = None if where else found.get("seen")
    if seen is not None and not (seen["low"] and len({len(ends) for ends in seen.values()}) == 1):
        where = f"{record.KEY}.seen"
    if where:
        raise EverystepError(
            f"'{folder}' has a spec.json that is not that of this version's trainings ({where} is missing or wrong); "
            f"{AGAIN}"
        )
    policy, why = None, "The folder holds no policy."
    if (folder / "policy").is_dir():
        try:
            policy, why = None if learner is None else Policy.load(folder / "policy"), ""
        except EverystepError as error:
            why = f"The policy cannot be loaded: {error}"
    return Learnt(
        policy,
        why,
        spec,
        tuple(found.get("remarks", ())),
        found.get("fit"),
        found.get("learnt"),
        seen,
        found.get("constraint"),
        () if learner is None else _recent(learner),
    )


def _recent(place: Path) -> tuple[Batch, ...]:
    """The last transitions of a saved learner; none if there is no learner, or one of another version."""
    try:
        saved = SavedLearner(place)
        return tuple(from_plain(saved.content["learner"]["recent"], saved.arrays))
    except (OSError, *UNLIKE):
        return ()
