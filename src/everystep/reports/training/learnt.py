"""What a seed of a training has learnt, from its folder: the policy, what was found, and the last transitions.

Of a finished seed all of it is saved, and of one that was stopped likewise, in its last checkpoint. No environment is
made: of a seed that was killed the policy is not known until it goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from everystep import files
from everystep.environments.play.batch import Batch
from everystep.errors import UNLIKE, EverystepError
from everystep.experiments.folder import run_folder
from everystep.reports.training import results as training_results
from everystep.reports.training.results import SeedResult
from everystep.training.diagnosis import record
from everystep.training.folder import training_spec
from everystep.training.folder.checkpoint import SavedLearner
from everystep.training.folder.plain_values import from_plain
from everystep.training.folder.training_folder import LEARNER, SO_FAR
from everystep.training.policy.policy import Policy
from everystep.training.seeds.run import AGAIN

FIT = ("episodes", "steps", "error", "unsafe", "believed_safe", "without_safe_action")


@dataclass(frozen=True)
class Learnt:
    """What a seed has learnt.

    policy     None if there is none, for the reason `why`
    spec       of the training; {} of an unfinished one that was not stopped
    remarks    of the training, one sentence each
    fit        how the cost estimates did (`fit.py`), None if nothing is known
    seen       the ends and medians of observations, None if unknown
    recent     some of the last transitions, if they are kept
    """

    policy: Policy | None = None
    why: str = ""
    spec: dict[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    fit: dict[str, Any] | None = None
    seen: dict[str, list[float]] | None = None
    constraint: str | None = None
    recent: tuple[Batch, ...] = ()


def read(seed: SeedResult) -> Learnt:
    """What a seed has learnt."""
    if seed.finished:
        return _saved(seed.folder, seed.spec, seed.folder / LEARNER)
    for place in training_results.saved_learners(seed.folder)[:1]:
        if (place / SO_FAR / "spec.json").is_file():
            files.check_unaltered(place / SO_FAR / "spec.json", AGAIN)
            spec = run_folder.read_json(place / SO_FAR / "spec.json")
            training_results.check_policy(place / SO_FAR, spec)
            return _saved(place / SO_FAR, spec, place)
    return Learnt(why="The training is unfinished: its policy is known once it is finished, or stopped by Ctrl-C.")


def read_findings(seed: SeedResult) -> Learnt:
    """What a finished seed has found, without its policy and its transitions."""
    return _saved(seed.folder, seed.spec, None)


def _saved(folder: Path, spec: dict[str, Any], learner: Path | None) -> Learnt:
    """What `TrainingResult.fill` wrote; with the `learner` also its policy and transitions."""
    if where := training_spec.fault(spec):
        raise EverystepError(
            f"'{folder}' has a spec.json that is not that of this version's trainings ({where} is missing or wrong); "
            f"{AGAIN}"
        )
    found = _checked(folder, spec.get(record.KEY, {}))
    policy, why = None, "The policy was not saved: it was fitted by regressors."
    if (folder / "policy").is_dir():
        try:
            policy, why = None if learner is None else Policy.load(folder / "policy"), ""
        except EverystepError as error:
            why = f"The policy cannot be loaded: {error}"
    return Learnt(policy, why, spec, recent=() if learner is None else _recent(learner), **found)


def _recent(place: Path) -> tuple[Batch, ...]:
    """The last transitions of a saved learner; none if there is no learner, or one of another version."""
    try:
        saved = SavedLearner(place)
        return tuple(from_plain(saved.content["learner"]["recent"], saved.arrays))
    except (OSError, *UNLIKE):
        return ()


def _checked(folder: Path, found: Any) -> dict[str, Any]:
    """What was found, as `record.of` writes it; earlier versions wrote nothing."""
    try:
        return {
            "remarks": tuple(_texts(found.get("remarks", ()))),
            "fit": _fit(found.get("fit")),
            "seen": _seen(found.get("seen")),
            "constraint": next(iter(_texts([found["constraint"]])), None) if found.get("constraint") else None,
        }
    except UNLIKE:
        raise EverystepError(f"'{folder}' has a spec.json whose '{record.KEY}' cannot be read; restore it.") from None


def _texts(given: Any) -> list[str]:
    if not isinstance(given, list | tuple) or not all(isinstance(each, str) for each in given):
        raise TypeError
    return list(given)


def _fit(given: Any) -> dict[str, Any] | None:
    if given is None:
        return None
    numbers = {name: float(given[name]) for name in FIT}
    if not np.isfinite(list(numbers.values())).all():
        raise ValueError
    return numbers | {"examples": [[float(each) for each in example] for example in given["examples"]]}


def _seen(given: Any) -> dict[str, list[float]] | None:
    if given is None:
        return None
    ends = {name: [float(each) for each in given[name]] for name in ("low", "median", "high")}
    low, median, high = map(np.array, ends.values())
    if not (low.shape == median.shape == high.shape and np.isfinite([low, median, high]).all() and len(low)):
        raise ValueError
    return ends
