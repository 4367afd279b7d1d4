"""Values of a linear mixture against regression on expected values, row by row."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers.episodes import SUCCESSORS, episodes, learnt

from everystep.lsvi.radii import Tuned
from everystep.lsvi.values.mixture import MixtureValues

LAM, BETA, CAP, D = 0.3, 0.5, 1.5, 3
rng = np.random.default_rng(4)
TRIPLES = rng.random((2, D, 2, 3))  # (A, d, J, S): phi(x, a, x') at the successors
REWARDS = rng.random((1, 2, 3))
V = np.array([0.2, 1.0, 0.6])


def expected_features(a, x, values):
    """phi_V(x, a)."""
    return sum(TRIPLES[a, :, j, x] * values[SUCCESSORS[j, x]] for j in range(2))


@pytest.mark.quick
@pytest.mark.parametrize("steps", [1, 4], ids=["shared", "by step"])
def test_values_are_known_rewards_plus_the_regression_on_expected_values(steps):
    model = MixtureValues(
        Tuned(jnp.asarray(BETA)), jnp.asarray(LAM), jnp.asarray(CAP), *map(jnp.asarray, (SUCCESSORS, TRIPLES, REWARDS))
    )
    seen, h = episodes(5, with_values=True), 1
    assert model.learns_from_plans
    state = learnt(model, steps, seen)
    Q = model.estimate(model.fit(state, jnp.int32(6)), jnp.int32(h), jnp.asarray(V))
    X, y = [], []
    for each in seen:
        for step in range(4) if steps == 1 else [h]:
            values = each.V_next[step]
            X.append(expected_features(int(each.a[step]), int(each.x[step]), values))
            y.append(values[each.x_next[step]])
    Lambda = LAM * np.eye(D) + np.transpose(X) @ X
    w = np.linalg.solve(Lambda, np.transpose(X) @ y)
    for x in range(3):
        for a in range(2):
            phi = expected_features(a, x, V)
            total = REWARDS[0, a, x] + phi @ w + BETA * np.sqrt(phi @ np.linalg.solve(Lambda, phi))
            np.testing.assert_allclose(Q[a, x], min(total, CAP), atol=1e-10)
