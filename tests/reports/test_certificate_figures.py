"""Figures of certificates: an arrow for each action, and rings around false labels."""

import numpy as np
import pytest

from everystep.mdp.certificates import SAFE, UNKNOWN, UNSAFE
from everystep.problems import from_map
from everystep.reports import certificate_figures

pytestmark = pytest.mark.quick


def test_the_map_counts_labels_of_cells_that_can_be_entered_and_rings_false_ones():
    lake = from_map(["SF#", "FHG"], horizon=4)
    labels = np.full((6, 4), UNKNOWN)
    labels[0] = [SAFE, UNSAFE, SAFE, UNSAFE]
    labels[2] = SAFE  # a wall, which does not count
    false = np.zeros((6, 4), bool)
    false[0, 1] = false[2, 0] = True
    figure = certificate_figures.certificates(lake, {"mine": labels}, {"mine": false}, {"mine": 0.05})
    (axes,) = figure.axes
    title = axes.get_title()
    assert "2 safe, 2 unsafe, 16 unknown" in title
    assert "1 false" in title
    assert "p = 0.05" in title
    rings = [line for line in axes.get_lines() if line.get_marker() == "o"]
    assert len(rings) == 1
    heuristic = certificate_figures.certificates(lake, {"mine": labels}, {"mine": false & False}, {"mine": None})
    assert "0 false; heuristic" in heuristic.axes[0].get_title()
