"""The linear model of stored transitions: its inverses, and costs seen within an episode."""

import numpy as np
import pytest
from helpers.stored import Box, random_batch, resolved

from everystep.features.specs import bind, function
from everystep.training.agent import stored_agent
from everystep.training.agent.models.linear import LinearPredictor
from everystep.training.agent.stored_agent import StoredAgent

ACTIONS, HORIZON, CONSTRAINTS = 3, 4, 2
SETTINGS = {"beta": 0.7, "lam": 0.3, "beta_cost": 0.4, "lam_cost": 0.2}


@pytest.mark.quick
def test_many_updates_leave_an_inverse_that_a_fresh_solve_confirms(monkeypatch):
    monkeypatch.setattr(stored_agent, "REFRESH", 50)
    phi = bind(function(lambda x: x, d=2, crossed=True), Box(2), ACTIONS)
    agent = StoredAgent(resolved(SETTINGS | {"lam": 1e-6}, phi, 2, 4), CONSTRAINTS)
    rng = np.random.default_rng(0)
    for i in range(200):
        agent.learn(random_batch(rng, i, 4, False))
    blocks = agent.state.values.blocks
    fresh = np.linalg.inv(np.asarray(blocks.matrix))
    assert np.abs(np.asarray(blocks.inverse) - fresh).max() < 1e-8 * np.abs(fresh).max()


@pytest.mark.parametrize("crossed", [True, False], ids=["crossed", "any"])
@pytest.mark.parametrize("steps", [1, 3], ids=["shared", "step-indexed"])
def test_a_cost_seen_within_an_episode_is_one_more_row_of_the_regression(steps, crossed):
    """Of its own step and, if features are crossed, of its own action; all other regressions stay as they were."""
    e, n_actions, m, lam, radius = 3, 2, 2, 0.4, 0.7
    blocks, vectors = (n_actions, 1) if crossed else (1, n_actions)
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(steps, blocks, 5, e)), rng.normal(size=(steps, blocks, 5, m))
    phi, y, h, a = rng.normal(size=(e, vectors, 1)), rng.normal(size=m), 1, 1
    t, b, f = min(h, steps - 1), min(a, blocks - 1), min(a, vectors - 1)

    def decided(more):
        weights, inverse = np.zeros((steps, m, blocks, e)), np.zeros((steps, blocks, e, e))
        for at in np.ndindex(steps, blocks):
            rows, seen = X[at], Y[at]
            if more and at == (t, b):
                rows, seen = np.vstack([rows, phi[:, f, 0]]), np.vstack([seen, y])
            inverse[at] = np.linalg.inv(lam * np.eye(e) + rows.T @ rows)
            weights[at[0], :, at[1]] = (inverse[at] @ rows.T @ seen).T
        return LinearPredictor(weights, inverse, radius)

    before, after = decided(more=False), decided(more=True)
    learnt = before.updated(h, phi, a, y)
    for name, ours in learnt.arrays().items():
        np.testing.assert_allclose(ours, getattr(after, name), rtol=0, atol=1e-12)
    mean, width = learnt.predict(h, phi)
    assert mean.shape == (m, n_actions, 1)
    x = phi[:, f, 0]
    np.testing.assert_allclose(mean[:, a, 0], after.weights[t, :, b] @ x, rtol=0, atol=1e-12)
    np.testing.assert_allclose(width[a, 0], radius * np.sqrt(x @ after.inverse[t, b] @ x), rtol=0, atol=1e-12)
    exact, none = learnt._replace(radius=0.0).predict(h, phi)  # without a radius nothing else is computed
    assert (exact == mean).all()
    assert none.shape == width.shape
    assert not none.any()
