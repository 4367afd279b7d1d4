"""The progress of a run: bars on a terminal, lines in a log, curves for TensorBoard."""

import io
import sys

import pytest

import everystep as es
from everystep.cli import main
from everystep.experiments import progress
from everystep.experiments.runner import ChunkReport
from everystep.runtime import announce

SPEC = {"agents": [{}, {}], "seeds": [0, 1], "episodes": 1000}


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.mark.quick
def test_a_log_gets_a_line_now_and_then_with_what_is_left():
    clock, stream = Clock(), io.StringIO()
    with progress._lines(SPEC, stream, clock) as show:
        clock.now = 20.0  # until then it was compiled
        show(ChunkReport("lsvi", 1000, violation=50.0, seeds_ended=1))
        assert stream.getvalue() == ""
        clock.now = 40.0
        show(ChunkReport("lsvi", 1000, violation=50.0, seeds_ended=1))
    assert stream.getvalue() == (
        "everystep: 50% of 4,000 episodes, 1 of 2 agents, recently 0.050 violations per episode, 40 s left\n"
    )


def test_the_time_left_counts_neither_compilation_nor_what_an_earlier_process_did():
    clock = Clock()
    counter = progress.Counter(SPEC, clock)
    counter.add(ChunkReport("lsvi", 2000, seeds_ended=2, earlier=True))
    assert counter.left is None
    assert counter.violation is None
    clock.now = 60.0
    counter.add(ChunkReport("lsvi-ae", 500))
    assert counter.left is None  # a minute for 500 episodes, most of it for compilation, says nothing
    clock.now = 61.0
    counter.add(ChunkReport("lsvi-ae", 100))
    assert counter.left is None  # too early: others are still compiled
    clock.now = 62.0
    counter.add(ChunkReport("lsvi-ae", 400, seeds_ended=1))
    assert counter.left == 4.0
    assert counter.agents_done == 1


def test_a_call_from_python_has_a_bar_on_a_terminal_and_lines_in_a_log(monkeypatch, capsys):
    monkeypatch.setattr(announce, "SOON", 0.01)
    monkeypatch.setattr(announce, "EVERY", 0.01)
    with progress.counting(400, "episodes", lambda: "violation 3") as more:
        more(100)
        more(200)
        written = ""
        while "75%" not in written:
            written += capsys.readouterr().err
    assert written.splitlines()[-1] == "everystep: 75% of 400 episodes; violation 3"
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    es.run(es.problems.synthetic(states=3, horizon=2), "lsvi", episodes=3, seeds=2)
    assert "/6" in stream.getvalue()


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_a_problem_that_takes_long_to_make_says_so(stream, monkeypatch):
    for name in ("SOON", "EVERY", "TICK"):
        monkeypatch.setattr(announce, name, 0.001)
    monkeypatch.setattr(sys, "stderr", stream)

    def pond(size):
        while "note: pond is being made, 0 s so far" not in stream.getvalue():
            pass
        return size

    assert announce.patiently(pond)(size=3) == 3
    assert stream.getvalue().endswith(" \r" if stream.isatty() else "so far\n")  # nothing is left on a terminal
    problems = [each.make for each in es.problems.REGISTERED.values() if each.make.__module__.startswith("everystep.")]
    assert all(getattr(es.problems, make.__name__).__wrapped__ is make for make in problems)


def test_the_speed_is_that_of_the_last_seconds():
    clock = Clock()
    counter = progress.Counter(SPEC, clock)
    for clock.now, episodes in ((0.0, 1), (30.0, 9), (60.0, 90), (65.0, 900), (70.0, 1000)):
        counter.add(ChunkReport("lsvi", episodes))
    assert counter.left == 10 / 1900 * 2000


@pytest.mark.parametrize(("episodes", "said"), [(25, ""), (15, "note: this run takes about 78 min more")])
def test_a_run_of_more_than_an_hour_says_so_once(episodes, said, monkeypatch):
    monkeypatch.setattr(progress, "SOON", 5.0)
    clock, stream = Clock(), io.StringIO()
    with progress._lines(SPEC, stream, clock) as show:
        show(ChunkReport("lsvi", 1))
        clock.now = 3.0
        show(ChunkReport("lsvi", 0.5))  # too early
        assert stream.getvalue() == ""
        clock.now = 20.0
        show(ChunkReport("lsvi", episodes - 0.5))
        assert said in stream.getvalue()
        show(ChunkReport("lsvi", 1))
    assert stream.getvalue().count("note") == bool(said)


def test_a_terminal_gets_bars_of_agents_and_episodes_with_the_violation(monkeypatch):
    monkeypatch.setattr(progress, "REFRESH", 0)
    stream = Terminal()
    with progress.shown(SPEC, stream) as show:
        show(ChunkReport("lsvi", 1000, earlier=True))
        show(ChunkReport("lsvi", 1000, violation=250.0, seeds_ended=2))
        show(ChunkReport("lsvi-ae", 500, violation=250.0))
    assert " agents" in stream.getvalue()
    assert "2.50k/4.00k" in stream.getvalue()
    assert "1/2" in stream.getvalue()
    assert "violations per episode 0.2" in stream.getvalue()


RUN = ["run", "--problem", "bandit", "--agents", "lsvi", "--episodes", "5", "--seeds", "1", "--out", "out"]


def test_tensorboard_gets_the_curves_beside_the_run_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main.main([*RUN, "--log", "tensorboard"]) == 0, capsys.readouterr().err
    (events,) = (tmp_path / "out-logs").iterdir()
    written = events.read_bytes()
    for tag in (b"running/violation/lsvi", b"running/value/lsvi", b"return/lsvi", b"violation/lsvi"):
        assert tag in written
    assert not list((tmp_path / "out").rglob("*event*"))


def test_a_log_that_cannot_be_is_said_before_any_work(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main.main([*RUN, "--log", "tensorbord"]) == 2
    assert "Did you mean tensorboard" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(es.EverystepError, match=r"pip install 'everystep\[logs\]'"):
        progress.check("tensorboard")
    assert not list(tmp_path.iterdir())


def test_a_terminal_is_drawn_again_while_nothing_is_reported(monkeypatch):
    monkeypatch.setattr(progress, "TICK", 0.001)
    stream = Terminal()
    with progress.shown(SPEC, stream):
        before = len(stream.getvalue())
        while len(stream.getvalue()) <= before:  # ends because a thread draws
            pass
