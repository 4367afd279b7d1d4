"""Ctrl-C and SIGTERM: answered at once, whatever the main thread is doing.

A handler in Python runs in the main thread, and not before the compiler has returned there. The number of a signal is
therefore also written to a socket (`signal.set_wakeup_fd`), at which another thread waits: it says that the command is
stopping, and ends the process when the signal comes a second time or the command has not stopped after `LIMIT` seconds.

The first signal is a KeyboardInterrupt in the main thread. None is raised during an import, in which C code may crash
or make another error of it. Where a command imports what it needs, the process ends, because nothing was begun that has
to be cleaned up. Elsewhere the exception may be swallowed by a callback. So that thread tries again until the exception
has arrived, `received` decides whether a command was stopped, and no traceback is printed after a signal.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from _thread import interrupt_main
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

COMMANDS = os.path.join(os.path.dirname(os.path.dirname(__file__)), "cli")
HASTE = 0.2  # seconds in which a command may stop without a word about it
RETRY = 0.1  # seconds between attempts to raise the exception
LIMIT = 6.0  # seconds after which a command that does not stop is ended
STOPPING = "everystep: stopping; a second Ctrl-C stops at once."

_received: list[int] = []  # the first signal of this command
_outside: FrameType | None = None  # the frame that runs the command
_raised = False  # whether its exception was raised, or is no longer needed
_kept: Callable[[], str] = str


def received() -> bool:
    """Whether a signal came."""
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
    global _raised, _outside
    _forget()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _outside = sys._getframe(2)
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    done = threading.Event()
    answering = threading.Thread(target=_answer, args=(ours, done), name="everystep-interrupts", daemon=True)
    heard = [each for each in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(each) is not signal.SIG_IGN]
    with _without_tracebacks():
        before = {each: signal.signal(each, _stop) for each in heard}
        woken = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        answering.start()
        try:
            yield
        except BaseException as error:
            if _received and not isinstance(error, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            raise
        finally:
            _raised, _outside = True, None
            done.set()
            signal.set_wakeup_fd(woken)
            theirs.close()  # which ends the thread
            answering.join()
            ours.close()
            for each, handler in before.items():
                signal.signal(each, handler)


@contextmanager
def left_to_python() -> Iterator[None]:
    """For a command that answers signals itself, and expects the handlers of Python."""
    _forget()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual: dict[signal.Signals, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {
        each: signal.signal(each, handler)
        for each, handler in usual.items()
        if signal.getsignal(each) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def _without_tracebacks() -> Iterator[None]:
    """Silence what prints tracebacks once a signal came: Python's hooks for errors in callbacks, threads and C code."""
    before = sys.unraisablehook, sys.excepthook, threading.excepthook
    sys.excepthook, threading.excepthook = _unless_received(sys.excepthook), _unless_received(threading.excepthook)
    sys.unraisablehook = _noting_interrupts(_unless_received(sys.unraisablehook))
    try:
        yield
    finally:
        sys.unraisablehook, sys.excepthook, threading.excepthook = before


def _forget() -> None:
    global _raised
    _received.clear()
    _raised = False


def _unless_received(hook: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *error: None if _received else hook(*error)


def _noting_interrupts(hook: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A hook that learns of an interrupt in a callback of Python, from which it goes no further."""

    def learn(unraisable: Any) -> None:
        global _raised
        if isinstance(unraisable.exc_value, KeyboardInterrupt):
            _raised = False
        else:
            hook(unraisable)

    return learn


def _stop(number: int, frame: FrameType | None) -> None:
    global _raised
    if not _received:
        _received.append(number)
    importer = _importer(frame)
    if importer is not None and os.path.dirname(importer) == COMMANDS:
        _end("stopped", number)
    if importer is None and not _raised:
        _raised = True
        raise KeyboardInterrupt


def _importer(frame: FrameType | None) -> str | None:
    """The file whose statement imports something now, the outermost one of this command; None if there is no import."""
    found, inside = None, False
    while frame is not None and frame is not _outside:
        name, before = frame.f_code.co_filename, inside
        inside = name.startswith("<frozen importlib")
        found = name if before and not inside else found
        frame = frame.f_back
    return found


def _answer(wakened: socket.socket, done: threading.Event) -> None:
    """In a thread: say that the first signal was heard; end the process at the second, or when it takes too long."""
    first, began, spoken, own = 0, 0.0, False, 0
    while not done.is_set():
        try:
            numbers = wakened.recv(1)
        except TimeoutError:
            waited = time.monotonic() - began
            if waited > LIMIT:
                _end("stopped", first)
            if waited > HASTE and not spoken:
                say(STOPPING)
                spoken = True
            if not _raised:
                own += 1
                _interrupt(signal.Signals(first))  # which writes its number to the socket, too
            continue
        if not numbers:
            return
        if numbers[0] not in (signal.SIGINT, signal.SIGTERM):
            continue
        if own:
            own -= 1
        elif first:
            _end("stopped at once", numbers[0])
        else:
            first, began = numbers[0], time.monotonic()
            wakened.settimeout(RETRY)


def _interrupt(number: signal.Signals) -> None:
    """Send a signal to the main thread, which may be waiting."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, number)
    else:
        interrupt_main(number)


def _end(how: str, number: int) -> None:
    kept = _kept()
    say(f"everystep: {how}{f'; {kept}' if kept else ''}.")
    os._exit(128 + number)


def say(sentence: str) -> None:
    """A line on standard error, below what is drawn there."""
    with suppress(OSError, ValueError):  # nobody may be reading
        print(f"\n{sentence}" if sys.stderr.isatty() else sentence, file=sys.stderr, flush=True)
