"""The reference: LSVI-AE on the lake as a hand-written loop in Numba, with which `lake.py` compares everystep.

What is compared. `run` does in one compiled function what `everystep.lsvi.loop.scan` does with the agent lsvi-ae (count
models shared over steps, tuned radii, the floor k): the estimates of every (x, a), the plan of every (h, x, a) with
ties broken by the same hashed priorities, the exact value and expected violation of that policy from every state, the
episode, the update, and every recorded number.

How. It is a careful implementation of this one agent: one constraint, no noise on top of the arrival, one start, tables
laid out so that the inner loop runs over neighbouring states, priorities only where there is a tie. It is compiled
twice from one source: `run` for the paper's lake alone, whose four actions and four successors are constants that
unroll, and `run_any`, which reads those numbers from the tables and runs any lake. It lacks everystep's generality: any
problem, any part. `check` passes everystep's own draws to both and requires the same episodes.

Only ratios within one run are meaningful; absolute speeds depend on the machine.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

A = J = 4  # actions and successors of the lake, known when this is compiled
COLUMNS = ("return", "value", "expected_violation", "violation", "unsafe_steps", "soft_violation")
LONE = np.full(1 << A, -1)  # the action when only one is best, from the set of the best as bits
LONE[[1 << a for a in range(A)]] = range(A)
GOLDEN, MIX_1, MIX_2 = np.uint32(0x9E3779B9), np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)
ODD = (np.random.default_rng(1).integers(0, 2**31, A) * 2 + 1).astype(np.uint32)
NAME_BITS = np.uint32((1 << A.bit_length()) - 1)


class Lake(NamedTuple):
    """The problem as the loop reads it: x is a state, j one of its successors."""

    successors: np.ndarray  # (S, J)
    P: np.ndarray  # (S, A, J)
    cumulative: np.ndarray  # (S, A, J)
    means: np.ndarray  # (S, A, 2): r, max(g, 0)
    reward_seen: np.ndarray  # (S, A, J)
    reward_learnt: np.ndarray  # (S, A, J), in units of the range of rewards
    g: np.ndarray  # (S, A)
    start: int
    horizon: int


class Knobs(NamedTuple):
    """The settings of the agent."""

    beta: float
    lam: float
    beta_cost: float
    lam_cost: float
    cap: float


def lake(problem) -> Lake:
    """The tables of a problem of this shape."""
    world = problem.world
    fits = problem.sizes[1:3] == (A, J) and problem.constraints == 1 and problem.stationary and len(world.start) == 1
    if not fits or world.reward_seen is None or world.cost_seen is not None:
        raise ValueError("the yardstick is cut for the paper's lake")
    states_first = lambda array: np.ascontiguousarray(np.moveaxis(array, -1, 0))
    means = np.stack([world.r[0].T, np.maximum(world.g[0, 0].T, 0)], -1)
    listed = (states_first(array[0]) for array in (world.P, world.cumulative))
    seen, g = states_first(world.reward_seen[0]), states_first(world.g[0, 0])
    learnt = seen if world.units is None else states_first(world.units.reward_seen[0])
    successors = states_first(world.successors).astype(np.int64)
    return Lake(successors, *listed, means, seen, learnt, g, int(world.start[0]), problem.horizon)


@njit(inline="always")
def mix(x):
    """The finaliser of MurmurHash3, as in everystep.parts.choices; Numba widens products, so each is cut back."""
    x = np.uint32((x ^ (x >> np.uint32(16))) * MIX_1)
    x = np.uint32((x ^ (x >> np.uint32(13))) * MIX_2)
    return x ^ (x >> np.uint32(16))


@njit(inline="always")
def break_tie(best, counter, word, A):
    """Of the actions in the bits of `best`, the one whose priority is highest."""
    chosen, highest = 0, np.uint32(0)
    tie = mix(np.uint32(np.uint32(counter) * GOLDEN + word))
    for a in range(A):
        if best >> a & 1:
            priority = np.uint32(np.uint32(tie * ODD[a]) & ~NAME_BITS) | np.uint32(a + 1)
            if priority > highest:
                chosen, highest = a, priority
    return chosen


def compiled(actions: int | None, successors: int | None):
    """The loop, with the numbers of actions and successors known to its compiler, or read off the tables."""

    @njit(error_model="numpy", fastmath={"contract"})  # multiply-adds may fuse, as XLA's do; nothing is reordered
    def run(lake, knobs, u, words):
        """All episodes of one seed from given draws: the columns (K, 6), and how often each state was visited."""
        succ, P, cumulative, means, reward_seen, reward_learnt, g, start, H = lake
        beta, lam, beta_cost, lam_cost, cap = knobs
        S, K = len(succ), len(words)
        A = P.shape[1] if actions is None else actions
        J = P.shape[2] if successors is None else successors
        succ_T = succ.T.copy()
        N, rewards, visits, costs = np.zeros((A, J, S)), np.zeros((A, S)), np.zeros((A, S)), np.zeros((A, S))
        price, seen = np.ones(H), np.zeros(S, np.int64)
        P_hat, optimistic_reward, harm = np.empty((A, J, S)), np.empty((A, S)), np.empty((A, S))
        V, V_next, Q, score = np.empty(S), np.empty((J, S)), np.empty((A, S)), np.empty((A, S))
        exact, exact_next = np.empty((S, 2)), np.empty((S, 2))  # value and expected violation, side by side
        best, policy, book = np.empty(S, np.int64), np.empty((H, S), np.int64), np.empty((K, 6))
        for k in range(K):
            word = words[k]
            for a in range(A):
                for x in range(S):
                    n = 0.0
                    for j in range(J):
                        n += N[a, j, x]
                    norm2 = 1 / (n + lam)
                    for j in range(J):
                        P_hat[a, j, x] = N[a, j, x] * norm2
                    optimistic_reward[a, x] = rewards[a, x] * norm2 + beta * np.sqrt(norm2)
                    norm2 = 1 / (visits[a, x] + lam_cost)
                    harm[a, x] = max(costs[a, x] * norm2 - beta_cost * np.sqrt(norm2), 0.0)

            V[:] = 0
            exact_next[:] = 0
            for h in range(H - 1, -1, -1):
                pi, Z = policy[h], price[h]
                for j in range(J):
                    for x in range(S):
                        V_next[j, x] = V[succ_T[j, x]]
                for a in range(A):
                    for x in range(S):
                        q = optimistic_reward[a, x]
                        for j in range(J):
                            q += P_hat[a, j, x] * V_next[j, x]
                        Q[a, x] = min(q, cap)
                        score[a, x] = Q[a, x] - Z * harm[a, x]
                for x in range(S):
                    top = score[0, x]
                    for a in range(1, A):
                        top = max(top, score[a, x])
                    level = top - 1e-9 * max(abs(top), 1.0)
                    best[x] = 0
                    for a in range(A):
                        best[x] += (score[a, x] >= level) << a
                for x in range(S):
                    a = LONE[best[x]]
                    pi[x] = a if a >= 0 else break_tie(best[x], h * S + x, word, A)
                for x in range(S):
                    V[x] = Q[pi[x], x]
                for x in range(S):
                    a = pi[x]
                    v, c = means[x, a, 0], means[x, a, 1]
                    for j in range(J):
                        v += P[x, a, j] * exact_next[succ[x, j], 0]
                        c += P[x, a, j] * exact_next[succ[x, j], 1]
                    exact[x, 0], exact[x, 1] = v, c
                exact, exact_next = exact_next, exact

            x = start
            earned, violation, unsafe_steps, soft_violation = 0.0, 0.0, 0, 0.0
            for h in range(H):
                a, j = policy[h, x], 0
                while j < J - 1 and u[k, h] >= cumulative[x, a, j]:
                    j += 1
                reward, cost = reward_seen[x, a, j], g[x, a]
                N[a, j, x] += 1
                rewards[a, x] += reward_learnt[x, a, j]
                visits[a, x] += 1
                costs[a, x] += cost
                seen[x] += 1
                price[h] = max(price[h] + max(cost, 0.0), k + 1.0)
                earned += reward
                violation += max(cost, 0.0)
                unsafe_steps += cost > 0
                soft_violation += cost
                x = succ[x, j]
            book[k, 0], book[k, 1], book[k, 2] = earned, exact_next[start, 0], exact_next[start, 1]
            book[k, 3], book[k, 4], book[k, 5] = violation, unsafe_steps, soft_violation
        return book, seen

    return run


run = compiled(A, J)
run_any = compiled(None, None)


def run_seeds(lake: Lake, knobs: Knobs, seeds: int, episodes: int, loop=run) -> list[tuple[np.ndarray, np.ndarray]]:
    """Seeds one after another, each with draws of its own from NumPy: what is timed."""
    books = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        u, words = rng.random((episodes, lake.horizon)), rng.integers(0, 1 << 32, episodes, np.uint32)
        books.append(loop(lake, knobs, u, words))
    return books


def check(problem, knobs: Knobs, seeds=(0, 1, 2), episodes: int = 500) -> float:
    """Give the loop everystep's draws and require everystep's episodes; the largest difference of any number."""
    import everystep as es

    result = es.run(problem, "lsvi-ae", episodes=episodes, seeds=seeds)
    largest = 0.0
    for i, seed in enumerate(seeds):
        drawn = draws_of_everystep(problem, seed, episodes)
        book, seen = run(lake(problem), knobs, *drawn)
        np.testing.assert_array_equal(book, run_any(lake(problem), knobs, *drawn)[0])
        for column, name in enumerate(COLUMNS):
            expected = result.columns["lsvi-ae"][name][i]
            np.testing.assert_allclose(book[:, column], expected, rtol=0, atol=1e-9, err_msg=f"{name}, seed {seed}")
            largest = max(largest, float(np.abs(book[:, column] - expected).max()))
        np.testing.assert_array_equal(seen, result.visits["lsvi-ae_end"][i])
    return largest


def draws_of_everystep(problem, seed: int, episodes: int) -> tuple[np.ndarray, np.ndarray]:
    """(K, H) uniforms of the transitions and (K,) words of the ties that everystep uses for a seed."""
    import jax
    import jax.numpy as jnp

    from everystep.lsvi import loop

    with jax.enable_x64(True):
        world = jax.tree.map(jnp.asarray, problem.world)
        one = lambda k: loop.draws(world, problem.sizes, jnp.uint32(seed), k)
        drawn = jax.jit(jax.vmap(one))(jnp.arange(1, episodes + 1, dtype=jnp.int32))
    return np.asarray(drawn.transition), np.asarray(drawn.tie_word)
