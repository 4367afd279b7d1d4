"""Progress on standard error: bars on a terminal, lines now and then in a log, all printed by one thread.

A task is what the process does now, in words. Tasks nest, and the innermost one is reported. The first silence is
counted from the beginning of the outermost task, so several short tasks do not add up to a long silence.
"""

from __future__ import annotations

import functools
import shutil
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from everystep.runtime import signals

PATIENCE = 2.0  # seconds of silence before the first line
AGAIN, OFTEN = 30.0, 3.0  # between lines in a log, and on a terminal where the command prints lines of its own
TICK = 1.0  # between updates of a line in place
POLL = 0.25
WIDTH = 10  # characters of a bar
SETTLED, WINDOW = 2.0, 10.0  # seconds after the first report before a speed is shown, and over which it is measured

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(eq=False)
class Task:
    """`line` describes what is done after so many seconds, `again` seconds apart.

    in_place  the line is drawn over the one before, on a terminal on which nothing else is written meanwhile
    at_once   it is drawn from the beginning, not only after a silence
    """

    line: Callable[[float], str]
    again: float
    in_place: bool = False
    at_once: bool = False
    began: float = 0.0
    printed: bool = False


class Printer:
    """Prints the line of the innermost task from a thread, which runs while there are tasks."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._tasks: list[Task] = []
        self._last = 0.0  # the last line, or the beginning of the outermost task
        self._silent = True  # nothing was printed so far
        self._drawn = 0  # characters of a line in place

    @contextmanager
    def during(self, task: Task) -> Iterator[None]:
        with self._lock:
            self._erase()
            task.began = time.monotonic()
            if not self._tasks:
                self._begin(task.began)
            self._tasks.append(task)
            if task.at_once:
                self._print(task)
        try:
            yield
        finally:
            with self._lock:
                self._erase()
                self._tasks.remove(task)
                ended, thread = self._ended, self._thread
                if not self._tasks:
                    ended.set()
            if ended.is_set():
                thread.join()

    def _begin(self, now: float) -> None:
        self._last, self._silent = now, True
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, args=(self._ended,), name="everystep-progress", daemon=True)
        self._thread.start()

    def write(self, sentence: str) -> None:
        """Print a line above the one in place."""
        with self._lock:
            self._erase()
            _write(f"{sentence}\n")

    def _watch(self, ended: threading.Event) -> None:
        while not ended.wait(POLL):
            with self._lock:
                if self._tasks and not signals.received() and time.monotonic() >= self.due(self._tasks[-1]):
                    self._print(self._tasks[-1])

    def due(self, task: Task) -> float:
        """When the next line of a task is printed."""
        if self._silent:
            return self._last + PATIENCE
        return self._last + task.again if task.printed else max(self._last, task.began) + PATIENCE

    def _print(self, task: Task) -> None:
        self._last, self._silent, task.printed = time.monotonic(), False, True
        line = task.line(self._last - task.began)
        if task.in_place:
            line = line[: shutil.get_terminal_size().columns - 1]
            _write(f"\r{line:{self._drawn}}")
            self._drawn = len(line)
        else:
            _write(f"{line}\n")

    def _erase(self) -> None:
        if self._drawn:
            _write(f"\r{'':{self._drawn}}\r")
            self._drawn = 0


def _write(text: str) -> None:
    with suppress(OSError, ValueError, AttributeError):  # standard error was closed, or there is none
        sys.stderr.write(text)
        sys.stderr.flush()


def _on_a_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (ValueError, AttributeError):
        return False


_printer = Printer()


def note(sentence: str) -> None:
    """Print a remark on standard error, above the progress."""
    _printer.write(f"note: {sentence}")


@contextmanager
def working() -> Iterator[None]:
    """A whole command, which is reported as working while no other task is."""
    line = lambda seconds: f"note: working ({seconds:.0f} s so far)"
    with _printer.during(Task(line, OFTEN if _on_a_terminal() else AGAIN)):
        yield


@contextmanager
def announced(doing: str | Callable[[], str]) -> Iterator[None]:
    """Report what is done if it takes long, once and then again. Nothing else may be printed meanwhile."""
    line = lambda seconds: f"note: {doing if isinstance(doing, str) else doing()} ({seconds:.0f} s so far)"
    in_place = _on_a_terminal()
    with _printer.during(Task(line, TICK if in_place else AGAIN, in_place)):
        yield


def patiently(make: Callable[P, R]) -> Callable[P, R]:
    """The same function, which reports that it is at work if it takes long."""

    @functools.wraps(make)
    def made(*given: P.args, **named: P.kwargs) -> R:
        with announced(f"{make.__name__} is being made"):
            return make(*given, **named)

    return made


# --- counting ---------------------------------------------------------------------------------------------------------
class Count:
    """How much of a total is done, and how long the rest takes at the speed of the last seconds."""

    def __init__(self, total: int, now: Callable[[], float] = time.monotonic):
        self.total, self.done = total, 0
        self._now, self._lock = now, threading.Lock()
        self._began: float | None = None  # the first report, before which programs are compiled
        self._recent: deque[tuple[float, int]] = deque()  # times of reports, and what was done by then

    def __call__(self, more: int, earlier: bool = False) -> None:
        """Count `more`, done by this process or by an earlier one. After a signal it raises KeyboardInterrupt."""
        if signals.received():
            raise KeyboardInterrupt
        with self._lock:
            self.done = min(self.done + more, self.total)
            if earlier:
                return
            now = self._now()
            self._began = now if self._began is None else self._began
            self._recent.append((now, self.done))
            while len(self._recent) > 2 and self._recent[1][0] <= now - WINDOW:
                self._recent.popleft()

    @property
    def measured(self) -> float:
        """The seconds from the first report to the last."""
        with self._lock:
            return 0.0 if self._began is None else self._recent[-1][0] - self._began

    @property
    def left(self) -> float | None:
        """The remaining seconds; None until they are known."""
        if self.measured < SETTLED:
            return None
        with self._lock:
            (before, done), (now, _) = self._recent[0], self._recent[-1]
            return (now - before) / (self.done - done) * (self.total - self.done) if self.done > done else None

    def words(self) -> str:
        return "" if not self.left else f"{duration(self.left)} left"


@contextmanager
def counting(total: int, unit: str, words: Callable[[], str] = str) -> Iterator[Count]:
    """Yield a function to call with how many more of `total` are done: a bar on a terminal, or lines in a log.

    `words` describe what else is known by then.
    """
    count, bar = Count(total), _on_a_terminal()

    def line(seconds: float) -> str:
        share, known = count.done / max(total, 1), [each for each in (count.words(), words()) if each]
        if not bar:
            return "; ".join([f"note: {share:.0%} of {total:,} {unit}", *known]) + f" ({seconds:.0f} s so far)"
        drawn, known = "#" * int(share * WIDTH), [_clock(seconds), *known]
        return f"{share:4.0%}|{drawn:<{WIDTH}}| {count.done:,}/{total:,} {unit} [{', '.join(known)}]"

    with _printer.during(Task(line, POLL if bar else AGAIN, bar, bar)):
        yield count


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes:02}:{rest:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def duration(seconds: float) -> str:
    """Seconds in a readable unit."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    days = seconds / 86400
    return f"{seconds / 3600:.1f} h" if days < 3 else f"{days:.0f} days" if days < 730 else f"{days / 365:.2g} years"
