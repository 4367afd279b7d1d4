"""Settings: how each is read from a text or a value, and what is refused."""

import math

import numpy as np
import pytest

from everystep.agents.settings import SETTINGS, SettingValues, share

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("setting", "given", "read"),
    [
        ("beta", "0.3", 0.3),
        ("beta", "auto", "auto"),
        ("beta", None, "auto"),
        ("p", 1, 1.0),
        ("cap", "none", "none"),
        ("cap", -2, -2.0),
        ("switch", True, 2.0),
        ("switch", "false", "none"),
        ("switch", "5%", "5%"),
        ("switch", 1.5, 1.5),
        ("floor", "sqrt", "sqrt"),
        ("floor", "2", 2.0),
        ("react", "yes", True),
        ("share_costs", "false", False),
        ("seed_episodes", "printed", "printed"),
        ("seed_episodes", "3", 3),
    ],
)
def test_texts_and_values_are_read_alike(setting, given, read):
    found = SETTINGS[setting].read(given)
    assert (type(found), found) == (type(read), read)


def test_arrays_are_read_as_arrays():
    assert SETTINGS["features"].read([[[1, 0]]]).dtype == np.float64
    assert SETTINGS["known_safe"].read([0, 1]).tolist() == [0, 1]
    assert SETTINGS["threshold"].read([0.5, 1]).tolist() == [0.5, 1.0]


@pytest.mark.parametrize(
    ("setting", "given", "words"),
    [
        ("beta", -1, "at least 0"),
        ("beta", math.nan, "number"),
        ("lam", 0, "above 0"),
        ("p", 2, "at most 1"),
        ("radius", "wide", "tuned, paper or coordinate"),
        ("optimism", 2, "at most 1"),
        ("switch", 1, "above 1"),
        ("switch", "0%", "percentage"),
        ("react", "perhaps", "true or false"),
        ("features", [[1.0]], r"\(S, A, d\)"),
        ("known_safe", 0.5, "safest"),
        ("seed_episodes", 1.5, "whole number"),
        ("seed_episodes", 10**12, "whole number"),
    ],
)
def test_what_is_no_value_of_a_setting_is_refused_with_what_is(setting, given, words):
    with pytest.raises(ValueError, match=words):
        SETTINGS[setting].read(given)


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_default_is_a_value_of_its_setting(setting):
    default = SETTINGS[setting].default
    assert SETTINGS[setting].read(default) == default


def test_only_what_is_left_at_auto_is_decided():
    values = SettingValues(beta="auto", lam=0.5)
    for name in values:
        values.decide(name, 7.0)
    assert values == {"beta": 7.0, "lam": 0.5}


def test_a_percentage_is_a_share_of_new_transitions():
    assert share("5%") == 0.05
    assert [share(each) for each in ("0%", "x%", "5", 5.0, "inf%")] == [None] * 5
