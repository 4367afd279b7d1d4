"""The figures of a leaderboard: who is drawn how, and that curves are those of the aggregate."""

import matplotlib as mpl
import numpy as np
import pytest

from everystep.experiments.figures import STYLE
from everystep.experiments.statistics import Interval
from everystep.reports.leaderboard import figures
from everystep.reports.leaderboard.board import OURS, REFERENCE, Aggregate, AggregateRow

pytestmark = pytest.mark.quick
HARMS, RETURNS = np.array([0.1, 1.0, 10.0]), np.array([0.0, 0.5, 1.0])


def row(system, kind, harm=1.0):
    interval = Interval(harm, harm / 2, harm * 2)
    shares = Interval(np.array([0.1, 0.5, 1.0]), np.array([0.0, 0.4, 0.9]), np.array([0.2, 0.6, 1.0]))
    return AggregateRow(system, kind, interval, interval, None, None, shares, shares)


def aggregate(rows):
    return Aggregate(rows, {}, HARMS, RETURNS)


BOARD = [row("mine", OURS, 0.1), row("theirs", "rival", 5.0), row("random", REFERENCE, 1.0)]


@pytest.fixture(autouse=True)
def style():
    with mpl.rc_context(STYLE):
        yield


def test_ours_are_warm_and_thick_and_colours_are_used_up_before_dashes_change():
    looks = figures.looks([row(f"mine {i}", OURS) for i in range(len(figures.WARM) + 1)] + BOARD[1:])
    first, second = looks["mine 0"], looks[f"mine {len(figures.WARM)}"]
    assert first.colour == second.colour in figures.WARM
    assert first.dash != second.dash
    assert looks["theirs"].colour in figures.COOL
    assert looks["random"].colour in figures.GREY
    assert first.width > looks["theirs"].width


def test_the_overview_has_a_point_and_a_bar_for_every_system():
    left, right = figures.overview(aggregate(BOARD), "1 problem").axes
    assert [label.get_text() for label in left.get_yticklabels()] == ["mine", "theirs", "random"]
    bars, points = left.get_lines()[::2], left.get_lines()[1::2]
    assert [each.get_xdata().tolist() for each in bars] == [[0.05, 0.2], [2.5, 10.0], [0.5, 2.0]]
    assert [float(each.get_xdata()[0]) for each in points] == [0.1, 5.0, 1.0]
    assert left.get_xscale() == "log"  # systems are far apart
    assert len(right.get_lines()) == 6


def test_profiles_are_the_shares_of_the_aggregate():
    left, right = figures.profiles(aggregate(BOARD), "1 problem").axes
    for axes, taus in ((left, HARMS), (right, RETURNS)):
        assert len(axes.get_lines()) == 3
        for line in axes.get_lines():
            np.testing.assert_array_equal(line.get_xdata(), taus)
            np.testing.assert_array_equal(line.get_ydata(), [0.1, 0.5, 1.0])


def test_of_too_many_systems_ours_and_the_first_others_are_shown():
    rows = [row(f"rival {i}", "rival") for i in range(40)] + [row("mine", OURS)]
    left, _ = figures.overview(aggregate(rows), "1 problem").axes
    shown = [label.get_text() for label in left.get_yticklabels()]
    assert len(shown) == figures.MOST
    assert "mine" in shown


def test_a_board_without_systems_says_so_and_names_are_no_formulas():
    left, _ = figures.overview(aggregate([]), "1 problem").axes
    assert "no system" in left.texts[0].get_text()
    left, _ = figures.overview(aggregate([row("a$b$", OURS), row("x" * 40, "rival")]), "1 problem").axes
    first, second = (label.get_text() for label in left.get_yticklabels())
    assert first == r"a\$b\$"
    assert len(second) == figures.WIDEST
