"""What a training's folder holds, finished or not: the rows of every seed, and the table that summarises them.

Two kinds of folders are read: those of `everystep train`, with a folder for each seed, and those of `es.train(out=...)`
and `TrainingResult.save`, which are one seed. Of an unfinished seed the last checkpoint is read.

All commands read a training here. A file counts only if it is the one that was written, by the record of its folder,
and a policy only if it is the one that spec.json names. Nothing that a file names is imported.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from everystep import files
from everystep.environments.play import trust
from everystep.errors import UNLIKE, EverystepError
from everystep.experiments import statistics
from everystep.experiments.folder import run_folder
from everystep.experiments.folder.run_folder import TRAINING_REQUEST, WORK
from everystep.experiments.tables import Table, count_or_number
from everystep.files import forms
from everystep.files.forms import COUNT
from everystep.training.folder import training_folder
from everystep.training.folder.checkpoint import SavedLearner
from everystep.training.folder.plain_values import from_plain
from everystep.training.policy import card as policy_card
from everystep.training.policy import evaluation_file as training_evaluation
from everystep.training.policy.evaluation import Evaluation
from everystep.training.seeds import run as training_seeds
from everystep.training.seeds.request import TrainingRequest
from everystep.training.seeds.run import AGAIN

ABOUT = {"environment": str, "agent": str, "seed?": COUNT}
NEEDED = ("return", "length", "violation", "unsafe_steps")


@dataclass(frozen=True)
class SeedResult:
    """The rows of one seed, by column, and whether it is finished."""

    seed: int
    folder: Path
    columns: dict[str, np.ndarray]
    finished: bool
    environment: str
    agent: str
    spec: dict[str, Any] = field(default_factory=dict)  # spec.json of a finished seed

    @property
    def episodes(self) -> int:
        return len(self.columns["return"])

    @property
    def steps(self) -> int:
        return int(self.columns["length"].sum())

    def last_episodes(self) -> int:
        """The number of episodes at the end, whose mean return is reported."""
        return statistics.episodes_at_the_end(self.columns["length"])

    def numbers(self) -> tuple[float, float, float]:
        """Total violation, unsafe steps, and the mean return at the end."""
        columns, last = self.columns, self.last_episodes()
        return (
            float(columns["violation"].sum()),
            float(columns["unsafe_steps"].sum()),
            float(columns["return"][-last:].mean()),
        )


@dataclass(frozen=True)
class TrainingResults:
    """The seeds of a training that have begun; `request` if the command wrote the folder, `signed` if by this user.

    evaluation   with the environment and the constraint of the training
    others       evaluations with others
    """

    folder: Path
    seeds: list[SeedResult]
    request: TrainingRequest | None
    evaluation: training_evaluation.Saved | None
    others: list[training_evaluation.Saved] = field(default_factory=list)
    signed: bool = False

    @property
    def agent(self) -> str:
        """As requested; where the environment decided, the one that was trained."""
        if self.request is not None and (self.request.recipe is not None or not self.seeds):
            return self.request.label
        return self.seeds[0].agent

    @property
    def title(self) -> str:
        return f"{self.seeds[0].environment if self.request is None else self.request.env}, {self.agent}"

    @cached_property
    def unfinished(self) -> list[int]:
        """The seeds that are not finished, those included that have not begun."""
        wanted = [each.seed for each in self.seeds] if self.request is None else self.request.seeds
        return sorted(set(wanted) - {each.seed for each in self.seeds if self._is_over(each)})

    def _is_over(self, seed: SeedResult) -> bool:
        if self.request is None or not seed.finished:
            return seed.finished
        return training_folder.is_over(seed.spec, self.request.schedule, seed.episodes, seed.steps)

    def evaluation_of(self, seed: SeedResult) -> Evaluation | None:
        """The saved evaluation of a seed's policy, unless it has been trained on since."""
        if self.evaluation is None or not seed.finished:
            return None
        return self.evaluation.of(seed.seed, seed.episodes)


