"""Two drivers, one trajectory; and the run of a seed depends on that seed alone."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import stepping

import everystep as es
from everystep import agents
from everystep.experiments.engines import local
from everystep.lsvi import loop
from everystep.mdp.cmdp import FiniteCMDP, Known, Noise


@pytest.fixture(scope="module")
def pond():
    lake = es.problems.from_map(("SFF", "FHF", "FFG"), horizon=6)
    return replace(lake, r=lake.r[0], known=Known(safe_action=lake.g[0, 0].argmin(1)))


@pytest.fixture(scope="module")
def noisy():
    """Two constraints, noise on everything, a distribution of starts, and steps that differ."""
    rng = np.random.default_rng(2)
    g = rng.uniform(-1, 1, (2, 3, 4, 3))
    g[..., 0] = -0.3
    return FiniteCMDP(
        rng.dirichlet(np.ones(4), size=(3, 4, 3)),
        rng.random((3, 4, 3)),
        g,
        start=np.array([0.5, 0.2, 0.0, 0.3]),
        horizon=3,
        noise=Noise(reward_sigma=0.1, cost_sigma=[0.2, 0.4]),
        known=Known(safe_action=np.zeros(4, int)),
    )


EVERY = [name for name, agent in agents.REGISTERED.items() if agent.needs == "nothing"]


# Without noise a run plans where states can be reached: tests/lsvi/test_reachable.py compares that loop with the other.
@pytest.mark.parametrize(("which", "name"), [("pond", "lsvi-ae"), *(("noisy", name) for name in EVERY)])
def test_stepping_gives_the_same_episodes_as_the_compiled_scan(name, which, request):
    problem = request.getfixturevalue(which)
    compiled = es.run(problem, name, episodes=30, seeds=[5]).columns[name]
    built = agents.Recipe(name).resolve(problem, 30).build()
    carry = loop.start(built.agent, problem.sizes, built.share_values, built.share_costs)
    world = jax.tree.map(jnp.asarray, problem.world)
    stepped = [metrics for _, metrics, _ in stepping.episodes(built.agent, world, problem.sizes, carry, 5, 30)]
    column = lambda field: np.array([getattr(metrics, field) for metrics in stepped])
    np.testing.assert_allclose(column("earned"), compiled["return"][0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(column("value"), compiled["value"][0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(column("expected_violation"), compiled["expected_violation"][0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(column("violation").sum(-1), compiled["violation"][0], rtol=0, atol=1e-9)
    np.testing.assert_array_equal(column("unsafe_steps"), compiled["unsafe_steps"][0])


def test_a_seeds_rows_are_the_same_alone_among_others_and_in_any_order(pond):
    together = es.run(pond, "lsvi-ae", episodes=40, seeds=7).columns["lsvi-ae"]
    alone = es.run(pond, "lsvi-ae", episodes=40, seeds=[4]).columns["lsvi-ae"]
    order = [6, 4, 0, 1, 5, 3, 2]
    mixed = es.run(pond, ["lsvi", "lsvi-ae"], episodes=40, seeds=order).columns["lsvi-ae"]
    for name in together:
        np.testing.assert_array_equal(alone[name][0], together[name][4])
        np.testing.assert_array_equal(mixed[name], together[name][order])


def test_seeds_side_by_side_as_on_a_gpu_equal_seeds_one_after_another(pond):
    pair = local.AgentOnProblem(pond, agents.lsvi_ae().resolve(pond, 40).build())
    job, carries, seeds, count = pair.job(), pair.start_seeds(2), np.arange(2, dtype=np.uint32), np.int32(40)
    _, mapped = loop.scan_seeds(job, carries, seeds, count, loop.CHUNK, False)
    _, batched = loop.scan_seeds(job, carries, seeds, count, loop.CHUNK, True)
    assert not np.array_equal(mapped.value[0], mapped.value[1])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-9), mapped, batched)


def test_a_longer_run_begins_like_a_shorter_one_across_chunks(pond):
    long = es.run(pond, "lsvi-ae", episodes=loop.CHUNK + 30, seeds=[1]).columns["lsvi-ae"]
    short = es.run(pond, "lsvi-ae", episodes=40, seeds=[1]).columns["lsvi-ae"]
    np.testing.assert_array_equal(long["value"][0, :40], short["value"][0])
    assert np.isfinite(long["value"]).all()
    assert long["return"][0, loop.CHUNK :].max() > 0


def test_the_worlds_draws_belong_to_seed_episode_and_step_alone(pond):
    world = jax.tree.map(jnp.asarray, pond.world)
    shorter = es.problems.from_map(("SFF", "FHF", "FFG"), horizon=4)
    draw = lambda problem, seed, k: loop.draws(world, problem.sizes, jnp.uint32(seed), jnp.int32(k))
    np.testing.assert_array_equal(draw(pond, 3, 8).transition[:4], draw(shorter, 3, 8).transition)
    assert not np.allclose(draw(pond, 3, 8).transition, draw(pond, 3, 9).transition)
    assert not np.allclose(draw(pond, 3, 8).transition, draw(pond, 4, 8).transition)
    assert not np.allclose(draw(pond, 3, 8).transition, draw(pond, 3, 8).mixing)


@pytest.mark.quick
def test_agents_meet_the_same_world_so_that_comparisons_pair(pond):
    # Before anything was seen no action is suspect: both must have exactly the same first episode.
    result = es.run(pond, ["lsvi-ae", "lsvi"], episodes=1, seeds=7)
    first = [curves["return"][:, 0] for curves in result.columns.values()]
    np.testing.assert_array_equal(first[0], first[1])


def test_another_run_of_the_same_shapes_compiles_nothing(pond):
    es.run(pond, "lsvi-ae", episodes=20, seeds=2)
    before = loop.scan_seeds._cache_size()
    es.run(pond, es.agents.lsvi_ae(beta=0.7, lam=0.2), episodes=33, seeds=[9, 11])
    assert loop.scan_seeds._cache_size() == before
