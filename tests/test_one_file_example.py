"""The example in one file is the library's algorithm: with the same draws, both play the same episodes."""

import importlib.util
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import stepping

import everystep as es
from everystep.agents import Recipe
from everystep.lsvi import loop
from everystep.lsvi.choices.ties import priorities, ties
from everystep.mdp import successors

EPISODES, SEED = 60, 3
EXACT = {"rtol": 0, "atol": 1e-9}


@pytest.fixture(scope="module")
def example():
    path = Path(__file__).resolve().parent.parent / "examples" / "lsvi_ae_in_one_file.py"
    spec = importlib.util.spec_from_file_location("lsvi_ae_in_one_file", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def library_draws(example, problem):
    """The draws of the library's run with this seed, episode by episode, in the form that the example takes."""

    @jax.jit
    def drawn(k):
        draw = loop.draws(problem.world, problem.sizes, jnp.uint32(SEED), k)
        return draw.transition, priorities(ties(draw.tie_word, problem.horizon, problem.states), problem.actions)

    for k in range(1, EPISODES + 1):
        transition, priority = map(np.asarray, drawn(jnp.int32(k)))
        yield example.Draws(transition, np.moveaxis(priority, 0, -1).astype(np.int64))


@pytest.mark.quick
def test_the_example_builds_the_same_lake(example, lake):
    problem = example.frozen_lake()
    np.testing.assert_array_equal(problem.P, lake.dense_P[0])
    seen = successors.table_at(lake.P, lake.noise.reward_on_arrival)[0]
    np.testing.assert_array_equal(np.where(problem.P > 0, problem.r, 0), seen)
    np.testing.assert_array_equal(problem.g, lake.g[0, 0])
    assert [problem.start] == lake.start.tolist()
    assert lake.horizon == example.H
    assert example.optimum(problem, safe=True) == pytest.approx(es.planner.solve(lake).value, abs=1e-12)


@pytest.mark.parametrize(("agent", "penalty"), [("lsvi-ae", True), ("lsvi", False)])
def test_the_example_plays_the_same_episodes_as_the_library(example, lake, agent, penalty):
    built = Recipe(agent).resolve(lake, EPISODES).build()
    carry = loop.start(built.agent, lake.sizes, built.share_values, built.share_costs)
    world = jax.tree.map(jnp.asarray, lake.world)
    library = stepping.episodes(built.agent, world, lake.sizes, carry, SEED, EPISODES)
    draws = library_draws(example, lake)
    ours = list(example.lsvi_ae(example.frozen_lake(), EPISODES, draws, penalty))
    assert len(ours) == EPISODES
    for mine, (after, metrics, episode) in zip(ours, library, strict=True):
        np.testing.assert_array_equal(mine.states, episode.x)
        np.testing.assert_array_equal(mine.actions, episode.a)
        np.testing.assert_allclose(mine.Z, carry.agent.price[0], **EXACT)
        np.testing.assert_allclose(mine.returned, metrics.earned, **EXACT)
        np.testing.assert_allclose(mine.value, metrics.value, **EXACT)
        np.testing.assert_allclose(mine.violation, metrics.violation.sum(), **EXACT)
        carry = after
    curves = es.run(lake, agent, episodes=EPISODES, seeds=[SEED]).columns[agent]
    np.testing.assert_allclose([mine.value for mine in ours], curves["value"][0], **EXACT)
    total = sum(mine.violation for mine in ours)
    assert total == pytest.approx(curves["violation"][0].sum(), abs=1e-9)
    assert total > 0


def test_the_example_prints_its_table(example, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["lsvi_ae_in_one_file.py", "--episodes", "20", "--seed", "1"])
    example.main()
    printed = capsys.readouterr().out
    assert "safe optimum 5.2256, without the constraint 5.8231" in printed
    rows = [line.split() for line in printed.splitlines()]
    runs = [
        list(example.lsvi_ae(lake, 20, example.draws_of_numpy(1, *lake.g.shape), penalty))
        for lake in [example.frozen_lake()]
        for penalty in (True, False)
    ]
    assert rows[-1] == ["total", "violations", *(f"{sum(episode.violation for episode in run):.0f}" for run in runs)]
