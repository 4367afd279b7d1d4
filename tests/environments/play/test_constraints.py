"""The constraints of one step: from a function or from info, as finite numbers, or a sentence that names the source."""

import numpy as np
import pytest

from everystep.environments.play import constraints
from everystep.errors import EverystepError

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("given", [0.5, np.float32(0.5), [0.5], np.array(0.5), (0.5,)])
def test_one_number_of_any_kind_is_one_constraint(given):
    found = constraints.observed(lambda *step: given, 0, 0, 0, {})
    assert (found.dtype, found.tolist()) == (np.float64, [0.5])


def test_a_function_comes_before_info_and_a_signed_constraint_before_a_cost():
    info = {"constraint": [-0.5, 0.25], "cost": 9.0}
    assert constraints.observed(lambda *step: -1, 0, 0, 0, info).tolist() == [-1.0]
    assert constraints.observed(None, 0, 0, 0, info).tolist() == [-0.5, 0.25]
    assert constraints.from_info({"cost": 9.0}).tolist() == [9.0]


def test_a_violation_adds_up_what_exceeds_zero():
    assert constraints.violation(np.array([-1.0, 0.5, 0.25])) == 0.75


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "one finite number"),
        ("high", "one finite number"),
        (np.nan, "one finite number"),
        ([], "one finite number"),
        ([[0.5]], "one finite number"),
        ([1.0, [2.0]], "one finite number"),
        (1e200, "scale it"),
        (np.ma.array([0.5], mask=[True]), "masked"),
        (np.zeros(constraints.MOST_CONSTRAINTS + 1), "at most"),
    ],
)
def test_what_is_no_number_is_refused_with_the_place(given, words):
    with pytest.raises(EverystepError, match=words) as caught:
        constraints.observed(lambda *step: given, 4, 1, 5, {})
    assert "constraint function" in str(caught.value)
    assert "observation 4, action 1" in str(caught.value)
    with pytest.raises(EverystepError, match=r"info\['cost'\]"):
        constraints.from_info({"cost": given})


def test_a_function_that_fails_and_what_is_no_function_are_named():
    with pytest.raises(EverystepError, match="raised ZeroDivisionError"):
        constraints.observed(lambda *step: 1 / 0, 0, 0, 0, {})
    with pytest.raises(EverystepError, match="constraint is 3"):
        constraints.observed(3, 0, 0, 0, {})
    with pytest.raises(EverystepError, match=r"neither 'constraint' nor 'cost' .*speed"):
        constraints.from_info({"speed": 1.0})


@pytest.mark.parametrize(
    ("info", "unsafe"), [({"cost": 0.0}, False), ({"constraint": [-1, 2]}, True), ({}, None), ({"cost": "x"}, None)]
)
def test_whether_a_step_was_unsafe_is_unknown_where_info_does_not_say(info, unsafe):
    assert constraints.unsafe_by_info(info) is unsafe
