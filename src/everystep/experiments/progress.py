"""The progress of a run: bars on a terminal, occasional lines in a log, and curves for TensorBoard on request."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from everystep import files
from everystep.errors import EverystepError, unknown
from everystep.experiments import tables
from everystep.experiments.estimate import duration
from everystep.experiments.folder import run_folder
from everystep.experiments.runner import ChunkReport, OnChunk
from everystep.runtime.announce import EVERY, SOON, TICK, announced

USUAL_SIZE = {"ncols": 80, "nrows": 24}
REFRESH = 0.1  # seconds between updates of a bar
SETTLED, WINDOW = 2.0, 10.0  # seconds after the first report before a speed is told, and over which it is measured
WARNED_ABOVE = 3600.0  # seconds that are left
RECENT = 0.9  # the weight of the past in running means, per chunk
LOGS = ("tensorboard",)


class Counter:
    """The totals of all reports. `violation` is the mean per episode over recent chunks."""

    def __init__(self, spec: Mapping[str, Any], now: Callable[[], float] = time.monotonic):
        self._now, self._warned = now, False
        self.agents, self.seeds = len(spec["agents"]), len(spec["seeds"])
        self.total = self.agents * self.seeds * spec["episodes"]
        self.done, self.violation = 0, None
        self._ended: dict[str, int] = {}
        self._began: float | None = None  # the first report, before which agents are compiled
        self._recent: deque[tuple[float, int]] = deque()  # times of reports, and what was done by then

    violation: float | None

    def add(self, report: ChunkReport) -> None:
        self.done += report.episodes
        self._ended[report.label] = self._ended.get(report.label, 0) + report.seeds_ended
        if report.earlier:
            return
        now = self._now()
        self._began = now if self._began is None else self._began
        self._recent.append((now, self.done))
        while len(self._recent) > 2 and self._recent[1][0] <= now - WINDOW:
            self._recent.popleft()
        mean = report.violation / report.episodes
        self.violation = mean if self.violation is None else RECENT * self.violation + (1 - RECENT) * mean

    @property
    def agents_done(self) -> int:
        return sum(ended == self.seeds for ended in self._ended.values())

    @property
    def left(self) -> float | None:
        """The remaining seconds at the speed of the last reports; None until it can be told."""
        if self._began is None or self._recent[-1][0] - self._began < SETTLED:
            return None
        (before, done), (now, _) = self._recent[0], self._recent[-1]
        return (now - before) / (self.done - done) * (self.total - self.done) if self.done > done else None

    def warning(self) -> str | None:
        """The remaining time, once, if it is more than an hour."""
        left = self.left
        if self._warned or left is None or left < WARNED_ABOVE or self._recent[-1][0] - (self._began or 0) < WINDOW:
            return None
        self._warned = True
        return f"note: this run takes about {duration(left)} more at its present speed; it can be stopped and resumed."

    def line(self) -> str:
        recent = "" if self.violation is None else f", recently {tables.number(self.violation)} violations per episode"
        left = "" if self.left is None else f", {duration(self.left)} left"
        share = f"{self.done / self.total:.0%} of {self.total:,} episodes"
        return f"everystep: {share}, {self.agents_done} of {self.agents} agents{recent}{left}"


@contextmanager
def shown(spec: Mapping[str, Any], stream: TextIO | None = None) -> Iterator[OnChunk]:
    """Yield a function to call with the report of every finished chunk, from any thread."""
    stream = sys.stderr if stream is None else stream
    with _bars(spec, stream) if stream.isatty() else _lines(spec, stream) as show:
        yield show


@contextmanager
def _bars(spec: Mapping[str, Any], stream: TextIO) -> Iterator[OnChunk]:
    from tqdm import tqdm

    counter, lock = Counter(spec), threading.Lock()
    shape = "{l_bar}{bar}| {n_fmt}/{total_fmt}{unit} [{elapsed}{postfix}]"  # the time left is that of the counter
    options: dict[str, Any] = {"leave": False, "file": stream, "mininterval": REFRESH, "miniters": 1}
    options |= {"bar_format": shape, **size(stream)}
    with (
        tqdm(total=counter.agents, unit=" agents", position=0, **options) as agents,
        tqdm(total=counter.total, unit=" episodes", unit_scale=True, position=1, **options) as episodes,
        ticking(agents, episodes),
    ):

        def show(report: ChunkReport) -> None:
            with lock:
                counter.add(report)
                if counter.violation is not None:
                    left = "" if counter.left is None else f"{duration(counter.left)} left, "
                    recent = f"{left}violations per episode {tables.number(counter.violation)}"
                    episodes.set_postfix_str(recent, refresh=False)
                if warning := counter.warning():
                    episodes.write(warning, file=stream)
                episodes.update(report.episodes)
                if counter.agents_done > agents.n:
                    agents.update(counter.agents_done - agents.n)

        yield show


def size(stream: TextIO) -> dict[str, int]:
    """Options of bars on a terminal that does not tell its size, where they would be invisible; else none."""
    try:
        return {} if os.get_terminal_size(stream.fileno()).columns else USUAL_SIZE
    except (OSError, ValueError):  # no terminal
        return {}


@contextmanager
def ticking(*bars: Any) -> Iterator[None]:
    """Draw bars again every second: the time that has passed shows that the process is at work."""
    ended = threading.Event()

    def tick() -> None:
        while not ended.wait(TICK):
            for bar in bars:
                with suppress(OSError, ValueError):  # a terminal that was closed
                    bar.refresh()

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def counting(total: int, unit: str, words: Callable[[], str] = str) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with how many more of `total` are done: a bar on a terminal, occasional lines in a log.

    `words` tells what else is known by then.
    """
    from tqdm import tqdm

    stream = sys.stderr
    seen = stream is not None and stream.isatty()
    options: dict[str, Any] = {"leave": False, "file": stream, **size(stream)} if seen else {"disable": True}
    done = 0
    with tqdm(total=total, unit=f" {unit}", **options) as bar:

        def line() -> str:
            return "; ".join(filter(None, (f"everystep: {done / total:.0%} of {total:,} {unit}", words())))

        def advance(more: int) -> None:
            nonlocal done
            done = min(done + more, total)
            bar.set_postfix_str(words(), refresh=False)
            bar.update(done - bar.n)

        bar.set_postfix_str(words())
        with ticking(bar) if seen else announced(line):
            yield advance


