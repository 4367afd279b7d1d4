"""Models on stored data are the models on finitely many states, whose list grows; and equal a plain transcription."""

from dataclasses import fields
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import stepping
from helpers.stored import Box, random_batch, resolved
from oracles.cases import problem as dead_ends

import everystep as es
from everystep import agents
from everystep.environments.logged import Batch
from everystep.features.specs import bind, function, one_hot, table
from everystep.lsvi import algorithm, loop
from everystep.lsvi.choices.ties import ties
from everystep.training.agent import stored_agent
from everystep.training.agent.resolve import EnvironmentInfo, ResolvedForTraining
from everystep.training.agent.stored_agent import StoredAgent

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
    _, info = algorithm.plan(agent, state, ties(jnp.uint32(7), H, S))
    fit = agent.values.fit(state.values, state.k)
    V_next = jnp.concatenate([info.V[1:], jnp.zeros((1, S))])
    Q = jnp.stack([agent.values.estimate(fit, jnp.int32(h), V_next[h]) for h in range(H)])
    return Q, *agent.costs.estimate(state.costs, state.k)


def played(settings):
    """An agent of the pond, its states before each episode and at the end, and the episodes: trajectories to inject."""
    return played_on(pond(), agents.lsvi_ae(**settings))


def played_on(problem, recipe):
    """The same for another problem and agent."""
    built = recipe.resolve(problem, EPISODES).build()
    carry = loop.start(built.agent, problem.sizes, built.share_values, built.share_costs)
    world = jax.tree.map(jnp.asarray, problem.world)
    states, episodes = [carry.agent], []
    for after, _, episode in stepping.episodes(built.agent, world, problem.sizes, carry, 3, EPISODES):
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


@pytest.mark.parametrize(
    ("case", "share"),
    [("one-hot is counts", True), ("any features", True), ("one-hot is counts", False), ("crossed features", False)],
)
def test_on_the_same_episodes_stored_data_and_finite_states_believe_the_same(case, share):
    """All features, shared by all steps or not; the other pairs are compared with sums over all transitions, below."""
    given, spec = CASES[case]
    common = {"beta": 0.3, "lam": 0.05, "cap": 1.0, "share_values": share, "share_costs": share}
    cap = 5 * 0.01 + 5.99 * common["cap"]  # in the units of r, from 0.01 to 6
    finite, states, episodes = played(common | given | {"cap": cap})
    agent = StoredAgent(resolved(common, bind(spec(), Discrete(9), 4), 1, 5, (0.0, 1.0)), constraints=1)
    everywhere, capped = np.arange(9), []
    for k in range(EPISODES + 1):
        Q, mean, width = (np.asarray(each) for each in beliefs(finite, states[k]))
        capped.append(Q == 1.0)
        acting = agent.plan()
        for h in range(5):
            seen = acting.estimates(h, everywhere)
            t = h if len(mean) > 1 else 0
            np.testing.assert_allclose(seen.Q, Q[h], **EXACT)
            np.testing.assert_allclose(seen.mean, mean[t], **EXACT)
            np.testing.assert_allclose(seen.width, np.broadcast_to(width[t], mean[t].shape), **EXACT)
        np.testing.assert_allclose(acting.price, states[k].price, **EXACT)
        if k < EPISODES:
            agent.learn(as_batch(episodes[k], k))
    assert 0 < np.mean(capped) < 1  # the cap binds somewhere and not everywhere


@jax.jit
def harm_after(agent, state):
    """[Phat C](h, a, x) and its width, on finitely many states."""
    H, S = state.price.shape[1], agent.values.squared_norms(state.values, None).shape[-1]
    _, info = algorithm.plan(agent, state, ties(jnp.uint32(7), H, S))
    fit = agent.values.fit(state.values, state.k)
    C_next = jnp.concatenate([info.C[1:], jnp.zeros((1, S))])
    width = agent.ahead.width(agent.values, state.values, state.k)
    after = [agent.ahead.after(agent.values, fit, jnp.int32(h), C_next[h], None) for h in range(H)]
    return jnp.stack(after), width


