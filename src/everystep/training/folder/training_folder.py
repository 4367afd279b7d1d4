"""A training in a run folder, `train(..., out=DIR)`: it may be killed at any moment; the same call resumes it.

    DIR/                       what TrainingResult.save writes, when it is finished
    DIR/learner/               the learner itself (see checkpoint.py), which can play more episodes
    DIR/.work/                 while it is not finished: spec.json, what was requested
    DIR/.work/checkpoint-N/    a learner between two episodes (see files/store.py)
    DIR/.work/checkpoint-N/so-far/  what TrainingResult.save writes, of a training that was stopped, for its report

A killed process loses the episodes since the last checkpoint; they are repeated identically (see env_state.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from everystep import files
from everystep.environments.play.batch import Batch
from everystep.errors import EverystepError, check_type
from everystep.experiments.folder import run_folder
from everystep.experiments.folder.run_folder import TRAINING, WORK, FolderState
from everystep.files import store
from everystep.files.store import Store
from everystep.runtime.signals import deferred
from everystep.training.folder import checkpoint
from everystep.training.folder.checkpoint import SavedLearner
from everystep.training.learner import Learner
from everystep.training.result import BrokenError, TrainingResult
from everystep.training.schedule import Schedule

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
    """Train in a folder until the schedule is done, from where an earlier call stopped.

    `pictures` returns more files for the finished folder, by name.
    """
    if warm_start is not None:
        check_type("warm_start", warm_start, Batch, "logged data")
    if progress is not None:
        check_type("progress", progress, Callable, "a function of the number of episodes")  # type: ignore[arg-type]
    request = {**checkpoint.identity(learner), "warm_start": _described(warm_start)}
    with files.writing(out):
        files.make_folder(out)
    with files.held(out, out / WORK / "pid"):
        with files.writing(out):
            found = _inspect(out, request)
            if found is not None:
                _restore(learner, out, found)
            spec = run_folder.read_json(out / "spec.json") if (out / "spec.json").is_file() else {}
            if not run_folder.is_unfinished(out) and is_over(spec, schedule, *learner.played):
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


def _with_remark(result: TrainingResult, remark: str | None) -> TrainingResult:
    return result if remark is None else replace(result, remarks=(*result.remarks, remark))


def _go_on(
    learner: Learner,
    keeper: _Keeper,
    schedule: Schedule,
    progress: Callable[[int], None] | None,
    pictures: Callable[[TrainingResult], Mapping[str, bytes]] | None,
) -> TrainingResult:
    """Play the rest of the schedule, with checkpoints, and write the finished folder."""

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
        return _with_remark(result, f"the same call with out='{keeper.out}' resumes it")
    except BrokenError:
        if learner.agent is not None:
            keeper.commit()
        raise
    with files.writing(keeper.out), suppress(KeyboardInterrupt), deferred():  # it waits until everything is written
        keeper.finish(result, schedule if learner.stopped else None, more)
    return result


def is_over(spec: Mapping[str, Any], schedule: Schedule, episodes: int, steps: int) -> bool:
    """Whether a finished folder with this many episodes and steps is finished for this schedule.

    A training that `on_episode` or `on_plan` ended early counts as finished for the schedule that it had.
    """
    return spec.get("stopped") == list(schedule) or schedule.is_over(episodes, steps)


def rows(folder: Path, columns: Sequence[str]) -> dict[str, np.ndarray]:
    """Columns of the episodes of a finished folder."""
    import pyarrow as pa

    try:
        table = files.read_parquet(folder / "episodes.parquet", columns, MOST_EPISODES)
        return {name: np.asarray(table[name].to_numpy()) for name in columns}
    except (OSError, ValueError, KeyError, pa.ArrowException):
        raise EverystepError(f"'{folder}' has an episodes.parquet that cannot be read; restore it.") from None


def _inspect(out: Path, request: dict[str, Any]) -> list[Path] | None:
    """The saved learners of this training, the newest first; None if it has to begin. Refuse anything else."""
    files.check_writable(out)
    state, before = run_folder.look_into(out)
    if state is FolderState.NEW:
        return None
    if before.get("kind") != TRAINING:
        raise EverystepError(f"out '{out}' holds a run of an experiment; choose another folder.")
    if not isinstance(before.get("request"), dict) or (state is FolderState.FINISHED and not (out / LEARNER).is_dir()):
        raise EverystepError(
            f"out '{out}' holds the result of a training without its learner, as TrainingResult.save writes it; choose "
            "another folder."
        )
    checkpoint.check_same(out, before["request"], request, REMEDY)
    return saved_learners(out) or None


def saved_learners(out: Path) -> list[Path]:
    """The learners in the folder of a training, the newest first; some may be damaged."""
    return [*store.saved(out / WORK), *([out / LEARNER] if (out / LEARNER).is_dir() else [])]


def _restore(learner: Learner, out: Path, saved: list[Path]) -> None:
    """Restore the newest learner that is not damaged."""
    if (found := store.newest(saved, SavedLearner)) is None:
        remove = out / WORK if saved[-1].parent.name == WORK else out
        raise EverystepError(f"out '{out}' holds no learner that can be read; remove '{remove}' to start again.")
    found.restore(learner, REMEDY)


class _Keeper:
    """Writes the checkpoints of a training, and its finished folder."""

    def __init__(self, learner: Learner, out: Path, request: dict[str, Any]) -> None:
        self._learner, self.out, self._work, self._request = learner, out, out / WORK, request
        self._store = Store(self._work)

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
                files.write_json(work / "spec.json", {"kind": TRAINING, "request": self._request})
        files.sweep(self._work)
        files.sign(self._work / "pid")

    def commit_if_due(self) -> None:
        if self._store.is_due():
            self.commit()

    def commit(self, so_far: TrainingResult | None = None) -> None:
        """Write a checkpoint. If it cannot be written, training stops, and the error holds the result so far."""

        def fill(partial: Path) -> None:
            checkpoint.write(self._learner, partial)
            if so_far is not None:
                (partial / SO_FAR).mkdir()
                so_far.fill(partial / SO_FAR)

        try:
            with deferred():
                self._store.add(fill)
        except OSError as error:
            sentence = f"{str(files.cannot_write(self.out, error)).rstrip('.')}; the result so far is kept in memory."
            raise BrokenError(sentence, self._learner.result()) from None

    def finish(self, result: TrainingResult, stopped: Schedule | None, more: Mapping[str, bytes]) -> None:
        """Write the finished files, and `more`.

        `stopped` is the schedule of a training that was ended early: for this schedule it counts as finished.
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


def finish(out: Path, fill: Callable[[Path], None]) -> None:
    """Put the finished files of a training into their place, and remove .work."""
    run_folder.finish(out, fill)
    checkpoint.remove_old_arrays(out / LEARNER)
    files.remove_folder(out / WORK)


def _described(batch: Batch | None) -> str | None:
    """Which logged data training began with."""
    return None if batch is None else f"logged data {store.digest(vars(batch))}"
