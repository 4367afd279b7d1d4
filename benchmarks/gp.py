"""Gaussian-process cost models against refitting scikit-learn's GaussianProcessRegressor after every episode.

    python benchmarks/gp.py

On a grid: 10,000 observations on 400 points, 16 per episode. On a growing set: 4,096 points with d = 8, 16 per episode.
After every episode both know the mean and the variance at all points (grid), or at 64 chosen ones (growing).
scikit-learn's time grows with the cube of the number of observations: it is measured at a few sizes and
interpolated between them.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import common
import jax
import jax.numpy as jnp
import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

from everystep.kernels import RBF, gram
from everystep.lsvi.regression import gp_posterior

EPISODE, LAM = 16, 0.01


def scikit_learn(
    X: np.ndarray, c: np.ndarray, at: np.ndarray, sizes: list[int]
) -> tuple[float, np.ndarray, np.ndarray]:
    """Seconds of a fit and a prediction after every episode, interpolated; and the last prediction."""
    seconds = []
    for n in sizes:
        began = time.perf_counter()
        model = GaussianProcessRegressor(sk.RBF(1.5), alpha=LAM, optimizer=None).fit(X[:n], c[:n])
        mean, sd = model.predict(at, return_std=True)
        seconds.append(time.perf_counter() - began)
    print(
        "scikit-learn, seconds of one refit:",
        ", ".join(f"{s:.3f} (n = {n})" for n, s in zip(sizes, seconds, strict=True)),
    )
    every = np.arange(EPISODE, sizes[-1] + 1, EPISODE)
    # Between two sizes the logarithm of time is taken as linear in that of n.
    total = np.exp(np.interp(np.log(every), np.log(sizes), np.log(seconds))).sum()
    return float(total), mean, sd**2


def best_of(runs: int, run: Callable[[], object]) -> float:
    seconds = []
    for _ in range(runs):
        began = time.perf_counter()
        jax.block_until_ready(run())
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def grid() -> list[common.Row]:
    rng = np.random.default_rng(0)
    side = np.linspace(0, 8, 20)
    points = np.stack(np.meshgrid(side, side), -1).reshape(400, 2)
    i = rng.integers(0, 400, 10_000)
    c = np.sin(points[i].sum(1)) + 0.1 * rng.normal(size=10_000)
    K = gram(RBF(1.5), jnp.asarray(points), jnp.asarray(points))
    rows = jnp.asarray(i.reshape(-1, EPISODE)), jnp.asarray(c.reshape(-1, EPISODE, 1))

    @jax.jit
    def learn(
        known: gp_posterior.Posterior, rows: tuple[jax.Array, jax.Array]
    ) -> tuple[gp_posterior.Posterior, jax.Array]:
        """Episode after episode, with what a plan would read after each: the mean and variance everywhere."""

        def one(
            known: gp_posterior.Posterior, row: tuple[jax.Array, jax.Array]
        ) -> tuple[gp_posterior.Posterior, jax.Array]:
            known = gp_posterior.condition(known, *row, LAM)
            return known, jnp.stack([known.mean[0], jnp.diagonal(known.cov)])

        return jax.lax.scan(one, known, rows)

    known = learn(gp_posterior.prior(K, 1), rows)[0]
    ours = best_of(3, lambda: learn(gp_posterior.prior(K, 1), rows))
    theirs, mean, var = scikit_learn(points[i], c, points, [160, 640, 1600, 3200, 6400, 10_000])
    gap = max(np.abs(known.mean[0] - mean).max(), np.abs(np.diagonal(known.cov) - var).max())
    print(f"everystep {ours:.2f} s, scikit-learn {theirs:.0f} s (interpolated); results differ by {gap:.1e}")
    half = len(rows[0]) // 2
    first, last = (jax.tree.map(lambda row, at=at: row[at : at + half], rows) for at in (0, half))
    halves = {
        "early": lambda: jax.block_until_ready(learn(gp_posterior.prior(K, 1), first)),
        "late": lambda: jax.block_until_ready(learn(known, last)),
    }
    common.best_of(1, halves)  # compiles
    early, late = common.best_of(15, halves).values()
    return [
        common.at_least(
            "grid, 10,000 observations on 400 points: refitting's time / everystep's", theirs / ours, 50, ",.0f"
        ),
        common.at_most(
            "grid: time of the last half of the episodes / first half (linear growth: 3)", late / early, 1.3
        ),
    ]


def growing() -> list[common.Row]:
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 2, (4096, 8))
    c = np.sin(X.sum(1)) + 0.1 * rng.normal(size=4096)
    watched = rng.uniform(0, 2, (64, 8))
    rows, put = jax.jit(gp_posterior.rows), jax.jit(gp_posterior.put, donate_argnums=0)
    at = jnp.asarray(watched)

    def learn() -> gp_posterior.Growing:
        known, left = gp_posterior.nothing_yet(RBF(1.5), at, 1), 256
        for n in range(0, 4096, EPISODE):
            if left < EPISODE:
                known = gp_posterior.with_room(known, EPISODE)
                left = gp_posterior.room(known)
            new = jnp.asarray(X[n : n + EPISODE]), jnp.asarray(c[n : n + EPISODE, None])
            known = put(known, rows(RBF(1.5), LAM, known, at, *new))
            left -= EPISODE
        return known

    known = learn()
    ours = best_of(3, learn)
    theirs, mean, var = scikit_learn(X, c, watched, [128, 512, 1024, 2048, 3072, 4096])
    gap = max(np.abs(known.mean[0] - mean).max(), np.abs(known.var - var).max())
    print(f"everystep {ours:.2f} s, scikit-learn {theirs:.0f} s (interpolated); results differ by {gap:.1e}")
    return [
        common.at_least("growing set, 4,096 points, d = 8: refitting's time / everystep's", theirs / ours, 50, ",.0f")
    ]


if __name__ == "__main__":
    with jax.enable_x64(True):
        common.table("Gaussian-process costs, all cores", [*grid(), *growing()])
