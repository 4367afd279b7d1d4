"""Fitting kernels: the likelihood against scikit-learn's, and that a fit finds what made the data."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

import everystep as es
from everystep import fitting
from everystep.parts import gp
from everystep.parts.gp_costs import Tally
from everystep.parts.kernels import RBF, gram
from everystep.parts.points import Points

POINTS = np.linspace(0, 6, 25)[:, None]


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
    np.testing.assert_allclose(fitting.log_likelihood(kernel, lam, jnp.asarray(POINTS), tally), expected, rtol=1e-10)


def test_a_fit_finds_the_length_and_the_noise_that_made_the_data():
    _, _, tally = observed(8, 3000, length=1.2, noise=0.01)
    fit = fitting.fit(0.2 * RBF(0.3), 0.3, jnp.asarray(POINTS), tally)
    assert fit.log_likelihood > float(fitting.log_likelihood(0.2 * RBF(0.3), 0.3, jnp.asarray(POINTS), tally))
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
    fit = fitting.fit(kernel, 0.01, points.named, tally)
    assert 5 < fit.kernel.other.kernel.field.length < 12
    assert fit.kernel.other.weight > 1


def test_the_state_after_a_fit_is_that_of_the_same_data_under_the_new_kernel():
    i, c, tally = observed(9, 40, m=2)
    kernel, lam = 0.7 * RBF(1.1), 0.02
    state = fitting.refitted(kernel, lam, jnp.asarray(POINTS), tally)
    prior = gp.prior(gram(kernel, jnp.asarray(POINTS), jnp.asarray(POINTS)), 2)
    expected = gp.condition(prior, jnp.asarray(i), jnp.asarray(c), lam)
    for ours, theirs in zip(state.posterior, expected, strict=True):
        np.testing.assert_allclose(ours[0], theirs, rtol=0, atol=1e-9)


def test_a_run_fits_when_asked_and_reports_every_fit(tmp_path):
    import json

    lake = es.problems.from_map(("SFF", "FHF", "FFG"), horizon=5)
    cost = [es.gp("0.5*rbf(2, on=landing) + 0.5*categorical(on=landing)", fit=20)]
    result = es.run(lake, es.agents.lsvi_ae(cost=cost), episodes=50, seeds=[3, 4])
    fits = result.fits["lsvi-ae"]
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
    np.testing.assert_array_equal(alone.curves["lsvi-ae"]["return"][0], result.curves["lsvi-ae"]["return"][1])
