"""Ctrl-C and SIGTERM: answered at once, whatever the main thread does.

A handler in Python runs in the main thread, and not before a call of C code, such as a compilation, has returned there.
The number of a signal is therefore also written to a socket (`signal.set_wakeup_fd`), at which another thread waits: it
reports that the command is stopping, and ends the process when the signal comes a second time or the command has not
stopped after `LIMIT` seconds.

The first signal is a KeyboardInterrupt in the main thread. None is raised during an import, in which C code may crash
or make another error of it: the thread tries again until the import is over. A callback of C code may swallow the
exception, so `received` decides whether a command is to stop, and no traceback is printed after a signal.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from _thread import interrupt_main
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType

NUMBERS = (signal.SIGINT, signal.SIGTERM)
Handler = Callable[[int, FrameType | None], object] | int | None
HASTE = 0.2  # seconds in which a command may stop without a message
RETRY = 0.1  # seconds between attempts to raise the exception
LIMIT = 6.0  # seconds after which a command that does not stop is ended
STOPPING = "everystep: stopping; a second Ctrl-C stops at once."

_received: list[int] = []  # the first signal while a command listens
_last = signal.SIGINT  # that ended a command
_raised = False  # whether its exception was raised, or is no longer needed
_kept: Callable[[], str] = str


def received() -> bool:
    """Whether a signal came."""
    return bool(_received)


def status() -> int:
    """The exit status of a command that was stopped: 130 after Ctrl-C, 143 after SIGTERM."""
    return 128 + _last


@contextmanager
def keeping(words: Callable[[], str]) -> Iterator[None]:
    """Describe what is kept if the process ends at once; `words` is called only then."""
    global _kept
    before, _kept = _kept, words
    try:
        yield
    finally:
        _kept = before


@contextmanager
def listening() -> Iterator[None]:
    """Raise KeyboardInterrupt in the main thread at the first signal, and end the process at the second."""
    global _raised, _last
    _raised = False
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    done = threading.Event()
    answering = threading.Thread(target=_answer, args=(ours, done), name="everystep-signals", daemon=True)
    with _without_tracebacks(), _handled(dict.fromkeys(_heard(), _stop)):
        woken = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        answering.start()
        try:
            yield
        except BaseException as error:
            if _received and not isinstance(error, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            raise
        finally:
            _raised = True
            done.set()
            signal.set_wakeup_fd(woken)
            theirs.close()  # which ends the thread
            answering.join()
            ours.close()
            _last = signal.Signals(_received[0]) if _received else signal.SIGINT
            _received.clear()


@contextmanager
def left_to_python() -> Iterator[None]:
    """For a command that answers signals itself, and expects the handlers of Python."""
    usual: dict[int, Handler] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    with _handled({each: usual[each] for each in _heard()}):
        yield


class PausedError(KeyboardInterrupt):
    """A training is to stop between two episodes. Nothing is cut short, so no remark is made later."""


@contextmanager
def deferred() -> Iterator[None]:
    """Until the end of the block, Ctrl-C and SIGTERM wait; then the handler that was in place before is called.

    Learning updates its arrays in place: an exception within it would leave a state that is neither the old one nor the
    new one. In threads, which receive no signals, and where the handler was not set by Python, this does nothing.
    """
    usual = {each: handler for each in NUMBERS if callable(handler := signal.getsignal(each))}
    arrived: list[tuple[int, FrameType | None]] = []
    try:
        with _handled(dict.fromkeys(usual, lambda number, frame: arrived.append((number, frame)))):
            yield
    finally:
        if arrived:
            usual[signal.Signals(arrived[-1][0])](*arrived[-1])


@contextmanager
def _handled(handlers: Mapping[int, Handler]) -> Iterator[None]:
    """Replace handlers during a block, in the main thread, the only one that receives signals."""
    in_main = threading.current_thread() is threading.main_thread()
    before = {each: signal.signal(each, handler) for each, handler in handlers.items()} if in_main else {}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _heard() -> list[int]:
    """The signals that are not ignored, as after nohup."""
    return [each for each in NUMBERS if signal.getsignal(each) is not signal.SIG_IGN]


@contextmanager
def _without_tracebacks() -> Iterator[None]:
    """Silence what prints tracebacks once a signal came: Python's hooks for errors in callbacks, threads and C code."""
    hooks = [(sys, "unraisablehook"), (sys, "excepthook"), (threading, "excepthook")]
    before = [getattr(owner, name) for owner, name in hooks]
    for (owner, name), hook in zip(hooks, before, strict=True):
        setattr(owner, name, lambda *error, hook=hook: None if _received else hook(*error))
    try:
        yield
    finally:
        for (owner, name), hook in zip(hooks, before, strict=True):
            setattr(owner, name, hook)


def _stop(number: int, frame: FrameType | None) -> None:
    global _raised
    if not _received:
        _received.append(number)
    if not _raised and not _importing(frame):
        _raised = True
        raise KeyboardInterrupt


def _importing(frame: FrameType | None) -> bool:
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None


def _answer(wakened: socket.socket, done: threading.Event) -> None:
    """In a thread: report that the first signal was heard; end the process at the second, or when it takes too long."""
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
        if numbers[0] not in NUMBERS:
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
    with suppress(OSError, ValueError):  # standard error may be closed
        print(f"\n{sentence}" if sys.stderr.isatty() else sentence, file=sys.stderr, flush=True)
