"""Intervals hold as often as they say, with noise, at all times."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from everystep import agents
from everystep.parts.experience import Episode
from everystep.problem import FiniteCMDP, Noise

RUNS, EPISODES, P_FAIL = 300, 60, 0.2


def noisy(sigma: float) -> FiniteCMDP:
    rng = np.random.default_rng(1)
    g = rng.uniform(-1, 1, (3, 2))
    g[:, 0] = -np.abs(g[:, 0])
    return FiniteCMDP(
        rng.dirichlet(np.ones(3), size=(3, 2)), rng.random((3, 2)), g, start=0, horizon=3, noise=Noise(cost_sigma=sigma)
    )


def share_of_runs_with_a_miss(problem: FiniteCMDP, recipe: agents.Recipe, sigma: float) -> float:
    """How often g leaves [ghat, ghat + 2 width] at any (k, h, x, a), over runs of a policy that acts at random."""
    built = recipe.resolve(problem, EPISODES).build()
    costs = built.agent.costs
    g = jnp.asarray(problem.g[:, 0].swapaxes(-1, -2))[None]  # (1, m, A, S)

    def run(key):
        def episode(state_k, key):
            state, k = state_k
            estimate = costs.estimate(state, k)
            missed = (jnp.abs(estimate.mean - g) > estimate.width + 1e-12).any()
            keys = jax.random.split(key, 3)
            x = jax.random.randint(keys[0], (3,), 0, 3, jnp.int32)
            a = jax.random.randint(keys[1], (3,), 0, 2, jnp.int32)
            cost = g[0, 0][a, x] + sigma * jax.random.normal(keys[2], (3,))
            seen = Episode(x, a, x, x, jnp.zeros(3), cost[:, None])
            return (costs.update(state, seen), k + 1), missed

        first = costs.init(problem.sizes, 1 if built.share_costs else 3), jnp.asarray(1, jnp.int32)
        return jax.lax.scan(episode, first, jax.random.split(key, EPISODES))[1].any()

    return float(jax.vmap(run)(jax.random.split(jax.random.key(7), RUNS)).mean())


@pytest.mark.parametrize("radius", ["coordinate", "paper"])
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "step-indexed"])
def test_the_true_cost_lies_in_its_interval_as_often_as_promised(radius, shared):
    problem = noisy(sigma=0.5)
    recipe = agents.lsvi_ae(radius=radius, p=P_FAIL, share_costs=shared)
    assert share_of_runs_with_a_miss(problem, recipe, 0.5) <= P_FAIL


def test_the_check_above_can_fail():
    problem = noisy(sigma=0.5)
    assert share_of_runs_with_a_miss(problem, agents.lsvi_ae(radius="coordinate", sigma=0.05), 0.5) > P_FAIL


@pytest.mark.quick
def test_the_printed_radii_are_the_papers_numbers():
    problem = noisy(0.0)
    built = agents.lsvi_ae(radius="paper", p=0.1, share_costs=False, share_values=False).resolve(problem, 1000).build()
    d, H, K = 6, 3, 1000
    k = jnp.asarray(5, jnp.int32)
    one = jnp.ones(())
    np.testing.assert_allclose(built.agent.values.radius.width(one, k), d * H * np.sqrt(np.log(2 * d * H * K / 0.1)))
    np.testing.assert_allclose(
        built.agent.costs.radius.width(one, k), np.sqrt(d) + np.sqrt(d * np.log((1 + 5) * H / 0.1))
    )


@pytest.mark.quick
def test_a_coordinate_width_is_the_stated_formula():
    built = agents.lsvi_ae(radius="coordinate", p=0.1, lam_cost=0.5, sigma=0.3).resolve(noisy(0.0), 1000).build()
    n, lam, log_union = 7.0, 0.5, np.log(2 * 1 * 3 * 2 * 3 * 1000 / 0.1)
    width = built.agent.costs.radius.width(jnp.asarray(1 / (n + lam)), jnp.asarray(1, jnp.int32))
    np.testing.assert_allclose(width, (lam * 1 + 0.3 * np.sqrt(2 * n * log_union)) / (n + lam))
