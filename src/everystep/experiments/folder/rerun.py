"""A run folder as the experiment it came from: the same agents, settings and seeds, ready to run again.

A run is determined by its spec and its seeds: quantities that a folder lacks are computed by running it again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from everystep import __version__
from everystep.agents.model_syntax import AUTO
from everystep.agents.registry import Recipe
from everystep.agents.resolve.context import fingerprint
from everystep.agents.settings import SETTINGS
from everystep.errors import EverystepError
from everystep.experiments.experiment import Experiment, prepare
from everystep.experiments.folder import finished
from everystep.experiments.folder.finished import FinishedFolder
from everystep.experiments.result import Result
from everystep.files import read_npz
from everystep.mdp.cmdp import FiniteCMDP

NEEDED = ("regret", "value", "violation")


@dataclass(frozen=True)
class Run:
    """The contents of a run folder: its problem, its spec, and columns (seeds, K) of each agent."""

    opened: FinishedFolder
    problem: FiniteCMDP
    curves: dict[str, dict[str, np.ndarray]]

    @property
    def folder(self) -> Path:
        return self.opened.folder

    @property
    def spec(self) -> dict[str, Any]:
        return self.opened.spec

    def again(self, seeds: int) -> Experiment:
        """The same experiment on the first `seeds` of its seeds; raises if it would not be the same."""
        prepared = prepare(
            self.problem,
            [self._recipe(agent) for agent in self.spec["agents"]],
            self.spec["episodes"],
            self.spec["seeds"][:seeds],
        )
        now, then = (json.loads(json.dumps(spec)) for spec in (prepared.spec, self.spec))
        for new, old in zip(now["agents"], then["agents"], strict=True):
            for key, value in new["settings"].items():
                kept = old["settings"].get(key, value)
                if value != kept:
                    raise (
                        self._not_kept(key, old["label"])
                        if _is_hash(kept)
                        else EverystepError(
                            f"'{self.folder}' has {key} = {kept} for {old['label']}, now resolved to {value}; "
                            f"{self._other_version()}"
                        )
                    )
        if now["problem"] != then["problem"]:
            raise EverystepError(f"'{self.folder}' holds another problem than the one it ran; {self._other_version()}")
        return prepared

    def result(self) -> Result:
        """The columns that were read as a result, from which figures and pages are made."""
        visits = self.opened.visits(self.problem.states)
        return Result(self.problem, self.spec, self.curves, visits)

    def check(self, label: str, value: np.ndarray, violation: np.ndarray) -> None:
        """Raise unless an agent that was run again, (seeds, K), did what the folder recorded, up to rounding."""
        kept = self.curves[label]
        for name, new in (("value", value), ("violation", violation)):
            recorded = kept[name][: len(new)]
            if not np.allclose(new, recorded, rtol=0, atol=1e-9 * max(1.0, float(np.abs(recorded).max()))):
                raise EverystepError(
                    f"'{self.folder}' run again gives a different {name} of {label}; {self._other_version()}"
                )

    def _not_kept(self, key: str, label: str) -> EverystepError:
        return EverystepError(
            f"'{self.folder}' cannot be run again: {key} of {label} was passed from Python and is not stored in the "
            "folder; use everystep.reports.theory.diagnosis from Python instead."
        )

    def _other_version(self) -> str:
        version = self.spec.get("versions", {}).get("everystep", "unknown")
        return f"it was written by everystep {version} and this is {__version__}: run it again into another folder."

    def _recipe(self, agent: dict[str, Any]) -> Recipe:
        label = agent["label"]
        # Settings that are recorded in another form (lists, hashes) are resolved again, and `again` compares them.
        settings = {
            key: value for key, value in agent["settings"].items() if key == "features" or _can_be_set(key, value)
        }
        if "features" in settings:
            settings["features"] = self._features(label, settings["features"])
        return Recipe(agent["agent"], settings).called(label)

    def _features(self, label: str, recorded: str) -> str | np.ndarray:
        own = self.problem.features
        if recorded == "one-hot" or (own is not None and recorded == fingerprint(own)):
            return recorded if recorded == "one-hot" else AUTO
        missing = EverystepError(
            f"'{self.folder}' has no features.npz with the features of {label}; run it again into another folder."
        )
        if not self.opened.has("features.npz"):
            raise missing
        path, key = self.opened.file("features.npz"), f"{label}_features"
        try:
            return read_npz(path, lambda name: name == key)[key]
        except (EverystepError, KeyError):
            raise missing from None


def _can_be_set(key: str, value: object) -> bool:
    try:
        SETTINGS[key].read(value)
    except (KeyError, ValueError):
        return False
    return key == "threshold" or not isinstance(value, list)


def _is_hash(value: object) -> bool:
    """Whether a setting is recorded as the hash of an array or of a custom kernel."""
    return isinstance(value, str) and re.search(r"#[0-9a-f]+|^[0-9x]+:[0-9a-f]+$|#[0-9x]+:", value) is not None


def read(folder: Path, columns: Sequence[str] = NEEDED) -> Run:
    """A run folder with these columns; raises if it is none."""
    opened = finished.read(folder)
    return Run(opened, opened.problem(), opened.curves((*columns, *opened.columns_of_starts())))
