"""How far a run is: bars on a terminal, now and then a line in a log, curves for TensorBoard if somebody asks."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TextIO

from everystep.errors import EverystepError, unknown
from everystep.experiments import run_folder, tables
from everystep.experiments.estimate import duration
from everystep.experiments.runner import Step, Told

EVERY = 30.0  # seconds between lines in a log
REFRESH = 0.1  # and between pictures of a bar
RECENT = 0.9  # how much the running means keep of what they were, at each chunk
LOGS = ("tensorboard",)


class Counter:
    """What was told so far. `harm` is the violation of an episode, the mean over recent chunks."""

    def __init__(self, spec: Mapping[str, Any], now: Callable[[], float] = time.monotonic):
        self._now, self._began = now, now()
        self.agents, self.seeds = len(spec["agents"]), len(spec["seeds"])
        self.total = self.agents * self.seeds * spec["episodes"]
        self.done, self.before, self.harm = 0, 0, None
        self._ended: dict[str, int] = {}

    harm: float | None

    def add(self, step: Step) -> None:
        self.done += step.episodes
        self._ended[step.label] = self._ended.get(step.label, 0) + step.seeds_ended
        if step.earlier:
            self.before += step.episodes
            return
        mean = step.violation / step.episodes
        self.harm = mean if self.harm is None else RECENT * self.harm + (1 - RECENT) * mean

    @property
    def agents_done(self) -> int:
        return sum(ended == self.seeds for ended in self._ended.values())

    @property
    def left(self) -> float | None:
        """Seconds, if it goes on as it went in this process."""
        here = self.done - self.before
        return (self._now() - self._began) / here * (self.total - self.done) if here else None

    def line(self) -> str:
        harm = "" if self.harm is None else f", lately {tables.number(self.harm)} violation an episode"
        left = "" if self.left is None else f", {duration(self.left)} left"
        share = f"{self.done / self.total:.0%} of {self.total:,} episodes"
        return f"everystep: {share}, {self.agents_done} of {self.agents} agents{harm}{left}"


@contextmanager
def shown(spec: Mapping[str, Any], stream: TextIO | None = None) -> Iterator[Told]:
    """Tell what it yields whenever a chunk is done, from any thread."""
    stream = sys.stderr if stream is None else stream
    with _bars(spec, stream) if stream.isatty() else _lines(spec, stream) as told:
        yield told


@contextmanager
def _bars(spec: Mapping[str, Any], stream: TextIO) -> Iterator[Told]:
    from tqdm import tqdm

    counter, lock = Counter(spec), threading.Lock()
    looks: dict[str, Any] = {"leave": False, "file": stream, "mininterval": REFRESH, "miniters": 1}
    with (
        tqdm(total=counter.agents, unit=" agents", position=0, **looks) as agents,
        tqdm(total=counter.total, unit=" episodes", unit_scale=True, position=1, **looks) as episodes,
    ):

        def told(step: Step) -> None:
            with lock:
                counter.add(step)
                if step.earlier:
                    episodes.initial += step.episodes  # it says nothing of how fast this process is
                if counter.harm is not None:
                    episodes.set_postfix_str(f"violation {tables.number(counter.harm)}", refresh=False)
                episodes.update(step.episodes)
                if counter.agents_done > agents.n:
                    agents.update(counter.agents_done - agents.n)

        yield told


@contextmanager
def _lines(spec: Mapping[str, Any], stream: TextIO, now: Callable[[], float] = time.monotonic) -> Iterator[Told]:
    counter, lock = Counter(spec, now), threading.Lock()
    last = now()

    def told(step: Step) -> None:
        nonlocal last
        with lock:
            counter.add(step)
            if now() - last >= EVERY:
                last = now()
                print(counter.line(), file=stream, flush=True)

    yield told


# --- TensorBoard ------------------------------------------------------------------------------------------------------
@contextmanager
def logged(kind: str | None, out: Path) -> Iterator[Told | None]:
    """Also written for TensorBoard, in `out`-logs beside the run folder; curves over episodes when it is finished."""
    if kind is None:
        yield None
        return
    with ExitStack() as closing:
        writer = closing.enter_context(_writer(kind, out))
        seen: dict[str, int] = {}
        lock = threading.Lock()

        def told(step: Step) -> None:
            with lock:
                seen[step.label] = seen.get(step.label, 0) + step.episodes
                if not step.earlier:
                    means = {"violation": step.violation, "value": step.value}
                    for name, total in means.items():
                        writer.add_scalar(f"running/{name}/{step.label}", total / step.episodes, seen[step.label])

        yield told
        if not run_folder.is_unfinished(out):
            _curves(writer, out)


def check(kind: str | None) -> None:
    """Refuse a kind of log that there is not, or whose package is not there, before any work."""
    if kind is not None and kind not in LOGS:
        raise unknown("log", kind, LOGS, f"--log takes {', '.join(LOGS)}.")
    if kind is not None:
        _package()


def _package() -> Any:
    try:
        import tensorboardX
    except ImportError:
        raise EverystepError(
            "--log tensorboard needs the package tensorboardX; install it with `pip install 'everystep[logs]'`."
        ) from None
    return tensorboardX


@contextmanager
def _writer(kind: str, out: Path) -> Iterator[Any]:
    check(kind)
    writer = _package().SummaryWriter(logdir=str(log_folder(out)))
    try:
        yield writer
    finally:
        writer.close()


def log_folder(out: Path) -> Path:
    """Beside the run folder, which holds nothing but the run."""
    return out.resolve().with_name(out.resolve().name + "-logs")


def _curves(writer: Any, out: Path) -> None:
    """Means over seeds, by episode, at as many as a figure would show."""
    from everystep.experiments import reductions

    for label, curves in run_folder.read_curves(out, ("return", "violation")).items():
        for name, curve in curves.items():
            mean = curve.mean(0)
            for k in reductions.shown_episodes(len(mean)):
                writer.add_scalar(f"{name}/{label}", float(mean[k]), int(k) + 1)