@pytest.mark.parametrize(
    "settings",
    [
        {"mode": "least", "harm": "events", "tolerance": 0.0, "beta_harm": 0.001, "features": True},
        {"mode": "plan", "harm": "events", "tolerance": 0.05, "beta_harm": 0.0, "features": True},
    ],
    ids=["least", "plan"],
)
def test_looking_ahead_on_stored_data_is_looking_ahead_on_finite_states(settings, monkeypatch):
    # Noise makes some costs larger than 1, which are divided on environments, and not on tables.
    monkeypatch.setattr(StoredAgent, "_update_cost_scale", lambda self, costs: None)
    problem, wide = dead_ends("dead ends"), settings.pop("features", False)
    S, A, H, m = problem.states, problem.actions, problem.horizon, problem.constraints
    common = {"beta": 0.3, "lam": 0.05, "lam_cost": 0.2, "beta_cost": 0.001} | settings
    phi = np.random.default_rng(1).normal(size=(S, A, 6))
    phi /= np.linalg.norm(phi, axis=-1).max()
    given = {"features": phi} if wide else {}
    recipe = agents.lsvi_ahead(**common, **given, cap="none")
    finite, states, episodes = played_on(problem, recipe)
    spec = bind(table(phi) if wide else one_hot(), Discrete(S), A)
    info = EnvironmentInfo(spec, spec, 1, A, H, H, (0.0, 1.0))
    agent = StoredAgent(ResolvedForTraining.resolve(agents.lsvi_ahead(**common, cap=1e9), info), constraints=m)
    seen_harm = False
    for k in range(EPISODES + 1):
        after, width = (None if each is None else np.asarray(each) for each in harm_after(finite, states[k]))
        acting = agent.plan()
        for h in range(H):
            found = acting.estimates(h, np.arange(S))
            np.testing.assert_allclose(found.after, after[h], **EXACT)
            np.testing.assert_allclose(found.after_width, 0 if width is None else width[0], **EXACT)
        np.testing.assert_allclose(acting.price, states[k].price, **EXACT)
        seen_harm |= bool((after > 0).any())
        if k < EPISODES:
            agent.learn(as_batch(episodes[k], k))
    assert seen_harm


ACTIONS, HORIZON, CONSTRAINTS = 3, 4, 2
SETTINGS = {"beta": 0.7, "lam": 0.3, "beta_cost": 0.4, "lam_cost": 0.2}
AS_KERNEL = "linear(on=observation)*categorical(on=action)"


def batches():
    rng = np.random.default_rng(4)
    lengths = [(4, False), (2, True), (4, True), (1, True), (3, False), (4, False), (4, False)]
    return [random_batch(rng, i, n, ended) for i, (n, ended) in enumerate(lengths)]


def transcription(seen, share, at, price):
    """Q (H, A, n) and ghat with its width at observations: sums over transitions one by one, dense d = A o features."""
    H, A, o = HORIZON, ACTIONS, 2
    phi = lambda x, a: np.kron(np.eye(A)[a], x)
    low, high = (
        (min(0, *(r for b in seen for r in b.rewards)), max(0, *(r for b in seen for r in b.rewards)))
        if seen
        else (0, 1)
    )
    unit = np.abs(np.concatenate([b.costs for b in seen])).max(0)
    data = [
        (int(b.steps[i]), b.observations[i], int(b.actions[i]), (b.rewards[i] - low) / (high - low), b.costs[i] / unit,
         None if b.terminated[i] else b.next_observations[i])
        for b in seen for i in range(len(b))
    ]  # fmt: skip
    own = lambda h: [row for row in data if share or row[0] == h]
    gram = lambda h, lam: lam * np.eye(A * o) + sum(np.outer(phi(x, a), phi(x, a)) for _, x, a, *_ in own(h))
    inverse = [np.linalg.inv(gram(h, SETTINGS["lam"])) for h in range(H)]
    inverse_cost = [np.linalg.inv(gram(h, SETTINGS["lam_cost"])) for h in range(H)]
    theta = [
        inverse_cost[h] @ sum((np.outer(phi(x, a), c) for _, x, a, _, c, _ in own(h)), np.zeros((A * o, CONSTRAINTS)))
        for h in range(H)
    ]

    def g(h, x, a):
        return phi(x, a) @ theta[h], SETTINGS["beta_cost"] * np.sqrt(phi(x, a) @ inverse_cost[h] @ phi(x, a))

    weights = [np.zeros(A * o)] * H

    def Q(h, x, a):
        width = SETTINGS["beta"] * np.sqrt(phi(x, a) @ inverse[h] @ phi(x, a))
        return max(min(phi(x, a) @ weights[h] + width, H), 0.0)

    def V(h, x):
        if h == H:
            return 0.0
        scores = [Q(h, x, a) - price[:, h] @ np.maximum(g(h, x, a)[0] - g(h, x, a)[1], 0) for a in range(A)]
        return Q(h, x, int(np.argmax(scores)))

    nothing = -low / (high - low)
    for h in reversed(range(H)):
        after = lambda y, h=h: (H - 1 - h) * nothing if y is None else V(h + 1, y)
        moment = sum((phi(x, a) * (r + after(y)) for _, x, a, r, _, y in own(h)), np.zeros(A * o))
        weights[h] = inverse[h] @ moment
    every = lambda f: np.array([[[f(h, x, a) for x in at] for a in range(A)] for h in range(H)])
    mean = np.array([[[g(h, x, a)[0] for x in at] for a in range(A)] for h in range(H)]).transpose(0, 3, 1, 2)
    return every(Q), mean, every(lambda h, x, a: g(h, x, a)[1])


