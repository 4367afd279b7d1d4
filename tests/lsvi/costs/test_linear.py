"""Costs linear in features against ridge regression solved afresh."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers.episodes import episodes, learnt, rows

from everystep.lsvi.costs.linear import LinearCosts
from everystep.lsvi.radii import Tuned
from everystep.lsvi.regression import linalg

LAM, BETA = 0.3, 0.7
PHI = np.random.default_rng(2).normal(size=(2, 3, 5))  # (A, S, d)


@pytest.mark.quick
@pytest.mark.parametrize("norms", [linalg.Watched(), linalg.OnDemand()], ids=["watched", "on demand"])
@pytest.mark.parametrize("steps", [1, 4], ids=["shared", "by step"])
def test_the_estimate_is_ridge_regression_of_each_constraint(steps, norms):
    model = LinearCosts(Tuned(jnp.asarray(BETA)), jnp.asarray(LAM), jnp.asarray(PHI), norms)
    seen = episodes(5)
    state = learnt(model, steps, seen)
    found, gain = model.estimate(state, jnp.int32(6)), model.information_gain(state)
    for h in range(steps):
        observed = rows(seen, None if steps == 1 else h)
        X, y = np.array([PHI[a, x] for x, a, *_ in observed]), np.array([row[4] for row in observed])
        Lambda = LAM * np.eye(5) + X.T @ X
        theta = np.linalg.solve(Lambda, X.T @ y)  # (d, m)
        norm2 = np.einsum("asd,de,ase->as", PHI, np.linalg.inv(Lambda), PHI)
        np.testing.assert_allclose(found.mean[h], np.einsum("asd,dm->mas", PHI, theta), atol=1e-10)
        np.testing.assert_allclose(found.width[h, 0], BETA * np.sqrt(norm2), atol=1e-10)
        np.testing.assert_allclose(gain[h], np.linalg.slogdet(Lambda / LAM)[1] / 2, atol=1e-10)
