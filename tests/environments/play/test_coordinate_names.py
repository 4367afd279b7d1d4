"""Names and units of the coordinates and actions of well-known environments."""

import numpy as np
import pytest

from everystep.environments.play import coordinate_names
from everystep.environments.play.action_sets import Candidates

pytestmark = pytest.mark.quick


def test_well_known_environments_have_names_and_units():
    assert coordinate_names.of_coordinates("CartPole-v1", 4)[2] == "pole angle (rad)"
    assert coordinate_names.of_coordinates("CartPole-v1", 5)[2] == "observation[2]"
    assert coordinate_names.of_actions("FrozenLake-v1", Candidates(4))[1] == "1: down"
    assert coordinate_names.of_actions("everystep/FrozenLake-v0", Candidates(4, first=3))[1] == "action 4"
    box = Candidates(2, values=np.array([[-0.5, 2], [1, 3.14159]]))
    assert coordinate_names.of_actions("Pendulum-v1", box) == ["action -0.5, 2", "action 1, 3.14"]
    assert coordinate_names.columns_of_map("FrozenLake-v1", 64) == 8
    assert coordinate_names.columns_of_map("Taxi-v3", 500) is None
