"""Statistics on plain arrays."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everystep.experiments import statistics

pytestmark = pytest.mark.quick


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 30), st.integers(1, 12), st.integers(0, 2**31))
def test_a_moving_average_is_the_mean_of_the_last_values(length, window, seed):
    curve = np.random.default_rng(seed).normal(size=(2, length))
    expected = np.stack([curve[:, max(0, i + 1 - window) : i + 1].mean(1) for i in range(length)], 1)
    np.testing.assert_allclose(statistics.moving_average(curve, window), expected, atol=1e-12)


def test_an_interval_covers_the_true_mean_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(300):
        interval = statistics.mean_over_seeds(rng.exponential(size=(40,)), rng, level=0.9, resamples=400)
        hits += interval.low <= 1.0 <= interval.high
    assert 0.82 <= hits / 300 <= 0.96


def test_an_interval_is_the_same_for_the_same_generator_and_has_the_shape_of_a_curve():
    samples = np.random.default_rng(1).normal(size=(8, 5, 2))
    one, two = (statistics.mean_over_seeds(samples, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(one.low, two.low)
    assert one.mean.shape == one.low.shape == one.high.shape == (5, 2)
    np.testing.assert_allclose(one.mean, samples.mean(0))


def test_one_seed_has_an_interval_of_no_width():
    interval = statistics.mean_over_seeds(np.array([[1.0, 2.0]]), np.random.default_rng(0))
    np.testing.assert_array_equal(interval.low, interval.high)


def test_final_is_the_mean_over_the_last_hundred_episodes_or_all_there_are():
    assert statistics.last(np.arange(200.0)[None]).item() == np.arange(100, 200).mean()
    assert statistics.last(np.arange(10.0)[None]).item() == 4.5


def test_the_growth_exponent_of_a_power_of_k_is_that_power():
    k = np.arange(1, 2001)
    for power in (0.0, 0.5, 1.0):
        sums = np.stack([k**power, 3 * k**power])
        found = statistics.growth_exponent(np.diff(sums, prepend=0), np.random.default_rng(0))
        np.testing.assert_allclose(found, [power] * 3, atol=1e-9)


def test_what_is_paid_early_counts_for_the_later_part_as_a_constant():
    early = np.concatenate([np.full(100, 5.0), np.zeros(1900)])[None]
    assert abs(statistics.growth_exponent(early, np.random.default_rng(0)).value) < 1e-9
    assert statistics.growth_exponent(early, np.random.default_rng(0), after=0.001).value > 0.1


def test_an_exponents_interval_comes_from_the_seeds():
    k = np.arange(1, 1001)
    sums = np.stack([k**0.2, k**0.9])
    found = statistics.growth_exponent(np.diff(sums, prepend=0), np.random.default_rng(0))
    assert found.low < found.value < found.high
    np.testing.assert_allclose((found.low, found.high), (0.2, 0.9), atol=1e-9)
    # A resample of two seeds is one of them alone in a quarter of all cases each, and both in the other half.
    for level, interval in ((0.6, (0.2, 0.9)), (0.4, (found.value, found.value))):
        again = statistics.growth_exponent(np.diff(sums, prepend=0), np.random.default_rng(0), level=level)
        np.testing.assert_allclose((again.low, again.high), interval, atol=1e-9)


def test_nothing_at_all_has_no_exponent():
    assert np.isnan(statistics.growth_exponent(np.zeros((3, 50)), np.random.default_rng(0))).all()
