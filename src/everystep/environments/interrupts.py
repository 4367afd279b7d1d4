"""Ctrl-C between changes of a state, never within one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def deferred() -> Iterator[None]:
    """Until the end of the block, Ctrl-C waits; then the handler that was in place before is called.

    Learning updates its arrays in place: an exception within it would leave a state that is neither the old one nor the
    new one. Only the main thread receives signals; in other threads, and where the handler was not set by Python, this
    does nothing.
    """
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield
        return
    arrived: list[tuple[int, Any]] = []
    signal.signal(signal.SIGINT, lambda number, frame: arrived.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
        if arrived:
            usual(*arrived[-1])


def interrupt_remark(episodes: int, of: int, unfinished: list[int]) -> str:
    """How far training got: `episodes` of `of` were played, among them `unfinished` ones of these lengths."""
    remark = f"stopped by Ctrl-C after {episodes - len(unfinished)} of {of} episodes"
    if not unfinished:
        return remark
    what = "an unfinished one" if len(unfinished) == 1 else f"{len(unfinished)} unfinished ones"
    verb = "is" if len(unfinished) == 1 else "are"
    return f"{remark}; {what} of {', '.join(map(str, unfinished))} steps {verb} kept"
