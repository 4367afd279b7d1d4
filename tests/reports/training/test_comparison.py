"""Trainings side by side: a table for each environment and constraint, and notes on what else differs."""

from pathlib import Path

import pytest
from environments_for_tests.rings import Levers
from helpers.trainings import made

import everystep as es
from everystep.errors import EverystepError
from everystep.reports.training import comparison
from everystep.reports.training.comparison import Compared

pytestmark = pytest.mark.quick


def compared(name, environment="Ring", constraint="limits:edge", length=20, seeds=2):
    return Compared(Path(name), made(seeds, Path(name)), environment, constraint, length, "one-hot features")


def test_rows_have_the_numbers_of_each_training():
    told = comparison.text([compared("one"), compared("two", seeds=1)])
    rows = {line.split()[0]: line for line in told.splitlines() if line}
    assert "6.750" in rows["one"]  # the mean violation of two seeds
    assert " 7 " in rows["two"]
    assert "40 to 50" in rows["one"]  # steps
    assert told.count("Ring, constraint limits:edge") == 1


def test_other_environments_and_constraints_have_tables_of_their_own():
    told = comparison.text([compared("one"), compared("two", constraint="limits:speed"), compared("three", "Line")])
    assert "3 environments or constraints" in told
    for title in ("Ring, constraint limits:edge", "Ring, constraint limits:speed", "Line, constraint limits:edge"):
        assert title in told


@pytest.mark.parametrize(
    ("other", "note"),
    [
        ({"length": 30}, "longest episodes differ: 20, 30 steps"),
        ({"seeds": 1}, "seeds differ"),
        ({}, None),
    ],
)
def test_what_else_differs_is_a_note(other, note):
    told = comparison.text([compared("one"), compared("two", **other)])
    assert note is None or note in told
    assert ("note:" in told) is (note is not None)


def test_constraints_without_a_name_may_differ():
    unknown = {"constraint": comparison.UNKNOWN}
    assert "is unknown" in comparison.text([compared("one", **unknown), compared("two", **unknown)])


def test_folders_are_read_once_each_and_hold_trainings(tmp_path):
    out = tmp_path / "levers"
    es.train(Levers(), "lsvi-ae", episodes=2, length=20, horizon=2, out=out, progress=lambda n: None)
    (found,) = comparison.read([out])
    assert (found.environment, found.constraint, found.length) == ("Levers", "read from info", 20)
    with pytest.raises(EverystepError, match="given twice"):
        comparison.read([out, out])
    with pytest.raises(EverystepError, match="no training"):
        comparison.read([tmp_path])
