"""Ctrl-C and SIGTERM: answered at once, whatever the main thread is doing.

A handler in Python runs in the main thread, and not before the compiler has returned there. The number of a signal is
therefore also written to a socket (`signal.set_wakeup_fd`), at which another thread waits: it says that the command is
stopping, and ends the process when the signal comes a second time.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

HASTE = 0.2  # seconds in which a command may stop without a word about it
STOPPING = "everystep: stopping; a second Ctrl-C stops at once."

_received: list[int] = []  # the signals of this command so far
_kept: Callable[[], str] = str


def received() -> bool:
    """Whether a signal came: its exception alone may be swallowed where it happens to be raised."""
    return bool(_received)


def status() -> int:
    """The exit status of a command that was stopped: 130 after Ctrl-C, 143 after SIGTERM."""
    return 128 + (_received[0] if _received else signal.SIGINT)


@contextmanager
def keeping(words: Callable[[], str]) -> Iterator[None]:
    """What is kept if the process ends at once, in words that are looked up only then."""
    global _kept
    before, _kept = _kept, words
    try:
        yield
    finally:
        _kept = before


@contextmanager
def listening() -> Iterator[None]:
    """Raise KeyboardInterrupt in the main thread at the first signal, and end the process at the second."""
    _received.clear()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    done = threading.Event()
    answering = threading.Thread(target=_answer, args=(ours, done), name="everystep-interrupts", daemon=True)
    heard = [each for each in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, _stop) for each in heard}
    woken = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    unraisable, sys.unraisablehook = sys.unraisablehook, _without_interrupts(sys.unraisablehook)
    answering.start()
    try:
        yield
    finally:
        done.set()
        sys.unraisablehook = unraisable
        signal.set_wakeup_fd(woken)
        for each, handler in before.items():
            signal.signal(each, handler)
        theirs.close()  # which ends the thread
        answering.join()
        ours.close()


def _without_interrupts(hook: Callable[[Any], object]) -> Callable[[Any], object]:
    """A hook that prints no traceback of an interrupt in a callback of Python, which goes on; `received` remembers."""

    def print_others(unraisable: Any) -> None:
        if not isinstance(unraisable.exc_value, KeyboardInterrupt):
            hook(unraisable)

    return print_others


def _stop(number: int, frame: object) -> None:
    _received.append(number)
    if len(_received) == 1:
        raise KeyboardInterrupt


def _answer(wakened: socket.socket, done: threading.Event) -> None:
    """In a thread: say that the first signal was heard, and end the process at the second."""
    times = 0
    while numbers := wakened.recv(1):
        if numbers[0] not in (signal.SIGINT, signal.SIGTERM):
            continue
        times += 1
        if times > 1:
            kept = _kept()
            say(f"everystep: stopped at once{f'; {kept}' if kept else ''}.")
            os._exit(128 + numbers[0])
        if not done.wait(HASTE):
            say(STOPPING)


def say(sentence: str) -> None:
    """A line on standard error, below what is drawn there."""
    with suppress(OSError, ValueError):  # nobody may be reading
        print(f"\n{sentence}" if sys.stderr.isatty() else sentence, file=sys.stderr, flush=True)