@pytest.mark.parametrize(
    ("kind", "share"),
    [("crossed", True), ("any", False), ("kernel", True), ("kernel", False), ("kernel costs only", True),
     ("crossed", False)],
)  # fmt: skip
def test_stored_data_gives_what_sums_over_all_transitions_give(kind, share, monkeypatch):
    monkeypatch.setattr(stored_agent, "CAPACITY", 32)
    settings = SETTINGS | {"share_values": share, "share_costs": share}
    psi = function(lambda x: x, d=2, crossed=True)
    phi = bind(function(lambda x: np.kron(np.eye(ACTIONS), x), d=6) if kind == "any" else psi, Box(2), ACTIONS)
    if kind == "kernel":
        settings |= {"value": es.kernel_values(AS_KERNEL)}
    if kind.startswith("kernel"):
        settings |= {"cost": es.gp(AS_KERNEL), "beta_cost": SETTINGS["beta_cost"] / np.sqrt(SETTINGS["lam_cost"])}
    agent = StoredAgent(resolved(settings, phi, 2, HORIZON), CONSTRAINTS)
    at = np.random.default_rng(9).uniform(-0.7, 0.7, (5, 2))
    seen = []
    for batch in batches():
        agent.learn(batch)
        seen.append(batch)
        acting = agent.plan()
        Q, mean, width = transcription(seen, share, at, acting.price)
        for h in range(HORIZON):
            judged = acting.estimates(h, at)
            np.testing.assert_allclose(judged.Q, Q[h], **EXACT)
            np.testing.assert_allclose(judged.mean, mean[h], **EXACT)
            np.testing.assert_allclose(judged.width, np.broadcast_to(width[h], mean[h].shape), **EXACT)


@pytest.mark.quick
@pytest.mark.parametrize("kind", ["crossed", "kernel"])
def test_more_room_changes_nothing(kind, monkeypatch):
    phi = bind(function(lambda x: x, d=2, crossed=True), Box(2), ACTIONS)
    given = {"value": es.kernel_values(AS_KERNEL), "cost": es.gp(AS_KERNEL)} if kind == "kernel" else {}
    setup = resolved(SETTINGS | given, phi, 2, 4)
    monkeypatch.setattr(stored_agent, "CAPACITY", 64)
    roomy = StoredAgent(setup, CONSTRAINTS)
    monkeypatch.setattr(stored_agent, "CAPACITY", 16)
    tight = StoredAgent(setup, CONSTRAINTS)
    at = np.random.default_rng(9).uniform(-0.7, 0.7, (5, 2))
    for batch in batches():
        for agent in (roomy, tight):
            agent.learn(batch)
        for h in range(4):
            found = (agent.plan().estimates(h, at)[:3] for agent in (roomy, tight))
            for one, other in zip(*found, strict=True):
                np.testing.assert_allclose(one, other, **EXACT)
    assert tight._capacity > 16


def test_batches_of_several_episodes_teach_what_they_teach_one_by_one():
    phi = bind(function(lambda x: x, d=2, crossed=True), Box(2), ACTIONS)
    setup = resolved(SETTINGS, phi, 2, 4)
    together, apart = StoredAgent(setup, CONSTRAINTS), StoredAgent(setup, CONSTRAINTS)
    at = np.random.default_rng(9).uniform(-0.7, 0.7, (5, 2))
    for batch in batches():
        apart.learn(batch)
    columns = [field.name for field in fields(Batch)]
    together.learn(Batch(**{name: np.concatenate([getattr(b, name) for b in batches()]) for name in columns}))
    assert together.episode == apart.episode == 1 + len(batches())
    np.testing.assert_allclose(together.plan().price, apart.plan().price, **EXACT)
    np.testing.assert_allclose(together.plan().estimates(0, at).Q, apart.plan().estimates(0, at).Q, **EXACT)
