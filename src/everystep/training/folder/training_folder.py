"""A training that lives in a run folder, `train(..., out=DIR)`: it may be killed at any moment, the same call goes on.

    DIR/                       what TrainingResult.save writes, when it is finished
    DIR/learner/               the learner itself (see checkpoint.py), from which more episodes go on
    DIR/.work/                 while it is not finished: spec.json, what was requested
    DIR/.work/checkpoint-N/    a learner between two episodes; the last two are kept, because one may be damaged
    DIR/.work/checkpoint-N/so-far/  what TrainingResult.save writes, of a training that was stopped, for its report

A checkpoint is a folder that appears whole. A killed process loses the episodes since the last one, at most ten seconds
or twenty times what it takes to write one, and plays them again as they were (see env_state.py).
"""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from everystep import files
from everystep.environments.play.batch import Batch
from everystep.errors import EverystepError, check_type
from everystep.experiments.folder import run_folder
from everystep.experiments.folder.run_folder import TRAINING, WORK
from everystep.runtime.signals import deferred
from everystep.training.folder import checkpoint
from everystep.training.folder.checkpoint import DamagedError, SavedLearner
from everystep.training.learner import Learner
from everystep.training.result import BrokenError, TrainingResult
from everystep.training.schedule import Schedule

EVERY = 10.0  # seconds between checkpoints, at least
COST = 20  # and at least this many times the time it takes to write one
KEPT = 2
MOST_EPISODES = 1_000_000  # of a seed, in a folder that is read
LEARNER, SO_FAR = "learner", "so-far"
REMEDY = "give the same, or choose another folder"


def train(
    learner: Learner,
    out: Path,
    schedule: Schedule,
    warm_start: Batch | None,
    progress: Callable[[int], None] | None,
    pictures: Callable[[TrainingResult], Mapping[str, bytes]] | None = None,
) -> TrainingResult:
    """Train in a folder until the schedule is done, from wherever an earlier call stopped.

    `pictures` makes more files of the finished folder, by name.
    """
    checkpoint.refuse_regressors(learner)
    if warm_start is not None:
        check_type("warm_start", warm_start, Batch, "logged data")
    if progress is not None:
        check_type("progress", progress, Callable, "a function of the number of episodes")  # type: ignore[arg-type]
    request = {**checkpoint.identity(learner), "warm_start": _digest(warm_start)}
    with _in_sentences(out):
        files.make_folder(out)
    with files.held(out, out / WORK / "pid"):
        with _in_sentences(out):
            found = _inspect(out, request)
            if found is not None:
                _restore(learner, out, found)
            if not run_folder.is_unfinished(out) and is_over(out, schedule, *learner.played):
                learner.stopped = not schedule.is_over(*learner.played)
                more = 0 if schedule.steps or learner.stopped else learner.number - 1 - schedule.total
                files.sweep(out)
                return _with_remark(
                    learner.result(), f"out '{out}' holds {more} episodes more than asked for" if more else None
                )
            keeper = _Keeper(learner, out, request)
            keeper.begin()
        if found is None and warm_start is not None:
            learner.learn(warm_start)
        return _go_on(learner, keeper, schedule, progress, pictures)


@contextmanager
def _in_sentences(out: Path) -> Iterator[None]:
    """An error of the operating system becomes a sentence."""
    try:
        yield
    except OSError as error:
        raise files.cannot_write(out, error) from None


def _with_remark(result: TrainingResult, remark: str | None) -> TrainingResult:
    return result if remark is None else replace(result, remarks=(*result.remarks, remark))


def _go_on(
    learner: Learner,
    keeper: _Keeper,
    schedule: Schedule,
    progress: Callable[[int], None] | None,
    pictures: Callable[[TrainingResult], Mapping[str, bytes]] | None,
) -> TrainingResult:
    """Play what is left of the schedule, with checkpoints, and write the finished folder."""

    def after_round(played: int) -> None:
        keeper.commit_if_due()
        if progress is not None:
            progress(played)

    try:
        if schedule.steps is not None and not schedule.is_over(*learner.played):
            learner.play(None, after_round, steps=schedule.steps - learner.so_far.steps)
        for until, explore in () if schedule.steps else ((schedule.exploring, True), (schedule.total, False)):
            if (left := until - (learner.number - 1)) > 0 and not learner.stopped:
                learner.play(left, after_round, explore)
        result = learner.result()
        more = {} if pictures is None else pictures(result)
    except KeyboardInterrupt:
        if learner.agent is None:  # there is nothing to return
            raise
        result = learner.result()
        keeper.commit(result)
        return _with_remark(result, f"the same call with out='{keeper.out}' goes on")
    except BrokenError:
        if learner.agent is not None:
            keeper.commit()
        raise
    with _in_sentences(keeper.out), suppress(KeyboardInterrupt), deferred():  # it waits until everything is written
        keeper.finish(result, schedule if learner.stopped else None, more)
    return result


def is_over(out: Path, schedule: Schedule, episodes: int, steps: int) -> bool:
    """Whether the training of a finished folder, of so many episodes and steps, is done.

    One that `on_episode` or `on_plan` ended early is done if it was to last as long as this schedule.
    """
    spec = out / "spec.json"
    if schedule.is_over(episodes, steps):
        return True
    return spec.is_file() and run_folder.read_json(spec).get("stopped") == list(schedule)


