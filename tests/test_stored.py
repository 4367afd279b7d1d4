"""Models on stored data are the models on finitely many states, whose list grows; and they equal a plain transcription."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import everystep as es
from everystep import agents, drive, lsvi
from everystep.logged import Batch
from everystep.open_agent import OpenAgent
from everystep.open_setup import OpenSetup
from everystep.parts.choices import ties
from everystep.parts.features import bind, one_hot, table

EPISODES = 12
EXACT = {"rtol": 0, "atol": 1e-9}


class Discrete:
    """What of a gymnasium space is needed here."""

    def __init__(self, n):
        self.n, self.shape, self.start = n, (), 0


@cache
def pond():
    return es.problems.from_map(("SFF", "FHF", "FFG"), horizon=5)


@jax.jit
def beliefs(agent, state):
    """Q (H, A, S) and the ends of the cost intervals (T, m, A, S), on finitely many states."""
    H, S = 5, 9
    _, info = lsvi.plan(agent, state, ties(jnp.uint32(7), H, S))
    fit = agent.values.fit(state.values, state.k)
    V_next = jnp.concatenate([info.V[1:], jnp.zeros((1, S))])
    Q = jnp.stack([agent.values.estimate(fit, jnp.int32(h), V_next[h]) for h in range(H)])
    return Q, *agent.costs.estimate(state.costs, state.k)


def played(settings):
    """An agent of the pond, its states before each episode and at the end, and the episodes: trajectories to inject."""
    problem = pond()
    built = agents.lsvi_ae(**settings).resolve(problem, EPISODES).build()
    carry = drive.start(built.agent, problem.sizes, built.share_values, built.share_costs)
    world = jax.tree.map(jnp.asarray, problem.world)
    states, episodes = [carry.agent], []
    for after, _, episode in drive.stepping(built.agent, world, problem.sizes, carry, 3, EPISODES):
        states.append(after.agent)
        episodes.append(episode)
    return built.agent, states, episodes


def as_batch(episode, number):
    x, a = np.asarray(episode.x, np.int64), np.asarray(episode.a, np.int64)
    n = len(x)
    return Batch(
        x,
        a,
        np.asarray(episode.reward),
        np.asarray(episode.cost),
        np.asarray(episode.x_next, np.int64),
        np.zeros(n, bool),
        np.arange(n),
        np.full(n, number),
    )


def open_agent(phi, settings, horizon=5, constraints=1, length=None, reward_range=(0.0, 1.0)):
    setup = OpenSetup.of(agents.lsvi_ae(**settings), phi, phi, horizon, length or horizon, constraints, reward_range)
    return OpenAgent(setup, seed=0)


def crossed_features():
    psi = np.random.default_rng(0).normal(size=(9, 3))
    return psi / np.linalg.norm(psi, axis=1).max()


def dense_features():
    phi = np.random.default_rng(1).normal(size=(9, 4, 6))
    return phi / np.linalg.norm(phi, axis=-1).max()


CASES = {
    "one-hot is counts": ({}, one_hot),
    "any features": ({"features": dense_features()}, lambda: table(dense_features())),
    "crossed features": (
        {"features": np.einsum("xe,ab->xabe", crossed_features(), np.eye(4)).reshape(9, 4, 12)},
        lambda: table(crossed_features()),
    ),
}


@pytest.mark.parametrize("share", [True, False], ids=["shared", "step-indexed"])
@pytest.mark.parametrize("case", CASES)
def test_on_the_same_episodes_stored_data_and_finite_states_believe_the_same(case, share):
    given, spec = CASES[case]
    common = {"beta": 0.3, "lam": 0.05, "cap": 15.0, "share_values": share, "share_costs": share}
    finite, states, episodes = played(common | given)
    agent = open_agent(bind(spec(), Discrete(9), 4), common)
    everywhere = np.arange(9)
    for k in range(EPISODES + 1):
        Q, mean, width = (np.asarray(each) for each in beliefs(finite, states[k]))
        acting = agent.plan()
        for h in range(5):
            seen = acting.judge(h, everywhere)
            t = h if len(mean) > 1 else 0
            np.testing.assert_allclose(seen.Q, Q[h], **EXACT)
            np.testing.assert_allclose(seen.mean, mean[t], **EXACT)
            np.testing.assert_allclose(seen.width, np.broadcast_to(width[t], mean[t].shape), **EXACT)
        np.testing.assert_allclose(acting.price, states[k].price, **EXACT)
        if k < EPISODES:
            agent.finish(as_batch(episodes[k], k))