@contextmanager
def _lines(spec: Mapping[str, Any], stream: TextIO, now: Callable[[], float] = time.monotonic) -> Iterator[OnChunk]:
    counter, lock = Counter(spec, now), threading.Lock()
    due = now() + SOON

    def show(report: ChunkReport) -> None:
        nonlocal due
        with lock:
            counter.add(report)
            if warning := counter.warning():
                print(warning, file=stream, flush=True)
            if now() >= due and counter.left is not None:
                due = now() + EVERY
                print(counter.line(), file=stream, flush=True)

    yield show


# --- TensorBoard ------------------------------------------------------------------------------------------------------
@contextmanager
def logged(kind: str | None, out: Path) -> Iterator[OnChunk | None]:
    """Write reports for TensorBoard to `out`-logs beside the run folder, and curves over episodes at the end."""
    if kind is None:
        yield None
        return
    with ExitStack() as closing:
        writer = closing.enter_context(_writer(kind, out))
        seen: dict[str, int] = {}
        lock = threading.Lock()

        def show(report: ChunkReport) -> None:
            with lock:
                seen[report.label] = seen.get(report.label, 0) + report.episodes
                if not report.earlier:
                    means = {"violation": report.violation, "value": report.value}
                    for name, total in means.items():
                        writer.add_scalar(f"running/{name}/{report.label}", total / report.episodes, seen[report.label])

        yield show
        if not run_folder.is_unfinished(out):
            _curves(writer, out)


def check(kind: str | None) -> None:
    """Refuse an unknown kind of log, or one whose package is missing, before any work."""
    if kind is not None and kind not in LOGS:
        raise unknown("log", kind, LOGS, f"--log takes {', '.join(LOGS)}.")
    if kind is not None:
        _package()


def _package() -> Any:
    try:
        import tensorboardX
    except ImportError:
        raise EverystepError(
            "--log tensorboard requires the package tensorboardX; install it with `pip install 'everystep[logs]'`."
        ) from None
    return tensorboardX


@contextmanager
def _writer(kind: str, out: Path) -> Iterator[Any]:
    check(kind)
    folder = log_folder(out)
    if folder.is_symlink() or (files.exists(folder) and not folder.is_dir()):
        raise EverystepError(f"log '{folder}' is not a folder; move it away, or choose another --out.")
    writer = _package().SummaryWriter(logdir=str(folder))
    try:
        yield writer
    finally:
        writer.close()


def log_folder(out: Path) -> Path:
    """The folder of logs: beside the run folder, which holds only the run."""
    return files.real(out).with_name(files.real(out).name + "-logs")


def _curves(writer: Any, out: Path) -> None:
    """Write means over seeds by episode, at the episodes that a figure shows."""
    from everystep.experiments import reductions
    from everystep.experiments.folder import finished

    for label, curves in finished.read(out).curves(("return", "violation")).items():
        for name, curve in curves.items():
            mean = curve.mean(0)
            for k in reductions.shown_episodes(len(mean)):
                writer.add_scalar(f"{name}/{label}", float(mean[k]), int(k) + 1)
