"""Statistics on plain arrays."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from everystep import stats


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 30), st.integers(1, 12), st.integers(0, 2**31))
def test_a_moving_average_is_the_mean_of_the_last_values(length, window, seed):
    curve = np.random.default_rng(seed).normal(size=(2, length))
    expected = np.stack([curve[:, max(0, i + 1 - window) : i + 1].mean(1) for i in range(length)], 1)
    np.testing.assert_allclose(stats.moving_average(curve, window), expected, atol=1e-12)


def test_an_interval_covers_the_true_mean_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(300):
        interval = stats.mean_over_seeds(rng.exponential(size=(40,)), rng, level=0.9, resamples=400)
        hits += interval.low <= 1.0 <= interval.high
    assert 0.82 <= hits / 300 <= 0.96


def test_an_interval_is_the_same_for_the_same_generator_and_has_the_shape_of_a_curve():
    samples = np.random.default_rng(1).normal(size=(8, 5, 2))
    one, two = (stats.mean_over_seeds(samples, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(one.low, two.low)
    assert one.mean.shape == one.low.shape == one.high.shape == (5, 2)
    np.testing.assert_allclose(one.mean, samples.mean(0))


def test_one_seed_has_an_interval_of_no_width():
    interval = stats.mean_over_seeds(np.array([[1.0, 2.0]]), np.random.default_rng(0))
    np.testing.assert_array_equal(interval.low, interval.high)


def test_final_is_the_mean_over_the_last_hundred_episodes_or_all_there_are():
    assert stats.last(np.arange(200.0)[None]).item() == np.arange(100, 200).mean()
    assert stats.last(np.arange(10.0)[None]).item() == 4.5
