"""Statistics of a leaderboard, on plain arrays: seeds are the unit, and problems are the strata of a bootstrap.

The scores of a system are a list with one array for each problem, of one number for each seed; the numbers of seeds may
differ. The definitions are those of Agarwal et al. (2021), "Deep reinforcement learning at the edge of the statistical
precipice", as their package rliable computes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from everystep.experiments.statistics import Interval

RESAMPLES = 2000
LEVEL = 0.95
LARGEST = 1e6  # of normalised scores, so that units close to 0 leave numbers that can be drawn
AT_ONCE = 2**22  # numbers of resamples in memory at a time
Scores = Sequence[np.ndarray]


def interquartile_mean(scores: Scores, rng: np.random.Generator, resamples: int = RESAMPLES) -> Interval:
    """The mean of the middle half of all runs of all problems, with its stratified bootstrap interval.

    Of n runs the int(n / 4) lowest and as many of the highest are left out: scipy.stats.trim_mean(runs, 0.25).
    """
    resampled = np.concatenate([_middle_mean(np.concatenate(parts, 1)) for parts in _resampled(scores, rng, resamples)])
    return _interval(_middle_mean(np.concatenate(scores)[None])[0], resampled)


def profile(scores: Scores, taus: np.ndarray, rng: np.random.Generator, resamples: int = RESAMPLES) -> Interval:
    """The share of all runs whose score is above each tau, with pointwise stratified bootstrap intervals."""
    runs = sum(map(len, scores))
    share, resampled = np.zeros(len(taus)), np.zeros((resamples, len(taus)))
    for each in scores:
        above = (each[:, None] > taus).astype(float)
        share += above.sum(0) / runs
        resampled += (_weights(len(each), rng, resamples) @ above) * (len(each) / runs)
    return _interval(share, resampled.round(12))  # 1 is 1, not 1 - 1e-16


def probability_of_improvement(
    ours: Scores, theirs: Scores, rng: np.random.Generator, resamples: int = RESAMPLES
) -> Interval:
    """The mean over problems of P(X > Y) + P(X = Y) / 2, X a run of ours and Y one of theirs, with its interval.

    Both are resampled, within problems.
    """
    wins = [(np.sign(x[:, None] - y[None]) + 1) / 2 for x, y in zip(ours, theirs, strict=True)]
    total = np.zeros(resamples)
    for won in wins:
        of_ours, of_theirs = (_weights(n, rng, resamples) for n in won.shape)
        total += ((of_ours @ won) * of_theirs).sum(1)
    return _interval(np.mean([won.mean() for won in wins]), (total / len(wins)).round(12))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction of m p-values: the i-th smallest (from 0) times m - i, at most 1, never below a smaller one."""
    m = len(p_values)
    adjusted, least = [0.0] * m, 0.0
    for i, place in enumerate(np.argsort(p_values, kind="stable")):
        least = max(least, min(1.0, (m - i) * float(p_values[place])))
        adjusted[int(place)] = least
    return adjusted


def share(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """(R - low) / (high - low), at most `LARGEST` in size; 1 where low and high are equal."""
    values = np.asarray(values, float)
    with np.errstate(over="ignore"):
        return np.clip((values - low) / (high - low), -LARGEST, LARGEST) if high > low else np.ones_like(values)


# --- resampling -------------------------------------------------------------------------------------------------------
def _resampled(scores: Scores, rng: np.random.Generator, resamples: int) -> Iterator[list[np.ndarray]]:
    """Resamples of the seeds of each problem, (some resamples, seeds) each; together `resamples` of them."""
    size = max(1, AT_ONCE // sum(map(len, scores)))
    for first in range(0, resamples, size):
        n = min(size, resamples - first)
        yield [each[rng.integers(len(each), size=(n, len(each)))] for each in scores]


def _weights(n: int, rng: np.random.Generator, resamples: int) -> np.ndarray:
    """The weight of each of n seeds in each resample, (resamples, n)."""
    drawn = rng.integers(n, size=(resamples, n)) + n * np.arange(resamples)[:, None]
    return np.bincount(drawn.ravel(), minlength=resamples * n).reshape(resamples, n) / n


def _middle_mean(runs: np.ndarray) -> np.ndarray:
    """The mean of each row without its lowest and highest quarter."""
    n = runs.shape[1]
    cut = int(n / 4)
    return np.asarray(np.partition(runs, (cut, n - cut - 1), axis=1)[:, cut : n - cut].mean(1))


def _interval(value: np.ndarray | float, resampled: np.ndarray) -> Interval:
    low, high = np.quantile(resampled, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return Interval(np.asarray(value), low, high)