def read(folder: Path) -> TrainingResults:
    """A training's folder; raises if it holds nothing yet, or something else."""
    if (folder / TRAINING_REQUEST).is_file():
        request, signed = training_seeds.read_begun(folder)
        places = {seed: training_seeds.folder_of(folder, seed) for seed in request.seeds}
        found = [_seed(place, seed) for seed, place in places.items()]
    else:
        request, signed, found = None, False, [_seed(folder, None)]
    seeds = [each for each in found if each is not None and each.episodes]
    if not seeds:
        raise EverystepError(
            f"'{folder}' holds a training without a finished episode so far; {how_to_continue(folder)} it."
        )
    evaluation = training_evaluation.read(folder)
    if evaluation is not None and (request is not None or seeds[0].finished):
        names = training_evaluation.trained_as(seeds[0].spec) if request is None else (request.env, request.constraint)
        training_evaluation.check_own(folder, evaluation, *names)
    return TrainingResults(folder, seeds, request, evaluation, training_evaluation.read_others(folder), signed)


def how_to_continue(folder: Path) -> str:
    """The command that continues an unfinished training."""
    if not (folder / TRAINING_REQUEST).is_file():
        return run_folder.how_to_continue(folder)
    begun = training_seeds.read_begun(folder)
    return f"{with_trust(f'everystep resume {folder}', begun.request.names, begun.signed)} continues"


def with_trust(command: str, names: dict[str, str | None], signed: bool) -> str:
    """A command that imports names of a folder, and what it needs if this user did not sign them."""
    modules = sorted({module for name in names.values() if (module := trust.module_of(name)) is not None})
    if signed or not modules:
        return f"`{command}`"
    return f"`{command} --trust` (if you trust what it imports: {', '.join(modules)})"


def how_to_evaluate(results: TrainingResults) -> str | None:
    """The command that plays the policies; None if there is none that would."""
    finished = [each for each in results.seeds if each.finished]
    custom = policy_card.KINDS["CustomFeatures"]
    for each in finished:
        words = [policy_card.features_in_words(each.spec.get(name, {})) for name in ("value", "cost")]
        if "policy" not in each.spec or any(custom in word for word in words):
            return "everystep.evaluate plays the policies from Python: what they need is not in the folder"
    if not finished:
        return None
    request = results.request
    if request is None:
        how = f"`everystep evaluate {results.folder} --env E --constraint C`"
        return f"{how} plays the policy without exploration, in the environment E that it was trained in"
    names = {"env": request.env, "constraint": request.constraint}
    command = with_trust(f"everystep evaluate {results.folder}", names, results.signed)
    return f"{command} plays the policies without exploration"


def _seed(folder: Path, seed: int | None) -> SeedResult | None:
    """The rows of a seed; None if it has not begun."""
    if (folder / WORK).is_dir():
        saved = training_folder.saved_learners(folder)
        return next((each for each in (_from_checkpoint(folder, place, seed) for place in saved) if each), None)
    if not (folder / "spec.json").is_file():
        return None
    spec = read_spec(folder)
    files.check_unaltered(folder / "episodes.parquet", AGAIN)
    return _checked(folder, seed, spec, training_folder.rows(folder, NEEDED), True)


def read_spec(folder: Path) -> dict[str, Any]:
    """The spec.json of a finished training; raises unless its policy is the one that was saved with it, if any was."""
    spec: dict[str, Any] = forms.read(folder / "spec.json", ABOUT, AGAIN)
    place = folder / "policy"
    if spec.get("policy") is None:
        if place.is_dir():
            raise EverystepError(f"'{folder}' has a spec.json that does not name its policy; {AGAIN}")
        return spec
    for name in ("policy.json", "policy.npz"):
        files.check_unaltered(place / name, AGAIN)
    if files.seal(place / "policy.json").sha256 != spec["policy"]:
        raise EverystepError(
            f"'{place}' holds another policy than the one of this seed's training; restore it, or {AGAIN}"
        )
    return spec


def _from_checkpoint(folder: Path, place: Path, seed: int | None) -> SeedResult | None:
    """The rows of a saved learner; None if it is damaged or was removed."""
    try:
        saved = SavedLearner(place)
        columns = from_plain(saved.content["learner"]["_columns"], saved.arrays)
        rows = {name: np.asarray(columns[name], float) for name in NEEDED}
    except (OSError, *UNLIKE):
        return None
    return _checked(folder, seed, saved.content["identity"], rows, False)


