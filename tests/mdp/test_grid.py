"""The drawing of a problem: a cell for each state, or several states on one cell."""

import numpy as np
import pytest

from everystep.errors import EverystepError
from everystep.mdp.cmdp import FiniteCMDP, Grid

S, A = 3, 2


def drawn(*grid):
    return FiniteCMDP(
        np.broadcast_to(np.eye(S)[:, None], (S, A, S)), np.zeros((S, A)), -np.ones((S, A)), grid=Grid(*grid)
    )


@pytest.mark.quick
def test_states_are_cells_unless_the_grid_says_otherwise():
    assert drawn(("SFG",)).grid.cell(2) == 2
    np.testing.assert_array_equal(Grid(("SF", "FG")).by_cell(np.arange(4.0)), [[0, 1], [2, 3]])


def test_what_belongs_to_several_states_of_a_cell_is_added():
    grid = drawn(("S#", ".G"), None, np.array([0, 3, 3])).grid
    np.testing.assert_array_equal(grid.cell(np.array([2, 0])), [3, 0])
    np.testing.assert_array_equal(grid.by_cell(np.array([1.0, 10.0, 100.0])), [[1, 0], [0, 110]])


@pytest.mark.parametrize(
    ("grid", "sentence"),
    [
        ((("SG",),), r"^rows draw \('SG',\)"),
        ((("SG", "."), None, np.arange(3)), r"^rows draw \('SG', '\.'\); give equally long rows\.$"),
        ((("SG",), None, np.arange(3)), r"^cells have shape \(3,\) and type int64"),
        ((("SG",), None, np.array([0, 1])), r"^cells have shape \(2,\) .*"),
        ((("SG",), None, np.array([0.0, 1.0, 1.0])), r"^cells have shape \(3,\) and type float64; give 3 whole"),
        (
            (("SFG",), None, None, np.zeros((S, 2))),
            r"^moves have shape \(3, 2\)",
        ),
        ((("SFG",), None, None, np.full((S, A, 2), np.nan)), r"^moves have shape \(3, 2, 2\); give finite numbers"),
    ],
)
def test_a_drawing_of_other_states_is_refused(grid, sentence):
    with pytest.raises(EverystepError, match=sentence):
        drawn(*grid)
