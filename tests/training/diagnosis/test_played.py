"""Checks of what was played: violations that do not decline, outliers of rewards."""

import numpy as np
import pytest
from environments_for_tests.falls import Fall

import everystep as es
from everystep.training.diagnosis import played

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("rewards", "words"),
    [
        ([1.0] * 19 + [-100.0], "a reward of -100 compresses the others, from 0 to 1, into 0.01 of [0, 1]"),
        ([-1.0] * 30 + [-100.0] * 2, "a reward of -100 compresses the others, from -1 to 0, into 0.01 of [0, 1]"),
        ([1.0] * 19 + [-9.9], None),  # less than ten ranges below
        ([1.0] * 19 + [-10.1], "into 0.09 of"),
        ([1.0] * 10 + [-100.0] * 10, None),  # no outlier
        ([-1.0] * 19 + [100.0], None),  # a goal is no penalty
        ([0.0] * 19 + [-100.0], None),  # there is nothing to compress
        ([], None),
    ],
)
def test_the_lowest_reward_against_the_others(rewards, words):
    found = played.reward_outlier(np.array(rewards))
    assert found is None if words is None else words in found.remark


@pytest.mark.parametrize(("reward_range", "said"), [(None, True), ((0, 1), False)])
def test_training_reports_it_unless_the_range_is_declared(reward_range, said):
    text = str(es.train(Fall(), "lsvi-ae", horizon=6, episodes=4, reward_range=reward_range))
    assert ("leave what it punishes to the constraint, or set reward_range" in text) is said


def columns(unsafe, length=20, size=1.0):
    unsafe = np.asarray(unsafe, float)
    return {"length": np.full(len(unsafe), length), "unsafe_steps": unsafe, "violation": size * unsafe}


def test_violations_that_do_not_decline_are_found_in_numbers():
    found = played.violation_trend(columns([3] * 40), "do something")
    assert found.remark == (
        "60 of the last 400 steps were unsafe (15%), and 30 of the first 200 (15%), so violations do not decline: "
        "do something"
    )
    assert found.numbers == {"late_unsafe": 60, "late_steps": 400, "early_unsafe": 30, "early_steps": 200}
    assert "increase" in played.violation_trend(columns([0] * 20 + [3] * 20), "").sentence
    assert "decline little" in played.violation_trend(columns([4] * 20 + [3] * 20), "").sentence


@pytest.mark.parametrize(
    "rows",
    [
        columns([3] * 10 + [1] * 30),  # to a third
        columns([1] * 5 + [0] * 34 + [8]),  # one bad episode
        columns([3] * 4),  # too few episodes
        columns([0] * 36 + [1] * 4),  # too few unsafe steps
        columns([1] * 40, length=200),  # less than 1 % of the steps
        columns([3] * 40, size=np.linspace(1, 0, 40)),  # as many, but small ones
        columns([]),
    ],
)
def test_little_is_said_about_few_violations_and_nothing_where_they_decline(rows):
    assert played.violation_trend(rows, "") is None


def test_few_false_alarms_of_trainings_whose_violations_fall_to_a_third():
    rng, alarms, found = np.random.default_rng(0), 0, 0
    for _ in range(200):
        rates = rng.gamma(1.0, 1.0, 100)  # episodes differ
        falling, constant = (rng.poisson(rates * level) for level in (np.repeat([3.0, 1.0], [25, 75]), 2.0))
        alarms += played.violation_trend(columns(falling), "") is not None
        found += played.violation_trend(columns(constant), "") is not None
    assert alarms <= 4
    assert found >= 120
