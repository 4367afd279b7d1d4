"""Parts that follow from the settings alone, on problems given as tables and on environments alike."""

import numpy as np
import pytest

from everystep.agents.resolve.parts import SharedParts
from everystep.lsvi.choices.basic import Penalised, Reacting
from everystep.lsvi.penalties import Floor

pytestmark = pytest.mark.quick
SETTINGS = {
    "react": False,
    "floor": "sqrt",
    "optimism": 0.5,
    "mode": "least",
    "harm": "mean",
    "tolerance": 0.5,
    "p": 0.1,
}


class Made(SharedParts):
    known_safe, switch = None, 2.0

    def __init__(self, **changed):
        self.values = SETTINGS | changed


def test_a_choice_reacts_if_the_setting_says_so():
    assert Made().penalised(True) == Penalised(True)
    assert Made(react=True).penalised(False) == Reacting(Penalised(False))


def test_the_floor_and_the_options_are_those_of_the_settings():
    assert Made().floor() == Floor.from_setting("sqrt")
    assert Made().options == {"optimism": 0.5, "known_safe": None, "switch": 2.0}


@pytest.mark.parametrize(("mode", "harm"), [("least", "mean"), ("plan", "events")])
def test_the_tolerance_is_in_a_unit_and_the_cap_counts_steps_and_constraints(mode, harm):
    found = Made(mode=mode, harm=harm).harm_in_units(2.0, np.array([1.0, 0.5]), 3, None)
    assert (found.of_plan, found.events, found.tolerance, found.cap) == (mode == "plan", harm == "events", 0.25, 6.0)
    assert (found.radius, found.p) == (None, 0.1)
    assert found.weights.tolist() == [1.0, 0.5]
