"""The progress of a run on standard error, and curves for TensorBoard on request."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everystep import files
from everystep.errors import EverystepError, unknown
from everystep.experiments import tables
from everystep.experiments.folder import run_folder
from everystep.experiments.runner import ChunkReport, OnChunk
from everystep.runtime import progress

if TYPE_CHECKING:
    from tensorboardX import SummaryWriter

WARNED_ABOVE = 3600.0  # seconds that are left
RECENT = 0.9  # the weight of the past in running means, per chunk
LOGS = ("tensorboard",)


@contextmanager
def shown(spec: Mapping[str, Any]) -> Iterator[OnChunk]:
    """Yield a function to call with the report of every finished chunk, from any thread."""
    agents, seeds = len(spec["agents"]), len(spec["seeds"])
    ended: Counter[str] = Counter()
    violation: float | None = None  # per episode over recent chunks
    warned, lock = False, threading.Lock()

    def words() -> str:
        if violation is None:
            return "compiling"
        if count.done == count.total:
            return "writing the results"
        done = sum(number == seeds for number in list(ended.values()))
        return f"violation {tables.number(violation)} per episode, {done} of {agents} agents"

    def show(report: ChunkReport) -> None:
        nonlocal violation, warned
        count(report.episodes, report.earlier)
        with lock:
            ended[report.label] += report.seeds_ended
            if not report.earlier:
                mean = report.violation / report.episodes
                violation = mean if violation is None else RECENT * violation + (1 - RECENT) * mean
            left = count.left
            if not warned and left is not None and left > WARNED_ABOVE and count.measured >= progress.WINDOW:
                warned = True
                progress.note(
                    f"this run takes about {progress.duration(left)} more at its present speed; "
                    "it can be stopped and resumed."
                )

    with progress.counting(agents * seeds * spec["episodes"], "episodes", words) as count:
        yield show


# --- TensorBoard ------------------------------------------------------------------------------------------------------
@contextmanager
def logged(kind: str | None, out: Path) -> Iterator[OnChunk | None]:
    """Write reports for TensorBoard to `out`-logs beside the run folder, and curves over episodes at the end."""
    if kind is None:
        yield None
        return
    with _writer(kind, out) as writer:
        seen: Counter[str] = Counter()
        lock = threading.Lock()

        def show(report: ChunkReport) -> None:
            with lock:
                seen[report.label] += report.episodes
                if not report.earlier:
                    for name, total in (("violation", report.violation), ("value", report.value)):
                        writer.add_scalar(f"running/{name}/{report.label}", total / report.episodes, seen[report.label])

        yield show
        if not run_folder.is_unfinished(out):
            _curves(writer, out)


def check(kind: str | None) -> None:
    """Refuse an unknown kind of log, or one whose package is missing, before any work."""
    if kind is not None and kind not in LOGS:
        raise unknown("log", kind, LOGS, f"--log takes {', '.join(LOGS)}.")
    if kind is not None and find_spec("tensorboardX") is None:
        raise EverystepError(
            "--log tensorboard requires the package tensorboardX; install it with `pip install 'everystep[logs]'`."
        )


@contextmanager
def _writer(kind: str, out: Path) -> Iterator[SummaryWriter]:
    check(kind)
    folder = log_folder(out)
    if folder.is_symlink() or (files.exists(folder) and not folder.is_dir()):
        raise EverystepError(f"log '{folder}' is not a folder; move it away, or choose another --out.")
    from tensorboardX import SummaryWriter

    writer = SummaryWriter(logdir=str(folder))
    try:
        yield writer
    finally:
        writer.close()


def log_folder(out: Path) -> Path:
    """The folder of logs: beside the run folder, which holds only the run."""
    return files.real(out).with_name(files.real(out).name + "-logs")


def _curves(writer: SummaryWriter, out: Path) -> None:
    """Write means over seeds by episode, at the episodes that a figure shows."""
    from everystep.experiments import reductions
    from everystep.experiments.folder import finished

    for label, curves in finished.read(out).curves(("return", "violation")).items():
        for name, curve in curves.items():
            mean = curve.mean(0)
            for k in reductions.shown_episodes(len(mean)):
                writer.add_scalar(f"{name}/{label}", float(mean[k]), int(k) + 1)
