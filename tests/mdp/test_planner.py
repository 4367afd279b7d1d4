"""The planner is exact: compared with every policy and every trajectory of problems small enough to list."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everystep.errors import EverystepError
from everystep.mdp import planner
from everystep.mdp.cmdp import FiniteCMDP

repeatable = settings(derandomize=True, deadline=None, database=None, max_examples=60)


def random_problem(seed, S=3, A=2, H=3, m=1, stepped=False, start=0, sparse=False):
    """A CMDP in which every state has a safe action at every step, and most have an unsafe one too."""
    rng = np.random.default_rng(seed)
    T = (H,) if stepped else ()
    P = rng.dirichlet(np.ones(S), (*T, S, A))
    if sparse:
        P = np.where(P < 0.9 / S, 0, P)
        P /= P.sum(-1, keepdims=True)
    r = rng.uniform(-0.5, 1, (*T, S, A))
    g = rng.uniform(-1, 1, (m, *(T or (1,)), S, A))
    safe = rng.integers(A, size=g.shape[1:-1])
    g = np.where(np.arange(A) == safe[..., None], -np.abs(g), g)
    return FiniteCMDP(P, r, g, start=start, horizon=H)


@st.composite
def problems(draw, starts=True):
    S, A, H = draw(st.integers(1, 5)), draw(st.integers(1, 3)), draw(st.integers(1, 4))
    start = draw(st.integers(0, S - 1))
    if starts and draw(st.booleans()):
        start = draw(st.lists(st.integers(0, S - 1), min_size=1, max_size=4))
    elif starts and draw(st.booleans()):
        weights = np.array(draw(st.lists(st.integers(0, 5), min_size=S, max_size=S)), float)
        weights[draw(st.integers(0, S - 1))] += 1
        start = weights / weights.sum()
    return random_problem(
        draw(st.integers(0, 10**6)),
        S,
        A,
        H,
        m=draw(st.integers(1, 2)),
        stepped=draw(st.booleans()),
        start=start,
        sparse=draw(st.booleans()),
    )


def at(array, h):
    """Step h of an array that may be the same at every step."""
    return array[h if len(array) > 1 else 0]


def trajectories(problem, pi, x1):
    """(probability, return, hard violation) of every sequence of states and actions from x1."""
    H, S, A = problem.horizon, problem.states, problem.actions
    for states in product(range(S), repeat=H - 1):
        x = (x1, *states)
        for a in product(range(A), repeat=H):
            probability, earned, harm = 1.0, 0.0, 0.0
            for h in range(H):
                probability *= pi[h][x[h]][a[h]]
                if h + 1 < H:
                    probability *= at(problem.dense_P, h)[x[h], a[h], x[h + 1]]
                g = [at(constraint, h)[x[h], a[h]] for constraint in problem.g]
                earned += at(problem.r, h)[x[h], a[h]]
                harm += sum(max(each, 0) for each in g)
            if probability > 0:
                yield probability, earned, harm


def every_policy(problem):
    H, S, A = problem.horizon, problem.states, problem.actions
    for flat in product(range(A), repeat=H * S):
        yield np.array(flat).reshape(H, S)


def value_and_danger(problem, actions):
    """The value from every state and whether the policy can ever act unsafely from there, step by step backwards."""
    S = problem.states
    V, danger = np.zeros(S), np.zeros(S, bool)
    for h in reversed(range(problem.horizon)):
        new_V, new_danger = np.zeros(S), np.zeros(S, bool)
        for x in range(S):
            a = actions[h, x]
            row = at(problem.dense_P, h)[x, a]
            new_V[x] = at(problem.r, h)[x, a] + sum(row[y] * V[y] for y in range(S))
            new_danger[x] = any(at(g, h)[x, a] > 0 for g in problem.g) or any(danger[y] for y in range(S) if row[y] > 0)
        V, danger = new_V, new_danger
    return V, danger


TINY = [
    pytest.param({"S": 2, "H": 2, "m": 1, "stepped": False}, id="2 states, 2 steps"),
    pytest.param({"S": 2, "H": 3, "m": 2, "stepped": True}, id="2 states, 3 steps of their own, 2 constraints"),
    pytest.param({"S": 3, "H": 2, "m": 2, "stepped": False, "sparse": True}, id="3 states, 2 constraints, sparse"),
    pytest.param({"S": 3, "H": 3, "m": 1, "stepped": True, "sparse": True}, id="3 states, 3 steps of their own"),
]


# --- optima -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sizes", TINY)
def test_no_policy_beats_the_unconstrained_optimum_and_one_attains_it(sizes, seed):
    problem = random_problem(seed, **sizes)
    best = np.max([value_and_danger(problem, policy)[0] for policy in every_policy(problem)], axis=0)
    solution = planner.solve(problem, safe=False)
    np.testing.assert_allclose(solution.V[0], best, rtol=0, atol=1e-12)
    np.testing.assert_allclose(value_and_danger(problem, solution.policy)[0], best, rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sizes", TINY)
def test_no_policy_that_is_never_unsafe_beats_the_safe_optimum_and_one_attains_it(sizes, seed):
    problem = random_problem(seed, **sizes)
    rows = [value_and_danger(problem, policy) for policy in every_policy(problem)]
    best = np.max([np.where(danger, -np.inf, V) for V, danger in rows], axis=0)
    solution = planner.solve(problem)
    np.testing.assert_allclose(solution.V[0], best, rtol=0, atol=1e-12)
    V, danger = value_and_danger(problem, solution.policy)
    np.testing.assert_allclose(V, best, rtol=0, atol=1e-12)
    assert not danger.any()


def test_safety_costs_something_in_most_of_these_problems():
    """Otherwise the two tests above would hold for a planner that ignores the constraint."""
    gaps = [
        planner.solve(problem, safe=False).value - planner.solve(problem).value
        for problem in (random_problem(seed, S=3, H=3, stepped=True, sparse=True) for seed in range(3))
    ]
    assert min(gaps) >= 0
    assert max(gaps) > 0.1


def test_an_action_is_safe_only_if_every_constraint_says_so():
    g = np.array([[[-1.0, -1.0, 1.0]], [[-1.0, 1.0, -1.0]]])
    problem = FiniteCMDP(np.ones((1, 3, 1)), np.array([[0.0, 1.0, 2.0]]), g, horizon=2)
    assert planner.solve(problem).value == 0
    assert planner.solve(problem, safe=False).value == 4


def test_a_constraint_of_exactly_zero_is_safe():
    problem = FiniteCMDP(np.ones((1, 2, 1)), np.array([[0.0, 1.0]]), np.array([[-1.0, 0.0]]), horizon=3)
    assert planner.solve(problem).value == 3


def test_an_exempt_state_needs_no_safe_action():
    P = np.broadcast_to(np.array([1.0, 0.0]), (2, 2, 2))
    g = np.array([[-1.0, 1.0], [1.0, 1.0]])
    problem = FiniteCMDP(P, np.array([[1.0, 2.0], [0.0, 0.0]]), g, horizon=3, exempt=[False, True])
    assert planner.solve(problem).value == 3


# --- evaluation -------------------------------------------------------------------------------------------------
@pytest.mark.quick
@pytest.mark.parametrize("sizes", TINY)
def test_evaluating_a_mixed_policy_is_the_mean_over_all_trajectories(sizes):
    problem = random_problem(5, **sizes)
    H, S, A = problem.horizon, problem.states, problem.actions
    pi = np.random.default_rng(6).dirichlet(np.ones(A), (H, S))
    evaluation = planner.evaluate(problem, pi)
    for x in range(S):
        rows = np.array(list(trajectories(problem, pi, x)))
        probability, earned, harm = rows.T
        assert probability.sum() == pytest.approx(1, abs=1e-12)
        assert evaluation.V[0, x] == pytest.approx(probability @ earned, abs=1e-12)
        assert evaluation.C[0, x] == pytest.approx(probability @ harm, abs=1e-12)


@pytest.mark.parametrize("sizes", TINY)
def test_evaluating_a_deterministic_policy_is_the_mean_over_its_trajectories(sizes):
    problem = random_problem(7, **sizes)
    actions = np.random.default_rng(8).integers(problem.actions, size=(problem.horizon, problem.states))
    evaluation = planner.evaluate(problem, actions)
    for x in range(problem.states):
        rows = np.array(list(trajectories(problem, np.eye(problem.actions)[actions], x)))
        probability, earned, harm = rows.T
        assert evaluation.V[0, x] == pytest.approx(probability @ earned, abs=1e-12)
        assert evaluation.C[0, x] == pytest.approx(probability @ harm, abs=1e-12)


def test_the_violation_of_two_constraints_adds_up_without_cancellation():
    g = np.array([[[0.5, -1.0]], [[0.25, -1.0]]])
    problem = FiniteCMDP(np.ones((1, 2, 1)), np.zeros((1, 2)), g, horizon=4)
    assert planner.evaluate(problem, np.array([[0], [1], [0], [1]])).violation == 1.5


def test_a_policy_that_is_the_same_at_every_step_needs_no_step_axis():
    problem = random_problem(1, S=3, H=4)
    actions = np.array([1, 0, 1])
    mixed = np.array([[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]])
    for short in (actions, mixed):
        long = np.broadcast_to(short, (4, *short.shape))
        assert planner.evaluate(problem, short).value == planner.evaluate(problem, long).value
        np.testing.assert_array_equal(planner.occupancy(problem, short), planner.occupancy(problem, long))


def test_actions_and_their_one_hot_probabilities_are_the_same_policy():
    problem = random_problem(2, S=3, H=4, stepped=True)
    actions = np.random.default_rng(3).integers(2, size=(4, 3))
    assert planner.evaluate(problem, actions).value == planner.evaluate(problem, np.eye(2)[actions]).value


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(np.array([0, 2, 0]), id="an action that does not exist"),
        pytest.param(np.array([0, -1, 0]), id="a negative action"),
        pytest.param(np.array([0, 1]), id="a state left out"),
        pytest.param(np.full((3, 2), 0.6), id="probabilities above 1 in all"),
        pytest.param(np.full((3, 2), 0.4), id="probabilities below 1 in all"),
        pytest.param(np.broadcast_to([1.5, -0.5], (3, 2)), id="a negative probability"),
        pytest.param(np.full((5, 3, 2), 0.5), id="a step too many"),
    ],
)
def test_what_is_no_policy_is_refused_with_the_shape_it_should_have(policy):
    problem = random_problem(1, S=3, H=4)
    with pytest.raises(EverystepError, match=r"\(4, 3\) actions .*\(4, 3, 2\)"):
        planner.evaluate(problem, policy)


def test_a_policy_of_nothing_but_nan_is_refused():
    with pytest.raises(EverystepError, match="probabilities that sum to 1"):
        planner.evaluate(random_problem(1, S=3, H=4), np.full((3, 2), np.nan))


# --- starts -----------------------------------------------------------------------------------------------------
def test_a_sequence_of_starts_counts_each_episode_alike():
    one = lambda start: random_problem(4, S=3, H=3, start=start)
    single = [planner.solve(one(x)).value for x in range(3)]
    assert planner.solve(one([2, 0, 2, 1])).value == pytest.approx((single[0] + single[1] + 2 * single[2]) / 4)


def test_a_distribution_of_starts_weighs_the_values_of_its_states():
    pi = np.random.default_rng(9).dirichlet(np.ones(2), (3, 3))
    problem = random_problem(4, S=3, H=3, start=np.array([0.2, 0.0, 0.8]))
    value = violation = 0.0
    evaluation = planner.evaluate(problem, pi)
    for weight, x in ((0.2, 0), (0.8, 2)):
        probability, earned, harm = np.array(list(trajectories(problem, pi, x))).T
        value += weight * (probability @ earned)
        violation += weight * (probability @ harm)
    assert evaluation.value == pytest.approx(value, abs=1e-12)
    assert evaluation.violation == pytest.approx(violation, abs=1e-12)


def test_the_first_step_of_the_occupancy_is_where_episodes_start():
    weights = np.array([0.2, 0.0, 0.8])
    pi = np.full((3, 2), 0.5)
    first = lambda start: planner.occupancy(random_problem(4, S=3, H=3, start=start), pi)[0].sum(-1)
    np.testing.assert_allclose(first(weights), weights, rtol=0, atol=1e-15)
    np.testing.assert_allclose(first(1), [0, 1, 0], rtol=0, atol=1e-15)
    np.testing.assert_allclose(first([0, 2, 2, 2]), [0.25, 0, 0.75], rtol=0, atol=1e-15)


# --- what an episode meets --------------------------------------------------------------------------------------
def chain(*steps, r):
    """Two actions that do the same: at step h, x is followed by steps[h][x]."""
    P = np.eye(len(r))[np.array(steps)][:, :, None].repeat(2, axis=2)
    r = np.array(r, float)[:, None].repeat(2, axis=1)
    return FiniteCMDP(P, r, -np.ones((1, *r.shape)), start=0, horizon=len(steps))


def test_the_highest_value_is_that_of_a_state_at_a_step_when_an_episode_can_be_there():
    """V_1 = (0, 2, 20), V_2 = (-1, 1, 10), and only 0 at step 1 and 1 at step 2 are met."""
    assert planner.highest_value(chain([1, 1, 2], [1, 1, 2], r=[-1, 1, 10])) == 1
    assert planner.highest_value(chain([1, 1, 2], [1, 1, 2], r=[3, 1, 10])) == 4  # V_1 = 3 + 1 at the start


def test_the_most_likely_states_follow_the_transitions_of_each_step():
    problem = chain([1, 0, 0], [0, 2, 1], [1, 0, 2], r=[0, 0, 1])
    assert planner.most_likely_states(problem, planner.solve(problem)) == [0, 1, 2, 2]


# --- what holds for all of them ---------------------------------------------------------------------------------
@repeatable
@given(problems(), st.integers(0, 10**6))
def test_the_occupancy_sums_to_one_at_each_step_and_its_products_are_value_and_violation(problem, seed):
    H, S, A = problem.horizon, problem.states, problem.actions
    pi = np.random.default_rng(seed).dirichlet(np.ones(A), (H, S))
    rho = planner.occupancy(problem, pi)
    evaluation = planner.evaluate(problem, pi)
    harm = np.maximum(problem.g, 0).sum(0)
    np.testing.assert_allclose(rho.sum((1, 2)), 1, rtol=0, atol=1e-12)
    assert (rho >= 0).all()
    assert (rho * problem.r).sum() == pytest.approx(evaluation.value, abs=1e-12)
    assert (rho * harm).sum() == pytest.approx(evaluation.violation, abs=1e-12)


@repeatable
@given(problems())
def test_the_occupancy_flows_where_the_transitions_lead(problem):
    A = problem.actions
    rho = planner.occupancy(problem, np.full((problem.states, A), 1 / A))
    for h in range(problem.horizon - 1):
        arriving = np.einsum("xa,xay->y", rho[h], at(problem.dense_P, h))
        np.testing.assert_allclose(rho[h + 1].sum(-1), arriving, rtol=0, atol=1e-12)


@pytest.mark.quick
@repeatable
@given(problems())
def test_safety_never_pays(problem):
    assert (planner.solve(problem).V <= planner.solve(problem, safe=False).V + 1e-12).all()


@repeatable
@given(problems(), st.booleans())
def test_evaluating_an_optimal_policy_gives_the_optimal_value(problem, safe):
    solution = planner.solve(problem, safe=safe)
    evaluation = planner.evaluate(problem, solution.policy)
    np.testing.assert_allclose(evaluation.V, solution.V, rtol=0, atol=1e-12)
    assert evaluation.value == pytest.approx(solution.value, abs=1e-12)
    if safe:
        assert (evaluation.C == 0).all()


@repeatable
@given(problems(), st.integers(0, 10**6))
def test_no_policy_at_random_beats_the_optimum(problem, seed):
    pi = np.random.default_rng(seed).dirichlet(np.ones(problem.actions), (problem.horizon, problem.states))
    assert (planner.evaluate(problem, pi).V <= planner.solve(problem, safe=False).V + 1e-12).all()


@repeatable
@given(problems(), st.integers(0, 10**6), st.floats(0, 1))
def test_changing_the_policy_in_one_place_moves_value_along_a_straight_line(problem, seed, share):
    """V is linear in pi(. | h, x) with all other probabilities fixed."""
    rng = np.random.default_rng(seed)
    H, S, A = problem.horizon, problem.states, problem.actions
    pi = rng.dirichlet(np.ones(A), (H, S))
    h, x = rng.integers(H), rng.integers(S)
    ends = [pi.copy(), pi.copy()]
    ends[0][h, x], ends[1][h, x] = rng.dirichlet(np.ones(A), 2)
    between = pi.copy()
    between[h, x] = (1 - share) * ends[0][h, x] + share * ends[1][h, x]
    for read in (lambda e: e.value, lambda e: e.violation):
        low, high, mixed = (read(planner.evaluate(problem, each)) for each in (*ends, between))
        assert mixed == pytest.approx((1 - share) * low + share * high, abs=1e-12)


@repeatable
@given(problems())
def test_writing_a_stationary_problem_out_step_by_step_changes_nothing(problem):
    H = problem.horizon
    out = lambda array: np.repeat(array, H // len(array), axis=0)
    longer = FiniteCMDP(
        out(problem.dense_P),
        out(problem.r),
        np.stack([out(constraint) for constraint in problem.g]),
        start=problem.start,
        horizon=H,
    )
    for safe in (True, False):
        np.testing.assert_array_equal(planner.solve(longer, safe).V, planner.solve(problem, safe).V)
