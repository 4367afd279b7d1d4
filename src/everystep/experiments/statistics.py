"""Statistics on plain arrays: seeds are the unit, intervals are bootstrap over seeds. No JAX, no agents."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Interval(NamedTuple):
    """A mean over seeds and its bootstrap interval; numbers, or curves of the same length."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def mean_over_seeds(
    samples: np.ndarray, rng: np.random.Generator | None = None, level: float = 0.95, resamples: int = 2000
) -> Interval:
    """The mean over axis 0 of (seeds, ...) with its percentile bootstrap interval; by default the same at each call."""
    samples, rng = np.asarray(samples, float), rng or np.random.default_rng(0)
    n = samples.shape[0]
    # A resample of n seeds is a vector of multinomial counts, so that all resampled means are one product.
    weights = rng.multinomial(n, np.full(n, 1 / n), size=resamples) / n
    means = weights @ samples.reshape(n, -1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2], axis=0)
    shape = samples.shape[1:]
    return Interval(samples.mean(0), low.reshape(shape), high.reshape(shape))


def moving_average(curves: np.ndarray, window: int) -> np.ndarray:
    """The mean of the last `window` values along the last axis (of all values so far, where there are fewer)."""
    total = np.cumsum(np.asarray(curves, float), axis=-1)
    n = total.shape[-1]
    before = np.concatenate([np.zeros((*total.shape[:-1], 1)), total], -1)[
        ..., np.maximum(np.arange(n) + 1 - window, 0)
    ]
    return np.asarray((total - before) / np.minimum(np.arange(n) + 1, window))


def last(curves: np.ndarray, window: int = 100) -> np.ndarray:
    """The mean over the last `window` episodes of (seeds, K)."""
    return np.asarray(np.asarray(curves, float)[..., -window:].mean(-1))


LAST, SHARE = 100, 0.3
AT_THE_END = f"the episodes that began in the last {SHARE:.0%} of the steps, at most the last {LAST}".replace("%", " %")


def episodes_at_the_end(lengths: np.ndarray) -> int:
    """The number of episodes that are the end of a training, from the lengths of all of them.

    "At the end" are the episodes that began in the last 30 % of the steps, at most the last 100; at least one, if there
    is one. A training of few episodes is then not averaged over its beginning, nor one of many over a few.
    """
    ends = np.cumsum(lengths)
    if not len(ends):
        return 0
    late = int((ends - lengths >= (1 - SHARE) * ends[-1]).sum())
    return max(1, min(LAST, late))


class Paired(NamedTuple):
    """A mean difference over pairs with its interval and its p-value."""

    difference: Interval
    p: float


def paired(ours: np.ndarray, theirs: np.ndarray, rng: np.random.Generator | None = None, flips: int = 10_000) -> Paired:
    """ours - theirs over seeds with the same draws of the world, with the two-sided p-value of a sign-flip test.

    If neither were better, both signs of each difference would be equally likely: p is the share of sign patterns whose
    mean is at least as far from 0 as the observed one, which is among them. All 2^n patterns are used where they are
    few, otherwise `flips` random ones.
    """
    d, rng = np.asarray(ours, float) - np.asarray(theirs, float), rng or np.random.default_rng(0)
    n = len(d)
    if 2**n <= flips:
        signs = 1 - 2 * (np.arange(2**n)[:, None] >> np.arange(n) & 1)
    else:
        signs = np.concatenate([np.ones((1, n)), rng.choice([-1, 1], (flips - 1, n))])
    sums = np.abs(signs @ d)
    return Paired(mean_over_seeds(d, rng), float((sums >= sums[0] * (1 - 1e-12)).mean()))


class Exponent(NamedTuple):
    """The exponent of growth of a sum, like k ** value, with its bootstrap interval."""

    value: float
    low: float
    high: float


def growth_exponent(
    curves: np.ndarray,
    rng: np.random.Generator,
    after: float = 0.1,
    level: float = 0.95,
    resamples: int = 2000,
    points: int = 50,
) -> Exponent:
    """The slope of log(cumulative sum) on log k over the episodes after a share `after` of all, from (seeds, K).

    The mean over seeds is summed over episodes and read at `points` episodes equally spaced in log k; the slope is the
    least-squares one: 1 for a constant cost per episode, 1/2 for sqrt(k), 0 for a cost that has ended. The interval is
    a percentile bootstrap over seeds, with a new fit for each resample. NaN where the sum is not positive.
    """
    sums = np.cumsum(np.asarray(curves, float), axis=-1)
    K = sums.shape[1]
    k = np.unique(np.geomspace(max(after * K, 1), K, points).round().astype(int))
    return power(k, sums[:, k - 1], rng, level, resamples)


def power(
    x: np.ndarray, samples: np.ndarray, rng: np.random.Generator, level: float = 0.95, resamples: int = 2000
) -> Exponent:
    """The least-squares slope of log(mean over seeds) on log x, from (seeds, len(x)): what grows like x ** value.

    The interval is a percentile bootstrap over seeds, with a new fit for each resample. NaN where a mean is not
    positive.
    """
    n = len(samples)
    weights = rng.multinomial(n, np.full(n, 1 / n), size=resamples) / n
    means = np.concatenate([np.full((1, n), 1 / n), weights]) @ samples
    centred = np.log(x) - np.log(x).mean()
    logs = np.log(np.where(means > 0, means, np.nan))
    slopes = logs @ centred / (centred @ centred) if len(x) > 1 else np.full(len(means), np.nan)
    if not np.isfinite(slopes[0]):
        return Exponent(np.nan, np.nan, np.nan)
    low, high = np.nanquantile(slopes[1:], [(1 - level) / 2, (1 + level) / 2])
    return Exponent(float(slopes[0]), float(low), float(high))
