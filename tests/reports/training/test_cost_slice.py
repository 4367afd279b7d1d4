"""Beliefs about costs along coordinates are the labels and bounds of the policy."""

import numpy as np
import pytest
from environments_for_tests.rings import Levers
from environments_for_tests.walks import Point

import everystep as es
from everystep.errors import EverystepError
from everystep.reports.training import cost_slice


@pytest.fixture(scope="module")
def policy():
    phi = es.features.polynomial(1, low=-2, high=2)
    options = {"features": phi, "episodes": 3, "length": 6, "horizon": 3, "seed": 1, "progress": lambda n: None}
    return es.train(Point(), "lsvi-ae", **options).policy


@pytest.fixture(scope="module")
def seen():
    return {"low": [-1.0, -1.0], "median": [0.0, -0.5], "high": [1.0, 0.0]}


@pytest.mark.quick
def test_beliefs_at_observations_are_the_labels_and_bounds_of_the_policy(policy):
    x = np.random.default_rng(0).uniform(-1, 1, (5, 2))
    found = cost_slice.believed(policy, x)
    for i, each in enumerate(x):
        lower, upper = policy.bounds(each)
        np.testing.assert_array_equal(found.labels[:, i], policy.certify(each))
        inside = found.labels[:, i] != 0
        np.testing.assert_allclose(found.upper[inside, i], upper.max(0)[inside], rtol=1e-9)
        np.testing.assert_allclose(found.lower[inside, i], lower.max(0)[inside], rtol=1e-9)
    assert (found.lower <= found.estimate).all()
    assert (found.estimate <= found.upper).all()


def test_a_slice_varies_two_coordinates_and_holds_the_others(policy, seen):
    where = cost_slice.ranges(seen)
    assert (where.low < [-1.0, -1.0]).all()  # with a margin
    assert where.held.tolist() == [0.0, -0.5]
    found = cost_slice.along(policy, where, (0, 1))
    n = cost_slice.POINTS
    assert found.beliefs.labels.shape == (2, n, n)
    row, column = 7, 30
    x = [found.points[0][column], found.points[1][row]]
    np.testing.assert_array_equal(found.beliefs.labels[:, row, column], policy.certify(x))
    assert cost_slice.along(policy, where, (0,)).beliefs.labels.shape == (2, 1, n)


def test_the_coordinate_that_costs_depend_on_is_among_the_strongest(policy, seen):
    assert 0 in cost_slice.strongest(policy, cost_slice.ranges(seen))


def test_without_the_range_of_observations_there_is_no_slice():
    with pytest.raises(cost_slice.NothingToShowError, match="range of the observations"):
        cost_slice.ranges(None)


@pytest.mark.parametrize("along", [(0,), (0, 0), (0, 2), (-1, 0), (0, 1, 2)])
def test_only_two_different_coordinates_are_accepted(along):
    with pytest.raises(EverystepError, match="along"):
        cost_slice.check_along(along, 2)
    assert cost_slice.check_along((1, 0), 2) == (1, 0)


def test_states_from_a_list_are_shown_one_by_one_and_an_agent_without_costs_has_nothing_to_show(policy):
    options = {"episodes": 1, "length": 20, "horizon": 2, "progress": lambda n: None}
    listed = es.train(Levers(), "lsvi", **options).policy
    assert cost_slice.states(listed).tolist() == [0]
    assert cost_slice.states(policy) is None
    with pytest.raises(cost_slice.NothingToShowError, match="costs"):
        cost_slice.believed(listed, np.arange(1))
