"""The least violation and the best policy among those that have it: compared with every policy of tiny problems."""

import tracemalloc
from itertools import product

import numpy as np
import pytest

from everystep.errors import EverystepError
from everystep.mdp import planner
from everystep.mdp.cmdp import Factored, FiniteCMDP


def tiny(seed, S=3, A=2, H=3, m=1, stepped=False, start=0, factors=0, exact=True):
    """A CMDP in which many states have no safe action.

    With `exact` numbers all sums of harm are exact in binary, so that equal harm is equal in floats and ties are many.
    """
    rng = np.random.default_rng(seed)
    T = (H,) if stepped else ()

    def chances(*shape):
        if not exact:
            return rng.dirichlet(np.ones(shape[-1]), shape[:-1])
        drawn = rng.integers(shape[-1], size=(*shape[:-1], 2))
        return (drawn[..., None] == np.arange(shape[-1])).mean(-2)

    P = Factored(chances(*T, S, A, factors), chances(*T, factors, S)) if factors else chances(*T, S, A, S)
    g = rng.choice([-1.0, 0.0, 0.25, 0.5, 1.0], p=[0.4, 0.2, 0.1, 0.1, 0.2], size=(m, *(T or (1,)), S, A))
    g = g if exact else g * rng.uniform(0.1, 1, g.shape)
    return FiniteCMDP(P, rng.uniform(-0.5, 1, (*T, S, A)), g, start=start, horizon=H)


def at(array, h):
    return array[h if len(array) > 1 else 0]


def tables(problem):
    """P, r and c of each step, as lists of plain tables (S, A, S), (S, A), (S, A)."""
    steps = range(problem.horizon)
    return (
        [at(problem.dense_P, h) for h in steps],
        [at(problem.r, h) for h in steps],
        [sum(np.maximum(at(g, h), 0) for g in problem.g) for h in steps],
    )


def every_policy(problem, allowed=None):
    """Every deterministic policy (H, S), of the actions allowed at each (h, x)."""
    H, S = problem.horizon, problem.states
    choices = [range(problem.actions) if allowed is None else np.flatnonzero(allowed[h, x])
               for h in range(H) for x in range(S)]  # fmt: skip
    for flat in product(*choices):
        yield np.array(flat).reshape(H, S)


def followed(problem, actions):
    """The value and the violation of a policy from every (h, x), state by state: (H + 1, S) each."""
    P, r, c = tables(problem)
    V, C = np.zeros((2, problem.horizon + 1, problem.states))
    for h in reversed(range(problem.horizon)):
        for x in range(problem.states):
            a = actions[h, x]
            V[h, x] = r[h][x, a] + sum(P[h][x, a, y] * V[h + 1, y] for y in range(problem.states))
            C[h, x] = c[h][x, a] + sum(P[h][x, a, y] * C[h + 1, y] for y in range(problem.states))
    return V, C


def best_by_trying(problem, allowed=None):
    """C (H + 1, S) and, from each state at step 1, the best value among the policies of least violation from there."""
    V, C = map(np.array, zip(*(followed(problem, policy) for policy in every_policy(problem, allowed)), strict=True))
    least = C.min(0)
    return least, np.where(C[:, 0] <= least[0] + 1e-12, V[:, 0], -np.inf).max(0)


CASES = [
    pytest.param({"S": 3, "H": 3, "A": 2, "stepped": True}, id="3 states, by step"),
    pytest.param({"S": 2, "H": 2, "A": 3, "m": 2, "stepped": True}, id="3 actions, 2 constraints, by step"),
    pytest.param({"S": 3, "H": 3, "A": 2, "m": 2}, id="3 steps, 2 constraints"),
    pytest.param({"S": 3, "H": 2, "A": 2, "factors": 2}, id="factors"),
    pytest.param({"S": 2, "H": 3, "A": 2, "m": 3, "stepped": True, "factors": 3}, id="factors by step"),
]