def _inspect(out: Path, request: dict[str, Any]) -> list[Path] | None:
    """The saved learners of this training, the newest first; None if it has to begin. Refuse anything else."""
    files.check_writable(out)
    work = out / WORK
    finished, begun = ((each / "spec.json").is_file() for each in (out, work))
    others = [each for each in out.iterdir() if not each.name.endswith((files.PARTIAL, files.RECORD, WORK))]
    if others and not (finished or begun):
        raise EverystepError(f"out '{out}' holds other files; choose an empty or a new folder.")
    if work.is_dir() and not begun:
        raise EverystepError(
            f"out '{out}' holds an unfinished run without its spec.json; restore it, or remove '{work}'."
        )
    if not (begun or finished):
        return None
    before = run_folder.read_json((work if begun else out) / "spec.json")
    if before.get("kind") != TRAINING:
        raise EverystepError(f"out '{out}' holds a run of an experiment; choose another folder.")
    if not isinstance(before.get("request"), dict) or (finished and not (out / LEARNER).is_dir()):
        raise EverystepError(
            f"out '{out}' holds the result of a training without its learner, as TrainingResult.save writes it; choose "
            "another folder."
        )
    checkpoint.check_same(out, before["request"], request, REMEDY)
    saved = sorted(work.glob("checkpoint-*"), reverse=True) + ([out / LEARNER] if finished else [])
    return saved or None


def _restore(learner: Learner, out: Path, saved: list[Path]) -> None:
    """Restore the newest learner that is not damaged; a note names those that are."""
    for folder in saved:
        try:
            found = SavedLearner(folder)
        except DamagedError as error:
            if folder == saved[-1]:
                remove = f"'{out / WORK}'" if folder.parent.name == WORK else f"'{out}'"
                raise EverystepError(f"{str(error).rstrip('.')}; remove {remove} to start again.") from None
            print(f"note: {error} The one before it is used.", file=sys.stderr)
        else:
            found.restore(learner, REMEDY)
            return


class _Keeper:
    """Writes the checkpoints of a training, and its finished folder."""

    def __init__(self, learner: Learner, out: Path, request: dict[str, Any]) -> None:
        self._learner, self.out, self._work, self._request = learner, out, out / WORK, request
        self._last, self._interval = time.monotonic(), EVERY

    def begin(self) -> None:
        """Put .work in place, if it is not there. Refuse a folder whose finished files could not be replaced."""
        try:
            files.check_places(files.real(self.out), [*run_folder.OUTPUTS, f"{LEARNER}/{checkpoint.NAME}"])
        except EverystepError as error:
            fault = str(error).partition(";")[0]
            raise EverystepError(f"{fault}; move it away, or choose another folder.") from None
        files.sweep(self.out)
        if not (self._work / "spec.json").is_file():
            with files.filling(self._work) as work:
                run_folder.write_json(work / "spec.json", {"kind": TRAINING, "request": self._request})
        files.sweep(self._work)
        files.sign(self._work / "pid")

    def commit_if_due(self) -> None:
        if time.monotonic() - self._last >= self._interval:
            self.commit()

    def commit(self, so_far: TrainingResult | None = None) -> None:
        """Write a checkpoint. If the disk does not take it, training stops, and what was learnt is in the error."""
        began = time.monotonic()

        def fill(partial: Path) -> None:
            checkpoint.write(self._learner, partial)
            if so_far is not None:
                (partial / SO_FAR).mkdir()
                so_far.fill(partial / SO_FAR)

        try:
            with deferred():
                add_checkpoint(self._work, fill)
        except OSError as error:
            sentence = f"{str(files.cannot_write(self.out, error)).rstrip('.')}; the result so far is kept in memory."
            raise BrokenError(sentence, self._learner.result()) from None
        self._last = time.monotonic()
        self._interval = max(EVERY, COST * (self._last - began))

    def finish(self, result: TrainingResult, stopped: Schedule | None, more: Mapping[str, bytes]) -> None:
        """Write the finished files, and `more`.

        `stopped` is how long the training was to last, if it was ended early: so long it counts as finished.
        """
        about = {"request": self._request} | ({} if stopped is None else {"stopped": list(stopped)})

        def fill(finished: Path) -> None:
            (finished / LEARNER).mkdir()
            replace(result, spec={**result.spec, **about}).fill(finished)
            checkpoint.write(self._learner, finished / LEARNER)
            for name, content in more.items():
                (finished / name).parent.mkdir(exist_ok=True)
                (finished / name).write_bytes(content)

        finish(self.out, fill)


def add_checkpoint(work: Path, fill: Callable[[Path], None]) -> None:
    """Add a checkpoint, and remove those that are no longer needed."""
    numbers = _numbers(work)
    with files.filling(work / f"checkpoint-{max(numbers, default=0) + 1:06}") as partial:
        fill(partial)
    for number in sorted(numbers)[: len(numbers) + 1 - KEPT]:
        files.remove_folder(work / f"checkpoint-{number:06}")


def finish(out: Path, fill: Callable[[Path], None]) -> None:
    """Put the finished files of a training in their place, spec.json last, and remove .work."""
    finished = out / WORK / "finished"
    shutil.rmtree(finished, ignore_errors=True)
    finished.mkdir()
    fill(finished)
    files.move_files(finished, out, last="spec.json")
    checkpoint.remove_old_arrays(out / LEARNER)
    files.remove_folder(out / WORK)


def _numbers(work: Path) -> list[int]:
    found = (re.fullmatch(r"checkpoint-(\d{6,})", path.name) for path in work.iterdir())
    return [int(match[1]) for match in found if match]


def _digest(batch: Batch | None) -> str | None:
    """Which logged data training began with."""
    if batch is None:
        return None
    digest = hashlib.sha256()
    for each in fields(batch):
        digest.update(np.ascontiguousarray(getattr(batch, each.name)).tobytes())
    return f"logged data {digest.hexdigest()[:16]}"
