"""The points that a kernel tells apart, and the norm of costs in its space."""

import math

import numpy as np
import pytest

from everystep.errors import EverystepError
from everystep.kernels import RBF, Categorical, Constant
from everystep.lsvi.regression.kernel_points import Points, check_kernel
from everystep.problems import from_map

ROWS = ("SFF", "FHF", "FFG")


@pytest.fixture(scope="module")
def pond():
    return from_map(ROWS, horizon=4)


@pytest.mark.quick
def test_a_kernel_on_landing_cells_sees_one_point_for_each_cell(pond):
    points = Points.of(pond, Categorical(on="landing"))
    assert points.gram.shape == (9, 9)
    assert points.which.shape == (pond.actions, pond.states)
    landing = pond.points["landing"]
    for a in range(pond.actions):
        for x in range(pond.states):
            np.testing.assert_array_equal(points.named["landing"][points.which[a, x]], landing[x, a])
    np.testing.assert_array_equal(points.gram, np.eye(9))
    assert Points.of(pond, Constant(0.5)).gram.shape == (pond.actions,) * 2


def test_the_norm_of_a_combination_of_kernels_is_that_of_its_weights(pond):
    points = Points.of(pond, RBF(2.0, on="landing"))
    alpha = np.random.default_rng(0).normal(size=len(points.gram))
    g = (points.gram @ alpha)[points.which].T
    assert points.norm(g) == pytest.approx(math.sqrt(alpha @ points.gram @ alpha))
    assert points.norm(np.stack([g, 3 * g])) == pytest.approx(3 * points.norm(g))


def test_costs_that_differ_where_a_kernel_sees_no_difference_are_not_in_its_space(pond):
    points = Points.of(pond, Categorical(on="state"))
    g = np.zeros((pond.states, pond.actions))
    assert points.norm(g) == 0
    g[4, 1] = 0.5
    assert points.norm(g) == math.inf


@pytest.mark.parametrize(
    ("kernel", "words"), [(RBF(1.0), "no on="), (RBF(1.0, on="speed"), "'speed'")], ids=["nothing", "another"]
)
def test_a_kernel_on_what_the_problem_does_not_have_is_refused_with_what_it_has(pond, kernel, words):
    with pytest.raises(EverystepError, match=words) as caught:
        check_kernel(pond, "cost", kernel)
    assert "landing" in str(caught.value)
