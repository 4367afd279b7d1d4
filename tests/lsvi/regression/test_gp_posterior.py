"""Posteriors against scikit-learn's regressor, on a grid and on a growing set of points."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

from everystep.kernels import RBF, Matern52, diagonal, gram
from everystep.lsvi.regression import gp_posterior

KERNEL, THEIRS = 0.3 * Matern52(2.0) + 0.6 * RBF(1.5), 0.3 * sk.Matern(2.0, nu=2.5) + 0.6 * sk.RBF(1.5)
CLOSE = {"rtol": 0, "atol": 1e-8}
condition = jax.jit(gp_posterior.condition)


def log_det(K, lam):
    return np.linalg.slogdet(np.eye(len(K)) + K / lam)[1]


def scikit_learn(X, c, lam, at):
    """Mean and variance at `at`, and 1/2 log det(I + K / lam): mean for each column of c."""
    model = GaussianProcessRegressor(THEIRS, alpha=lam, optimizer=None)
    means = np.stack([model.fit(X, column).predict(at) for column in c.T])
    return means, model.predict(at, return_std=True)[1] ** 2, 0.5 * log_det(THEIRS(X), lam)


@pytest.mark.parametrize("lam", [1e-3, 0.01, 1.0])
@pytest.mark.parametrize("n", [1, 6])
def test_the_posterior_on_a_grid_equals_scikit_learns(lam, n):
    rng = np.random.default_rng(n)
    points = rng.normal(size=(20, 2)) * 2
    known = gp_posterior.prior(gram(KERNEL, jnp.asarray(points), jnp.asarray(points)), 2)
    i, c = rng.integers(0, 20, (60,)), rng.normal(size=(60, 2))
    for start in range(0, 60, n):
        known = condition(known, jnp.asarray(i[start : start + n]), jnp.asarray(c[start : start + n]), lam)
    mean, var, gain = scikit_learn(points[i], c, lam, points)
    np.testing.assert_allclose(known.mean, mean, **CLOSE)
    np.testing.assert_allclose(np.diagonal(known.cov), var, **CLOSE)
    np.testing.assert_allclose(known.gain, gain, **CLOSE)


def test_the_posterior_on_a_grid_stays_exact_after_thousands_of_updates():
    rng = np.random.default_rng(3)
    points, lam = rng.normal(size=(15, 2)) * 2, 0.05
    K = np.asarray(gram(KERNEL, jnp.asarray(points), jnp.asarray(points)))
    i, c = rng.integers(0, 15, (2000, 1)), rng.normal(size=(2000, 1, 1))
    one = lambda known, row: (gp_posterior.condition(known, row[0], row[1], lam), None)
    known = jax.jit(
        lambda: jax.lax.scan(one, gp_posterior.prior(jnp.asarray(K), 1), (jnp.asarray(i), jnp.asarray(c)))[0]
    )()
    # Repeated observations of a point are one of their mean, with less noise: what scikit-learn can do in time.
    visits = np.bincount(i[:, 0], minlength=15)
    mean = np.bincount(i[:, 0], c[:, 0, 0], minlength=15) / visits
    model = GaussianProcessRegressor(THEIRS, alpha=lam / visits, optimizer=None).fit(points, mean)
    at_points, sd = model.predict(points, return_std=True)
    np.testing.assert_allclose(known.mean[0], at_points, **CLOSE)
    np.testing.assert_allclose(np.diagonal(known.cov), sd**2, **CLOSE)
    np.testing.assert_allclose(known.gain, 0.5 * log_det(K[np.ix_(i[:, 0], i[:, 0])], lam), rtol=0, atol=1e-7)


def predicted_at(known, at):
    """Mean and variance at points that are not watched."""
    V = gp_posterior.whiten(KERNEL, known.blocks, at)
    mean = jnp.concatenate([block.z for block in known.blocks]).T @ jnp.concatenate(V)
    return mean, diagonal(KERNEL, at) - sum((v**2).sum(0) for v in V)


def test_the_posterior_on_a_growing_set_equals_scikit_learns_while_capacity_doubles():
    rng = np.random.default_rng(4)
    X, c, lam = rng.normal(size=(150, 3)), rng.normal(size=(150, 2)), 0.02
    watched, elsewhere = rng.normal(size=(9, 3)), rng.normal(size=(4, 3))
    known = gp_posterior.nothing_yet(KERNEL, jnp.asarray(watched), 2, capacity=40)
    rows, put = jax.jit(gp_posterior.rows), jax.jit(gp_posterior.put)
    for start in range(0, 150, 5):
        known = gp_posterior.with_room(known, 5)
        new = (jnp.asarray(X[start : start + 5]), jnp.asarray(c[start : start + 5]))
        known = put(known, rows(KERNEL, lam, known, jnp.asarray(watched), *new))
        if start in (0, 45, 145):
            mean, var, gain = scikit_learn(X[: start + 5], c[: start + 5], lam, watched)
            np.testing.assert_allclose(known.mean, mean, **CLOSE)
            np.testing.assert_allclose(known.var, var, **CLOSE)
            np.testing.assert_allclose(known.gain, gain, **CLOSE)
    mean, var, _ = scikit_learn(X, c, lam, elsewhere)
    predicted = predicted_at(known, jnp.asarray(elsewhere))
    np.testing.assert_allclose(predicted[0], mean, **CLOSE)
    np.testing.assert_allclose(predicted[1], var, **CLOSE)
    assert sum(len(block.own) for block in known.blocks) == 160


def test_a_growing_set_stays_exact_after_a_thousand_points():
    rng = np.random.default_rng(5)
    X, c, lam = rng.normal(size=(1024, 4)), rng.normal(size=(1024, 1)), 0.1
    watched = rng.normal(size=(5, 4))
    known = gp_posterior.with_room(gp_posterior.nothing_yet(KERNEL, jnp.asarray(watched), 1, capacity=256), 1024)
    rows, put = jax.jit(gp_posterior.rows), jax.jit(gp_posterior.put, donate_argnums=0)
    for start in range(0, 1024, 256):
        new = (jnp.asarray(X[start : start + 256]), jnp.asarray(c[start : start + 256]))
        known = put(known, rows(KERNEL, lam, known, jnp.asarray(watched), *new))
    mean, var, gain = scikit_learn(X, c, lam, watched)
    np.testing.assert_allclose(known.mean, mean, **CLOSE)
    np.testing.assert_allclose(known.var, var, **CLOSE)
    np.testing.assert_allclose(known.gain, gain, rtol=1e-12)


@pytest.mark.quick
def test_room_is_made_only_when_there_is_none_and_changes_nothing():
    known = gp_posterior.nothing_yet(KERNEL, jnp.zeros((2, 3)), 1, capacity=4)
    assert gp_posterior.with_room(known, 4) is known
    larger = gp_posterior.with_room(known, 5)
    assert gp_posterior.room(larger) == 8
    np.testing.assert_array_equal(larger.mean, known.mean)
