"""Tables for the terminal and for pages, and the numbers in them."""

import pytest

from everystep.experiments import tables
from everystep.experiments.statistics import Interval

pytestmark = pytest.mark.quick
ROWS = [["agent", "value"], ["lsvi", "1.5"], ["lsvi-ae", "10"]]


def test_the_first_column_is_aligned_left_and_the_others_right():
    assert tables.aligned(ROWS).splitlines() == [
        "agent    value",
        "--------------",
        "lsvi       1.5",
        "lsvi-ae     10",
    ]


def test_a_terminal_obeys_no_character_of_a_table():
    told = str(tables.Table("a \x1b]0;title\x07", ["agent"], [["\x1b[31mlsvi"]], ["first\nnote", "\x9b2J"]))
    assert all(line.isprintable() for line in told.splitlines())
    assert "\\x1b[31mlsvi" in told


def test_a_markdown_table_has_the_same_cells():
    assert tables.markdown(ROWS) == "| agent | value |\n| --- | --- |\n| lsvi | 1.5 |\n| lsvi-ae | 10 |"


@pytest.mark.parametrize(("value", "shown"), [(0.12345, "0.123"), (12.345, "12.3"), (-1234.5, "-1234"), (0, "0.000")])
def test_numbers_are_short(value, shown):
    assert tables.number(value) == shown


def test_an_interval_is_a_mean_with_its_ends():
    assert tables.interval(Interval(2.0, 1.5, 2.5)) == "2.000 [1.500, 2.500]"


def test_the_avoidable_part_is_shown_where_not_all_violations_are():
    everything = {"problem": {"least_violation": 0.0}}, {"problem": {"least_violation": 0.2}}
    assert tables.AVOIDABLE not in tables.shown_columns(everything[0])
    assert tables.AVOIDABLE in tables.shown_columns(everything[1])
    assert set(tables.shown_columns(everything[0])) < set(tables.shown_columns(everything[1]))
