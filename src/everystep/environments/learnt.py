"""What a seed of a training has learnt, from its folder: the policy, what was found, and the last transitions.

Of a finished seed all of it is saved. An unfinished one is restored from its last checkpoint, if its environment can
be made again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from everystep import files
from everystep.environments import findings, training_results, training_spec
from everystep.environments.batch import Batch
from everystep.environments.checkpoint import DamagedError, SavedLearner
from everystep.environments.plain_values import from_plain
from everystep.environments.policy import Policy
from everystep.environments.training_request import TrainingRequest, close
from everystep.environments.training_results import AGAIN, SeedResult
from everystep.errors import EverystepError
from everystep.experiments import run_folder

FIT = ("episodes", "steps", "error", "unsafe", "believed_safe", "without_safe_action")


@dataclass(frozen=True)
class Learnt:
    """What a seed has learnt.

    policy     None if there is none, for the reason `why`
    spec       of the training; {} of an unfinished one that cannot be restored
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


def read(seed: SeedResult, request: TrainingRequest | None, restore: bool = True) -> Learnt:
    """What a seed has learnt. With `restore` an unfinished one is restored in a new environment."""
    if seed.finished:
        return _finished(seed.folder, whole=True)
    if not restore:
        return Learnt(why="The training is unfinished, and its learner was not restored (--no-player).")
    if request is None:
        return Learnt(why="The training is unfinished, and the folder does not say how its environment is made.")
    try:
        return _restored(seed, request)
    except EverystepError as error:
        return Learnt(why=f"The training is unfinished, and its learner cannot be restored: {error}")


def read_findings(seed: SeedResult) -> Learnt:
    """What a finished seed has found, without its policy and its transitions."""
    return _finished(seed.folder, whole=False)


def _finished(folder: Path, whole: bool) -> Learnt:
    spec = run_folder.read_json(folder / "spec.json")
    if where := training_spec.fault(spec):
        raise EverystepError(
            f"'{folder}' has a spec.json that is not that of this version's trainings ({where} is missing or wrong); "
            f"{AGAIN}"
        )
    found = _checked(folder, spec.get(findings.KEY, {}))
    place = folder / "policy"
    policy, why = None, "The policy was not saved: it was fitted by regressors."
    if place.is_dir():
        known = files.recorded(place)
        for name in ("policy.json", "policy.npz"):
            if name in known and (fault := files.altered(place, name)):
                raise EverystepError(f"'{place / name}' {fault}; restore it, or {AGAIN}")
        try:
            policy, why = Policy.load(place) if whole else None, ""
        except EverystepError as error:
            why = f"The policy cannot be loaded: {error}"
    return Learnt(policy, why, spec, recent=_recent(folder) if whole else (), **found)


def _restored(seed: SeedResult, request: TrainingRequest) -> Learnt:
    for place in training_results.saved_learners(seed.folder):
        try:
            saved = SavedLearner(place)
        except DamagedError:
            continue
        learner = request.without_functions().learner(seed.seed)
        try:
            saved.restore(learner)
            result = learner.result()
        finally:
            close(learner.stage.env)
        return Learnt(result.policy, "", result.spec, recent=tuple(learner.recent), **_checked(place, result.found))
    raise EverystepError("no checkpoint is whole.")


def _recent(folder: Path) -> tuple[Batch, ...]:
    """The last transitions of a saved learner; none if there is no learner, or one of another version."""
    try:
        saved = SavedLearner(folder / "learner")
        return tuple(from_plain(saved.content["learner"]["recent"], saved.arrays))
    except (EverystepError, OSError, KeyError, TypeError, ValueError):
        return ()


def _checked(folder: Path, found: Any) -> dict[str, Any]:
    """What was found, as `findings.of` writes it; earlier versions wrote nothing."""
    try:
        return {
            "remarks": tuple(_texts(found.get("remarks", ()))),
            "fit": _fit(found.get("fit")),
            "seen": _seen(found.get("seen")),
            "constraint": next(iter(_texts([found["constraint"]])), None) if found.get("constraint") else None,
        }
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        raise EverystepError(f"'{folder}' has a spec.json whose '{findings.KEY}' cannot be read; restore it.") from None


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
