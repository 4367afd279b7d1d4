"""What takes long says so on standard error: in place every second on a terminal, and now and then in a log."""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import ParamSpec, TypeVar

SOON, EVERY = 3.0, 30.0  # seconds before the first line in a log, and between lines
TICK = 1.0  # and at most on a terminal, so that it is never silent

P = ParamSpec("P")
R = TypeVar("R")


@contextmanager
def announced(line: Callable[[], str]) -> Iterator[None]:
    """Print a line after `SOON` seconds and then again, whatever the process is doing."""
    ended = threading.Event()
    stream = sys.stderr
    in_place = stream is not None and stream.isatty()
    widest = 0

    def announce() -> None:
        nonlocal widest
        pause = SOON
        while not ended.wait(pause):
            pause = TICK if in_place else EVERY
            words = line()
            widest = max(widest, len(words))
            shown = f"\r{words:{widest}}" if in_place else f"{words}\n"
            with suppress(OSError, ValueError, AttributeError):  # standard error was closed, or there is none
                print(shown, end="", file=stream, flush=True)

    thread = threading.Thread(target=announce, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        if in_place and widest:
            with suppress(OSError, ValueError):
                print(f"\r{'':{widest}}\r", end="", file=stream, flush=True)


def patiently(make: Callable[P, R]) -> Callable[P, R]:
    """The same function, which says that it is at work if it takes long."""

    @functools.wraps(make)
    def made(*given: P.args, **named: P.kwargs) -> R:
        began = time.monotonic()
        with announced(lambda: f"note: {make.__name__} is being made, {time.monotonic() - began:.0f} s so far"):
            return make(*given, **named)

    return made
