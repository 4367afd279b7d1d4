"""Several trainings side by side: `everystep compare DIR1 DIR2 ...`.

Violations can be compared only where the environment and the constraint are the same, so there is a table for each
pair of them. A constraint is known by the name of its function; functions without a name, and those whose names agree
but whose code may not, cannot be distinguished, which a note reports.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from everystep import files
from everystep.errors import EverystepError
from everystep.experiments import statistics, tables
from everystep.experiments.folder import run_folder
from everystep.experiments.folder.run_folder import WORK
from everystep.experiments.tables import Table, count_or_number
from everystep.reports.training import results as training_results
from everystep.reports.training.results import TrainingResults
from everystep.training.diagnosis.record import FROM_INFO, KEY
from everystep.training.policy import card as policy_card
from everystep.training.seeds.run import AGAIN

HEAD = [
    "training",
    "agent",
    "features",
    "seeds",
    "episodes",
    "steps",
    "violation",
    "per 1,000 steps",
    "unsafe steps",
    "return at the end",
    "evaluation: return",
    "violation per episode",
]
UNKNOWN = "a function that is not recorded"
FOOTNOTE = f"""\
violation: the sum of max(g, 0) over all steps; in brackets: 95 % bootstrap interval over seeds
return at the end: mean of {statistics.AT_THE_END}, while it explored
evaluation: the policies alone, if they were evaluated"""


class Compared(NamedTuple):
    """One training, and what it has in common with those it may be compared with."""

    folder: Path
    results: TrainingResults
    environment: str
    constraint: str
    length: int | None
    features: str

    @property
    def group(self) -> tuple[str, str]:
        return self.environment, self.constraint


def read(folders: Sequence[Path]) -> list[Compared]:
    """The trainings in these folders; raises if one holds none."""
    found: list[Compared] = []
    for folder in folders:
        if not run_folder.is_training(folder):
            raise EverystepError(
                f"'{folder}' holds no training; give folders written by `everystep train` or es.train, or none to "
                "compare agents on problems."
            )
        if any(folder.resolve() == each.folder.resolve() for each in found):
            raise EverystepError(f"'{folder}' is given twice; give each folder once.")
        found.append(_compared(folder))
    return found


def _compared(folder: Path) -> Compared:
    results = training_results.read(folder)
    first, request = results.seeds[0], results.request
    spec = first.spec
    if not first.finished:
        spec = run_folder.read_json(files.check_unaltered(first.folder / WORK / "spec.json", AGAIN))
    asked, found = (_table(spec, name) for name in ("request", KEY))
    environment = first.environment if request is None else request.env
    if settings := found.get("environment") or asked.get("environment settings"):
        environment += f" {json.dumps(settings, sort_keys=True)}"
    saved = found.get("constraint") or (FROM_INFO if asked.get("constraint") == FROM_INFO else UNKNOWN)
    named = saved if request is None else request.constraint or FROM_INFO
    length = spec.get("length") or asked.get("length")
    features = request.features if request is not None and request.features else None
    if features is None:
        described = spec.get("value") or asked.get("features") or "not recorded"
        features = policy_card.features_in_words(described) if isinstance(described, dict) else str(described)
    return Compared(folder, results, environment, str(named), length, features)


def _table(spec: dict[str, Any], name: str) -> dict[str, Any]:
    found = spec.get(name)
    return found if isinstance(found, dict) else {}


def text(compared: Sequence[Compared]) -> str:
    """A table for each environment and constraint, with notes on differences between the trainings."""
    groups: dict[tuple[str, str], list[Compared]] = {}
    for each in compared:
        groups.setdefault(each.group, []).append(each)
    parts = [
        str(Table(f"{environment}, constraint {constraint}", HEAD, [_cells(each) for each in members], _notes(members)))
        for (environment, constraint), members in groups.items()
    ]
    if len(groups) > 1:
        parts.insert(
            0,
            f"{len(groups)} environments or constraints, each with a table of its own: violation and return cannot be "
            "compared across tables.",
        )
    return "\n\n".join([*parts, FOOTNOTE])


def row(each: Compared) -> dict[str, object]:
    """The numbers of a training; arrays have an entry for each seed, or for each evaluated seed."""
    results = each.results
    numbers = np.array([seed.numbers() for seed in results.seeds])
    evaluations = [found for found in map(results.evaluation_of, results.seeds) if found is not None]
    means = {name: np.array([found.columns[name].mean() for found in evaluations]) for name in ("return", "violation")}
    return {
        "training": str(each.folder),
        "finished": not results.unfinished,
        "environment": each.environment,
        "constraint": each.constraint,
        "agent": results.agent,
        "features": each.features,
        "episodes": np.array([seed.episodes for seed in results.seeds]),
        "steps": np.array([seed.steps for seed in results.seeds]),
        **dict(zip(("violation", "unsafe_steps", "return_at_the_end"), numbers.T, strict=True)),
        **{f"evaluation_{name}": found for name, found in means.items()},
    }


def _cells(each: Compared) -> list[str]:
    numbers: dict[str, Any] = row(each)
    steps, violation = numbers["steps"], numbers["violation"]
    return [
        f"{each.folder}{'' if numbers['finished'] else ' (unfinished)'}",
        numbers["agent"],
        each.features,
        f"{len(steps)}",
        _span(numbers["episodes"]),
        _span(steps),
        *(
            tables.over_seeds(column, count_or_number) if len(column) else ""
            for column in (
                violation,
                1000 * violation / steps,
                *(numbers[name] for name in ("unsafe_steps", "return_at_the_end")),
                *(numbers[f"evaluation_{name}"] for name in ("return", "violation")),
            )
        ),
    ]


def _span(counts: np.ndarray) -> str:
    low, high = min(counts), max(counts)
    return f"{low}" if low == high else f"{low} to {high}"


def _notes(members: Sequence[Compared]) -> list[str]:
    """What makes the rows of one table differ besides the agents."""
    if len(members) < 2:
        return []
    steps = [np.mean([seed.steps for seed in each.results.seeds]) for each in members]
    lengths = {each.length for each in members}
    seeds = [{seed.seed for seed in each.results.seeds} for each in members]
    evaluated = {each.results.evaluation.episodes for each in members if each.results.evaluation is not None}
    constraint = members[0].constraint
    notes = {
        "the constraints are functions without a name: whether they are the same is unknown": (
            constraint == UNKNOWN or constraint.endswith(">")
        ),
        f"the numbers of steps differ, by a factor of {max(steps) / min(steps):.2g}: compare per 1,000 steps": (
            max(steps) > 1.2 * min(steps)
        ),
        f"the longest episodes differ: {', '.join(map(str, sorted(map(str, lengths))))} steps": len(lengths) > 1,
        "the seeds differ": any(each != seeds[0] for each in seeds),
        f"the evaluations have different numbers of episodes: {', '.join(map(str, sorted(evaluated)))}": (
            len(evaluated) > 1
        ),
    }
    return [f"note: {note}" for note, applies in notes.items() if applies]
