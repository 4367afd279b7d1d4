"""The policies of a training's folder, played without exploration, and the result saved as DIR/evaluation.json."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everystep import files
from everystep.environments import named, policy_card
from everystep.environments.evaluation import FIRST_SEED, Evaluation, evaluate
from everystep.environments.findings import FROM_INFO
from everystep.environments.policy import Policy
from everystep.environments.training_request import close
from everystep.errors import EverystepError, whole_number
from everystep.experiments import forms, statistics, tables
from everystep.experiments.forms import COUNT, NUMBER, POSITIVE, Maybe

if TYPE_CHECKING:
    from everystep.environments.learner import Trained

NAME = "evaluation.json"
FORMAT = 1
MOST = 1e110  # of a row: a measurement is at most 1e100, and an episode has at most 10,000 steps
COLUMNS = ("return", "length", "violation", "unsafe_steps")
FORM = {
    "env": str,
    "constraint": Maybe(str),
    "episodes": POSITIVE,
    "seeds": [{"seed": COUNT, "after": COUNT, **{name: [NUMBER] for name in COLUMNS}}],
}


@dataclass(frozen=True)
class Saved:
    """An evaluation that was saved: its episodes of each seed, and after how many episodes of training it was made."""

    env: str
    constraint: str | None
    episodes: int
    after: dict[int, int]
    columns: dict[int, dict[str, np.ndarray]]

    def of(self, seed: int, trained: int) -> Evaluation | None:
        """The episodes of a seed after `trained` episodes of training; None if there are none of this policy."""
        return Evaluation(self.columns[seed]) if self.after.get(seed) == trained else None

    def to_bytes(self) -> bytes:
        """The content of its file."""
        content = {
            "format": FORMAT,
            "env": self.env,
            "constraint": self.constraint,
            "episodes": self.episodes,
            "seeds": [
                {
                    "seed": seed,
                    "after": self.after[seed],
                    **{name: column.tolist() for name, column in columns.items()},
                }
                for seed, columns in self.columns.items()
            ],
        }
        return (json.dumps(content, indent=1) + "\n").encode()

    def write(self, folder: Path, force: bool = False) -> None:
        files.write_output(folder / NAME, lambda file: file.write(self.to_bytes()), force)


def read(folder: Path) -> Saved | None:
    """The saved evaluation of a folder; None if there is none."""
    if not (folder / NAME).is_file():
        return None
    try:
        content = files.read_json(folder / NAME)
        if content["format"] != FORMAT or forms.fault(content, FORM):
            raise ValueError("another format")
        n = whole_number("episodes", content["episodes"])
        columns = {int(each["seed"]): {name: np.asarray(each[name]) for name in COLUMNS} for each in content["seeds"]}
        if not all(
            column.shape == (n,) and column.dtype.kind in "iuf" and (np.abs(column) <= MOST).all()
            for own in columns.values()
            for column in own.values()
        ):
            raise ValueError("wrong columns")
        after = {int(each["seed"]): int(each["after"]) for each in content["seeds"]}
        return Saved(content["env"], content["constraint"], n, after, columns)
    except (OSError, ValueError, KeyError, TypeError):
        raise EverystepError(
            f"'{folder / NAME}' cannot be read; remove it, and run `everystep evaluate {folder}` again."
        ) from None


def of(result: Trained, evaluation: Evaluation) -> Saved:
    """The evaluation of a result of `es.train`, as it is saved."""
    seed, columns = result.spec["seed"], evaluation.columns
    given = result.found.get("constraint")
    constraint = None if given == FROM_INFO else given
    after = {seed: len(result.columns["return"])}
    return Saved(result.spec["environment"], constraint, len(columns["return"]), after, {seed: columns})


def keep(result: Trained, evaluation: Evaluation, folder: Path) -> None:
    """Save an evaluation in the folder of a training, and on its card; a file that was changed by hand is left."""
    try:
        of(result, evaluation).write(folder)
    except (OSError, EverystepError) as error:
        print(f"note: the evaluation is not saved: {error}", file=sys.stderr)
    policy_card.add_evaluation(folder / "policy", evaluation)


def play(
    policies: dict[int, Path],
    after: dict[int, int],
    env: str,
    constraint: str | None,
    episodes: int,
    seed: int = FIRST_SEED,
    report: Callable[[int], None] = lambda seed: None,
    env_of: Callable[[int], Any] | None = None,
) -> Saved:
    """Play the policy of every seed, each in a new environment; `env_of` makes it if it is given."""
    g = named.constraint(constraint)
    columns = {}
    for each, folder in policies.items():
        policy = Policy.load(folder)
        made = named.environment(env) if env_of is None else env_of(each)
        try:
            found = evaluate(policy, made, constraint=g, episodes=episodes, seed=seed, progress=lambda more: None)
            if len(found.columns["return"]) < episodes:
                raise KeyboardInterrupt  # part of an evaluation is not saved
            columns[each] = found.columns
        finally:
            close(made)
        report(each)
    return Saved(env, constraint, episodes, after, columns)


def text(saved: Saved) -> str:
    """Return, violation and unsafe steps per episode, for each seed over its episodes, and over seeds."""
    names = ("return", "violation", "unsafe_steps")
    head = ["seed", "episodes", *(f"{name.replace('_', ' ')} per episode" for name in names), "episodes with harm"]
    rows = []
    for seed, columns in saved.columns.items():
        harmed = int((columns["unsafe_steps"] > 0).sum())
        rows.append([f"{seed}", f"{saved.episodes}", *(_interval(columns[name]) for name in names), f"{harmed}"])
    notes = ["in brackets: 95 % bootstrap interval over episodes"]
    if len(rows) > 1:
        means = {name: np.array([float(each[name].mean()) for each in saved.columns.values()]) for name in names}
        rows.append(["mean", "", *(_interval(means[name]) for name in names), ""])
        notes = ["in brackets: 95 % bootstrap interval over the episodes of a seed, and of the mean over seeds"]
    given = "from info" if saved.constraint is None else saved.constraint
    first = f"{saved.env}, constraint {given}: policies without exploration"
    return "\n".join([first, "", tables.aligned([head, *rows]), "", *notes])


def _interval(samples: np.ndarray) -> str:
    found = statistics.mean_over_seeds(samples, np.random.default_rng(0))
    return f"{tables.number(float(found.mean))} [{tables.number(float(found.low))}, {tables.number(float(found.high))}]"
