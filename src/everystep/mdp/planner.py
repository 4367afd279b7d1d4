"""Exact results for a known problem: the safe optimum, the value of a policy, and the states it visits.

    C_h(x) = min_a G_h(x, a),                 G_h = c_h + P_h C_{h+1},   c = sum_i max(g_i, 0),   C_{H+1} = 0
    V_h(x) = max_{a : G_h(x, a) = C_h(x)} [r_h + P_h V_{h+1}](x, a),                              V_{H+1} = 0

C is the least expected violation from (h, x) on, and G is what an action leads to: the optimum has the least violation
first and then the highest value. Where every state has a safe action (Assumption 1), C = 0, and the optimum is that
under eqs. 6 and 7, over the actions with g <= 0. A state is viable at h if C_h(x) = 0. The violation of any policy from
x_1 is C_1(x_1) + E sum_h (G_h(x_h, a_h) - C_h(x_h)): G - C is what an action adds to it.

All learning is measured against this module, so it is plain NumPy without optimisations. The one formula that the
compiled loops need as well, `policy_backup`, is written once for NumPy and JAX arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from everystep.errors import EverystepError, as_array, check_type, number_below, real_number, shown, true_or_false
from everystep.mdp.cmdp import FiniteCMDP
from everystep.mdp.world import FEW, AnyArray, World, at_step, can_follow, expected, next_states

# Relative to C: violations that differ by less are equal. All terms of G are at least 0, so its rounding error is
# relative; where C = 0 it is exactly 0, and so is the margin.
ROUNDING = 1e-9


class Baseline(NamedTuple):
    """What an episode is measured against, by its start: the optimal value and the least violation, (S,) each.

    >>> track = es.problems.racetrack_from(["S..G"], top_speed=1, horizon=6)
    >>> es.planner.solve(track).baseline.V_1.shape
    (36,)
    """

    V_1: np.ndarray
    C_1: np.ndarray | None  # None where no start has any


@dataclass(frozen=True, eq=False)
class Solution:
    """An optimum: its value from the start, a policy (H, S) that attains it, and V_1 (S,).

    `least_violation` is the violation per episode that no policy avoids, E[C_1(x_1)], and C_1 (S,) is that of each
    start; both are 0 where every state has a safe action. The policy is in the smallest integers that hold an action,
    and V at all steps is computed on first use: on a large problem the policy is by far the largest array.

    >>> best = es.planner.solve(es.problems.from_map(["SFG", "FHF"], horizon=4))
    >>> best.V.shape, best.V_1.shape, best.baseline.C_1 is None
    ((5, 6), (6,), True)
    """

    value: float
    policy: np.ndarray
    V_1: np.ndarray
    problem: FiniteCMDP = field(repr=False)
    least_violation: float
    C_1: np.ndarray

    @cached_property
    def V(self) -> np.ndarray:
        """V_h(x) of the policy at every step, (H + 1, S)."""
        V = np.zeros((self.problem.horizon + 1, self.problem.states))
        for h in reversed(range(self.problem.horizon)):
            Q = action_values(self.problem.world, h, V[h + 1])
            V[h] = np.take_along_axis(Q, self.policy[h][None].astype(np.int64), 0)[0]
        return V

    @property
    def baseline(self) -> Baseline:
        """What regret and avoidable violation are measured against; without the policy."""
        return Baseline(self.V_1, self.C_1 if self.least_violation > 0 else None)


class DeadEnds(NamedTuple):
    """Where violations cannot be avoided any more. Exempt states do not count.

    >>> track = es.problems.racetrack_from(["S..G"], top_speed=2, horizon=6)
    >>> found = es.planner.dead_ends(track)
    >>> found.states, found.pairs, found.least_violation
    (33, 198, 0.0)
    """

    without_safe_action: np.ndarray  # (T, S)
    states: int  # that are not viable at some step
    pairs: int  # (h, x) that are not viable
    least_violation: float  # from the start, E[C_1(x_1)]


class Evaluation(NamedTuple):
    """The exact value and expected hard violation of a policy, from the start and from every (h, x).

    >>> pond = es.problems.from_map(["SFG", "FHF"], horizon=4)
    >>> found = es.planner.evaluate(pond, es.planner.solve(pond).policy)
    >>> found.violation, found.V.shape, found.C.shape
    (0.0, (5, 6), (5, 6))
    """

    value: float
    violation: float
    V: np.ndarray
    C: np.ndarray


def solve(problem: FiniteCMDP, safe: bool = True, tolerance: float = 0.0) -> Solution:
    """Backward induction over the actions of least violation, G <= C + tolerance (`safe`), or over all actions.

    Where every state has a safe action, these are the actions with g <= 0. `tolerance` admits at each (h, x) actions
    that add up to as much violation, in the units of g. Violations within ROUNDING * C count as equal. Exempt states
    (`problem.exempt`) may use any action; they are never entered.

    >>> pond = es.problems.from_map(["SFG", "FHF"], horizon=4)
    >>> best = es.planner.solve(pond)
    >>> round(best.value, 3), best.policy.shape, best.least_violation
    (5.875, (4, 6), 0.0)
    """
    _check(problem)
    safe, tolerance = true_or_false("safe", safe), real_number("tolerance", tolerance)
    world, H, S = problem.world, problem.horizon, problem.states
    V, C = np.zeros(S), np.zeros(S)
    policy = np.zeros((H, S), np.min_scalar_type(-problem.actions))
    by_sign = tolerance == 0 and has_safe_actions(problem)  # then C = 0 and the sign of g decides
    for h in reversed(range(H)):
        Q = action_values(world, h, V)
        if not by_sign:
            G = harm_of_actions(problem, h, C)
            C = G.min(0)
        if safe and by_sign:
            Q = np.where((at_step(world.g, h) <= 0).all(0) | problem.exempt, Q, -np.inf)
        elif safe:
            Q = np.where(C * (1 + ROUNDING) + tolerance >= G, Q, -np.inf)
        policy[h] = Q.argmax(0)
        V = Q.max(0)
    return Solution(from_start(problem, V), policy, V, problem, from_start(problem, C), C)


# --- the least violation ------------------------------------------------------------------------------------------
def has_safe_actions(problem: FiniteCMDP) -> bool:
    """Whether every state that is not exempt has an action with g <= 0 at every step (Assumption 1).

    >>> es.planner.has_safe_actions(es.problems.frozen_lake())
    True
    >>> es.planner.has_safe_actions(es.problems.racetrack())
    False
    """
    _check(problem)
    g = problem.compressed.g
    return all(bool(((g[t] <= 0).all(0).any(0) | problem.exempt).all()) for t in range(len(g)))


def violation_of_step(world: World, h: AnyArray) -> AnyArray:
    """c_h(a, x) = sum_i max(g_i, 0), (A, S), in the units of g; for NumPy and JAX arrays.

    >>> pond = es.problems.from_map(["SFG", "FHF"], horizon=4)
    >>> es.planner.violation_of_step(pond.world, 0)[:, 3]
    array([0., 0., 1., 0.])
    """
    return at_step(world.g, h).clip(min=0).sum(0)


def harm_of_actions(of: World | FiniteCMDP, h: int, C_next: np.ndarray) -> np.ndarray:
    """G_h = c_h + P_h C_{h+1}, (A, S): the violation from step h on if C is the violation from the next step on.

    Of a problem, that of exempt states is 0: they are never entered. A world does not know which they are.

    >>> pond = es.problems.from_map(["SFG", "FHF"], horizon=4)
    >>> es.planner.harm_of_actions(pond, 0, np.zeros(pond.states))[:, 3]
    array([0., 0., 1., 0.])
    """
    world = of.world if isinstance(of, FiniteCMDP) else of
    check_type("of", world, World, "an es.FiniteCMDP, or its world")
    h = number_below("h", h, of.horizon) if isinstance(of, FiniteCMDP) else h
    S = world.r.shape[-1]
    fits = isinstance(C_next, np.ndarray) and C_next.shape == (S,) and C_next.dtype.kind in "biuf"
    if not fits or not np.isfinite(C_next).all():
        raise EverystepError(f"C_next is {shown(C_next)}; give an array of {S} finite numbers, one for each state.")
    G = np.asarray(violation_of_step(world, h) + expected(at_step(world.P, h), world.successors, C_next))
    if isinstance(of, FiniteCMDP) and of.exempt.any():
        G[:, of.exempt] = 0
    return G


def least_harm(problem: FiniteCMDP) -> np.ndarray:
    """C_h(x), (H + 1, S): the least expected violation from each state at each step on.

    >>> track = es.problems.racetrack_from(["S..G"], top_speed=2, horizon=6)
    >>> C = es.planner.least_harm(track)
    >>> C.shape, float(C.max())
    ((7, 100), 1.0)
    """
    _check(problem)
    C = np.zeros((problem.horizon + 1, problem.states))
    for h, least in _least_harm_backward(problem):
        C[h] = least
    return C


def viable(problem: FiniteCMDP) -> np.ndarray:
    """(H, S) booleans: the states from which some policy avoids every violation from step h on, C_h(x) = 0.

    >>> track = es.problems.racetrack_from(["S..G"], top_speed=2, horizon=6)
    >>> viable = es.planner.viable(track)
    >>> viable.shape, int(viable[0].sum()), track.states
    ((6, 100), 67, 100)
    """
    _check(problem)
    found = np.ones((problem.horizon, problem.states), bool)
    for h, least in _least_harm_backward(problem):
        found[h] = least == 0
    return found


def dead_ends(problem: FiniteCMDP) -> DeadEnds | None:
    """The states that are not viable; None if every state has a safe action at every step.

    >>> es.planner.dead_ends(es.problems.from_map(["SFG", "FHF"], horizon=4)) is None
    True
    >>> es.planner.dead_ends(es.problems.racetrack()).states
    107
    """
    if has_safe_actions(problem):
        return None
    ever, pairs, C = np.zeros(problem.states, bool), 0, np.zeros(problem.states)
    for _, C in _least_harm_backward(problem):
        ever |= C > 0
        pairs += int((C > 0).sum())
    stuck = ~((problem.compressed.g <= 0).all(1).any(1) | problem.exempt)
    return DeadEnds(stuck, int(ever.sum()), pairs, from_start(problem, C))


def _least_harm_backward(problem: FiniteCMDP) -> Iterator[tuple[int, np.ndarray]]:
    """(h, C_h) from the last step to the first; nothing where every state has a safe action, because C = 0."""
    if has_safe_actions(problem):
        return
    C = np.zeros(problem.states)
    for h in reversed(range(problem.horizon)):
        C = harm_of_actions(problem, h, C).min(0)
        yield h, C


def most_likely_states(problem: FiniteCMDP, solution: Solution) -> list[int]:
    """The H + 1 states of an episode with the most likely start and, at each step, the most likely next state.

    >>> pond = es.problems.from_map(["SFG", "FHF"], horizon=4)
    >>> es.planner.most_likely_states(pond, es.planner.solve(pond))
    [0, 1, 2, 2, 2]
    """
    check_type("solution", solution, Solution, "what es.planner.solve returns")
    x = int(np.argmax(start_distribution(problem)))
    if solution.policy.shape != (problem.horizon, problem.states):
        raise EverystepError(
            f"solution has a policy of shape {solution.policy.shape}; give the solution of this problem, "
            f"({problem.horizon}, {problem.states})."
        )
    states = [x]
    for h in range(problem.horizon):
        here = np.zeros((problem.states, problem.actions))
        here[x, solution.policy[h, x]] = 1
        x = int(next_states(at_step(problem.P, h), here).argmax())
        states.append(x)
    return states


def action_values(world: World, h: int, V_next: np.ndarray) -> np.ndarray:
    """[r_h + P_h V_{h+1}](a, x), (A, S): the value of each action at step h if V is the value of the next step.

    >>> pond = es.problems.from_map(["SFG", "FHF"], horizon=4)
    >>> es.planner.action_values(pond.world, 0, np.zeros(pond.states))[:, 1].round(2)
    array([0.01, 0.31, 5.4 , 0.31])
    """
    return np.asarray(at_step(world.r, h) + expected(at_step(world.P, h), world.successors, V_next))


def highest_value(problem: FiniteCMDP) -> float:
    """The highest unconstrained V_h(x) that an episode can reach, which Q-values must be able to represent.

    >>> round(es.planner.highest_value(es.problems.from_map(["SFG", "FHF"], horizon=4)), 3)
    5.96
    """
    here, entered = start_distribution(problem) > 0, []
    for h in range(problem.horizon):
        entered.append(np.packbits(here))  # a bit for each (h, x)
        here = can_follow(at_step(problem.P, h), here)
    V, top = np.zeros(problem.states), -np.inf
    for h in reversed(range(problem.horizon)):
        V = action_values(problem.world, h, V).max(0)
        top = max(top, V[np.unpackbits(entered[h], count=problem.states).astype(bool)].max())
    return float(top)


def evaluate(problem: FiniteCMDP, policy: np.ndarray) -> Evaluation:
    """The exact value and expected hard violation, sum_h E[sum_i max(g_i, 0)], of a policy.

    `policy` is (H, S) actions or (H, S, A) probabilities; a stationary policy may omit the H.

    >>> pond = es.problems.from_map(["SFG", "FHF"], horizon=4)
    >>> always_right = np.full(pond.states, 2)
    >>> found = es.planner.evaluate(pond, always_right)
    >>> round(found.value, 3), round(found.violation, 3)
    (5.474, 0.056)
    """
    pi = distribution(problem, policy)
    world, H, S = problem.world, problem.horizon, problem.states
    V, C = np.zeros((H + 1, S)), np.zeros((H + 1, S))
    for h in reversed(range(H)):
        V[h], C[h] = policy_backup(world, h, partial(mean_under, pi[h].T), V[h + 1], C[h + 1])
    return Evaluation(from_start(problem, V[0]), from_start(problem, C[0]), V, C)


def mean_under(pi: AnyArray, Q: AnyArray) -> AnyArray:
    """sum_a pi(a|x) Q(a, x), for NumPy and JAX arrays (A, S).

    >>> Q, pi = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0.5, 0.0], [0.5, 1.0]])  # (A, S)
    >>> es.planner.mean_under(pi, Q)
    array([2., 4.])
    """
    return (pi * Q).sum(0)


def policy_backup(
    world: World, h: AnyArray, under_pi: Callable[[AnyArray], AnyArray], V: AnyArray, C: AnyArray
) -> tuple[Any, Any]:
    """One backward step for value and hard violation together; under_pi maps (A, S) to its mean (S,) under a policy.

    V(x) <- sum_a pi(a|x) [r + P V](a, x)   and the same with max(g, 0) in place of r.
    With few successors pi is applied first, r_pi(x) + sum_j P_pi(j, x) V(x_j), which is J products instead of A J. V is
    looked up separately for each j, which XLA on a CPU then does in the same pass.

    >>> pond = es.problems.from_map(["SFG", "FHF"], horizon=4)
    >>> always_right = lambda Q: Q[2]
    >>> V, C = es.planner.policy_backup(pond.world, 3, always_right, np.zeros(6), np.zeros(6))
    >>> V.round(2)
    array([0.01, 5.4 , 0.01, 0.01, 0.01, 0.31])
    """
    P, r, after = at_step(world.P, h), at_step(world.r, h), world.successors
    c = violation_of_step(world, h)
    if after is None or after.ndim == 3 or len(after) > FEW:
        return under_pi(r + expected(P, after, V)), under_pi(c + expected(P, after, C))
    V_pi, C_pi = under_pi(r), under_pi(c)
    for j, x_next in enumerate(after):  # one product in each sum: a fused multiply-add can only be formed in one way
        P_pi = under_pi(P[:, j])
        V_pi, C_pi = V_pi + P_pi * V[x_next], C_pi + P_pi * C[x_next]
    return V_pi, C_pi


def occupancy(problem: FiniteCMDP, policy: np.ndarray) -> np.ndarray:
    """(H, S, A): the probability of state x and action a at step h. Each step sums to 1.

    >>> pond = es.problems.from_map(["SFG", "FHF"], horizon=4)
    >>> spent = es.planner.occupancy(pond, es.planner.solve(pond).policy)
    >>> spent.shape, round(float(spent[0].sum()), 6)
    ((4, 6, 4), 1.0)
    """
    pi = distribution(problem, policy)
    rho = np.zeros_like(pi)
    here = start_distribution(problem)
    for h in range(problem.horizon):
        rho[h] = here[:, None] * pi[h]
        here = next_states(at_step(problem.P, h), rho[h])
    return rho


def distribution(problem: FiniteCMDP, policy: np.ndarray) -> np.ndarray:
    """A policy in any accepted form as (H, S, A) probabilities.

    >>> pond = es.problems.from_map(["SFG", "FHF"], horizon=4)
    >>> es.planner.distribution(pond, np.full(pond.states, 2))[0, 0]
    array([0., 0., 1., 0.])
    """
    _check(problem)
    H, S, A = problem.horizon, problem.states, problem.actions
    policy = as_array(policy)
    if (
        np.issubdtype(policy.dtype, np.integer)
        and policy.shape in ((S,), (H, S))
        and (policy >= 0).all()
        and (policy < A).all()
    ):
        return np.broadcast_to(np.eye(A)[policy], (H, S, A))
    ok = policy.shape in ((S, A), (H, S, A)) and np.issubdtype(policy.dtype, np.floating)
    if not ok or (policy < 0).any() or not (np.abs(policy.sum(-1) - 1) <= 1e-9).all():
        raise EverystepError(
            f"policy has shape {policy.shape}; give ({H}, {S}) actions or ({H}, {S}, {A}) probabilities that sum to 1."
        )
    return np.broadcast_to(policy, (H, S, A))


def start_distribution(problem: FiniteCMDP) -> np.ndarray:
    """The mean distribution of start states: in a sequence of starts all entries have the same weight.

    >>> es.planner.start_distribution(es.problems.from_map(["SFG", "FHF"], horizon=4))
    array([1., 0., 0., 0., 0., 0.])
    """
    _check(problem)
    if np.issubdtype(problem.start.dtype, np.integer):
        return np.bincount(problem.start, minlength=problem.states) / len(problem.start)
    return np.asarray(problem.start)


def _check(problem: object) -> None:
    check_type("problem", problem, FiniteCMDP, "an es.FiniteCMDP")


def from_start(problem: FiniteCMDP, V: np.ndarray) -> float:
    """E[V(x_1)], of values V (S,).

    >>> pond = es.problems.from_map(["SFG", "FHF"], horizon=4)
    >>> es.planner.from_start(pond, np.arange(6.0))
    0.0
    """
    _check(problem)
    if not isinstance(V, np.ndarray) or V.shape != (problem.states,) or V.dtype.kind not in "biuf":
        raise EverystepError(f"V is {shown(V)}; give an array of {problem.states} values, one for each state.")
    if len(problem.start) == 1 and np.issubdtype(problem.start.dtype, np.integer):
        return float(V[problem.start[0]])
    return float(start_distribution(problem) @ V)
