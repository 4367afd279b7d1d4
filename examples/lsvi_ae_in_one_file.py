"""LSVI-AE in one file: Algorithm 1 of Wei, Liu and Ying (AAAI 2024) on the paper's Frozen Lake, in plain NumPy.

    python examples/lsvi_ae_in_one_file.py [--episodes 1000] [--seed 0]

Read it from top to bottom: the problem, the draws, the plan, the episode, the update, the table. Nothing is imported
from the library. `everystep` runs the same algorithm, compiled and with exchangeable parts; the two agree episode by
episode when they share their random draws (tests/test_one_file_example.py).

Symbols: x state, a action, h step, k episode; Q and V values, g the constraint (safe iff g <= 0), Z the price of
estimated violation, [y]_+ = max(y, 0). The features phi(x, a) are one-hot, so Lambda = diag(n + lam), where n(x, a)
counts visits, and ||phi||_{Lambda^-1} = 1 / sqrt(n + lam). Nothing on the lake depends on h, so one estimator serves
all steps; this and the constants below are the library's defaults (docs/sweep.md).
"""

import argparse
from typing import NamedTuple

import numpy as np

H = 15  # steps of an episode
LOW, HIGH = 0.01, 6.0  # the range of rewards: the agent learns from (r - LOW) / (HIGH - LOW), which is in [0, 1]
BETA, LAM = 0.025, 0.003  # width and ridge of the value estimate
BETA_COST, LAM_COST = 0.3, 0.1  # width and ridge of the cost estimate
CAP = float(H)  # Q is clipped at H
TIE = 1e-9  # scores this close to the best one, relative to max(1, |best|), tie

# --- the problem: reach G in H slippery steps and never aim at a hazard ------------------------------------------
LAKE = (
    "SFFFFFFFFF",  # S start, F ice, H hazard, G goal
    "FFFFFFFFFF",
    "HFFFFFFFFF",
    "FFHFFFFFFF",
    "HFFFFHFFFF",
    "FFHFFFHFFF",
    "HFFFFHFFFF",
    "FFHFFFFFFF",
    "HFFFFFFFFF",
    "FFFGFFFFFF",
)
MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))  # left, down, right, up: the four actions


class Problem(NamedTuple):
    P: np.ndarray  # (S, A, S)  probability of the next state
    r: np.ndarray  # (S, A, S)  reward of arriving there
    g: np.ndarray  # (S, A)     constraint: +1 if the action aims at a hazard, else -1
    start: int


def frozen_lake() -> Problem:
    cells = np.array([list(row) for row in LAKE])
    (rows, columns), S, A = cells.shape, cells.size, len(MOVES)
    cells = cells.reshape(-1)
    goal, hazard = cells == "G", cells == "H"
    row, column = np.divmod(np.arange(S), columns)
    target = np.stack(  # (S, A): the cell each action aims at; the edge of the grid stops a move
        [np.clip(row + dy, 0, rows - 1) * columns + np.clip(column + dx, 0, columns - 1) for dy, dx in MOVES], -1
    )
    P = np.zeros((S, A, S))
    for a in range(A):  # 0.9 as intended, 0.05 to each side
        for direction, probability in ((a, 0.9), ((a + 1) % A, 0.05), ((a - 1) % A, 0.05)):
            P[np.arange(S), a, target[:, direction]] += probability
    P[goal] = np.eye(S)[goal][:, None]  # the goal is never left
    r = np.full((S, A, S), LOW)
    r[np.ix_(~goal, range(A), goal)] = HIGH  # paid once, on entering the goal
    g = np.where(hazard[target] & ~goal[:, None], 1.0, -1.0)
    return Problem(P, r, g, int(np.flatnonzero(cells == "S")[0]))


# --- the randomness of an episode ----------------------------------------------------------------------------------
class Draws(NamedTuple):
    transition: np.ndarray  # (H,)       uniform numbers, one per step
    priority: np.ndarray  # (H, S, A)  decides between actions whose scores tie


def draws_of_numpy(seed, S, A):
    """One `Draws` per episode, without end."""
    rng = np.random.default_rng(seed)
    while True:
        yield Draws(rng.random(H), rng.random((H, S, A)))


# --- Algorithm 1 -------------------------------------------------------------------------------------------------
class Memory(NamedTuple):
    """All that the agent has observed, as tables that are updated in place."""

    n: np.ndarray  # (S, A)     visits
    arrivals: np.ndarray  # (S, A, S)  how often each next state followed
    rewards: np.ndarray  # (S, A)     sum of rewards, each in [0, 1]
    costs: np.ndarray  # (S, A)     sum of observed constraint values


def argmax_with_random_ties(score, priority):
    best = score.max(-1, keepdims=True)
    tied = best - score <= TIE * np.maximum(1.0, np.abs(best))
    return np.where(tied, priority, -1).argmax(-1)


