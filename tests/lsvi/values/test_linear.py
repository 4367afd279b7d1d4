"""Values linear in features against least squares solved afresh."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers.episodes import episodes, learnt, rows

from everystep.lsvi.radii import Tuned
from everystep.lsvi.values.linear import Linear

LAM, BETA, CAP = 0.3, 0.5, 1.2
PHI = np.random.default_rng(2).normal(size=(2, 3, 5))  # (A, S, d)
V = np.array([0.2, 1.0, 0.6])


@pytest.mark.quick
@pytest.mark.parametrize("steps", [1, 4], ids=["shared", "by step"])
def test_values_and_expectations_are_least_squares_between_the_lowest_value_and_the_cap(steps):
    model = Linear(Tuned(jnp.asarray(BETA)), jnp.asarray(LAM), jnp.asarray(CAP), jnp.asarray(PHI))
    seen, h = episodes(5), 2
    state = learnt(model, steps, seen)
    fit = model.fit(state, jnp.int32(6))
    Q, expected = model.estimate(fit, jnp.int32(h), jnp.asarray(V)), model.expect(fit, jnp.int32(h), jnp.asarray(V))
    observed = rows(seen, None if steps == 1 else h)
    X = np.array([PHI[a, x] for x, a, *_ in observed])
    after = np.array([V[row[2]] for row in observed])
    Lambda = LAM * np.eye(5) + X.T @ X
    w, w_after = (np.linalg.solve(Lambda, X.T @ y) for y in (after + [row[3] for row in observed], after))
    width = BETA * np.sqrt(np.einsum("asd,de,ase->as", PHI, np.linalg.inv(Lambda), PHI))
    unclipped = PHI @ w + width
    np.testing.assert_allclose(Q, unclipped.clip(0, CAP), atol=1e-10)
    np.testing.assert_allclose(expected, PHI @ w_after, atol=1e-10)
    assert (unclipped > CAP).any()
    assert (unclipped < CAP).any()
