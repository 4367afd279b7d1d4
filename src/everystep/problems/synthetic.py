"""A problem that is both a linear MDP and a linear mixture, for agents that require a known safe action."""

from __future__ import annotations

import numpy as np

from everystep.errors import EverystepError, real_number, seed_number, whole_number
from everystep.mdp.cmdp import FiniteCMDP, Known, Noise
from everystep.problems.registry import Comparison, register
from everystep.runtime import memory

TAU = 0.5  # the threshold on costs
SAFE_COSTS = 0.2, 0.3  # of the known safe actions
LEAST_COST, MOST_COST = 0.05, 1.0  # of the safest and of the most dangerous class of risk
CLEAR = 0.02  # no cost lies closer to the threshold than this
DANGEROUS, HARMLESS = 0.7, 0.45  # lower bound on costs where a state's first direction ends; upper, its second
ATTEMPTS = 10_000
DRAWS = 50_000  # of a distribution over factors with a cost in a range; with d = 30 one in thousands fits


@register("synthetic", gym_id="everystep/Synthetic-v0", compared=Comparison(episodes=10_000))
def synthetic(
    d: int = 5,
    horizon: int = 3,
    seed: int = 0,
    states: int = 8,
    directions: int = 4,
    levels: int = 5,
    noise: float = 0.01,
) -> FiniteCMDP:
    """Steps away from a known safe action in 8 states: both a linear MDP and a linear mixture, with d = 5.

    States      `states` states without an order.
    Actions     0 is a0, known to be safe. The others are (direction j, level alpha) with alpha = 1/levels, ..., 1: a
                fraction alpha of the way from a0 to the end of direction j. So actions form a grid in a star-convex
                set.
    Features    phi(x, a) is a distribution over d factors, phi(x, (j, alpha)) = (1 - alpha) phi(x, a0) + alpha phi_j(x)
    Transitions a mixture of two known kernels P_n(x' | x, a) = sum_i phi_i(x, a) B_n(i, x') with unknown weights:
                w_1 P_1 + w_2 P_2. So P = <phi(x, a), mu(x')> with mu = w_1 B_1 + w_2 B_2: a linear MDP.
    Reward      r = <phi, theta_r> in [0, 1]; more dangerous factors have higher rewards, up to a jitter of 0.1.
    Constraint  psi(x, a) = M phi(x, a) is a distribution over d - 2 classes of risk with costs gamma from 0.05 to 1:
                c = <gamma, psi>, g = c - 0.5. c(x, a0) is in [0.2, 0.3]. In every state one direction ends at a cost
                of at least 0.7 and one at a cost of at most 0.45. No cost lies within 0.02 of the threshold.
    Triples     phi(x, a, x') = scale [P_1(x' | x, a), P_2(x' | x, a), psi(x, a)] of size d with norms at most 1. So
                P = <(w, 0) / scale, phi(x, a, x')> and c = <(0, gamma) / scale, phi(x, a, x')>: a linear mixture.
    Observed    costs with normal noise of standard deviation `noise`; rewards without noise.
    Start       state 0.
    Known       the threshold 0.5, a0 and its costs, the triples.
    Optimum     1.3927642593879 under the constraint, 2.2015423675755 without it, 0.9037172482434 for a0 at every
                step; 23 % of actions are unsafe (seed 0).
    Origin      the papers of SLUCB-QVI (Amani, Thrampoulidis and Yang, 2021) and LSVI-NEW (Shi, Liang and Shroff, 2023)
                report results on a synthetic problem with d = 5, H = 3, threshold 0.5 and noise 0.01, but do not print
                it. This one was made for this library and meets the assumptions of both. The features of a0 in all
                states span all features, so that costs can be learnt from a0 alone, as LSVI-NEW assumes.

    >>> problem = es.problems.synthetic()
    >>> problem.sizes, round(es.planner.solve(problem).value, 4)
    (Sizes(states=8, actions=21, successors=8, horizon=3, constraints=1), 1.3928)
    """
    d, horizon, states = (
        whole_number("d", d, at_least=4),
        whole_number("horizon", horizon),
        whole_number("states", states),
    )
    directions, levels = whole_number("directions", directions, at_least=2), whole_number("levels", levels)
    rng = np.random.default_rng(seed_number("seed", seed))
    noise = real_number("noise", noise, 0, 1e6)
    memory.check_problem(
        lambda states, directions, levels, d: (
            memory.of_table(states, 1 + directions * levels) * (1 + d / 2)
            + 4.0 * states * directions * levels * d
            + 4.0 * d**2
        ),
        **{"states": states, "directions": directions, "levels": levels, "d": d},
    )

    M = _risk_classes(d)
    gamma = np.linspace(LEAST_COST, MOST_COST, d - 2)
    danger = np.linspace(0, 1, d)
    theta_r = 0.15 + 0.75 * danger + rng.uniform(-0.1, 0.1, d)
    costs = gamma @ M
    alpha = np.arange(1, levels + 1) / levels

    home = np.stack([_drawn(rng, costs, *SAFE_COSTS) for _ in range(states)])
    phi = np.zeros((states, 1 + directions * levels, d))
    for x in range(states):
        ranges = [(DANGEROUS, MOST_COST), (0.0, HARMLESS), *[(0.0, MOST_COST)] * (directions - 2)]
        ends = np.stack([_end(rng, costs, home[x], alpha, *bounds) for bounds in ranges])
        steps = (1 - alpha)[:, None] * home[x] + alpha[:, None] * ends[:, None, :]
        phi[x] = np.concatenate([home[x : x + 1], steps.reshape(-1, d)])

    B = rng.dirichlet(np.ones(states), size=(2, d))
    w = rng.dirichlet(np.full(2, 5.0))
    bases = np.einsum("xai,niy->nxay", phi, B)
    psi = phi @ M.T
    triples = np.concatenate(
        [np.moveaxis(bases, 0, -1), np.broadcast_to(psi[:, :, None], (*bases.shape[1:], d - 2))], -1
    )
    return FiniteCMDP(
        phi @ np.tensordot(w, B, 1),
        phi @ theta_r,
        psi @ gamma - TAU,
        start=0,
        horizon=horizon,
        noise=Noise(cost_sigma=noise),
        features=phi,
        name=f"synthetic-{seed}",
        action_names=("a0", *(f"direction {j} at {level:g}" for j in range(directions) for level in alpha)),
        known=Known(TAU, np.zeros(states, np.int64), triples / np.linalg.norm(triples, axis=-1).max()),
    )


