"""One program a seed: the same episodes as the plain scan, without a GPU (the kernel is interpreted)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.cases import DEAD_ENDS
from oracles.cases import problem as case_problem

from everystep import agents
from everystep.agents.settings import PRECISIONS
from everystep.experiments.engines import gpu
from everystep.lsvi import loop
from everystep.lsvi.choices.ties import winner
from everystep.mdp.cmdp import FiniteCMDP, Noise
from everystep.problems.frozen_lake import from_map

SEEDS = np.arange(3, dtype=np.uint32)
DONE, CAPACITY = 20, 24


@pytest.fixture(scope="module")
def small():
    return from_map(["SFF", "FHG"], horizon=5)


@pytest.fixture(scope="module")
def noisy():
    """Two constraints, noise on all that is seen, a random start, and an even horizon."""
    rng = np.random.default_rng(0)
    P = np.zeros((5, 2, 5))
    for x in range(5):
        for a in range(2):
            P[x, a, [x, (x + 1 + a) % 5]] = rng.dirichlet([1, 1])
    g = rng.uniform(-1, 1, (2, 5, 2))
    g[:, :, 0] = -0.5
    noise = Noise(reward_sigma=0.1, cost_sigma=[0.1, 0.2])
    return FiniteCMDP(P, rng.uniform(0, 1, (5, 2)), g, start=np.full(5, 0.2), horizon=4, noise=noise)


def job_of(problem, built):
    return loop.Job(built.agent, problem.world, problem.sizes, built.share_values, built.share_costs)


def both_ways(problem, recipe, precision="float64", width=0):
    """Carry and metrics of the plain scan and of the kernel, after two calls each, the second of which continues."""
    with jax.enable_x64(True):
        built = recipe.resolve(problem, 100).build()
    with jax.enable_x64(precision == "float64"):
        job = jax.tree.map(gpu.in_precision, job_of(problem, built))
        assert gpu.supports(job)
        interpreted = gpu.Layout(width=width, interpret=True)
        plain = kernel = (loop.start_seeds(job.agent, job.sizes, True, True, len(SEEDS)), None)
        for count in (np.int32(CAPACITY), np.int32(DONE)):
            plain = loop.scan_seeds(job, plain[0], SEEDS, count, CAPACITY, True)
            kernel = gpu.scan_in_kernel(job, kernel[0], SEEDS, count, CAPACITY, interpreted)
    return plain, kernel


def assert_same(plain, kernel, tolerance):
    for (path, a), b in zip(jax.tree.leaves_with_path(plain), jax.tree.leaves(kernel), strict=True):
        assert a.shape == b.shape, path
        assert a.dtype == b.dtype, path
        np.testing.assert_allclose(a, b, tolerance, tolerance, err_msg=str(path))


@pytest.mark.quick
def test_the_kernel_repeats_the_plain_scan_seed_by_seed(small):
    plain, kernel = both_ways(small, agents.lsvi_ae())
    assert_same(plain, kernel, 1e-12)
    assert plain[1].value[:, DONE - 1].std() > 0
    assert not kernel[1].value[:, DONE:].any()


def test_so_it_does_in_single_precision(small):
    plain, kernel = both_ways(small, agents.lsvi_ae(), "float32")
    assert kernel[0].agent.values.arrivals.dtype == np.float32
    assert_same(plain, kernel, 1e-5)


def test_so_it_does_with_noise_two_constraints_and_a_queue(noisy):
    assert_same(*both_ways(noisy, agents.lsvi_primal()), 1e-10)


def test_so_it_does_for_the_greedy_agent_on_priced_rewards_with_numbers_loaded_one_by_one(small):
    assert_same(*both_ways(small, agents.lsvi_priced(violation_price=0.7), width=1), 1e-12)


# Harm that is learnt as events and lowered by a width, two constraints with one price; the modes share a compilation.
LOWERED = {"beta": 0.2, "beta_harm": 0.05, "floor": 0.5}


@pytest.mark.parametrize("settings", [{"harm": "events", "tolerance": 0.05}, {"mode": "plan"}], ids=["least", "plan"])
def test_so_it_does_for_an_agent_that_looks_ahead(settings):
    plain, kernel = both_ways(case_problem(DEAD_ENDS), agents.lsvi_ahead(**LOWERED, **settings))
    assert_same(plain, kernel, 1e-10)
    assert plain[0].agent.price.shape[1] == 1


def test_scores_that_single_precision_cannot_tell_apart_tie():
    words = jnp.arange(200, dtype=jnp.uint32) * jnp.uint32(2654435761)
    near = jnp.stack([jnp.ones(200), jnp.full(200, 1 + 1e-6)])
    winners = jax.jit(lambda scores: winner(scores, words))
    assert set(np.asarray(winners(near)).tolist()) == {2}
    assert set(np.asarray(winners(near.astype(jnp.float32))).tolist()) == {1, 2}


@pytest.mark.skipif(jax.__version_info__ >= (0, 11), reason="later versions compile for a GPU at once, and need one")
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("recipe", [agents.lsvi_ae(), agents.lsvi_ahead(beta_harm=0.1)], ids=lambda each: each.name)
def test_every_operation_of_the_kernel_is_one_that_triton_has(small, recipe, precision):
    built = recipe.resolve(small, 10).build()
    with jax.enable_x64(precision == "float64"):
        job = jax.tree.map(gpu.in_precision, job_of(small, built))
        carry = loop.start_seeds(job.agent, job.sizes, True, True, len(SEEDS))
        traced = gpu.scan_in_kernel.trace(job, carry, SEEDS, np.int32(2), 2)
        text = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert "triton" in text
