"""The algorithm itself: its estimates, its prices, and its special cases."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import stepping

from everystep import agents
from everystep.lsvi import algorithm, loop
from everystep.lsvi.choices import ties as drawn
from everystep.lsvi.penalties import NoPenalty
from everystep.mdp.cmdp import FiniteCMDP
from everystep.problems import from_map

ROWS = ("SFF", "FHF", "FFG")

# Compiled as a whole: one operation after the other takes a program for each.
best, plan, cost_belief = jax.jit(drawn.best), jax.jit(algorithm.plan), jax.jit(algorithm.cost_belief)

ties, priorities = jax.jit(drawn.ties, static_argnums=(1, 2)), jax.jit(drawn.priorities, static_argnums=1)


@pytest.fixture(scope="module")
def pond():
    return from_map(ROWS, horizon=6)


def build(problem, recipe, episodes=50):
    built = recipe.resolve(problem, episodes).build()
    return built, loop.start(built.agent, problem.sizes, built.share_values, built.share_costs)


def trajectory(problem, recipe, seed, episodes):
    built, carry = build(problem, recipe, episodes)
    world = jax.tree.map(jnp.asarray, problem.world)
    return list(stepping.episodes(built.agent, world, problem.sizes, carry, seed, episodes))


def ghat_of(built, state):
    return cost_belief(built.agent, state.costs, state.k)


@pytest.mark.quick
def test_an_unvisited_action_looks_safe_and_valuable(pond):
    built, carry = build(pond, agents.lsvi_ae())
    _, info = plan(built.agent, carry.agent, ties(jnp.uint32(0), 6, 9))
    assert (ghat_of(built, carry.agent) < 0).all()
    assert (info.V > 0).all()


@pytest.mark.quick
def test_a_hazard_is_called_unsafe_after_one_visit_without_noise(pond):
    for radius in ("tuned", "coordinate"):
        built, carry = build(pond, agents.lsvi_ae(radius=radius))
        x, a = 1, 1  # above the hazard, moving down
        seen = loop.Episode(
            jnp.full(6, x, jnp.int32), jnp.full(6, a, jnp.int32), jnp.zeros(6, jnp.int32), jnp.full(6, 4, jnp.int32),
            jnp.zeros(6), jnp.ones((6, 1)),
        )  # fmt: skip
        once = built.agent.costs.update(carry.agent.costs, jax.tree.map(lambda leaf: leaf[:1], seen))
        ghat = ghat_of(built, carry.agent._replace(costs=once))
        assert ghat[0, 0, a, x] > 0
        assert (ghat[0, 0] > 0).sum() == 1


def test_optimism_moves_the_estimate_from_the_lower_to_the_upper_end(pond):
    made = [build(pond, agents.lsvi_ae(optimism=o)) for o in (1, 0, -1)]
    lower, middle, upper = (ghat_of(built, carry.agent) for built, carry in made)
    assert (lower < middle).all()
    assert (middle < upper).all()
    np.testing.assert_allclose(lower + upper, 2 * middle)


def test_without_a_price_the_algorithm_is_lsvi_exactly(pond):
    built, carry = build(pond, agents.lsvi_ae())
    agent = built.agent._replace(penalty=NoPenalty())  # the penalised choice stays, its price stays at Z = 0
    free = carry._replace(agent=carry.agent._replace(price=jnp.zeros_like(carry.agent.price)))
    world = jax.tree.map(jnp.asarray, pond.world)
    ours = stepping.episodes(agent, world, pond.sizes, free, 3, 40)
    for (_, metrics, episode), (_, other, same) in zip(ours, trajectory(pond, agents.lsvi(), 3, 40), strict=True):
        np.testing.assert_array_equal(episode.x, same.x)
        np.testing.assert_array_equal(episode.a, same.a)
        assert metrics.value == other.value


def test_the_price_of_violations_is_never_part_of_the_value(pond):
    """Learnt: at state 1 all actions violate equally, at state 3 only action 2 does. Q is the same everywhere."""
    built, carry = build(pond, agents.lsvi_ae())
    x, a = jnp.array([1, 1, 1, 1, 3], jnp.int32), jnp.array([0, 1, 2, 3, 2], jnp.int32)
    seen = loop.Episode(x, a, jnp.zeros_like(a), x, jnp.zeros(5), jnp.ones((5, 1)))
    state = carry.agent._replace(costs=built.agent.costs.update(carry.agent.costs, seen))
    assert (ghat_of(built, state)[0, 0] > 0).T.nonzero()[0].tolist() == x.tolist()
    word = ties(jnp.uint32(5), 6, 9)
    (free, info), (dear, dear_info) = (
        plan(built.agent, state._replace(price=jnp.full((1, 6), price)), word) for price in (0.0, 100.0)
    )
    np.testing.assert_array_equal(info.V, dear_info.V)
    assert (dear_info.V > 0).all()
    assert free.policy[:, 2, 3].any()  # so the price does change the policy
    assert not dear.policy[:, 2, 3].any()
    np.testing.assert_array_equal(free.policy[:, :, :3], dear.policy[:, :, :3])  # but not where all costs are equal


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "step-indexed"])
def test_linear_models_with_one_hot_features_agree_with_counts(pond, shared):
    one_hot = np.eye(36).reshape(9, 4, 36)
    settings = {"share_values": shared, "share_costs": shared}
    counts, carry = build(pond, agents.lsvi_ae(**settings))
    linear, other = build(pond, agents.lsvi_ae(features=one_hot, **settings))
    word = ties(jnp.uint32(9), 6, 9)
    learn = jax.jit(algorithm.learn)
    state, dense = carry.agent, other.agent
    for _, _, episode in trajectory(pond, agents.lsvi_ae(**settings), seed=2, episodes=60):
        state, dense = learn(counts.agent, state, episode), learn(linear.agent, dense, episode)
        (made, info), (same, same_info) = plan(counts.agent, state, word), plan(linear.agent, dense, word)
        np.testing.assert_allclose(same_info.V, info.V, rtol=0, atol=1e-9)
        np.testing.assert_array_equal(same.policy, made.policy)
        np.testing.assert_allclose(ghat_of(linear, dense), ghat_of(counts, state), rtol=0, atol=1e-9)


def test_a_plan_is_due_when_one_determinant_has_reached_its_share():
    """With a factor of 2: log 2 more at one step is enough, whatever the others did; less than that is not."""
    agent = algorithm.Agent(None, None, None, None, jnp.ones(()), switch=jnp.asarray(2.0))
    planned, log_2 = jnp.array([1.0, 0.0]), float(jnp.log(2.0))
    assert algorithm.due(agent, planned + jnp.array([0.0, log_2]), planned)
    assert not algorithm.due(agent, planned + 0.99 * log_2, planned)


def test_constraints_are_priced_separately():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), size=(3, 2))
    g = np.stack([np.full((3, 2), -1.0), np.array([[-1.0, 1.0]] * 3)])
    problem = FiniteCMDP(P, rng.random((3, 2)), g, start=0, horizon=2)
    carry, *_ = trajectory(problem, agents.lsvi_ae(floor=0), seed=0, episodes=30)[-1]
    assert (carry.agent.price[0] == 1).all()  # the first constraint was never broken
    assert (carry.agent.price[1] > 1).any()


@pytest.mark.parametrize("agent", ["lsvi-ae", "lsvi-priced", "cap none"])
def test_values_regressed_on_features_are_not_below_zero_unless_harm_is_part_of_the_reward(agent):
    """Two opposite features: what raises one lowers the other. Without a bonus the second has a value below 0."""
    phi = np.array([[[1.0, 0.0], [-0.8, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])
    problem = FiniteCMDP(
        np.broadcast_to([1.0, 0.0], (2, 2, 2)), np.array([[1.0, 0.0], [0.0, 0.0]]), -np.ones((2, 2)), horizon=2,
        features=phi,
    )  # fmt: skip
    settings = {"beta": 0.0, "lam": 0.1} | ({"cap": "none"} if agent == "cap none" else {})
    recipe = agents.lsvi_priced(**settings) if agent == "lsvi-priced" else agents.lsvi_ae(**settings)
    built, carry = build(problem, recipe)
    model, phi_T = built.agent.values, phi.swapaxes(0, 1)
    seen = phi_T[0, 0]  # one visit of (x = 0, a = 0), with a reward of 1
    state = carry.agent.values._replace(rewards=carry.agent.values.rewards + seen[None])
    Q = model.estimate(model.fit(state, carry.agent.k), jnp.int32(1), jnp.zeros(2))
    assert Q[0, 0] > 0.9
    assert (Q.min() >= 0) == (agent == "lsvi-ae")
