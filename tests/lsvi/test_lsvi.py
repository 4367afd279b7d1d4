"""The algorithm itself: its estimates, its prices, and its special cases."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import stepping

from everystep import agents
from everystep.lsvi import algorithm, loop
from everystep.lsvi.choices import ties as drawn
from everystep.lsvi.choices.basic import Greedy, Penalised, Reacting
from everystep.lsvi.penalties import Floor, NoPenalty, Rectified, VirtualQueue
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


@pytest.mark.quick
def test_the_rectified_price_adds_violations_and_never_falls_below_its_floor():
    penalty = jax.tree.map(jnp.float64, Rectified(Floor(1.0, 1.0)))
    price = penalty.init(1, 3)
    observed = jnp.array([[1.0, -1.0, 0.5]])
    for k in range(1, 30):
        before = price
        price = penalty.update(price, observed, jnp.asarray(k, jnp.int32))
        np.testing.assert_array_equal(price, np.maximum(np.asarray(before) + [[1.0, 0.0, 0.5]], k))
        assert (price >= k).all()  # the price of episode k + 1 is at least k, not k + 1


def test_the_rectified_price_never_falls_even_above_its_floor():
    penalty = jax.tree.map(jnp.float64, Rectified(Floor(1.0, 0.0)))
    price = penalty.init(1, 3)
    for observed, expected in (([2.0, 0.5, -1.0], [3.0, 1.5, 1.0]), ([-1.0, -0.25, 0.0], [3.0, 1.5, 1.0])):
        price = penalty.update(price, jnp.array([observed]), jnp.asarray(1, jnp.int32))
        np.testing.assert_array_equal(price, [expected])


def test_in_the_virtual_queue_safe_steps_cancel_violations():
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


@pytest.mark.parametrize(
    ("top", "gap", "tied"),
    [
        (0.0, 1e-9, True),
        (1.0, 5e-9, False),
        (1e-3, 5e-10, True),  # at least 1e-9, however small the score
        (1e6, 5e-4, True),
        (-1e6, 5e-4, True),
        (1e6, 5e-3, False),
    ],
)
def test_what_ties_depends_on_the_size_of_the_score(top, gap, tied):
    words = ties(jnp.uint32(1), 1, 100)[0]
    wins = best(jnp.broadcast_to(jnp.array([top, top - gap])[:, None], (2, 100)), words).sum(1)
    assert (wins[1] > 0) == tied


@pytest.mark.parametrize("actions", [2, 3, 4, 7, 16])
def test_every_action_comes_first_equally_often_and_no_two_rank_alike(actions):
    ranks = np.asarray(priorities(ties(jnp.uint32(7), 10, 4000), actions))
    assert (ranks > 0).all()
    assert (np.diff(np.sort(ranks, axis=0), axis=0) > 0).all()
    first = np.bincount(ranks.argmax(0).ravel(), minlength=actions) * actions / 40_000
    np.testing.assert_allclose(first, 1, atol=0.1)


@pytest.mark.parametrize(
    "choice",
    [Greedy(), Penalised(True), Penalised(False), Reacting(Penalised(True))],
    ids=["greedy", "rectified", "with its sign", "reacting"],
)
def test_the_action_of_the_highest_score_is_the_compiled_choice(choice):
    """`score` is for NumPy arrays, as agents of environments use it; half of the costs are below 0."""
    rng = np.random.default_rng(4)
    Q, ghat, price = rng.random((3, 40)), rng.uniform(-1, 1, (2, 3, 40)), np.array([0.4, 1.5])
    chosen = jax.jit(lambda *given: choice(*given))(*map(jnp.asarray, (Q, ghat, price)), ties(jnp.uint32(0), 1, 40)[0])
    np.testing.assert_array_equal(choice.score(Q, ghat, price).argmax(0), np.asarray(chosen).argmax(0))


def test_safety_earns_credit_only_where_costs_keep_their_sign():
    """Action 1 is worth less and safer than 0 by 0.5: rectified both cost nothing, with its sign 1 is better."""
    Q, ghat, price = jnp.array([1.0, 0.9]), jnp.array([[-0.1, -0.6]]), jnp.array([1.0])
    assert Penalised(True)(Q, ghat, price, jnp.uint32(0)).tolist() == [True, False]
    assert Penalised(False)(Q, ghat, price, jnp.uint32(0)).tolist() == [False, True]


def test_a_uniform_number_picks_the_action_whose_share_it_falls_into():
    policy = np.array([0.25, 0.5, 0.0, 0.25])
    drawn = [int(algorithm.act(policy, np.float64(u))) for u in (0.0, 0.2499, 0.25, 0.7499, 0.75, 0.9999)]
    assert drawn == [0, 0, 1, 1, 3, 3]
    assert [int(algorithm.act(np.eye(3, dtype=bool)[a], np.float64(u))) for a in range(3) for u in (0.0, 0.9)] == [
        0, 0, 1, 1, 2, 2,
    ]  # fmt: skip


def test_a_plan_is_due_when_one_determinant_has_reached_its_share():
    """With a factor of 2: log 2 more at one step is enough, whatever the others did; less than that is not."""
    agent = algorithm.Agent(None, None, None, None, jnp.ones(()), switch=jnp.asarray(2.0))
    planned, log_2 = jnp.array([1.0, 0.0]), float(jnp.log(2.0))
    assert algorithm.due(agent, planned + jnp.array([0.0, log_2]), planned)
    assert not algorithm.due(agent, planned + 0.99 * log_2, planned)


@pytest.mark.parametrize(("setting", "at_9"), [("k", 9.0), ("sqrt", 3.0), (2.5, 2.5)])
def test_a_floor_is_k_its_root_or_a_number(setting, at_9):
    floor = jax.tree.map(jnp.float64, Floor.from_setting(setting))
    assert float(floor(jnp.asarray(9, jnp.int32))) == at_9


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
