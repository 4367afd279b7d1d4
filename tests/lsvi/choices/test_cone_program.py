"""The safe mixture of actions: as good as SciPy's solution, and never infeasible, whatever the data."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from everystep.lsvi.choices import cone_program

best = jax.jit(cone_program.best)


@jax.jit
def finished(x, Q, mean, U, safe):
    return cone_program.finished(x, cone_program.scaled(Q, mean, safe), U, safe)


def case(seed, A, S, m, r, wide):
    """Random data with a0 strictly safe; r = 0 for a diagonal U."""
    rng = np.random.default_rng(seed)
    safe = np.eye(A, dtype=bool)[rng.integers(0, A, S)].T
    mean = rng.uniform(-0.8, 0.8, (m, A, S))
    mean[:, safe] = -rng.uniform(0.1, 0.6, (m, S))
    U = wide * rng.uniform(0.05, 1, (A, S)) * (rng.normal(size=(r, A, S)) if r else 1.0)
    return rng.uniform(0, 3, (A, S)), mean, np.where(safe, 0.0, U), safe


def used(mean, U, theta):
    """<mean_i, theta> + ||U theta|| at every state, the largest over i."""
    width = np.linalg.norm(U * theta if U.ndim == 2 else (U * theta).sum(1), axis=0)
    return ((mean * theta).sum(1) + width).max(0)


def by_scipy(Q, mean, U, x, start):
    """The best objective that scipy finds at state x, from several starts."""
    M = np.diag(U[:, x]) if U.ndim == 2 else U[:, :, x]
    q, A = Q[:, x], len(Q)
    constraints = [{"type": "eq", "fun": lambda t: t.sum() - 1, "jac": lambda t: np.ones(A)}]
    for c in mean[:, :, x]:
        slack = lambda t, c=c: -(c @ t + np.linalg.norm(M @ t))
        slope = lambda t, c=c: -(c + M.T @ (M @ t) / max(np.linalg.norm(M @ t), 1e-300))
        constraints.append({"type": "ineq", "fun": slack, "jac": slope})
    found = -np.inf
    for first in start:
        options = {"ftol": 1e-15, "maxiter": 300}
        done = minimize(
            lambda t: -q @ t, first, jac=lambda t: -q, bounds=[(0, 1)] * A, constraints=constraints, options=options
        )
        theta = np.maximum(done.x, 0) / np.maximum(done.x, 0).sum()
        if all(each["fun"](theta) >= -1e-10 for each in constraints[1:]):
            found = max(found, q @ theta)
    return found


# Cases of equal shapes share a program.
CASES = {
    "nothing unknown": (4, 1, 3, 0.0),
    "next to nothing unknown": (4, 1, 3, 1e-8),
    "one-hot, nothing unknown": (4, 1, 0, 0.0),
    "one-hot, wide": (4, 1, 0, 8.0),
    "one-hot, narrow": (4, 1, 0, 0.3),
    "one-hot, two constraints": (4, 2, 0, 0.5),
    "features": (4, 1, 3, 1.0),
    "more actions than features, narrow": (11, 1, 3, 0.3),
    "three constraints": (5, 3, 3, 0.6),
}


@pytest.mark.parametrize("name", CASES)
def test_the_mixture_is_the_best_there_is_and_feasible(name):
    A, m, r, wide = CASES[name]
    Q, mean, U, safe = case(len(name), A, 12, m, r, wide)
    theta = np.asarray(best(*map(jnp.asarray, (Q, mean, U, safe))))
    assert (theta >= 0).all()
    np.testing.assert_allclose(theta.sum(0), 1, rtol=0, atol=1e-12)
    assert used(mean, U, theta).max() <= 1e-12
    for x in range(12):
        own, middle = theta[:, x], 0.5 * safe[:, x] + 0.5 / A
        assert by_scipy(Q, mean, U, x, (own, 0.9 * own + 0.1 * safe[:, x], middle)) <= Q[:, x] @ own + 1e-8


def test_an_action_with_a_known_cost_is_mixed_correctly_with_others():
    Q, mean, U, safe = case(5, 4, 12, 1, 3, 1.0)
    U[:, np.arange(12) % 4, np.arange(12)] = 0  # features parallel to those of a0
    theta = np.asarray(best(*map(jnp.asarray, (Q, mean, U, safe))))
    assert used(mean, U, theta).max() <= 1e-12
    for x in range(12):
        own, middle = theta[:, x], 0.5 * safe[:, x] + 0.5 / 4
        assert by_scipy(Q, mean, U, x, (own, 0.9 * own + 0.1 * safe[:, x], middle)) <= Q[:, x] @ own + 1e-8


def test_the_closed_form_and_the_interior_point_agree():
    Q, mean, U, safe = map(jnp.asarray, case(1, 4, 200, 1, 0, 3.0))

    @jax.jit
    def both_ways():
        data = cone_program.scaled(Q, mean, safe)
        x, solved = cone_program.by_root(data, U, safe)
        other = cone_program.by_interior_point(data, U[:, None] * jnp.eye(4)[:, :, None]).x
        value = lambda x: (data.q * jnp.where(safe, 0.0, x)).sum(0)
        return solved, value(x), value(other)

    solved, by_root, by_interior_point = map(np.asarray, both_ways())
    assert solved.mean() > 0.5
    np.testing.assert_allclose(by_root[solved], by_interior_point[solved], rtol=0, atol=1e-9)


@pytest.mark.quick
def test_two_actions_are_mixed_by_the_formula():
    """theta(a) <= (tau - tau_h) / (chat + beta / sqrt(lam + n) - tau_h), the margin over what a uses of it."""
    Q, mean, width = jnp.array([[0.0], [1.0]]), jnp.array([[[-0.3], [0.2]]]), jnp.array([[0.0], [0.5]])
    theta = best(Q, mean, width, jnp.array([[True], [False]]))
    np.testing.assert_allclose(theta[:, 0], [1 - 0.3 / (0.2 + 0.5 + 0.3), 0.3 / (0.2 + 0.5 + 0.3)], rtol=0, atol=1e-12)


@pytest.mark.quick
def test_the_safe_action_is_kept_where_nothing_is_better_or_nothing_is_safe():
    Q, mean, U, safe = case(3, 4, 12, 1, 3, 1.0)
    at_best = np.where(safe, Q.max() + 1, Q)
    np.testing.assert_allclose(best(*map(jnp.asarray, (at_best, mean, U, safe))), safe, rtol=0, atol=1e-8)
    hopeless = np.where(safe, 0.1, mean)
    np.testing.assert_array_equal(best(*map(jnp.asarray, (Q, hopeless, U, safe))), safe)


@pytest.mark.parametrize(("m", "r"), [(1, 0), (3, 0), (2, 3)], ids=["one-hot", "three constraints", "features"])
def test_any_point_is_scaled_back_to_a_safe_mixture(m, r):
    """So the last digits of a solver never matter; a point that is already safe stays unchanged."""
    Q, mean, U, safe = map(jnp.asarray, case(2, 4, 30, m, r, 0.6))
    x = np.random.default_rng(0).uniform(-1, 3, (4, 30))
    for share in (1.0, 0.3, 0.01):
        theta = np.asarray(finished(jnp.asarray(share * x), Q, mean, U, safe))
        assert (theta >= 0).all()
        np.testing.assert_allclose(theta.sum(0), 1, rtol=0, atol=1e-12)
        assert used(np.asarray(mean), np.asarray(U), theta).max() <= 1e-12
    kept = np.where(safe, 0.0, np.maximum(0.01 * x, 0))
    inside = (used(np.asarray(mean), np.asarray(U), np.where(safe, 1 - kept.sum(0), kept)) < 0) & (kept.sum(0) < 1)
    assert inside.mean() > 0.5
    np.testing.assert_allclose(np.where(safe, 0.0, theta)[:, inside], kept[:, inside], rtol=0, atol=1e-12)


def test_a_known_safe_action_that_breaks_one_of_two_constraints_is_played_alone():
    Q, mean, U, safe = case(4, 4, 6, 2, 3, 1.0)
    mean[1] = np.where(safe, 0.1, mean[1])
    Q, mean, U, safe = map(jnp.asarray, (Q, mean, U, safe))
    theta = finished(jnp.full((4, 6), 0.1), Q, mean, U, safe)
    np.testing.assert_array_equal(theta, safe)
