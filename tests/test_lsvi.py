"""The algorithm itself: what it believes, what it prices, and that its special cases are the known ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from everystep import agents, drive, lsvi
from everystep.parts.choices import best, priorities, ties
from everystep.parts.penalties import Floor, NoPenalty, Rectified, VirtualQueue
from everystep.problem import FiniteCMDP
from everystep.problems import from_map

ROWS = ("SFF", "FHF", "FFG")


@pytest.fixture(scope="module")
def pond():
    return from_map(ROWS, horizon=6)


def build(problem, recipe, episodes=50):
    built = recipe.resolve(problem, episodes).build()
    return built, drive.start(built.agent, problem.sizes, built.share_values, built.share_costs)


def trajectory(problem, recipe, seed, episodes):
    built, carry = build(problem, recipe, episodes)
    world = jax.tree.map(jnp.asarray, problem.world)
    return list(drive.stepping(built.agent, world, problem.sizes, carry, seed, episodes))


def ghat_of(built, state):
    cost = built.agent.costs.estimate(state.costs, state.k)
    return cost.mean - built.agent.optimism * cost.width


@pytest.mark.quick
def test_an_unvisited_action_looks_safe_and_valuable(pond):
    built, carry = build(pond, agents.lsvi_ae())
    _, info = lsvi.plan(built.agent, carry.agent, ties(jnp.uint32(0), 6, 9))
    assert (ghat_of(built, carry.agent) < 0).all()
    assert (info.V > 0).all()


@pytest.mark.quick
def test_a_hazard_is_called_unsafe_after_one_visit_without_noise(pond):
    for radius in ("tuned", "coordinate"):
        built, carry = build(pond, agents.lsvi_ae(radius=radius))
        x, a = 1, 1  # above the hazard, moving down
        seen = drive.Episode(
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
    ours = drive.stepping(agent, world, pond.sizes, free, 3, 40)
    for (_, metrics, episode), (_, other, same) in zip(ours, trajectory(pond, agents.lsvi(), 3, 40), strict=True):
        np.testing.assert_array_equal(episode.x, same.x)
        np.testing.assert_array_equal(episode.a, same.a)
        assert metrics.value == other.value


def test_the_price_of_harm_is_never_inside_the_value(pond):
    built, carry = build(pond, agents.lsvi_ae())
    word = ties(jnp.uint32(5), 6, 9)
    cheap, info = lsvi.plan(built.agent, carry.agent, word)
    dear, dear_info = lsvi.plan(built.agent, carry.agent._replace(price=carry.agent.price * 1e6), word)
    # Nothing is known to be unsafe yet, so the price changes neither choice nor value.
    np.testing.assert_array_equal(cheap.policy, dear.policy)
    np.testing.assert_array_equal(info.V, dear_info.V)


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "step-indexed"])
def test_linear_models_with_one_hot_features_agree_with_counts(pond, shared):
    one_hot = np.eye(36).reshape(9, 4, 36)
    settings = {"share_values": shared, "share_costs": shared}
    counts, carry = build(pond, agents.lsvi_ae(**settings))
    linear, other = build(pond, agents.lsvi_ae(features=one_hot, **settings))
    word = ties(jnp.uint32(9), 6, 9)
    plan, learn = jax.jit(lsvi.plan), jax.jit(lsvi.learn)
    state, dense = carry.agent, other.agent
    for _, _, episode in trajectory(pond, agents.lsvi_ae(**settings), seed=2, episodes=60):
        state, dense = learn(counts.agent, state, episode), learn(linear.agent, dense, episode)
        (made, info), (same, same_info) = plan(counts.agent, state, word), plan(linear.agent, dense, word)
        np.testing.assert_allclose(same_info.V, info.V, rtol=0, atol=1e-9)
        np.testing.assert_array_equal(same.policy, made.policy)
        np.testing.assert_allclose(ghat_of(linear, dense), ghat_of(counts, state), rtol=0, atol=1e-9)


@pytest.mark.quick
def test_the_rectified_price_counts_harm_and_never_falls_below_its_floor():
    penalty = jax.tree.map(jnp.float64, Rectified(Floor(1.0, 1.0)))
    price = penalty.init(1, 3)
    observed = jnp.array([[1.0, -1.0, 0.5]])
    for k in range(1, 30):
        before = price
        price = penalty.update(price, observed, jnp.asarray(k, jnp.int32))
        np.testing.assert_array_equal(price, np.maximum(np.asarray(before) + [[1.0, 0.0, 0.5]], k))
        assert (price >= k).all()  # the price of episode k + 1 is at least k, not k + 1


def test_the_virtual_queue_lets_safety_pay_harm_back():
    queue = VirtualQueue()
    price = queue.update(queue.init(1, 2), jnp.array([[1.0, -1.0]]), jnp.asarray(1, jnp.int32))
    np.testing.assert_array_equal(price, [[1.0, 0.0]])
    np.testing.assert_array_equal(
        queue.update(price, jnp.array([[-1.0, 0.25]]), jnp.asarray(2, jnp.int32)), [[0.0, 0.25]]
    )


def test_near_ties_count_as_ties_and_are_broken_evenly():
    words = ties(jnp.uint32(1), 1, 6000)[0]
    score = jnp.array([1.0, 1.0 + 5e-10, 0.5, 1.0 - 3e-10])
    wins = best(jnp.broadcast_to(score[:, None], (4, 6000)), words).sum(1)
    assert wins[2] == 0
    np.testing.assert_allclose(wins[jnp.array([0, 1, 3])] / 6000, 1 / 3, atol=0.03)


@pytest.mark.parametrize("actions", [2, 3, 4, 7, 16])
def test_every_action_comes_first_equally_often_and_no_two_rank_alike(actions):
    ranks = np.asarray(priorities(ties(jnp.uint32(7), 10, 4000), actions))
    assert (ranks > 0).all()
    assert (np.diff(np.sort(ranks, axis=0), axis=0) > 0).all()
    first = np.bincount(ranks.argmax(0).ravel(), minlength=actions) * actions / 40_000
    np.testing.assert_allclose(first, 1, atol=0.1)


def test_several_constraints_are_priced_apart():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), size=(3, 2))
    g = np.stack([np.full((3, 2), -1.0), np.array([[-1.0, 1.0]] * 3)])
    problem = FiniteCMDP(P, rng.random((3, 2)), g, start=0, horizon=2)
    carry, *_ = trajectory(problem, agents.lsvi_ae(floor=0), seed=0, episodes=30)[-1]
    assert (carry.agent.price[0] == 1).all()  # the first constraint was never broken
    assert (carry.agent.price[1] > 1).any()
