"""How long a training lasts: episodes, of which the last may be without exploration, or steps; and its progress."""

import re
import sys

import pytest
from environments_for_tests.walks import SlowWalk

import everystep as es
from everystep.errors import EverystepError
from everystep.runtime import progress
from everystep.training.schedule import EPISODES, Schedule, interrupt_remark, progress_shown

pytestmark = pytest.mark.quick


def test_a_number_of_episodes_is_the_default():
    assert Schedule.of(None) == Schedule(EPISODES, EPISODES)
    assert Schedule.of(10, without_exploration=3) == Schedule(7, 10)
    assert Schedule.of(10, without_exploration=3, copies=4) == Schedule(8, 12)  # full rounds


def test_episodes_end_after_the_last_and_steps_with_the_episode_that_reaches_them():
    episodes, steps = Schedule.of(10), Schedule.of(None, 100)
    assert [episodes.is_over(played, 0) for played in (9, 10)] == [False, True]
    assert [steps.is_over(98, done) for done in (99, 100, 120)] == [False, True, True]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"episodes": 3, "steps": 3}, "one of the two"),
        ({"episodes": None, "steps": 3, "without_exploration": 1}, "without_exploration is 1"),
        ({"episodes": 3, "without_exploration": 3}, "without_exploration is 3"),
        ({"episodes": 0}, "episodes is 0"),
        ({"episodes": None, "steps": -1}, "steps is -1"),
    ],
)
def test_what_cannot_be_is_refused(given, words):
    with pytest.raises(EverystepError, match=words):
        Schedule.of(**given)


@pytest.mark.parametrize(
    ("unfinished", "end"),
    [([], "5 of 9 episodes"), ([3], "4 of 9 episodes; an unfinished one of 3 steps is kept")],
)
def test_the_remark_on_an_interrupt_counts_whole_episodes(unfinished, end):
    assert interrupt_remark(5, 9, unfinished) == f"stopped by Ctrl-C after {end}"


def test_a_training_tells_of_steps_and_violation_in_a_log_and_on_a_terminal(monkeypatch, capsys):
    limit = lambda seen, action, after, info: (after - 6.5) / 6.5
    each = es.Learner(SlowWalk(), "lsvi-ae", constraint=limit, horizon=6, length=12)
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    monkeypatch.setattr(progress, "POLL", 0.001)
    with progress_shown(each, 3, None) as report:
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