# --- optima -----------------------------------------------------------------------------------------------------
@pytest.mark.quick
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("sizes", CASES)
def test_the_optimum_has_the_least_violation_of_all_policies_and_the_best_value_among_those(sizes, seed):
    problem = tiny(seed, **sizes)
    least, best = best_by_trying(problem)
    solution = planner.solve(problem)
    np.testing.assert_allclose(planner.least_harm(problem), least, rtol=0, atol=1e-12)
    np.testing.assert_allclose(solution.C_1, least[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(solution.V_1, best, rtol=0, atol=1e-12)
    V, C = followed(problem, solution.policy)
    np.testing.assert_allclose(V[0], best, rtol=0, atol=1e-12)
    np.testing.assert_allclose(C[0], least[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(solution.V, V, rtol=0, atol=1e-12)


def test_these_problems_have_dead_ends_ties_and_rewards_worth_a_violation():
    """Otherwise the test above would hold for simpler planners."""
    several = [tiny(seed, **case.values[0]) for case in CASES for seed in range(4)]
    viable = [planner.viable(problem) for problem in several]
    assert sum(not each.all() and each.any() for each in viable) > 5
    assert sum(planner.solve(each).least_violation > 0 for each in several) > 5
    gain = [planner.solve(each, safe=False).value - planner.solve(each).value for each in several]
    assert sum(each > 0.1 for each in gain) > 5
    greedy = []  # over the actions of least harm now, without a look ahead
    for problem in several:
        P, r, c = tables(problem)
        V = C = np.zeros(problem.states)
        for h in reversed(range(problem.horizon)):
            a = np.where(c[h] == c[h].min(1, keepdims=True), r[h] + P[h] @ V, -np.inf).argmax(1)
            V, C = (each[np.arange(problem.states), a] for each in (r[h] + P[h] @ V, c[h] + P[h] @ C))
        greedy.append(bool((planner.solve(problem).C_1 + 1e-9 < C).any()))
    assert sum(greedy) > 3
    allowed = [planner.harm_of_actions(p, 0, planner.least_harm(p)[1]) <= planner.least_harm(p)[0] for p in several]
    assert sum(bool((each.sum(0) > 1).any()) for each in allowed) > 5


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("start", [[1, 0, 1, 2], np.array([0.25, 0.0, 0.75])], ids=["sequence", "distribution"])
def test_several_starts_have_the_least_violation_and_then_the_best_value_on_average(start, seed):
    problem = tiny(seed, S=3, H=2, m=2, start=start)
    weights = np.array([0.25, 0.5, 0.25]) if isinstance(start, list) else start
    found = [[weights @ each[0] for each in followed(problem, policy)] for policy in every_policy(problem)]
    least = min(C for _, C in found)
    solution = planner.solve(problem)
    assert solution.least_violation == pytest.approx(least, abs=1e-12)
    assert solution.value == pytest.approx(max(V for V, harm in found if harm <= least + 1e-12), abs=1e-12)


@pytest.mark.parametrize("tolerance", [0.25, 0.3])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sizes", CASES[:4])
def test_with_a_tolerance_the_optimum_is_over_the_actions_that_add_at_most_so_much(sizes, seed, tolerance):
    problem = tiny(seed, **sizes)
    P, _, c = tables(problem)
    least, strict = best_by_trying(problem)
    added = np.stack([c[h] + P[h] @ least[h + 1] - least[h][:, None] for h in range(problem.horizon)])
    V = np.max([followed(problem, policy)[0][0] for policy in every_policy(problem, added <= tolerance)], axis=0)
    solution = planner.solve(problem, tolerance=tolerance)
    np.testing.assert_allclose(solution.V_1, V, rtol=0, atol=1e-12)
    np.testing.assert_allclose(solution.C_1, least[0], rtol=0, atol=1e-12)  # what no policy avoids stays the same
    assert (solution.V_1 - strict >= -1e-12).all()


def test_a_tolerance_buys_something_and_also_where_every_state_has_a_safe_action():
    gains = [planner.solve(tiny(s), tolerance=0.25).V_1 - planner.solve(tiny(s)).V_1 for s in range(12)]
    assert np.max(gains) > 0.1
    one = FiniteCMDP(np.ones((1, 3, 1)), np.array([[0.0, 1.0, 2.0]]), np.array([[-1.0, 0.1, 0.2]]), horizon=4)
    assert [planner.solve(one, tolerance=each).value for each in (0.0, 0.1, 0.15, 0.2)] == [0, 4, 4, 8]


@pytest.mark.parametrize("wrong", [-0.1, np.nan, np.inf, "much", None])
def test_a_tolerance_is_a_number_of_at_least_0(wrong):
    with pytest.raises(EverystepError, match=r"^tolerance is .*; give a number of at least 0\.$"):
        planner.solve(tiny(0), tolerance=wrong)


def test_violations_that_differ_by_rounding_alone_are_equal():
    """0.1 + 0.2 > 0.3 in floats: the action that takes both must not lose to the one that takes the sum at once."""
    P = np.zeros((4, 2, 4))
    P[0, 0, 1] = P[0, 1, 2] = P[1:, :, 3] = 1
    g = np.array([[0.1, 0.3], [0.2, 0.2], [-1.0, -1.0], [-1.0, -1.0]])
    for better in (0, 1):
        r = np.zeros((4, 2))
        r[0, better] = 1.0
        solution = planner.solve(FiniteCMDP(P, r, g, horizon=3))
        assert solution.value == 1
        assert solution.least_violation == pytest.approx(0.3)


def test_a_tiny_violation_is_never_rounded_to_safe():
    problem = FiniteCMDP(np.ones((1, 2, 1)), np.array([[0.0, 1.0]]), np.array([[0.0, 1e-300]]), horizon=2)
    assert planner.solve(problem).value == 0
    stuck = FiniteCMDP(np.ones((1, 1, 1)), np.ones((1, 1)), np.full((1, 1), 1e-300), horizon=2)
    assert not planner.viable(stuck).any()


def test_the_unconstrained_optimum_reports_what_no_policy_avoids():
    problem = tiny(2, m=2)
    assert planner.solve(problem, safe=False).least_violation == planner.solve(problem).least_violation > 0


# --- the violation of a policy ----------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("sizes", [case.values[0] | {"S": 5, "H": 4, "exact": False} for case in CASES])
def test_the_violation_of_any_policy_is_the_least_one_and_what_its_actions_add(sizes, seed):
    """C_1(x_1) + E sum_h (G_h(x_h, a_h) - C_h(x_h)), over the states and actions that the policy visits."""
    problem = tiny(seed, **sizes)
    H, S, A = problem.horizon, problem.states, problem.actions
    rng = np.random.default_rng(100 + seed)
    pi = rng.dirichlet(np.full(A, 0.5), (H, S)) if seed % 2 else np.eye(A)[rng.integers(A, size=(H, S))]
    P, _, c = tables(problem)
    C = planner.least_harm(problem)
    for x in range(S):
        here, suffered, added = np.eye(S)[x], 0.0, 0.0
        for h in range(H):
            rho = here[:, None] * pi[h]
            G = planner.harm_of_actions(problem.world, h, C[h + 1]).T
            suffered += (rho * c[h]).sum()
            added += (rho * (G - C[h][:, None])).sum()
            here = np.einsum("xa,xay->y", rho, P[h])
        assert suffered == pytest.approx(C[0, x] + added, abs=1e-9)
        assert added >= 0
        assert planner.evaluate(problem, pi).C[0, x] == pytest.approx(suffered, abs=1e-9)


# --- viable states ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("sizes", CASES)
def test_a_state_is_viable_if_a_safe_action_leads_to_viable_states_only(sizes, seed):
    problem = tiny(seed, **sizes | {"S": 6, "H": 4, "exact": False})
    P, _, c = tables(problem)
    after = np.ones(problem.states, bool)
    found = planner.viable(problem)
    for h in reversed(range(problem.horizon)):
        after = np.array([
            any(c[h][x, a] == 0 and after[P[h][x, a] > 0].all() for a in range(problem.actions))
            for x in range(problem.states)
        ])  # fmt: skip
        np.testing.assert_array_equal(found[h], after)


def test_every_state_is_viable_where_every_state_has_a_safe_action():
    problem = tiny(1)
    safe = FiniteCMDP(problem.P, problem.r[0], np.minimum(problem.g, [-0.5, 1.0]), horizon=3)
    assert planner.has_safe_actions(safe)
    assert planner.viable(safe).all()
    assert not planner.least_harm(safe).any()
    solution = planner.solve(safe)
    assert (solution.least_violation, solution.baseline.C_1) == (0, None)
    assert not solution.C_1.any()
    assert safe.dead_ends is None


def test_an_exempt_state_is_viable_and_may_use_any_action():
    P = np.zeros((3, 2, 3))
    P[:, 0, 0] = P[:, 1, 1] = 1  # 2 is never entered
    g = np.array([[-1.0, 1.0], [0.5, 0.5], [1.0, 1.0]])
    problem = FiniteCMDP(P, np.array([[0.0, 1.0], [1.0, 2.0], [3.0, 4.0]]), g, horizon=2, exempt=[False, False, True])
    np.testing.assert_array_equal(planner.least_harm(problem), [[0, 0.5, 0], [0, 0.5, 0], [0, 0, 0]])
    np.testing.assert_array_equal(planner.solve(problem).policy[1], [0, 1, 1])
    assert (planner.harm_of_actions(problem, 0, np.ones(3))[:, 2] == 0).all()
    assert (planner.harm_of_actions(problem.world, 0, np.ones(3))[:, 2] == 2).all()


def test_harm_needs_a_number_for_each_state():
    with pytest.raises(EverystepError, match=r"^C_next is .*; give an array of 3 "):
        planner.harm_of_actions(tiny(0), 0, np.zeros(4))
    with pytest.raises(EverystepError, match=r"^of is 3; give an es.FiniteCMDP, or its world\.$"):
        planner.harm_of_actions(3, 0, np.zeros(4))


@pytest.mark.parametrize("stuck", [False, True])
def test_the_optimum_keeps_no_number_for_every_step_and_state_but_the_action(stuck):
    S, H = 500, 400
    P = np.broadcast_to(np.eye(S)[:, None], (S, 2, S))
    g = np.where(np.arange(S)[:, None] < 5 * stuck, 1.0, [-1.0, 1.0])
    problem = FiniteCMDP(P, np.zeros((S, 2)), g, horizon=H)
    problem.world  # noqa: B018 made before
    tracemalloc.start()
    solution = planner.solve(problem)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert solution.policy.nbytes == H * S
    assert peak < 2 * H * S
    assert solution.least_violation == H * stuck


# --- what a check says ------------------------------------------------------------------------------------------
def walk(g, start=0, **settings):
    """A corridor: action 0 stays and action 1 goes one state further, up to the last, which only stays."""
    S = len(g)
    P = np.stack([np.eye(S), np.eye(S)[np.minimum(np.arange(S) + 1, S - 1)]], 1)
    return FiniteCMDP(P, np.zeros((S, 2)), np.array(g), start=start, horizon=3, **settings)


SAFE, STUCK = [-1.0, -1.0], [0.5, 0.25]


def test_dead_ends_are_remarked_and_allowed():
    assert walk([SAFE, SAFE, STUCK]).check() == (
        "1 state has no safe action (state 2): violations cannot be avoided from 3 of 9 pairs of step and state "
        "(1 of 3 states); from the start they can be avoided.",
    )


def test_several_dead_ends_are_counted_and_one_is_named():
    names = ("the shore", "the slope", "the edge", "the hole")
    slide = [[-1.0, -1.0], [1.0, -1.0], STUCK, STUCK]  # from the slope every safe action leads to the edge
    assert walk(slide, state_names=names, remarks=("a first remark.",)).check() == (
        "a first remark.",
        "2 states have no safe action (such as the edge): violations cannot be avoided from 8 of 12 pairs of "
        "step and state (3 of 4 states); from the start they can be avoided.",
    )


def test_a_start_that_is_not_viable_is_remarked_with_the_violation_that_no_policy_avoids():
    (remark,) = walk([SAFE, SAFE, STUCK], start=2).check()
    assert remark.endswith("; an episode has a violation of at least 0.75 on average, whatever the policy.")
    (remark,) = walk([SAFE, SAFE, STUCK], start=[0, 2, 0, 0]).check()
    assert remark.endswith("; an episode has a violation of at least 0.1875 on average, whatever the policy.")


def test_a_state_that_has_a_safe_action_at_some_steps_only_is_named_with_the_step():
    still = walk([SAFE, SAFE])

    def remark(x):
        g = np.array([SAFE, SAFE])[None, None].repeat(3, 1)
        g[0, 1, x] = STUCK
        return FiniteCMDP(still.dense_P.repeat(3, 0), still.r[0], g, horizon=3).check()[0]

    cannot = "violations cannot be avoided from"
    assert f"action (state 1 at step 2): {cannot} 2 of 6 pairs of step and state (1 of 2 states);" in remark(1)
    assert f"action (state 0 at step 2): {cannot} 1 of 6 pairs of step and state (1 of 2 states);" in remark(0)  # left


def test_exempt_states_are_not_counted():
    (remark,) = walk([STUCK, STUCK, SAFE, STUCK], start=2, exempt=[True, False, False, False]).check()
    assert remark.startswith("2 states have no safe action (such as state 1): ")
    assert "(2 of 3 states)" in remark


def test_harm_is_in_the_units_of_the_user_whatever_the_scale():
    g = np.array([[[5.0, 20.0]], [[0.5, 0.25]]])
    problem = FiniteCMDP(np.ones((1, 2, 1)), np.zeros((1, 2)), g, horizon=4, scale=True)
    assert planner.solve(problem).least_violation == 4 * 5.5
    assert problem.dead_ends.least_violation == 4 * 5.5
    assert problem.in_units.dead_ends.least_violation == 4 * (5 / 20 + 0.5 / 0.5)
