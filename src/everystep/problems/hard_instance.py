"""The instance of the paper's lower bound (Theorem 2): a chain whose best action is barely better than the others."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from everystep.errors import EverystepError, as_array, quoted, seed_number, whole_number
from everystep.mdp.cmdp import FiniteCMDP
from everystep.problems.registry import Comparison, register
from everystep.runtime import memory

MOST_D = 12  # 2 ** 11 actions


@register(
    "hard-instance",
    gym_id="everystep/HardInstance-v0",
    compared=Comparison(episodes=4096, settings={"safe_action": "safest"}),
)
def hard_instance(
    d: int = 4, horizon: int = 3, episodes: int = 2**12, u: ArrayLike | None = None, seed: int = 0
) -> FiniteCMDP:
    """The chain of the paper's lower bound: one of 8 actions is safe, and it is also the best by a small margin.

    States      x_1, ..., x_{H+2}. At step h an episode is at x_h or at x_{H+2}.
    Actions     {-1, 1}^{d-1}.
    Transitions from x_h to x_{H+2} with probability delta + <u_h, a>, otherwise to x_{h+1}; x_{H+2} is absorbing.
                delta = 1 / H, u_h in {-D, D}^{d-1}, D = sqrt(delta / K) / (4 sqrt 2): longer runs are harder.
    Reward      1 at x_{H+2}.
    Constraint  g = 1 at x_1, ..., x_H, except 0 for the action that agrees with u_h in all signs; 0 at other states.
    Features    phi = (alpha, beta a, 0) at x_1, ..., x_{H+1} and (0, 0, 1) at x_{H+2}, of size d + 1 and norm 1, with
                alpha^2 = 1 / (1 + D (d - 1)), beta^2 = D / (1 + D (d - 1)); P_h(x' | x, a) = <phi(x, a), mu_h(x')>.
                The constraint is an indicator and not linear in the features: `cost=auto` counts.
    Parameters  `episodes` is K, which determines D: run as many. `u`: signs (H, d - 1); the default is drawn by `seed`.
    Start       x_1.
    Optimum     sum_h q (1 - q)^{h-1} (H - h) with q = delta + D (d - 1), with and without the constraint;
                0.9000290398977 by default.
    Origin      Theorem 2 and its appendix in Wei, Liu and Ying (AAAI 2024), after Zhou, Gu and Szepesvari (2021).

    Departures from the paper, where it contradicts itself: mu_h puts its mass on x_{h+1}, not on x_{H+1}, and alpha has
    d - 1 in it, not d + 1; otherwise neither P = <phi, mu> nor ||phi|| = 1 would hold. Rows of P that no episode meets
    follow from the product: at step h all of x_1, ..., x_{H+1} behave like x_h.

    Hidden costs: on this instance the bound is about agents that observe rewards only. `lsvi` is one: it never reads
    costs. For agents that observe costs other instances have such bounds, with noisy costs stronger: docs/paper.md.

    >>> es.problems.hard_instance(d=4, horizon=3).sizes
    Sizes(states=5, actions=8, successors=4, horizon=3, constraints=1)
    """
    d, H = whole_number("d", d, at_least=2), whole_number("horizon", horizon, at_least=2)
    if d > MOST_D:
        raise EverystepError(f"d is {d}, which makes 2^{d - 1} actions; give {MOST_D} at most.")
    memory.check_problem(lambda horizon, d: horizon * memory.of_table(horizon + 2, 2 ** (d - 1)), horizon=H, d=d)
    K = whole_number("episodes", episodes)
    least = math.ceil((d - 1) ** 2 * H / 2)
    if least > K:
        raise EverystepError(f"episodes is {K}; Theorem 2 requires at least (d - 1)^2 H / 2: give {least} or more.")
    signs = _signs(u, (H, d - 1), seed_number("seed", seed))

    delta = 1 / H
    D = math.sqrt(delta / K) / (4 * math.sqrt(2))
    actions = np.array(list(product((-1.0, 1.0), repeat=d - 1)))
    S, A = H + 2, len(actions)
    goal = S - 1

    alpha, beta = math.sqrt(1 / (1 + D * (d - 1))), math.sqrt(D / (1 + D * (d - 1)))
    phi = np.zeros((S, A, d + 1))
    phi[:goal] = np.concatenate([np.full((A, 1), alpha), beta * actions, np.zeros((A, 1))], -1)
    phi[goal, :, -1] = 1

    P, g = np.zeros((H, S, A, S)), np.zeros((H, S, A))
    for h in range(H):
        chance = delta + D * actions @ signs[h]
        P[h, :goal, :, goal], P[h, :goal, :, h + 1] = chance, 1 - chance
        P[h, goal, :, goal] = 1
        g[h, :H] = (actions != signs[h]).any(-1)
    r = np.zeros((S, A))
    r[goal] = 1
    return FiniteCMDP(
        P,
        r,
        g,
        start=0,
        horizon=H,
        features=phi,
        name="hard-instance",
        state_names=tuple(f"x_{i + 1}" for i in range(S)),
        action_names=tuple("".join("-+"[int(sign > 0)] for sign in a) for a in actions),
        linear_costs=False,
    )


def _signs(u: ArrayLike | None, shape: tuple[int, int], seed: int) -> np.ndarray:
    """The signs of u_1, ..., u_H: given or drawn."""
    if u is None:
        return np.random.default_rng(seed).choice([-1.0, 1.0], shape)
    signs = as_array(u)
    signs = signs.astype(float) if signs.dtype.kind in "iuf" else np.empty(0)
    if signs.shape != shape or (np.abs(signs) != 1).any():
        raise EverystepError(f"u is {quoted(u)}; give signs, 1 or -1, of shape {shape}: (horizon, d - 1).")
    return signs
