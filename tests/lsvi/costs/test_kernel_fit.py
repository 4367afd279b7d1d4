"""Fitting kernels: the likelihood against scikit-learn's, and that a fit finds what made the data."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

import everystep as es
from everystep.kernels import RBF, gram
from everystep.lsvi.costs import kernel_fit
from everystep.lsvi.costs.gp import GridGP, Tally
from everystep.lsvi.episode import Episode
from everystep.lsvi.radii import Tuned
from everystep.lsvi.regression import gp_posterior
from everystep.lsvi.regression.kernel_points import Points
from everystep.mdp.world import Sizes

POINTS = np.linspace(0, 6, 25)[:, None]
log_likelihood = jax.jit(kernel_fit.log_likelihood)


def observed(seed, n, length=1.2, noise=0.01, m=1):
    """n costs at random points of a smooth function with noise, and their tally."""
    rng = np.random.default_rng(seed)
    K = 0.5 * sk.RBF(length)(POINTS) + 1e-10 * np.eye(25)
    f = np.linalg.cholesky(K) @ rng.normal(size=(25, m))
    i = rng.integers(0, 25, n)
    c = f[i] + np.sqrt(noise) * rng.normal(size=(n, m))
    visits, total = np.bincount(i, minlength=25), np.zeros((m, 25))
    np.add.at(total.T, i, c)
    tally = Tally(visits[None].astype(float), total[None], (c**2).sum(0)[None])
    return i, c, jax.tree.map(jnp.asarray, tally)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (12, 2), (200, 1)])
def test_the_likelihood_of_a_tally_is_that_of_all_its_observations(n, m):
    i, c, tally = observed(n, n, m=m)
    kernel, lam = 0.4 * RBF(0.9), 0.03
    model = GaussianProcessRegressor(0.4 * sk.RBF(0.9), alpha=lam, optimizer=None)
    expected = sum(model.fit(POINTS[i], column).log_marginal_likelihood_value_ for column in c.T)
    np.testing.assert_allclose(log_likelihood(kernel, lam, jnp.asarray(POINTS), tally), expected, rtol=1e-10)


@pytest.mark.quick
def test_a_fit_finds_the_length_and_the_noise_that_made_the_data():
    _, _, tally = observed(8, 3000, length=1.2, noise=0.01)
    fit = kernel_fit.fit(0.2 * RBF(0.3), 0.3, jnp.asarray(POINTS), tally)
    assert fit.log_likelihood > float(kernel_fit.log_likelihood(0.2 * RBF(0.3), 0.3, jnp.asarray(POINTS), tally))
    assert 0.8 < fit.kernel.kernel.length < 1.8
    assert 0.008 < fit.lam < 0.0125


def test_a_fit_may_find_a_weight_above_1():
    hills = es.problems.terrain(seed=1, length=8)
    kernel = es.kernels.read(hills.kernel)
    points = Points.of(hills, kernel)
    values = np.zeros(len(points.gram))
    values[points.which] = hills.g[0, 0].T
    tally = jax.tree.map(
        jnp.asarray, Tally(np.ones((1, len(values))), values[None, None], np.array([[(values**2).sum()]]))
    )
    fit = kernel_fit.fit(kernel, 0.01, points.named, tally)
    assert 5 < fit.kernel.other.kernel.field.length < 12
    assert fit.kernel.other.weight > 1


def test_the_state_after_a_fit_is_that_of_the_same_data_under_the_new_kernel():
    i, c, tally = observed(9, 40, m=2)
    kernel, lam = 0.7 * RBF(1.1), 0.02
    state = kernel_fit.refitted(kernel, lam, jnp.asarray(POINTS), tally)
    prior = gp_posterior.prior(gram(kernel, jnp.asarray(POINTS), jnp.asarray(POINTS)), 2)
    expected = gp_posterior.condition(prior, jnp.asarray(i), jnp.asarray(c), lam)
    for ours, theirs in zip(state.posterior, expected, strict=True):
        np.testing.assert_allclose(ours[0], theirs, rtol=0, atol=1e-9)


@pytest.mark.parametrize("steps", [1, 3], ids=["shared", "step-indexed"])
def test_a_run_keeps_the_tally_of_what_it_saw(steps):
    """Two episodes of three steps with two constraints, on four points that eight (x, a) share."""
    rng = np.random.default_rng(0)
    point = np.array([[0, 1, 2, 3], [3, 2, 1, 0]], np.int32)
    model = jax.tree.map(jnp.asarray, GridGP(Tuned(1.0), 0.5, np.eye(4), point))
    state = model.init(Sizes(4, 2, 1, 3, 2), steps)
    visits, total, squares = np.zeros((steps, 4)), np.zeros((steps, 2, 4)), np.zeros((steps, 2))
    for _ in range(2):
        x, a, c = rng.integers(0, 4, 3), rng.integers(0, 2, 3), rng.normal(size=(3, 2))
        whole = lambda values: jnp.asarray(values, jnp.int32)
        state = model.update(state, Episode(whole(x), whole(a), whole(x), whole(x), jnp.zeros(3), jnp.asarray(c)))
        for h in range(3):
            t, i = min(h, steps - 1), point[a[h], x[h]]
            visits[t, i] += 1
            total[t, :, i] += c[h]
            squares[t] += c[h] ** 2
    for ours, theirs in zip(state.tally, (visits, total, squares), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


def test_a_run_fits_when_asked_and_reports_every_fit(tmp_path):
    import json

    lake = es.problems.from_map(("SFF", "FHF", "FFG"), horizon=5)
    cost = [es.gp("0.5*rbf(2, on=landing) + 0.5*categorical(on=landing)", fit=20)]
    result = es.run(lake, es.agents.lsvi_ae(cost=cost), episodes=50, seeds=[3, 4])
    fits = result.kernel_fits["lsvi-ae"]
    assert [(fit["seed"], fit["after"], fit["model"]) for fit in fits] == [
        (3, 20, 1),
        (3, 40, 1),
        (4, 20, 1),
        (4, 40, 1),
    ]
    assert all(fit["kernel"].count("on=landing") == 2 and fit["noise"] > 0 for fit in fits)
    assert result.certified["lsvi-ae"]["p"] is None
    result.save(tmp_path / "run", figures=False)
    assert json.loads((tmp_path / "run" / "kernels.json").read_text(encoding="utf-8"))["lsvi-ae"] == fits
    alone = es.run(lake, es.agents.lsvi_ae(cost=cost), episodes=50, seeds=[4])
    np.testing.assert_array_equal(alone.columns["lsvi-ae"]["return"][0], result.columns["lsvi-ae"]["return"][1])
