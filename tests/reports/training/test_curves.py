"""Curves over steps: straight between the ends of episodes, and means where all seeds are."""

import numpy as np
import pytest
from helpers.trainings import ROWS, made

from everystep.reports.training import curves

pytestmark = pytest.mark.quick


def test_what_was_violated_so_far_is_a_sum_over_episodes_at_their_ends():
    violation, unsafe = curves.violation_so_far(made()), curves.unsafe_so_far(made())
    for seed in (0, 1):
        ends = np.cumsum(ROWS["length"][seed])
        np.testing.assert_array_equal(violation[seed].at(ends), np.cumsum(ROWS["violation"][seed]))
        np.testing.assert_array_equal(unsafe[seed].at(ends), np.cumsum(ROWS["unsafe_steps"][seed]))
    assert violation[0].at(np.array([0, 5, 10, 15])).tolist() == [0.0, 2.0, 4.0, 5.0]


def test_returns_and_shares_are_moving_averages():
    results = made()
    assert curves.window(results) == 3  # of the seed with the fewest episodes
    assert curves.returns(results)[0].values.tolist() == [1.0, 1.5, 2.0, 3.0]
    assert curves.unsafe_share(results)[1].values[-1] == pytest.approx(8 / 40)


def test_a_mean_ends_where_the_first_seed_does():
    both = curves.violation_so_far(made())
    shown = curves.mean(both, points=5)
    assert shown.steps.tolist() == [0.0, 10.0, 20.0, 30.0, 40.0]
    np.testing.assert_allclose(shown.interval.mean, np.mean([each.at(shown.steps) for each in both], 0))
    assert (shown.interval.low <= shown.interval.mean).all()
    assert curves.end(both) == 50
