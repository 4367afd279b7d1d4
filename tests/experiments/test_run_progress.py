"""The progress of a run: a bar on a terminal, lines in a log, curves for TensorBoard."""

import io
import sys

import pytest

import everystep as es
from everystep.cli import main
from everystep.experiments import run_progress
from everystep.experiments.runner import ChunkReport
from everystep.runtime import progress

SPEC = {"agents": [{}, {}], "seeds": [0, 1], "episodes": 1000}


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("episodes", "said"), [(25, ""), (15, "note: this run takes about 78 min more")])
def test_a_run_of_more_than_an_hour_says_so_once(episodes, said, monkeypatch, capsys):
    now = 0.0
    monkeypatch.setattr(progress.Count.__init__, "__defaults__", (lambda: now,))
    with run_progress.shown(SPEC) as show:
        show(ChunkReport("lsvi", 1))
        now = 3.0
        show(ChunkReport("lsvi", 0.5))  # too early
        assert capsys.readouterr().err == ""
        now = 20.0
        show(ChunkReport("lsvi", episodes - 0.5))
        show(ChunkReport("lsvi", 1))
    err = capsys.readouterr().err
    assert said in err
    assert err.count("note") == bool(said)


@pytest.mark.quick
def test_a_terminal_gets_a_bar_with_the_violation_and_the_agents_that_are_finished(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(progress, "POLL", 0.001)
    with run_progress.shown(SPEC) as show:
        assert "0/4,000 episodes [00:00, compiling]" in stream.getvalue()
        show(ChunkReport("lsvi", 1000, earlier=True))
        show(ChunkReport("lsvi", 1000, violation=250.0, seeds_ended=2))
        show(ChunkReport("lsvi-ae", 500, violation=250.0))
        while " 62%|######    | 2,500/4,000 episodes [00:00, violation 0.2" not in stream.getvalue():
            pass
        assert "per episode, 1 of 2 agents]" in stream.getvalue()
        show(ChunkReport("lsvi-ae", 1500))
        while "writing the results" not in stream.getvalue():
            pass


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
        run_progress.check("tensorboard")
    assert not list(tmp_path.iterdir())
