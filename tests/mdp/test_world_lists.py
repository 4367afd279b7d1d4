"""A world with one list of next states for each action is the world with the lists joined."""

import numpy as np
import pytest
import stepping

import everystep as es
from everystep.lsvi import loop
from everystep.mdp import world

S, A, H = 24, 6, 5


def scattered(**knowledge):
    """Every action leads to one of two states of its own."""
    rng = np.random.default_rng(5)
    states = rng.integers(0, S, (S, A, 2))
    states[..., 1] = (states[..., 0] + rng.integers(1, S, (S, A))) % S
    p = rng.random((S, A)) * (rng.random((S, A)) < 0.8)
    probabilities = np.stack([1 - p, p], -1)
    seen, cost = rng.random((S, A, 2)), rng.uniform(-1, 1, (S, A, 2))
    mean = lambda array: (array * probabilities).sum(-1)
    noise = es.Noise(reward_on_arrival=seen, cost_on_arrival=cost)
    lists = es.Successors(states, probabilities)
    return es.FiniteCMDP(lists, mean(seen), mean(cost), horizon=H, noise=noise, start=3, known=es.Known(**knowledge))


@pytest.fixture
def joined(monkeypatch):
    """The same problem with joined lists."""
    with monkeypatch.context() as patch:
        patch.setattr(world, "separate_is_faster", lambda *lengths: False)
        problem = scattered()
        assert problem.world.successors.shape[1:] == (S,)
    return problem


def test_a_planner_finds_the_same(joined):
    problem = scattered()
    assert problem.world.successors.shape == (A, 2, S)
    ours, theirs = es.planner.solve(problem), es.planner.solve(joined)
    np.testing.assert_allclose(ours.V, theirs.V, atol=1e-12)
    policy = np.random.default_rng(0).dirichlet(np.ones(A), (H, S))
    for mine, other in zip(es.planner.evaluate(problem, policy), es.planner.evaluate(joined, policy), strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-12)


@pytest.mark.parametrize("settings", [{}, {"value": "kernel(rbf(3, on=state)*categorical(on=action))"}])
def test_an_agent_does_the_same(joined, settings):
    agents = [es.agents.lsvi_ahead(**settings)]
    ours, theirs = (es.run(problem, agents, 40, 2).columns for problem in (scattered(), joined))
    (ours,), (theirs,) = ours.values(), theirs.values()
    assert (ours["violation"] > 0).any()
    for column in ours:
        np.testing.assert_allclose(ours[column], theirs[column], atol=1e-9, err_msg=column)


def test_stepping_is_the_compiled_run():
    problem = scattered()
    built = es.agents.lsvi_ae().resolve(problem, 10).build()
    before = loop.start(built.agent, problem.sizes, built.share_values, built.share_costs)
    stepped = [
        metrics.earned for _, metrics, _ in stepping.episodes(built.agent, problem.world, problem.sizes, before, 0, 10)
    ]
    (curves,) = es.run(problem, es.agents.lsvi_ae(), 10, 1).columns.values()
    np.testing.assert_allclose(stepped, curves["return"][0], atol=1e-9)


@pytest.mark.quick
def test_features_of_triples_keep_the_joined_lists():
    assert scattered(triples=np.zeros((S, A, S, 2))).world.successors.ndim == 2
