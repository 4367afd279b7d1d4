"""A problem in its compressed form, and one step in it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from problems_for_tests.three_states import A, H, S, altered, g, problem, r

from everystep.mdp.cmdp import FiniteCMDP, Noise
from everystep.mdp.world import at_step, expected, start_state, step

pytestmark = pytest.mark.quick
repeatable = settings(derandomize=True, deadline=None, database=None, max_examples=60)


@st.composite
def worlds_and_rewards(draw, crowded=(True, False)):
    """Problems with and without a step axis, in which all states may follow a state (`crowded`) or a few may; and what
    is seen on arrival, (T, S, A, S)."""
    states, actions, horizon = draw(st.integers(1, 6)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    T = (horizon,) if draw(st.booleans()) else ()
    follows = (
        np.ones((states, 1, states), bool) if draw(st.sampled_from(crowded)) else rng.random((states, 1, states)) < 0.4
    )
    follows[np.arange(states), 0, rng.integers(states, size=states)] = True
    # A successor of some action may still be impossible under another one, or at another step.
    weights = rng.random((*T, states, actions, states)) * rng.integers(2, size=(*T, states, actions, states)) * follows
    weights += np.where(weights.sum(-1, keepdims=True) > 0, 0, follows)
    seen = rng.normal(size=weights.shape)
    probabilities = weights / weights.sum(-1, keepdims=True)
    made = FiniteCMDP(
        probabilities,
        (probabilities * seen).sum(-1),
        np.zeros((1, 1, states, actions)),
        horizon=horizon,
        noise=Noise(reward_on_arrival=seen),
    )
    return made, seen if T else seen[None]


def worlds(**options):
    return worlds_and_rewards(**options).map(lambda both: both[0])


@repeatable
@given(worlds(), st.integers(0, 10**6))
def test_an_expectation_over_successors_is_the_expectation_over_all_states(made, seed):
    V = np.random.default_rng(seed).normal(size=made.states)
    world = made.world
    for h in range(made.horizon):
        compressed = expected(at_step(world.P, h), world.successors, V)
        np.testing.assert_allclose(compressed.T, at_step(made.dense_P, h) @ V, rtol=0, atol=1e-12)


@repeatable
@given(worlds(crowded=(False,)))
def test_successors_are_listed_in_increasing_order_and_none_is_missing(made):
    successors = made.world.successors
    assume(successors is not None)
    for x in range(made.states):
        possible = np.flatnonzero((made.dense_P[:, x] > 0).any((0, 1)))
        np.testing.assert_array_equal(successors[: len(possible), x], possible)
        assert len(set(successors[:, x].tolist())) == made.sizes.successors < made.states


def test_where_a_state_can_be_followed_by_all_others_no_list_is_kept():
    one = altered(np.broadcast_to(np.eye(S)[:, None, :], (S, A, S)), (1, 1), 1 / S)
    assert problem(P=one).world.successors is None
    assert problem(P=np.broadcast_to(np.eye(S)[:, None, :], (S, A, S))).sizes.successors == 1


@repeatable
@given(worlds())
def test_next_states_come_as_often_as_they_should_and_impossible_ones_never(made):
    n = 100
    u = np.concatenate([[0.0], (np.arange(n) + 0.5) / n, [np.nextafter(1, 0)]])
    for h in range(made.horizon):
        for x in range(made.states):
            for a in range(made.actions):
                arrived = [int(step(made.world, h, x, a, each, 0.0, 0.0).x_next) for each in u]
                probabilities = at_step(made.dense_P, h)[x, a]
                assert all(probabilities[y] > 0 for y in arrived)
                often = np.bincount(arrived[1:-1], minlength=made.states) / n
                np.testing.assert_allclose(often, probabilities, rtol=0, atol=1.01 / n)


@repeatable
@given(worlds_and_rewards())
def test_the_reward_seen_is_that_of_the_state_arrived_in(made):
    made, seen = made
    for h in range(made.horizon):
        for x in range(made.states):
            for u in (0.0, 0.3, 0.8, 0.999):
                outcome = step(made.world, h, x, 0, u, 0.0, 0.0)
                assert outcome.reward == at_step(seen, h)[x, 0, int(outcome.x_next)]


def test_rows_that_sum_to_a_little_less_than_one_never_lead_to_an_impossible_state():
    row = [0.1] * 10 + [0.0]  # its running sum ends just below 1
    assert np.cumsum(row)[-1] < 1
    made = FiniteCMDP(np.broadcast_to(row, (11, 1, 11)), np.zeros((11, 1)), np.zeros((11, 1)), horizon=1)
    made.check()
    assert int(step(made.world, 0, 3, 0, np.nextafter(1, 0), 0.0, 0.0).x_next) == 9
    made = FiniteCMDP(made.dense_P[0], made.r[0], made.g[0, 0], start=row, horizon=1)
    assert int(start_state(made.world, 1, np.nextafter(1, 0))) == 9


def test_without_noise_the_means_themselves_are_seen():
    outcome = step(problem(r=altered(r, (0, 1), 0.75)).world, 0, 0, 1, 0.5, 3.0, 3.0)
    assert outcome.reward == 0.75
    np.testing.assert_array_equal(outcome.cost, [1.0])


def test_normal_noise_is_added_to_what_is_seen_and_not_to_the_truth():
    made = problem(g=np.stack([g, -np.abs(g)]), noise=Noise(reward_sigma=0.5, cost_sigma=[0.1, 0.0]))
    outcome = step(made.world, 0, 0, 1, 0.5, 3.0, np.array([2.0, 2.0]))
    assert outcome.reward == 1.5
    np.testing.assert_allclose(outcome.cost, [1.2, -1.0], rtol=0, atol=1e-15)
    np.testing.assert_array_equal(outcome.g, [1.0, -1.0])


def test_one_number_of_cost_noise_is_meant_for_every_constraint():
    made = problem(g=np.stack([g, g]), noise=Noise(cost_sigma=0.25))
    np.testing.assert_array_equal(made.world.cost_sigma, [0.25, 0.25])


def test_costs_seen_on_arrival_are_those_of_the_constraint_step_and_state_arrived_in():
    m = 2
    rng = np.random.default_rng(3)
    transitions = rng.dirichlet(np.ones(S), (H, S, A))
    seen = rng.uniform(-1, 0, (m, H, S, A, S))
    mean = (transitions * seen).sum(-1)
    made = problem(P=transitions, g=mean, noise=Noise(cost_on_arrival=seen))
    made.check()
    for h in range(H):
        outcome = step(made.world, h, 1, 0, 0.4, 0.0, 0.0)
        np.testing.assert_array_equal(outcome.cost, seen[:, h, 1, 0, int(outcome.x_next)])
        np.testing.assert_array_equal(outcome.g, mean[:, h, 1, 0])


def test_a_step_is_the_same_in_numpy_and_in_jax():
    rng = np.random.default_rng(5)
    transitions = np.where(np.eye(4)[:, None, :] > 0, 0, rng.dirichlet(np.ones(4), (4, 2)))
    transitions /= transitions.sum(-1, keepdims=True)
    made = FiniteCMDP(transitions, rng.random((4, 2)), -rng.random((2, 1, 4, 2)), start=[0.3, 0, 0.7, 0], horizon=2)
    world = jax.tree.map(jnp.asarray, made.world)
    x, a, u = rng.integers(4, size=200), rng.integers(2, size=200), rng.random(200)
    zero = jnp.zeros(())
    steps = jax.jit(jax.vmap(lambda x, a, u: step(world, jnp.int32(1), x, a, u, zero, zero)))(x, a, u)
    starts = jax.jit(jax.vmap(lambda u: start_state(world, jnp.int32(1), u)))(u)
    for i in range(200):
        outcome = step(made.world, 1, x[i], a[i], u[i], 0.0, 0.0)
        assert int(outcome.x_next) == int(steps.x_next[i])
        assert outcome.reward == steps.reward[i]
        np.testing.assert_array_equal(outcome.cost, steps.cost[i])
        assert int(start_state(made.world, 1, u[i])) == int(starts[i])
