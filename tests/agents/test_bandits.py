"""Bandits, H = 1: RPOL is LSVI-AE with Gaussian processes, up to the floor of the price."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import stepping

import everystep as es
from everystep import agents
from everystep.errors import EverystepError
from everystep.lsvi import loop

EPISODES = 40


@cache
def problem(name):
    return es.problems.bandit(seed=1) if name == "arms" else es.problems.bandit_continuum(resolution=11)


def played(recipe, bandit, seed=3, episodes=EPISODES):
    """The arms pulled, rewards, costs and prices before each pull."""
    built = recipe.resolve(bandit, episodes).build()
    world = jax.tree.map(jnp.asarray, bandit.world)
    carry = loop.start(built.agent, bandit.sizes, built.share_values, built.share_costs)
    prices, rows = [carry.agent.price], []
    for after, _, episode in stepping.episodes(built.agent, world, bandit.sizes, carry, seed, episodes):
        rows.append((episode.a[0], episode.reward[0], episode.cost[0, 0]))
        prices.append(after.agent.price)
    arms, rewards, costs = map(np.array, zip(*rows, strict=True))
    return arms, rewards, costs, np.array(prices)[:-1, 0, 0]


def posterior(gram, arms, y, noise):
    """Mean and standard deviation of a Gaussian process at all arms."""
    if not len(arms):
        return np.zeros(len(gram)), np.sqrt(np.diag(gram))
    to = gram[:, arms]
    solved = np.linalg.solve(gram[np.ix_(arms, arms)] + noise * np.eye(len(arms)), np.column_stack([y, to.T]))
    return to @ solved[:, 0], np.sqrt(np.maximum(np.diag(gram) - np.einsum("ij,ji->i", to, solved[:, 1:]), 0))


def rpol_transcribed(gram, pulled, rewards, costs, floor):
    """RPOL as in its paper. Where several arms have the same score it follows the run, if that pulled one of them."""
    price, arms = 1.0, []
    for t, pull in enumerate(pulled):
        f, wide = posterior(gram, pulled[:t], rewards[:t], 0.01)
        g, wide_cost = posterior(gram, pulled[:t], costs[:t], 0.01)
        score = f + 2 * wide - price * np.maximum(g - 2 * wide_cost, 0)
        best = np.flatnonzero(score >= score.max() - 1e-8)
        arms.append(pull if pull in best else best[0])
        price = max(price + max(costs[t], 0), floor(t + 1))
    return np.array(arms)


@pytest.mark.parametrize("name", ["arms", "continuum"])
def test_rpol_pulls_the_arms_of_its_paper(name):
    bandit = problem(name)
    arms, rewards, costs, _ = played(agents.rpol(), bandit)
    if name == "arms":
        gram = np.eye(10)
    else:
        at = bandit.coordinates["position"][0]
        gram = np.exp(-((at[:, None] - at[None]) ** 2).sum(-1) / 2)
    np.testing.assert_array_equal(rpol_transcribed(gram, arms, rewards, costs, np.sqrt), arms)
    assert len(np.unique(arms)) > 5


@pytest.mark.quick
@pytest.mark.parametrize("name", ["arms", "continuum"])
def test_rpol_is_lsvi_ae_of_one_step_with_gaussian_processes(name):
    bandit = problem(name)
    own = {name: agents.rpol().resolve(bandit, 10).to_json()[name] for name in ("beta", "lam")}  # wider than its own
    same = agents.lsvi_ae(value=f"kernel({bandit.kernel})", cost=f"gp({bandit.kernel})", floor="sqrt", cap=1e9, **own)
    for one, other in zip(played(agents.rpol(), bandit), played(same, bandit), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_floor_of_lsvi_ae_changes_the_price_and_nothing_before_it():
    bandit = problem("continuum")
    arms, _, costs, price = played(agents.rpol(), bandit, seed=4, episodes=90)
    arms_k, _, costs_k, price_k = played(agents.rpol(floor="k"), bandit, seed=4, episodes=90)
    t = np.arange(1, 90)
    for prices, seen, floor in ((price, costs, np.sqrt(t)), (price_k, costs_k, t)):
        np.testing.assert_allclose(prices[1:], np.maximum(prices[:-1] + np.maximum(seen[:-1], 0), floor), atol=1e-12)
    first = int((arms != arms_k).argmax())
    assert first > 40  # the same pulls, with a growing price of violations
    assert price_k[first] > 3 * price[first]


def test_the_clip_of_rpol_never_binds():
    resolved = agents.rpol().resolve(problem("continuum"), 10)
    assert resolved["cap"] == "none"
    assert resolved.cap == 1e9
    assert resolved.to_json()["floor"] == "sqrt"
    assert resolved.to_json()["beta"] / np.sqrt(resolved.to_json()["lam"]) == resolved.to_json()["beta_cost"] == 2


def test_rpol_on_a_problem_of_several_steps_is_refused(lake):
    with pytest.raises(EverystepError, match=r"rpol .* is 15; use lsvi-ae"):
        agents.rpol().resolve(lake, 10)


def test_the_uniform_agent_pulls_all_arms_alike_and_learns_nothing():
    bandit = problem("arms")
    result = es.run(bandit, "uniform", episodes=50, seeds=4)
    curves = result.columns["uniform"]
    np.testing.assert_allclose(curves["value"], bandit.r.mean(), rtol=1e-12)
    np.testing.assert_allclose(curves["expected_violation"], bandit.g.clip(0).mean(), rtol=1e-12)
    assert abs(curves["violation"].mean() - bandit.g.clip(0).mean()) < 0.1


def test_an_agent_for_tables_is_not_trained_on_environments():
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("FrozenLake-v1")
    with pytest.raises(EverystepError, match=r"uniform .* train lsvi-ae, lsvi-ahead, lsvi, "):
        es.train(env, "uniform", constraint=lambda *_: -1.0, horizon=5, episodes=1)