def _risk_classes(d: int) -> np.ndarray:
    """M (d - 2, d): factors lie evenly between the safest class and the most dangerous; each mixes its neighbours."""
    place = np.linspace(0, d - 3, d)
    return np.asarray(np.maximum(0, 1 - np.abs(place - np.arange(d - 2)[:, None])))


def _drawn(rng: np.random.Generator, costs: np.ndarray, least: float, most: float) -> np.ndarray:
    """A distribution over factors whose cost lies between `least` and `most`."""
    for _ in range(DRAWS):
        phi = rng.dirichlet(np.full(len(costs), 0.6))
        if least <= phi @ costs <= most:
            return phi
    raise EverystepError(f"d is {len(costs)}, too many factors for costs that differ; give 30 or fewer.")


def _end(
    rng: np.random.Generator, costs: np.ndarray, home: np.ndarray, alpha: np.ndarray, least: float, most: float
) -> np.ndarray:
    """The end of a direction: as `_drawn`, with all costs on the way away from the threshold."""
    for _ in range(ATTEMPTS):
        phi = _drawn(rng, costs, least, most)
        on_the_way = (1 - alpha) * (home @ costs) + alpha * (phi @ costs)
        if np.abs(on_the_way - TAU).min() >= CLEAR:
            return phi
    raise EverystepError(f"levels is {len(alpha)}, too many to keep all costs away from the threshold; give fewer.")
