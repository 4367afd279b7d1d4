"""The compressed form of a problem that the algorithms run on, and one step in it.

A `World` holds the arrays of a `FiniteCMDP` with a step axis of length 1 (stationary) or H in front and states last, so
that a planning step is one pass over contiguous numbers. Next states are compressed to the list of states that can
follow each state, so that an expectation over them costs J products instead of S; where actions lead to different
states, to one list for each state and action. Where P is a product of factors (a linear CMDP) both forms keep the
factors, and no array of size S A S is ever made.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from everystep.mdp import successors
from everystep.mdp.cmdp import Factored, FiniteCMDP, Successors

# A function for NumPy and JAX arrays alike types its arrays as Any.
AnyArray = Any

FEW = 9  # axes up to this length are unrolled, one term or row after the other: longer programs compile slowly


class Observed(NamedTuple):
    """What is observed in one step: fields of `World`, in the units that agents learn in (`mdp/units.py`)."""

    r: AnyArray
    g: AnyArray
    reward_seen: AnyArray | None
    cost_seen: AnyArray | None
    reward_sigma: AnyArray | None
    cost_sigma: AnyArray | None


class World(NamedTuple):
    """The compressed form: T is 1 for a stationary quantity and H for one that depends on the step.

    successors  (J, S)        states that can follow each state under some action; None when all S can
                (A, J, S)     or a list for each action, where that is faster
    P           (T, A, J, S)  probability of each successor; or Factored, phi (T, A, d, S) and mu (T, d, S)
    cumulative  (T, A, J, S)  its running sum, above 1 from the last possible successor on; for factors, in the same
                              shapes, the sums before each entry: 0 first, above 1 after the last possible one
    r           (T, A, S)     mean reward
    g           (T, m, A, S)  mean constraint, safe iff <= 0
    reward_seen (T, A, J, S)  the reward observed on arrival; None when the mean itself is observed
    cost_seen   (T, m, A, J, S) the constraint observed on arrival; None when the mean itself is observed
    reward_sigma ()           standard deviation of the normal noise on observed rewards; None for no noise
    cost_sigma  (m,)          the same for observed constraints
    start       (L,)          integers: the start of episode k is start[(k - 1) % L]; floats: a running sum
    units                     what the agent observes, in the units it learns in; None where those are the same
    """

    successors: AnyArray | None
    P: AnyArray | Factored
    cumulative: AnyArray | Factored
    r: AnyArray
    g: AnyArray
    reward_seen: AnyArray | None
    cost_seen: AnyArray | None
    reward_sigma: AnyArray | None
    cost_sigma: AnyArray | None
    start: AnyArray
    units: Observed | None = None


class Sizes(NamedTuple):
    """The numbers that determine every shape."""

    states: int
    actions: int
    successors: int
    horizon: int
    constraints: int


class StepOutcome(NamedTuple):
    """The result of one step: `reward`, `cost` and its true mean `g`; and what the agent learns from, in its units."""

    slot: AnyArray
    x_next: AnyArray
    reward: AnyArray
    cost: AnyArray
    g: AnyArray
    learnt_reward: AnyArray
    learnt_cost: AnyArray


# --- one step -----------------------------------------------------------------------------------------------------
def start_state(world: World, k: AnyArray, u: AnyArray) -> AnyArray:
    """x_1^k, for episode k counted from 1 and a uniform draw u."""
    if np.issubdtype(world.start.dtype, np.integer):
        return world.start[(k - 1) % world.start.shape[0]]
    return (u >= world.start).sum(dtype=np.int32)


def step(
    world: World, h: AnyArray, x: AnyArray, a: AnyArray, u: AnyArray, reward_noise: AnyArray, cost_noise: AnyArray
) -> StepOutcome:
    """One step from (x, a) with a uniform draw u and standard normal draws; for NumPy and JAX arrays."""
    if isinstance(world.cumulative, Factored):
        slot = _drawn_by_factors(at_step(world.P, h), at_step(world.cumulative, h), x, a, u)
    else:
        slot = (u >= at_step(world.cumulative, h)[a, :-1, x]).sum(dtype=np.int32)
    x_next = slot if world.successors is None else state_at(world.successors, a, slot, x)
    draws = (h, x, a, slot, reward_noise, cost_noise)
    reward, cost = observe(world, *draws)
    learnt = (reward, cost) if world.units is None else observe(world.units, *draws)
    return StepOutcome(slot, x_next, reward, cost, at_step(world.g, h)[:, a, x], *learnt)


def observe(
    of: World | Observed,
    h: AnyArray,
    x: AnyArray,
    a: AnyArray,
    slot: AnyArray,
    reward_noise: AnyArray,
    cost_noise: AnyArray,
) -> tuple[AnyArray, AnyArray]:
    """The reward and the costs (m,) of one step that leads to a successor, with noise; for NumPy and JAX arrays."""
    reward = at_step(of.r, h)[a, x] if of.reward_seen is None else at_step(of.reward_seen, h)[a, slot, x]
    cost = at_step(of.g, h)[:, a, x] if of.cost_seen is None else at_step(of.cost_seen, h)[:, a, slot, x]
    if of.reward_sigma is not None:
        reward = reward + of.reward_sigma * reward_noise
    if of.cost_sigma is not None:
        cost = cost + of.cost_sigma * cost_noise
    return reward, cost


def state_at(successors: AnyArray, a: AnyArray, slot: AnyArray, x: AnyArray) -> AnyArray:
    """The state in one place of the list of (x, a)."""
    return successors[slot, x] if successors.ndim == 2 else successors[a, slot, x]


def _drawn_by_factors(P: Factored, before: Factored, x: AnyArray, a: AnyArray, u: AnyArray) -> AnyArray:
    """x' ~ sum_i phi_i(x, a) mu_i from one uniform u: i ~ phi(x, a), and the remainder of u draws x' ~ mu_i.

    Given i, (u - sum_{j<i} phi_j) / phi_i is uniform again: exact, in O(d + log S).
    """
    i = (u >= before.phi[a, 1:, x]).sum(dtype=np.int32)
    remainder = (u - before.phi[a, i, x]) / P.phi[a, i, x]
    return before.mu[i].searchsorted(remainder, side="right").astype(np.int32) - 1


# --- expectations -------------------------------------------------------------------------------------------------
def at_step(array: AnyArray, h: AnyArray) -> AnyArray:
    """The slice of step h of an array whose leading axis is 1 (stationary) or H; for transitions, of their arrays."""
    if isinstance(array, Factored):
        return Factored(at_step(array.phi, h), at_step(array.mu, h))
    if isinstance(array, Successors):
        return Successors(array.states, at_step(array.probabilities, h))
    return array[0] if array.shape[0] == 1 else array[h]


def expected(P: AnyArray, successors: AnyArray | None, V: AnyArray) -> AnyArray:
    """[P V](a, x) = sum_j P(a, j, x) V(successors(j, x)), for one step: P is (A, J, S), V is (S,).

    With factors: sum_i phi_i(a, x) <mu_i, V>, which is d (A + 1) S products instead of A S S.
    """
    if isinstance(P, Factored):
        return (P.mu @ V) @ P.phi
    if successors is None:
        return V @ P
    V_after = V[successors]
    return over_successors(P * (V_after if successors.ndim == 3 else V_after[None]))


def over_successors(array: AnyArray) -> AnyArray:
    """The sum over the axis of successors, the last but one.

    A sum of a few terms is unrolled: the compiler vectorises it, but not a reduction over a short axis. Twice as fast.
    """
    J = array.shape[-2]
    return sum(array[..., j, :] for j in range(J)) if J <= FEW else array.sum(-2)


def weighted(P: AnyArray, V_after: AnyArray) -> AnyArray:
    """sum_j P(j, x) V_after(j, x), the expectation for one action, with V looked up at the successors."""
    return sum(P[j] * V_after[j] for j in range(len(P))) if len(P) <= FEW else (P * V_after).sum(0)


def next_states(P: Successors | Factored, rho: np.ndarray) -> np.ndarray:
    """sum_{x, a} rho(x, a) P(x' | x, a), where weights on (x, a) lead; for one step of a problem's P, in NumPy."""
    if isinstance(P, Factored):
        return np.asarray(np.einsum("xa,xad->d", rho, P.phi) @ P.mu)
    weights = rho[..., None] * P.probabilities
    return np.bincount(P.states.reshape(-1), weights.reshape(-1), minlength=len(rho))


def can_follow(P: Successors | Factored, here: np.ndarray) -> np.ndarray:
    """The states that some action may reach from the states `here`, booleans (S,); for one step, in NumPy."""
    if isinstance(P, Factored):
        return np.asarray((P.mu[(P.phi[here] > 0).any((0, 1))] > 0).any(0))
    follows = np.zeros(len(here), bool)
    follows[P.states[here][P.probabilities[here] > 0]] = True
    return follows


# --- compression --------------------------------------------------------------------------------------------------
def compress(problem: FiniteCMDP) -> World:
    """A problem as a `World` of NumPy arrays."""
    compressed = _of_factors(problem.P) if isinstance(problem.P, Factored) else _of_lists(problem, problem.P)
    noise = problem.noise
    cost_sigma = np.broadcast_to(np.asarray(noise.cost_sigma, float), (problem.constraints,)).copy()
    return World(
        **compressed,
        r=np.ascontiguousarray(problem.r.swapaxes(-1, -2)),
        g=np.ascontiguousarray(np.moveaxis(problem.g, 0, 1).swapaxes(-1, -2)),
        reward_sigma=np.float64(noise.reward_sigma) if noise.reward_sigma else None,
        cost_sigma=cost_sigma if cost_sigma.any() else None,
        start=_cumulative_start(problem.start),
    )


def _cumulative_start(start: np.ndarray) -> np.ndarray:
    """A sequence of states as it is; a distribution as its running sum without the last entry."""
    if np.issubdtype(start.dtype, np.integer):
        return start
    if len(start) == 1:
        return np.zeros(1, np.int32)
    return np.where(np.arange(len(start)) >= np.flatnonzero(start)[-1], 2.0, np.cumsum(start))[:-1]


LOOK_UP = 4  # what one look-up of V takes, in products


def separate_is_faster(actions: int, joined: int, each: int) -> bool:
    """Whether a list for each action takes less time, by the lengths of the joined lists and of those of actions."""
    return (1 + LOOK_UP) * actions * each < (actions + LOOK_UP) * joined


def _of_lists(problem: FiniteCMDP, P: Successors) -> dict[str, Any]:
    """The lists of all actions joined into one for each state, V looked up once for all actions; or a list for each.

    A planning step takes J look-ups and A J products with the joined lists, and A J of both with a list for each
    action, where J is smaller: 9 times where each of 9 actions leads to another state. Features of triples have one
    place for each state that can follow x, so they need the joined lists.
    """
    follow, at = successors.by_state(P)
    S, A, J = problem.states, problem.actions, follow.shape[1]
    if problem.known.triples is None and J < S and separate_is_faster(A, J, P.states.shape[-1]):
        return _of_separate_lists(problem, P)
    if J == S:
        at = P.states
    x, a = np.ogrid[:S, :A]
    possible = (P.probabilities != 0).any(0)

    def joined(listed: np.ndarray) -> np.ndarray:
        """(..., S, A, J) by the lists of (x, a), as (..., A, J, S) by those of x."""
        full = np.zeros((*listed.shape[:-3], A, J, S))
        for j in range(listed.shape[-1]):
            place = (..., a, at[..., j], x)
            full[place] = np.where(possible[..., j], listed[..., j], full[place])
        return full

    table, (reward_seen, cost_seen) = joined(P.probabilities), (problem.reward_on_arrival, problem.cost_on_arrival)
    later = np.arange(J)[:, None] >= _last_possible(np.moveaxis(table, -1, -2))[..., None, :]
    return {
        "successors": None if J == S else np.ascontiguousarray(follow.T),
        "P": table,
        "cumulative": np.where(later, 2.0, np.cumsum(table, -2)),
        "reward_seen": None if reward_seen is None else joined(reward_seen),
        "cost_seen": None if cost_seen is None else np.moveaxis(joined(cost_seen), 0, 1),
    }


def _of_separate_lists(problem: FiniteCMDP, P: Successors) -> dict[str, Any]:
    """The lists as they are, one for each (x, a)."""
    reward_seen, cost_seen = problem.reward_on_arrival, problem.cost_on_arrival
    later = np.arange(P.states.shape[-1]) >= _last_possible(P.probabilities)[..., None]
    return {
        "successors": _states_last(P.states),
        "P": _states_last(P.probabilities),
        "cumulative": _states_last(np.where(later, 2.0, np.cumsum(P.probabilities, -1))),
        "reward_seen": None if reward_seen is None else _states_last(reward_seen),
        "cost_seen": None if cost_seen is None else np.moveaxis(_states_last(cost_seen), 0, 1),
    }


def _of_factors(P: Factored) -> dict[str, Any]:
    return {
        "successors": None,
        "P": Factored(_states_last(P.phi), P.mu),
        "cumulative": Factored(_states_last(_sums_before(P.phi)), _sums_before(P.mu)),
        "reward_seen": None,
        "cost_seen": None,
    }


def _states_last(array: np.ndarray) -> np.ndarray:
    """(..., S, A, J) to (..., A, J, S)."""
    return np.ascontiguousarray(np.moveaxis(array, -3, -1))


def _last_possible(P: np.ndarray) -> np.ndarray:
    """The last index of the last axis where P > 0."""
    return np.asarray(P.shape[-1] - 1 - (P > 0)[..., ::-1].argmax(-1))


def _sums_before(P: np.ndarray) -> np.ndarray:
    """sum_{j < i} P_j at each i of the last axis, above 1 after the last possible one."""
    before = np.concatenate([np.zeros_like(P[..., :1]), np.cumsum(P, -1)[..., :-1]], -1)
    return np.where(np.arange(P.shape[-1]) > _last_possible(P)[..., None], 2.0, before)