def plan(memory, Z, priority):
    """The backward pass: an action for every (h, x)."""
    n, arrivals, rewards, costs = memory
    S = len(n)
    norm2 = 1 / (n + LAM)  #                                       Lambda = sum_tau phi_tau phi_tau^T + lam I     line 5
    # The optimistic cost estimate: theta = Lambda^-1 sum_tau phi_tau g_tau,  ghat = <theta, phi> - beta_cost ||phi||
    ghat = costs / (n + LAM_COST) - BETA_COST / np.sqrt(n + LAM_COST)
    actions = np.zeros((H, S), int)
    V = np.zeros(S)  #                                             V_{H+1} = 0
    for h in reversed(range(H)):
        w = (rewards + arrivals @ V) * norm2  #                    w_h = Lambda^-1 sum phi [r + V_{h+1}(x')]      line 6
        Q = np.minimum(w + BETA * np.sqrt(norm2), CAP)  #          Q_h = min{<w_h, phi> + beta ||phi||, H}        line 7
        score = Q - Z[h] * np.maximum(ghat, 0)  #                  a_x = argmax_a {Q_h - Z_h [ghat]_+}        eq. (11)
        actions[h] = argmax_with_random_ties(score, priority[h])
        V = Q[np.arange(S), actions[h]]  #                         V_h(x) = Q_h(x, a_x): no price inside V        line 9
    return actions


class Episode(NamedTuple):
    states: np.ndarray  # (H,)
    actions: np.ndarray  # (H,)
    returned: float  # sum of observed rewards
    violation: float  # sum over steps of [g]_+
    value: float  # exact expected return of the plan
    Z: np.ndarray  # (H,) the prices it was planned with


def lsvi_ae(problem, episodes, draws, penalty=True):
    """Play `episodes` episodes. With penalty=False the price stays 0, which is LSVI (LSVI-UCB)."""
    P, r, g, start = problem
    S, A = g.shape
    cumulative = P.cumsum(-1)
    memory = Memory(np.zeros((S, A)), np.zeros((S, A, S)), np.zeros((S, A)), np.zeros((S, A)))
    Z = np.full(H, float(penalty))  #                              Z_h^1 = 1
    for k, draw in zip(range(1, episodes + 1), draws, strict=False):
        actions = plan(memory, Z, draw.priority)
        path, violation, returned = [], np.zeros(H), 0.0
        x = start
        for h in range(H):  #                                      act
            a = actions[h, x]
            y = min(int((draw.transition[h] >= cumulative[x, a]).sum()), np.flatnonzero(P[x, a])[-1])
            memory.n[x, a] += 1
            memory.arrivals[x, a, y] += 1
            memory.rewards[x, a] += (r[x, a, y] - LOW) / (HIGH - LOW)
            memory.costs[x, a] += g[x, a]
            path.append((x, a))
            returned += r[x, a, y]
            violation[h] = max(g[x, a], 0.0)
            x = y
        states, taken = np.array(path).T
        yield Episode(states, taken, returned, violation.sum(), exact_value(problem, actions), Z)
        if penalty:
            Z = np.maximum(Z + violation, k)  #                    Z_h^{k+1} = max{Z_h^k + [g_h]_+, k}          eq. (13)


# --- what the true problem knows, for the table --------------------------------------------------------------------
def exact_value(problem, actions):
    """The expected return of a plan: V_h(x) = r(x, a) + sum_y P(y | x, a) V_{h+1}(y)."""
    every = np.arange(len(problem.P))
    V = np.zeros(len(every))
    for h in reversed(range(H)):
        P, r = problem.P[every, actions[h]], problem.r[every, actions[h]]
        V = (P * r).sum(-1) + P @ V
    return V[problem.start]


def optimum(problem, safe):
    """The largest expected return, over actions with g <= 0 only if `safe`."""
    allowed = (problem.g <= 0) | (not safe)
    V = np.zeros(len(problem.P))
    for _ in range(H):
        Q = (problem.P * problem.r).sum(-1) + problem.P @ V
        V = np.where(allowed, Q, -np.inf).max(-1)
    return V[problem.start]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    lake = frozen_lake()
    print(f"safe optimum {optimum(lake, safe=True):.4f}, without the constraint {optimum(lake, safe=False):.4f}\n")
    print(f"{'':20}{'LSVI-AE':^26}{'LSVI':^26}")
    print(f"{'episodes':<20}{'value':>10}{'violations/ep.':>16}{'value':>10}{'violations/ep.':>16}")
    runs = [
        list(lsvi_ae(lake, options.episodes, draws_of_numpy(options.seed, *lake.g.shape), penalty))
        for penalty in (True, False)
    ]
    block = max(options.episodes // 5, 1)
    mean = lambda run, field: np.mean([getattr(episode, field) for episode in run])
    for first in range(0, options.episodes, block):
        parts = [run[first : first + block] for run in runs]
        cells = "".join(f"{mean(part, 'value'):>10.3f}{mean(part, 'violation'):>16.3f}" for part in parts)
        print(f"{f'{first + 1} to {first + len(parts[0])}':<20}{cells}")
    totals = "".join(f"{sum(episode.violation for episode in run):>26.0f}" for run in runs)
    print(f"{'total violations':<20}{totals}")


if __name__ == "__main__":
    main()