def _checked(
    folder: Path, seed: int | None, about: dict[str, Any], rows: dict[str, np.ndarray], finished: bool
) -> SeedResult:
    n, own = len(rows["return"]), about.get("seed", 0)
    numeric = all(
        each.shape == (n,) and each.dtype.kind in "biuf" and (np.abs(each) <= training_evaluation.MOST).all()
        for each in rows.values()
    )
    if not numeric or forms.fault(about, ABOUT) or own != (own if seed is None else seed):
        raise EverystepError(f"'{folder}' holds rows or a seed that are not those of its training; {AGAIN}")
    return SeedResult(own, folder, rows, finished, about["environment"], about["agent"], about if finished else {})


# --- the table --------------------------------------------------------------------------------------------------------
class SummaryTable(NamedTuple):
    """A row for each seed, and (`over_seeds`) their mean and its interval; `notes` explain the columns."""

    head: list[str]
    rows: list[list[str]]
    over_seeds: list[list[str]]
    notes: list[str]


def summary(results: TrainingResults) -> str:
    """A line for each seed, and their mean with its interval."""
    found = table(results)
    return str(Table(_first_line(results), found.head, [*found.rows, *found.over_seeds], found.notes))


def table(results: TrainingResults) -> SummaryTable:
    """The table of `summary`."""
    evaluations = [results.evaluation_of(each) for each in results.seeds]
    evaluated = any(each is not None for each in evaluations)
    head = ["seed", "episodes", "steps", "total violation", "unsafe steps", "return at the end"]
    head += ["evaluation: return", "violation", "unsafe steps"] if evaluated else []
    rows, samples = [], []
    for each, found in zip(results.seeds, evaluations, strict=True):
        numbers: list[float] = [*each.numbers()]
        if evaluated:
            names = ("return", "violation", "unsafe_steps")
            numbers += [np.nan if found is None else float(found.columns[name].mean()) for name in names]
        samples.append(numbers)
        name = f"{each.seed} (unfinished)" if each.seed in results.unfinished else f"{each.seed}"
        rows.append([name, f"{each.episodes}", f"{each.steps}", *map(count_or_number, numbers)])
    over_seeds = []
    if len(rows) > 1:
        means = [statistics.mean_over_seeds(column[~np.isnan(column)]) for column in np.array(samples).T]
        low_and_high = (map(count_or_number, map(float, each[1:])) for each in means)
        over_seeds = [
            ["mean", "", "", *(count_or_number(float(each.mean)) for each in means)],
            ["95 %", "", "", *map(" to ".join, low_and_high)],
        ]
    return SummaryTable(head, rows, over_seeds, _notes(results, evaluated))


def _first_line(results: TrainingResults) -> str:
    request, n = results.request, len(results.seeds)
    asked = "" if request is None else f"{request.amount}, "
    of = f"{len(request.seeds)} seeds" if request is not None and len(request.seeds) > 1 else f"{n} seed"
    return f"{results.title}: {'unfinished; ' if results.unfinished else ''}{asked}{of}"


def _notes(results: TrainingResults, evaluated: bool) -> list[str]:
    last = sorted({each.last_episodes() for each in results.seeds})
    episodes = f"{last[0]}" if len(last) == 1 else f"{last[0]} to {last[-1]}"
    which = "the last episode" if last == [1] else f"mean of the last {episodes} episodes"
    notes = [f"return at the end: {which}, while it explored ({statistics.AT_THE_END})"]
    if evaluated and results.evaluation is not None:
        notes.append(
            f"evaluation: the policy alone, {results.evaluation.episodes} episodes of each seed, means per episode "
            f"({results.evaluation.about}; episodes of {results.evaluation.seeds_in_words})"
        )
    if len(results.seeds) > 1:
        notes.append("95 %: bootstrap interval of the mean over seeds")
    if results.unfinished:
        listed = ", ".join(map(str, results.unfinished[:10])) + (", ..." if len(results.unfinished) > 10 else "")
        word = "seed" if len(results.unfinished) == 1 else "seeds"
        notes += [
            f"unfinished: {word} {listed}, at the last checkpoint",
            f"{how_to_continue(results.folder)} it, unless another process is working on it",
        ]
    elif results.evaluation is None:
        notes += [how] if (how := how_to_evaluate(results)) is not None else []
    elif not evaluated:
        notes.append("the saved evaluation is of policies before they were trained on, and is not shown")
    trained = {each.seed: each.episodes for each in results.seeds if each.finished}
    lines = (training_evaluation.line(each, trained) for each in results.others)
    return notes + [f"also evaluated: {each}" for each in lines if each is not None]
