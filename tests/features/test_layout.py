"""Sizes and places of features: grids, powers, shifts of tilings, and their limits."""

import numpy as np
import pytest

from everystep.errors import EverystepError
from everystep.features import layout

pytestmark = pytest.mark.quick


def test_a_grid_spans_its_box_and_the_last_coordinate_varies_fastest():
    np.testing.assert_array_equal(layout.grid((2, 3)), [[-1, -1], [-1, 0], [-1, 1], [1, -1], [1, 0], [1, 1]])
    np.testing.assert_array_equal(layout.grid((1, 2)), [[0, -1], [0, 1]])


@pytest.mark.parametrize(("o", "degree"), [(1, 4), (2, 3), (3, 2)])
def test_powers_are_those_of_every_product_up_to_the_degree_once(o, degree):
    powers = layout.powers(o, degree)
    everywhere = [p for p in np.ndindex(*(degree + 1,) * o) if sum(p) <= degree]
    assert sorted(map(tuple, powers)) == sorted(everywhere)


@pytest.mark.parametrize("tilings", [2, 4, 7])
def test_tilings_are_shifted_by_different_parts_of_a_tile(tilings):
    offsets = layout.offsets(tilings, 2)
    assert offsets.shape == (tilings, 2)
    assert ((offsets >= 0) & (offsets < 1)).all()
    assert len({tuple(row) for row in offsets}) == tilings


def test_one_number_stands_for_every_coordinate_and_any_other_count_is_refused():
    assert layout.fits("tiles", "bins", 5, 3) == (5, 5, 5)
    assert layout.fits("tiles", "bins", (1, 2, 3), 3) == (1, 2, 3)
    with pytest.raises(EverystepError, match="bins of tiles has 2 numbers for 3 coordinates"):
        layout.fits("tiles", "bins", (1, 2), 3)


def test_more_features_than_fit_are_refused_with_a_remedy():
    layout.few("tiles", layout.LARGEST, "use fewer")
    with pytest.raises(EverystepError, match="use fewer"):
        layout.few("tiles", layout.LARGEST + 1, "use fewer")
