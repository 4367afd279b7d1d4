"""What every part is resolved from: settings that may be left at auto, units, and short names of arrays."""

import numpy as np
import pytest

import everystep as es
from everystep.agents.resolve.context import Context, fingerprint, setting_as_text

pytestmark = pytest.mark.quick


def context(scale=(1.0,), **given):
    problem = es.problems.streaming()
    values = {"beta": "auto"} | given
    return Context(problem, 10, "lsvi-ae", given, values, None, 3.0, 0.0, np.array(scale))


def test_a_number_is_the_users_unless_it_is_left_at_auto():
    assert context(beta="auto").number("beta", 0.7) == context().number("beta", 0.7) == 0.7
    assert context(beta=0.2).number("beta", 0.7) == 0.2


def test_noise_is_in_units_of_a_constraint_and_of_all_in_the_finest():
    scaled = context(scale=(4.0, 2.0), sigma=1.0)
    assert scaled.sigma(9.0, 0) == 0.25
    assert scaled.sigma(9.0, 1) == scaled.sigma(9.0) == 0.5
    assert context(scale=(4.0,)).sigma(0.3) == pytest.approx(0.3)  # already in the units of the agent


def test_an_array_has_a_short_name_that_differs_with_every_number():
    one = np.arange(6.0).reshape(2, 3)
    assert fingerprint(one).startswith("2x3:")
    assert fingerprint(one) == fingerprint(one.copy()) == setting_as_text(one)
    assert fingerprint(one) != fingerprint(one + 1e-12)
    assert setting_as_text(0.5) == "0.5"
