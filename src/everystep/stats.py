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
    samples: np.ndarray, rng: np.random.Generator, level: float = 0.95, resamples: int = 2000
) -> Interval:
    """The mean over axis 0 of (seeds, ...) with its percentile bootstrap interval."""
    samples = np.asarray(samples, float)
    n = samples.shape[0]
    # A resample of n seeds is a vector of multinomial counts, so that all resampled means are one product.
    weights = rng.multinomial(n, np.full(n, 1 / n), size=resamples) / n
    means = weights @ samples.reshape(n, -1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2], axis=0)
    shape = samples.shape[1:]
    return Interval(samples.mean(0), low.reshape(shape), high.reshape(shape))


def moving_average(curves: np.ndarray, window: int) -> np.ndarray:
    """The mean of the last `window` values along the last axis (of all so far, before there are as many)."""
    total = np.cumsum(np.asarray(curves, float), axis=-1)
    n = total.shape[-1]
    before = np.concatenate([np.zeros((*total.shape[:-1], 1)), total], -1)[
        ..., np.maximum(np.arange(n) + 1 - window, 0)
    ]
    return (total - before) / np.minimum(np.arange(n) + 1, window)


def last(curves: np.ndarray, window: int = 100) -> np.ndarray:
    """The mean over the last `window` episodes of (seeds, K)."""
    return np.asarray(curves, float)[..., -window:].mean(-1)
