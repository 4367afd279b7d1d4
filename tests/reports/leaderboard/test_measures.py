"""Statistics over runs: interquartile means, profiles, improvement, Holm."""

import itertools

import numpy as np
import pytest
import scipy.stats

from everystep.reports.leaderboard import measures

pytestmark = pytest.mark.quick
SCORES = [np.array([0.1, 0.9, 0.3, 0.7]), np.array([2.0, -1.0, 0.5]), np.array([0.4, 0.4, 1.5, 0.2])]


def resamples(scores, seed, n):
    """The same draws as the library, one resample after another."""
    rng = np.random.default_rng(seed)
    drawn = [each[rng.integers(len(each), size=(n, len(each)))] for each in scores]
    return [[each[i] for each in drawn] for i in range(n)]


def percentiles(values):
    return np.percentile(values, [2.5, 97.5], axis=0)


def test_the_interquartile_mean_is_that_of_the_middle_half_of_all_runs():
    found = measures.interquartile_mean(SCORES, np.random.default_rng(3), 40)
    mean = lambda parts: scipy.stats.trim_mean(np.concatenate(parts), 0.25)
    assert found.mean == pytest.approx(mean(SCORES))
    runs = sorted(np.concatenate(SCORES))
    assert found.mean == pytest.approx(sum(runs[2:-2]) / 7)  # of 11 runs int(11 / 4) are left out at each end
    assert [found.low, found.high] == pytest.approx(percentiles([mean(each) for each in resamples(SCORES, 3, 40)]))


def test_resamples_in_several_parts_are_as_many(monkeypatch):
    monkeypatch.setattr(measures, "AT_ONCE", 50)
    parts = list(measures._resampled(SCORES, np.random.default_rng(0), 10))
    assert [len(each[0]) for each in parts] == [4, 4, 2]


def test_a_profile_is_the_share_of_runs_above_each_number():
    taus = np.array([-2.0, 0.3, 0.4, 1.0, 2.0])
    found = measures.profile(SCORES, taus, np.random.default_rng(4), 30)
    share = lambda parts: [sum(run > tau for part in parts for run in part) / 11 for tau in taus]
    assert found.mean == pytest.approx(share(SCORES))
    low, high = percentiles([share(each) for each in resamples(SCORES, 4, 30)])
    assert found.low == pytest.approx(low)
    assert found.high == pytest.approx(high)


def test_the_probability_of_improvement_is_the_mean_of_mann_whitney_statistics():
    theirs = [np.array([0.3, 0.2]), np.array([1.0, 2.0, 3.0]), np.array([0.4])]
    found = measures.probability_of_improvement(SCORES, theirs, np.random.default_rng(0), 500)
    better = lambda xs, ys: np.mean([(x > y) + (x == y) / 2 for x, y in itertools.product(xs, ys)])
    loops = [better(*pair) for pair in zip(SCORES, theirs, strict=True)]
    u = [scipy.stats.mannwhitneyu(x, y).statistic / (len(x) * len(y)) for x, y in zip(SCORES, theirs, strict=True)]
    assert found.mean == pytest.approx(np.mean(loops))
    assert found.mean == pytest.approx(np.mean(u))
    assert found.low < found.mean < found.high
    rng = np.random.default_rng(9)
    again = lambda each: rng.choice(each, len(each))
    drawn = [np.mean([better(again(x), again(y)) for x, y in zip(SCORES, theirs, strict=True)]) for _ in range(500)]
    assert [found.low, found.high] == pytest.approx(percentiles(drawn), abs=0.06)


def test_holm_multiplies_by_the_number_of_hypotheses_that_are_left():
    assert measures.holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])  # 0.03 x 2 holds for 0.04 x 1, too
    assert measures.holm([0.9, 0.8]) == [1.0, 1.0]
    assert measures.holm([]) == []


def values(rows, system, problem, name):
    return np.array([each[name] for each in rows if (each["system"], each["problem"]) == (system, problem)])
