"""How long a training lasts: episodes, of which the last may be without exploration, or steps."""

import pytest

from everystep.errors import EverystepError
from everystep.training.schedule import EPISODES, Schedule, interrupt_remark

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
