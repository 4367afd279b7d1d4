"""Ctrl-C between changes of a state, never within one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class PausedError(KeyboardInterrupt):
    """A training stops between two episodes. No episode is cut short, so no remark reports one."""


@contextmanager
def deferred() -> Iterator[None]:
    """Until the end of the block, Ctrl-C and SIGTERM wait; then the handler that was in place before is called.

    Learning updates its arrays in place: an exception within it would leave a state that is neither the old one nor the
    new one. Only the main thread receives signals; in other threads, and where the handler was not set by Python, this
    does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    usual: dict[int, Any] = {number: handler for number, handler in handlers.items() if callable(handler)}
    arrived: list[tuple[int, Any]] = []
    for number in usual:
        signal.signal(number, lambda number, frame: arrived.append((number, frame)))
    try:
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
        if arrived:
            usual[arrived[-1][0]](*arrived[-1])


def interrupt_remark(episodes: int, of: int | None, unfinished: list[int]) -> str:
    """How far training got: `episodes` of `of` were played, among them `unfinished` ones of these lengths."""
    remark = f"stopped by Ctrl-C after {episodes - len(unfinished)} {'' if of is None else f'of {of} '}episodes"
    if not unfinished:
        return remark
    what = "an unfinished one" if len(unfinished) == 1 else f"{len(unfinished)} unfinished ones"
    verb = "is" if len(unfinished) == 1 else "are"
    return f"{remark}; {what} of {', '.join(map(str, unfinished))} steps {verb} kept"
