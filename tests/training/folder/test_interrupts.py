"""Ctrl-C waits while state is half updated."""

import os
import signal

import pytest

from everystep.training.folder import interrupts
from everystep.training.folder.interrupts import deferred


def test_deferred_calls_the_handler_that_was_there_once_and_at_the_end():
    calls, before = [], signal.signal(signal.SIGINT, lambda *given: calls.append("handler"))
    try:
        with deferred():
            with deferred():
                os.kill(os.getpid(), signal.SIGINT)
                calls.append("inner")
            calls.append("outer")
        assert calls == ["inner", "outer", "handler"]
    finally:
        signal.signal(signal.SIGINT, before)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.quick
@pytest.mark.parametrize(
    ("unfinished", "end"),
    [([], "5 of 9 episodes"), ([3], "4 of 9 episodes; an unfinished one of 3 steps is kept")],
)
def test_the_remark(unfinished, end):
    assert interrupts.interrupt_remark(5, 9, unfinished) == f"stopped by Ctrl-C after {end}"
