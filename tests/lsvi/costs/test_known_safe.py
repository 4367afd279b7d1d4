"""Cost models that know a safe action."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems_for_tests.star import star

from everystep import agents
from everystep.lsvi.costs.counts import CountCosts
from everystep.lsvi.costs.known_safe import KnownSafeAction, ProjectedCosts, ProjectedCounts
from everystep.lsvi.costs.linear import LinearCosts
from everystep.lsvi.episode import Episode
from everystep.lsvi.radii import Tuned
from everystep.lsvi.regression.linalg import OnDemand
from everystep.mdp.world import Sizes


def literal(phi, safe, c0, seen, costs, lam):
    """Mean cost, its norm, and the matrices A^+ of every state, as printed: one regression per state, by pinv."""
    S, A, d = phi.shape
    mean, norm, plus = np.zeros((S, A)), np.zeros((S, A)), np.zeros((S, d, d))
    for x in range(S):
        phi0 = phi[x, safe[x]]
        length = np.linalg.norm(phi0)
        p = phi0 / length
        across = np.eye(d) - np.outer(p, p)
        matrix, target = lam * across, np.zeros(d)
        for row, c in zip(seen, costs, strict=True):
            matrix = matrix + np.outer(across @ row, across @ row)
            target = target + across @ row * (c - row @ p / length * c0[x])
        plus[x] = np.linalg.pinv(matrix, hermitian=True)
        gamma = plus[x] @ target
        for a in range(A):
            rest = across @ phi[x, a]
            mean[x, a] = phi[x, a] @ p / length * c0[x] + gamma @ rest
            norm[x, a] = np.sqrt(max(rest @ plus[x] @ rest, 0))
    return mean, norm, plus


def known_action(g, safe, threshold) -> KnownSafeAction:
    """The prior knowledge of g (T, m, S, A), as a cost model receives it."""
    S, A = g.shape[2:]
    one_hot = np.eye(A, dtype=bool)[safe].T
    return KnownSafeAction(jnp.asarray(one_hot), jnp.asarray(g[:, :, np.arange(S), safe]), jnp.asarray(threshold))


def journey(rng, S, A, m, episodes=6, H=4):
    index = lambda high: jnp.asarray(rng.integers(0, high, H), jnp.int32)
    zeros = jnp.zeros(H, jnp.int32)
    row = lambda: Episode(index(S), index(A), zeros, zeros, jnp.zeros(H), jnp.asarray(rng.uniform(-1, 1, (H, m))))
    return [row() for _ in range(episodes)]


@pytest.mark.quick
@pytest.mark.parametrize("steps", [1, 4], ids=["shared", "step-indexed"])
def test_one_gram_matrix_gives_what_a_regression_for_each_state_gives(steps):
    rng = np.random.default_rng(0)
    S, A, d, m, lam = 3, 4, 5, 2, 0.7
    phi, safe, threshold = rng.normal(size=(S, A, d)), rng.integers(0, A, S), np.array([0.5, -0.2])
    g = rng.uniform(-1, 1, (steps, m, S, A))
    known = known_action(g, safe, threshold)
    ridge = LinearCosts(Tuned(1.5), lam, jnp.asarray(phi.swapaxes(0, 1)), OnDemand())
    model = ProjectedCosts(ridge, known, jnp.asarray(phi[np.arange(S), safe]))
    state = model.init(Sizes(S, A, 1, 4, m), steps)
    episodes = journey(rng, S, A, m)
    update = jax.jit(lambda state, episode: model.update(state, episode))
    for each in episodes:
        state = update(state, each)
    estimate = model.estimate(state, jnp.int32(7))
    theta = rng.dirichlet(np.ones(A))
    for t in range(steps):
        own = [h for h in range(4) if steps == 1 or h == t]
        rows = [phi[int(e.x[h]), int(e.a[h])] for e in episodes for h in own]
        for i in range(m):
            costs = [float(e.cost[h, i]) + threshold[i] for e in episodes for h in own]
            c0 = g[t, i, np.arange(S), safe] + threshold[i]
            mean, norm, plus = literal(phi, safe, c0, rows, costs, lam)
            np.testing.assert_allclose(estimate.mean[t, i].T, mean - threshold[i], rtol=0, atol=1e-9)
            np.testing.assert_allclose(estimate.width[t, 0].T, 1.5 * norm, rtol=0, atol=1e-9)
            for x in range(S):
                mixed = theta @ phi[x]
                width = np.linalg.norm(np.asarray(estimate.U)[t, :, :, x] @ theta)
                np.testing.assert_allclose(width, 1.5 * np.sqrt(mixed @ plus[x] @ mixed), rtol=0, atol=1e-9)
    at_safe = np.asarray(known.safe)
    assert (np.asarray(estimate.width)[:, 0][:, at_safe] == 0).all()
    exact = np.swapaxes(g, 2, 3)[:, :, at_safe]
    np.testing.assert_array_equal(np.asarray(estimate.mean)[:, :, at_safe], exact)


@pytest.mark.parametrize("steps", [1, 4], ids=["shared", "step-indexed"])
def test_one_hot_features_as_counts_and_as_vectors_give_the_same_estimates(steps):
    rng = np.random.default_rng(1)
    S, A, m, lam = 3, 4, 2, 0.3
    phi = np.eye(S * A).reshape(S, A, S * A)
    safe = rng.integers(0, A, S)
    known = known_action(rng.uniform(-1, 0, (1, m, S, A)), safe, np.array([0.4, 0.1]))
    dense = LinearCosts(Tuned(0.8), lam, jnp.asarray(phi.swapaxes(0, 1)), OnDemand())
    models = (
        ProjectedCosts(dense, known, jnp.asarray(phi[np.arange(S), safe])),
        ProjectedCounts(CountCosts(Tuned(0.8), lam), known),
    )
    estimates = []
    for model in models:
        state = model.init(Sizes(S, A, 1, 4, m), steps)
        update = jax.jit(model.update)
        for each in journey(np.random.default_rng(2), S, A, m):
            state = update(state, each)
        estimates.append(model.estimate(state, jnp.int32(7)))
    vectors, counts = estimates
    np.testing.assert_allclose(vectors.mean, counts.mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(vectors.width, counts.width, rtol=0, atol=1e-12)
    theta = rng.dirichlet(np.ones(A), size=S).T
    across = np.linalg.norm((np.asarray(vectors.U) * theta).sum(2), axis=1)
    np.testing.assert_allclose(
        across, np.linalg.norm(np.asarray(counts.width)[:, 0] * theta, axis=1), rtol=0, atol=1e-12
    )


@pytest.fixture(scope="module")
def bed():
    return star()


def test_kappa_is_as_printed_or_a_number(bed):
    printed = agents.slucb_qvi().resolve(bed, 10).value.factor
    room = -bed.g[0, 0, :, 0]
    np.testing.assert_allclose(printed[0, 0], 2 * 3 / room + 1)
    assert agents.slucb_qvi(kappa=1).resolve(bed, 10).value.factor is None
    assert (agents.slucb_qvi(kappa=2).resolve(bed, 10).value.factor == 2).all()
