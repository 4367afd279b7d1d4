"""The progress of a training, on a terminal and in a log."""

import re
import sys

import pytest
from environments_for_tests.walks import SlowWalk

import everystep as es
from everystep.runtime import progress
from everystep.training import training_bar

pytestmark = pytest.mark.quick


def limit(scale=1.0):
    """g in [-1, 1], times `scale`."""
    return lambda seen, action, after, info: scale * (after - 6.5) / 6.5


OPTIONS = {"horizon": 6, "length": 12}


def learner(scale=1.0, agent="lsvi-ae", **options):
    return es.Learner(SlowWalk(), agent, constraint=limit(scale), **OPTIONS, **options)


def test_a_training_tells_of_steps_and_violation_in_a_log_and_on_a_terminal(monkeypatch, capsys):
    each = learner()
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    monkeypatch.setattr(progress, "POLL", 0.001)
    with training_bar.shown(each, 3, None) as report:
        for _ in range(2):
            each.play(1, report)
        written = ""
        while not written.strip():
            written = capsys.readouterr().err
    assert re.fullmatch(
        r"note: \d+% of 3 episodes; (compiling|24 steps, violation [0-9.]+) \(\d+ s so far\)", written.splitlines()[0]
    )
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    each.train(3)
    written = capsys.readouterr().err
    assert "compiling" in written
    each.play(1)
    assert each.so_far.steps == 72
    assert each.so_far.violation == pytest.approx(each.columns["violation"].sum())
