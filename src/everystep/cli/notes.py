"""What a command is doing, reported whenever it has been silent for a while.

A thread (`reporting`) watches the command from its beginning, before anything heavy is imported. The first silence is
counted from there, whatever phases there were: several short ones must not add up to a long silence. A terminal is
never silent for long, because a user waits there; a log gets a note now and again.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from everystep.cli import interrupts

PATIENCE = 2.0  # seconds of silence before a note
OFTEN, AGAIN = 3.0, 30.0  # between notes on a terminal, and in a log
TICK = 1.0  # between updates of a note in place
POLL = 0.25
NEVER = float("inf")


@dataclass(eq=False)
class Phase:
    """What is being done, in words, and how often it is repeated; `told` once a note was printed."""

    doing: Callable[[], str]
    again: float
    in_place: bool = False  # on one line of a terminal, on which nothing else is written meanwhile
    below_bars: bool = False
    began: float = 0.0
    told: bool = False


class Reporter:
    """Prints notes about the innermost phase, from a thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._phases: list[Phase] = []
        self._last = time.monotonic()  # the last note, or the beginning
        self._silent = True  # nothing was printed so far
        self._drawn = 0  # characters of a note in place
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="everystep-notes", daemon=True)
        self._thread.start()

    def begin(self, phase: Phase) -> None:
        with self._lock:
            self._erase()
            phase.began = time.monotonic()
            self._phases.append(phase)

    def end(self, phase: Phase) -> None:
        with self._lock:
            if phase in self._phases:
                self._erase()
                self._phases.remove(phase)

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(POLL):
            with self._lock:
                if self._phases and not interrupts.received() and time.monotonic() >= self._due(self._phases[-1]):
                    self._print(self._phases[-1])

    def _due(self, phase: Phase) -> float:
        if self._silent:
            return self._last + PATIENCE
        return self._last + phase.again if phase.told else max(self._last, phase.began) + PATIENCE

    def _print(self, phase: Phase) -> None:
        self._last, self._silent, phase.told = time.monotonic(), False, True
        note = f"note: {phase.doing()} ({self._last - phase.began:.0f} s so far)"
        if phase.below_bars:
            interrupts.say(note)
            return
        with suppress(OSError, ValueError):  # nobody may be reading
            if phase.in_place:
                print(f"\r{note}", end="", file=sys.stderr, flush=True)
                self._drawn = len(note)
            else:
                print(note, file=sys.stderr, flush=True)

    def _erase(self) -> None:
        if self._drawn:
            with suppress(OSError, ValueError):
                print(f"\r{' ' * self._drawn}\r", end="", file=sys.stderr, flush=True)
            self._drawn = 0


_reporter: Reporter | None = None


@contextmanager
def reporting() -> Iterator[Reporter]:
    """The thread that prints notes; the one that runs already, if there is one."""
    global _reporter
    if _reporter is not None:
        yield _reporter
        return
    _reporter = Reporter()
    try:
        yield _reporter
    finally:
        _reporter.stop()
        _reporter = None


@contextmanager
def _during(phase: Phase) -> Iterator[Callable[[], None]]:
    with reporting() as reporter:
        reporter.begin(phase)
        try:
            yield lambda: reporter.end(phase)
        finally:
            reporter.end(phase)


@contextmanager
def working() -> Iterator[None]:
    """A whole command: notes wherever no other phase has words for what is done."""
    with _during(Phase(lambda: "working", OFTEN if sys.stderr.isatty() else AGAIN)):
        yield


@contextmanager
def announced(doing: str | Callable[[], str], below_bars: bool = False) -> Iterator[Callable[[], None]]:
    """Say what the command is doing if it takes long, once and then again, until the function is called.

    Nothing else may be printed meanwhile, except bars that tick.
    """
    words = (lambda: doing) if isinstance(doing, str) else doing
    in_place = sys.stderr.isatty() and not below_bars
    with _during(Phase(words, TICK if in_place else AGAIN, in_place, below_bars and sys.stderr.isatty())) as end:
        yield end


@contextmanager
def told_elsewhere(doing: Callable[[], str] = str) -> Iterator[None]:
    """No notes, because bars or lines show the progress; `doing` is for a log that has not got a word so far."""
    with reporting() as reporter:
        shown = sys.stderr.isatty() or not reporter._silent
        with _during(Phase(doing, NEVER, told=True) if shown else Phase(doing, NEVER)):
            yield
