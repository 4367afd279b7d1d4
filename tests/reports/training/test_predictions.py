"""Figures of what networks predicted: what they draw, and that they draw what is missing as missing."""

import matplotlib as mpl
import numpy as np
import pytest

from everystep.experiments.figures import COLUMN, SCREEN
from everystep.reports.training import predictions

pytestmark = pytest.mark.quick

CURVE = {"error": [0.3, 0.2, None], "spread": [0.1, 0.1, 0.1], "share": [0.5, 0.9, 0.95]}
NONE = {key: [None, None, None] for key in ("error", "spread", "share")}
FOUND = {
    "random": 16,
    "steps": [100, 200, 300],
    "observation": CURVE,
    "reward": NONE,
    "constraints": [CURVE],
    "late": [0.9, 0.9, None, 0.5],
    "returned": {"count": [1, 2, 0], "imagined": [1.0, 2.0, None], "came": [1.5, 2.5, None]},
    "violated": {"count": [1, 2, 0], "imagined": [0.1, 0.0, None], "came": [0.2, 0.0, None]},
    "violations": [[0.0, 0.0, 90], [0.3, 0.1, 10]],
    "labels": {"safe": [60, 57], "unknown": [0, 0], "unsafe": [40, 4]},
    "horizons": [5, 20],
    "tolerance": 0.01,
}


def drawn(found=FOUND, page=SCREEN):
    with mpl.rc_context(page.style):
        return predictions.drawn(found, "Cart, lsvi-nets", 3, page)


@pytest.mark.parametrize("page", [SCREEN, COLUMN])
def test_lines_are_the_numbers_and_have_names(page):
    share, error = drawn(page=page)["prediction"].axes
    assert [each.get_label() for each in share.get_lines()] == ["observation", "constraint"]  # no reward varied
    np.testing.assert_array_equal(error.get_lines()[0].get_xydata(), [[100, 0.3], [200, 0.2]])
    assert {each.get_text() for each in error.texts} == {"error", "spread"}
    came, imagined = drawn(page=page)["imagined"].axes[1].get_lines()
    assert came.get_ydata().tolist() == [0.2, 0.0]
    assert imagined.get_ydata().tolist() == [0.1, 0.0]


def test_the_reliability_shows_counts_and_shares():
    left, right = drawn()["reliability"].axes
    dots = left.collections[0]
    assert dots.get_offsets().tolist() == [[0.0005, 0.0005], [0.3, 0.1]]  # 0 at the edge
    assert dots.get_sizes()[0] > dots.get_sizes()[1]
    assert [each.get_height() for each in right.patches] == [0.95, 0, 0.1]
    assert [each.get_text() for each in right.texts] == ["95%\n57 of 60", "none", "10%\n4 of 40"]


def test_what_was_not_judged_is_not_drawn():
    none = {"count": [0, 0, 0], "imagined": [None] * 3, "came": [None] * 3}
    assert set(drawn(FOUND | {"returned": none, "violated": none, "violations": []})) == {"prediction"}
    nothing = drawn(FOUND | {"observation": NONE, "constraints": [NONE]})["prediction"]
    assert [len(axes.get_lines()) for axes in nothing.axes] == [0, 0]
