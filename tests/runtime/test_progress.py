"""Progress on standard error: bars on a terminal, lines in a log, and notes that break a silence."""

import io
import re
import signal
import sys
import threading
import time

import pytest

import everystep as es
from everystep.runtime import progress, signals


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def speaking(monkeypatch):
    """Notes as soon as they are due, and none again."""
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "POLL", 0.001)
    for name in ("AGAIN", "OFTEN", "TICK"):
        monkeypatch.setattr(progress, name, 600.0)


def said(capsys, words):
    """What is on standard error once these words are there."""
    found = ""
    while words not in found:
        time.sleep(0.001)
        found += capsys.readouterr().err
    return found


# --- silence ----------------------------------------------------------------------------------------------------------
@pytest.mark.quick
def test_a_long_silence_is_broken_and_a_short_one_is_not(speaking, monkeypatch, capsys):
    with progress.announced("thinking"):
        assert said(capsys, "so far") == "note: thinking (0 s so far)\n"
    monkeypatch.setattr(progress, "PATIENCE", 600.0)
    with progress.announced("thinking"):
        pass
    assert capsys.readouterr().err == ""


@pytest.mark.quick
def test_the_silence_of_short_tasks_adds_up():
    printer, due = progress.Printer(), []
    task = lambda: progress.Task(lambda seconds: "thinking", 30.0)
    with printer.during(task()):
        for _ in range(3):
            inner = task()
            with printer.during(inner):
                due.append(printer.due(inner))
    assert due == [due[0]] * 3


@pytest.mark.quick
def test_a_command_that_says_nothing_of_itself_is_said_to_work(speaking, monkeypatch, capsys):
    from everystep.cli import main, reading

    heard = []
    monkeypatch.setattr(reading.Summary, "run", lambda options: heard.append(said(capsys, "so far")))
    assert main.main(["summary", "anything"]) == 0
    assert heard == ["note: working (0 s so far)\n"]


@pytest.mark.quick
def test_the_innermost_task_is_reported_and_none_after_a_signal(speaking, monkeypatch, capsys):
    with progress.working():
        said(capsys, "working")
        with progress.announced("thinking"):
            assert said(capsys, "so far") == "note: thinking (0 s so far)\n"
    monkeypatch.setattr(signals, "_received", [signal.SIGINT])
    with progress.announced("thinking"):
        time.sleep(0.02)
    assert capsys.readouterr().err == ""


@pytest.mark.quick
def test_a_note_on_a_terminal_is_updated_in_place_and_erased(speaking, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(progress, "TICK", 0.0)
    with progress.announced("thinking"):
        while sys.stderr.getvalue().count("thinking") < 2:
            time.sleep(0.001)
    first, *others = sys.stderr.getvalue().split("\r")
    assert first == ""
    assert set(others) == {"note: thinking (0 s so far)", " " * len("note: thinking (0 s so far)"), ""}
    assert others[-1] == ""


@pytest.mark.quick
def test_without_standard_error_nothing_is_printed_elsewhere(speaking, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", None)
    with progress.counting(3, "episodes") as count:
        count(1)
        progress.note("more")
    assert capsys.readouterr().out == ""


@pytest.mark.quick
def test_one_thread_prints_for_all_and_ends_with_the_last_task(speaking):
    printing = lambda: [each.name for each in threading.enumerate()].count("everystep-progress")
    with progress.working(), progress.announced("thinking"), progress.counting(3, "episodes"):
        assert printing() == 1
    assert printing() == 0


@pytest.mark.quick
@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_a_problem_that_takes_long_to_make_says_so(stream, speaking, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream)

    def pond(size):
        while "note: pond is being made (0 s so far)" not in stream.getvalue():
            pass
        return size

    assert progress.patiently(pond)(size=3) == 3
    assert stream.getvalue().endswith(" \r" if stream.isatty() else "so far)\n")  # nothing is left on a terminal
    problems = [each.make for each in es.problems.REGISTERED.values() if each.make.__module__.startswith("everystep.")]
    assert all(getattr(es.problems, make.__name__).__wrapped__ is make for make in problems)


# --- counting ---------------------------------------------------------------------------------------------------------
@pytest.mark.quick
def test_a_log_gets_lines_with_what_is_done(speaking, monkeypatch, capsys):
    monkeypatch.setattr(progress, "AGAIN", 0.001)
    with progress.counting(400, "episodes", lambda: "violation 3") as more:
        more(100)
        more(200)
        assert "note: 75% of 400 episodes; violation 3 (0 s so far)\n" in said(capsys, "75%")


@pytest.mark.quick
def test_a_terminal_gets_a_bar_that_is_drawn_again_while_nothing_is_reported(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "POLL", 0.001)
    with progress.counting(400, "episodes", lambda: "violation 3") as more:
        assert stream.getvalue() == "\r  0%|          | 0/400 episodes [00:00, violation 3]"
        more(200)
        while " 50%|#####     | 200/400 episodes [00:00, violation 3]" not in stream.getvalue():
            time.sleep(0.001)
        progress.note("more")
    assert re.search(r"\r +\rnote: more\n", stream.getvalue())
    assert stream.getvalue().endswith((" \r", "note: more\n"))  # nothing is left


@pytest.mark.quick
def test_a_bar_is_no_wider_than_the_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("COLUMNS", "30")
    with progress.counting(400, "episodes"):
        assert len(sys.stderr.getvalue()) == 1 + 29


@pytest.mark.quick
def test_a_call_from_python_has_a_bar_on_a_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    es.run(es.problems.synthetic(states=3, horizon=2), "lsvi", episodes=3, seeds=2)
    assert "/6 episodes" in sys.stderr.getvalue()


@pytest.mark.quick
def test_the_time_left_counts_neither_compilation_nor_what_an_earlier_process_did():
    clock = Clock()
    count = progress.Count(4000, clock)
    count(2000, earlier=True)
    assert count.left is None
    clock.now = 60.0
    count(500)
    assert count.left is None  # a minute for 500 episodes, most of it for compilation, says nothing
    clock.now = 61.0
    count(100)
    assert count.left is None  # too early: others are still compiled
    clock.now = 62.0
    count(400)
    assert count.left == 4.0


@pytest.mark.quick
def test_the_speed_is_that_of_the_last_seconds():
    clock = Clock()
    count = progress.Count(4000, clock)
    for clock.now, episodes in ((0.0, 1), (30.0, 9), (60.0, 90), (65.0, 900), (70.0, 1000)):
        count(episodes)
    assert count.left == 10 / 1900 * 2000


@pytest.mark.quick
def test_counting_stops_after_a_signal(monkeypatch):
    monkeypatch.setattr(signals, "_received", [signal.SIGINT])
    with pytest.raises(KeyboardInterrupt):
        progress.Count(3)(1)


@pytest.mark.quick
@pytest.mark.parametrize(("seconds", "words"), [(40, "40 s"), (600, "10 min"), (9000, "2.5 h"), (10**6, "12 days")])
def test_durations_are_readable(seconds, words):
    assert progress.duration(seconds) == words
