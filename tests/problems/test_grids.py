"""Routes on grids."""

import numpy as np
import pytest

from everystep.problems.grids import landing_cells, steps_to


@pytest.mark.quick
@pytest.mark.parametrize("at_most", [0, 1, 4, np.inf])
def test_routes_to_one_goal_are_those_to_many_goals_at_once(at_most):
    rng = np.random.default_rng(6)
    for _ in range(20):
        landing = landing_cells(rng.random(rng.integers(1, 8, 2)) < 0.3)
        goals = rng.random((len(landing), 2)) < rng.choice([0, 0.1, 0.5])
        both = steps_to(goals, landing, at_most)
        for n in (0, 1):
            np.testing.assert_array_equal(steps_to(goals[:, n], landing, at_most), both[:, n])


@pytest.mark.quick
def test_routes_in_a_long_corridor_are_found():
    corridor = landing_cells(np.zeros((1, 100_000), bool))
    np.testing.assert_array_equal(steps_to(np.arange(100_000) == 99_999, corridor), np.arange(100_000)[::-1])
