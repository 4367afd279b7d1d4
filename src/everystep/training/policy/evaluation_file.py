"""The policies of a training's folder, played without exploration, and the result saved in the folder.

    DIR/evaluation.json           with the environment and the constraint of the training: the one on the policy's card
    DIR/evaluation-1a2b3c4d.json  with another environment or constraint, whose names give the digits

Each names its environment, its constraint, the seeds of its episodes and the versions of packages.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everystep import files
from everystep.environments.play import named
from everystep.environments.play.constraints import Constraint
from everystep.environments.play.making import environment_name
from everystep.environments.protocols import AnyEnv
from everystep.errors import EverystepError, shown
from everystep.experiments import statistics, tables
from everystep.experiments.experiment import versions
from everystep.experiments.folder.run_folder import WORK
from everystep.files import forms
from everystep.files.forms import COUNT, NUMBER, POSITIVE, Each, Maybe
from everystep.training.diagnosis.record import FROM_INFO, KEY, constraint_in_words
from everystep.training.folder.checkpoint import environment_settings
from everystep.training.policy import card as policy_card
from everystep.training.policy.evaluation import FIRST_SEED, Evaluation, evaluate
from everystep.training.policy.policy import Policy
from everystep.training.seeds.request import close

if TYPE_CHECKING:
    from everystep.training.result import TrainingResult

NAME = "evaluation.json"
OTHERS = r"evaluation-[0-9a-f]{8}\.json"
FORMAT = 2
MOST = 1e110  # of a row: a measurement is at most 1e100, and an episode has at most 10,000 steps
MOST_OTHERS = 50  # evaluations with other environments or constraints that are read
COLUMNS = ("return", "length", "violation", "unsafe_steps")
FORM = {
    "format": lambda content: content == FORMAT,
    "env": str,
    "constraint": Maybe(str),
    "episodes": POSITIVE,
    "first_seed": COUNT,
    "versions": Each(str),
    "seeds": [{"seed": COUNT, "after": COUNT, **{name: [NUMBER] for name in COLUMNS}}],
}


@dataclass(frozen=True)
class Saved:
    """An evaluation that was saved: its episodes of each seed, and after how many episodes of training it was made.

    own         whether environment and constraint are those of the training
    first_seed  episode i of every policy begins with reset(seed=first_seed + i)
    """

    env: str
    constraint: str | None
    episodes: int
    after: dict[int, int]
    columns: dict[int, dict[str, np.ndarray]]
    first_seed: int
    versions: dict[str, str]
    own: bool = True

    @property
    def name(self) -> str:
        """Of its file."""
        names = json.dumps([self.env, self.constraint]).encode()
        return NAME if self.own else f"evaluation-{hashlib.sha256(names).hexdigest()[:8]}.json"

    @property
    def about(self) -> str:
        """Where its episodes were played."""
        return f"{self.env}, constraint {'from info' if self.constraint is None else self.constraint}"

    @property
    def seeds_in_words(self) -> str:
        first, last = self.first_seed, self.first_seed + self.episodes - 1
        return f"seed {first}" if first == last else f"seeds {first} to {last}"

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
            "first_seed": self.first_seed,
            "versions": self.versions,
            "seeds": [
                {"seed": seed, "after": self.after[seed], **{name: column.tolist() for name, column in columns.items()}}
                for seed, columns in self.columns.items()
            ],
        }
        return (json.dumps(content, indent=1) + "\n").encode()

    def write(self, folder: Path, force: bool = False) -> None:
        """Save it in the folder of the training."""
        files.write_output(folder / self.name, lambda file: file.write(self.to_bytes()), force)


def read(folder: Path) -> Saved | None:
    """The saved evaluation with the environment and the constraint of the training; None if there is none."""
    return _read(folder, NAME) if (folder / NAME).is_file() else None


def read_others(folder: Path) -> list[Saved]:
    """The saved evaluations with other environments or constraints."""
    names = sorted(path.name for path in folder.iterdir() if re.fullmatch(OTHERS, path.name))
    return [_read(folder, name) for name in names[:MOST_OTHERS]]


def _read(folder: Path, file: str) -> Saved:
    again = f"remove it, and run `everystep evaluate {folder}` again."
    content = forms.read(folder / file, FORM, again, ever=True)
    n, seeds = content["episodes"], {each["seed"]: each for each in content["seeds"]}
    columns = {seed: {name: np.asarray(each[name]) for name in COLUMNS} for seed, each in seeds.items()}
    after = {seed: each["after"] for seed, each in seeds.items()}
    names, first = (content["env"], content["constraint"]), content["first_seed"]
    found = Saved(*names, n, after, columns, first, content["versions"], file == NAME)
    rows = [column for own in columns.values() for column in own.values()]
    if found.name != file or any(each.shape != (n,) or (np.abs(each) > MOST).any() for each in rows):
        raise EverystepError(f"'{folder / file}' holds other names or episodes than it says; {again}")
    return found


def check_own(folder: Path, saved: Saved, env: str, constraint: str | None) -> None:
    """Raise unless evaluation.json is of the environment and the constraint of the training."""
    if (saved.env, saved.constraint) != (env, constraint):
        raise EverystepError(
            f"'{folder / NAME}' is an evaluation with {shown(saved.about)}, which are not those of the training; "
            f"remove it, and run `everystep evaluate {folder}` again."
        )


# --- of Python --------------------------------------------------------------------------------------------------------
def trained_as(spec: Mapping[str, Any]) -> tuple[str, str | None]:
    """The environment and the constraint in the spec of a training, as `of` names them; None: read from info."""
    found = spec.get(KEY)
    given = found.get("constraint") if isinstance(found, dict) else None
    return str(spec["environment"]), None if given == FROM_INFO else given


def of(result: TrainingResult, evaluation: Evaluation) -> Saved:
    """The evaluation of a result of `es.train`, as it is saved."""
    seed, columns = result.spec["seed"], evaluation.columns
    after = {seed: len(result.columns["return"])}
    names = trained_as({**result.spec, KEY: result.found})
    return Saved(*names, len(columns["return"]), after, {seed: columns}, FIRST_SEED, versions())


def keep(result: TrainingResult, evaluation: Evaluation, folder: Path) -> None:
    """Save an evaluation in the folder of a training, and on its card; a file that was changed by hand is left."""
    saved = of(result, evaluation)
    try:
        with files.held(folder, folder / WORK / "pid"):
            files.check_place(folder / saved.name)
            policy_card.add_evaluation(folder / "policy", saved, result.spec["seed"])
            saved.write(folder)
    except (OSError, EverystepError) as error:
        print(f"note: the evaluation is not saved: {error}", file=sys.stderr)


def is_as_trained(env: AnyEnv, constraint: Constraint | None, spec: Mapping[str, Any]) -> bool:
    """Whether an environment and a constraint are, by their names, those in the spec of a training from Python.

    A function without a name, such as a lambda, does not count as the same.
    """
    given = constraint_in_words(constraint)
    known = constraint is None or (hasattr(constraint, "__qualname__") and "<" not in given)
    found = spec.get(KEY)
    if not known or not isinstance(found, dict) or found.get("constraint") != given:
        return False
    env = getattr(env, "recorded_env", env)
    return environment_name(env) == spec["environment"] and environment_settings(env) == found.get("environment")


# --- playing ----------------------------------------------------------------------------------------------------------
def play(
    policies: dict[int, Path],
    after: dict[int, int],
    env: str,
    constraint: str | None,
    episodes: int,
    seed: int = FIRST_SEED,
    report: Callable[[int], None] = lambda seed: None,
    env_of: Callable[[int], Any] | None = None,
    own: bool = True,
    spec: Mapping[str, Any] | None = None,
) -> Saved:
    """Play the policy of every seed, each in a new environment; `env_of` makes it if it is given.

    `own`: whether the names are those of the training. `spec` is that of a training from Python, whose environment and
    constraint are compared with those that the names give.
    """
    g = named.constraint(constraint)
    columns = {}
    names: tuple[str, str | None] = (env, constraint)
    for each, folder in policies.items():
        policy = Policy.load(folder)
        made = named.environment(env) if env_of is None else env_of(each)
        if spec is not None:
            own = is_as_trained(made, g, spec)
            names = trained_as(spec) if own else names
        try:
            found = evaluate(policy, made, constraint=g, episodes=episodes, seed=seed, progress=lambda more: None)
            if len(found.columns["return"]) < episodes:
                raise KeyboardInterrupt  # part of an evaluation is not saved
            columns[each] = found.columns
        finally:
            close(made)
        report(each)
    return Saved(*names, episodes, after, columns, seed, versions(), own)


def text(saved: Saved) -> str:
    """Return, violation and unsafe steps per episode, for each seed over its episodes, and over seeds."""
    names = ("return", "violation", "unsafe_steps")
    head = ["seed", "episodes", *(f"{name.replace('_', ' ')} per episode" for name in names), "unsafe episodes"]
    cells = lambda samples: [tables.interval(statistics.mean_over_seeds(each)) for each in samples]
    rows = []
    for seed, own in saved.columns.items():
        unsafe = np.count_nonzero(own["unsafe_steps"])
        rows.append([f"{seed}", f"{saved.episodes}", *cells(own[name] for name in names), f"{unsafe}"])
    notes = ["in brackets: 95 % bootstrap interval over episodes"]
    if len(rows) > 1:
        means = [np.array([own[name].mean() for own in saved.columns.values()]) for name in names]
        rows.append(["mean", "", *cells(means), ""])
        notes = ["in brackets: 95 % bootstrap interval over the episodes of a seed, and of the mean over seeds"]
    if not saved.own:
        notes.append(
            f"not the environment and the constraint of the training: kept beside its evaluation, as {saved.name}"
        )
    heading = f"{saved.about}: policies without exploration, episodes of {saved.seeds_in_words}"
    return str(tables.Table(heading, head, rows, notes))


def line(saved: Saved, seeds: Mapping[int, int]) -> str | None:
    """An evaluation in a line; None if it is of none of these policies. `seeds`: the episodes of training by seed."""
    found = [each for seed, trained in seeds.items() if (each := saved.of(seed, trained)) is not None]
    if not found:
        return None
    mean = lambda name: tables.number(float(np.mean([each.columns[name].mean() for each in found])))
    unsafe, steps = (int(sum(each.columns[name].sum() for each in found)) for name in ("unsafe_steps", "length"))
    return (
        f"{saved.about}: {saved.episodes} episodes of each seed, return {mean('return')} and violation "
        f"{mean('violation')} per episode, {unsafe} of {steps} steps unsafe ({saved.name})"
    )
