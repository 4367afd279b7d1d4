"""Random linear CMDPs: few features, many states, and unsafe actions with higher rewards."""

from __future__ import annotations

import math

import numpy as np

from everystep.errors import EverystepError, real_number, seed_number, whole_number
from everystep.mdp.cmdp import Factored, FiniteCMDP, Noise
from everystep.problems.registry import Comparison, register
from everystep.runtime import memory

ATTEMPTS = 1000  # draws of an action's features before the margin counts as too wide


@register(
    "linear",
    gym_id="everystep/Linear-v0",
    compared=Comparison(
        episodes=2000,
        parameters={"states": 100, "horizon": 5},
        settings={"safe_action": "safest"},
        ablation=True,
    ),
)
def linear(
    states: int = 1000,
    actions: int = 5,
    d: int = 10,
    horizon: int = 5,
    margin: float = 0.1,
    seed: int = 0,
    concentration: float = 1.0,
    noise: float = 0.1,
) -> FiniteCMDP:
    """A random linear CMDP: 10 features for 1000 states and 5 actions; unsafe actions tend to have higher rewards.

    States      `states` states without an order.
    Actions     `actions` actions, each a mixture of d factors.
    Features    phi(x, a) ~ Dirichlet over the d factors, so its norm is at most 1 and its entries sum to 1. One action
                of every state, drawn at random, mixes safe factors only. `concentration` is the sum of the Dirichlet's
                parameters: actions are nearly single factors when it is small, and similar when it is large.
    Transitions P(x' | x, a) = sum_i phi_i(x, a) mu_i(x'), with mu_i ~ Dirichlet over the states, all parameters 1 / d.
    Reward      r = <phi, theta_r> in [0, 1]; theta_r is at most 1/2 for safe factors and at least 1/2 for unsafe ones.
    Constraint  g = <phi, theta_g> in [-1, 1]; half of the factors are safe, with theta_g in [-1, -margin], the others
                have theta_g in [margin, 1]. So every state has an action with g <= -margin. Features are drawn again
                until no action has 0 < g < margin: unsafe actions are unsafe by a margin and can be recognised.
    Observed    rewards and costs with normal noise of standard deviation `noise`.
    Start       state 0.
    Optimum     1.6735417681735 under the constraint, 3.5047692182009 without it; 41 % of actions are unsafe (seed 0).
    Origin      made for this library under the assumptions of the paper: a linear MDP and linear costs.

    No array of size S A S is made: with 10,000 states and 200 features an array takes 80 MB.

    >>> problem = es.problems.linear(states=20, actions=3, d=4)
    >>> problem.sizes, problem.features.shape
    (Sizes(states=20, actions=3, successors=20, horizon=5, constraints=1), (20, 3, 4))
    """
    states, actions = whole_number("states", states), whole_number("actions", actions)
    d, horizon = whole_number("d", d, at_least=2), whole_number("horizon", horizon)
    seed = seed_number("seed", seed)
    margin, noise = real_number("margin", margin, 0, 1), real_number("noise", noise, 0, 1e6)
    concentration = real_number("concentration", concentration, 1e-3, 1e6)
    memory.check_problem(
        lambda states, actions, d: 6.0 * states * (actions + 1) * d + 2.0 * d * d, states=states, actions=actions, d=d
    )
    rng = np.random.default_rng(seed)
    safe = rng.permutation(d) < math.ceil(d / 2)
    theta_g = np.where(safe, -1, 1) * rng.uniform(margin, 1, d)
    theta_r = np.where(safe, 0, 0.5) + rng.uniform(0, 0.5, d)
    phi = np.zeros((states, actions, d))
    rejected = np.ones((states, actions), bool)
    for _ in range(ATTEMPTS):
        phi[rejected] = _mixtures(rng, np.full(d, concentration / d), (int(rejected.sum()),))
        rejected = (phi @ theta_g > 0) & (phi @ theta_g < margin)
        if not rejected.any():
            break
    else:
        raise EverystepError(
            f"margin is {margin:g}, which leaves no unsafe actions where concentration is {concentration:g} "
            f"and d is {d}; lower one of them."
        )
    haven = rng.integers(actions, size=states)
    phi[np.arange(states), haven] = _mixtures(rng, concentration / safe.sum() * safe, (states,))
    mu = _mixtures(rng, np.full(states, 1 / d), (d,))
    return FiniteCMDP(
        Factored(phi, mu),
        phi @ theta_r,
        phi @ theta_g,
        start=0,
        horizon=horizon,
        noise=Noise(reward_sigma=noise, cost_sigma=noise),
        name=f"linear-{seed}",
    )


def _mixtures(rng: np.random.Generator, parameters: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Draws (*shape, n) from a Dirichlet distribution as normalised gamma variables; a parameter of 0 gives 0.

    With tiny parameters a whole row may round to 0. It is then one-hot, drawn in proportion to the parameters.
    """
    weights = rng.gamma(parameters, size=(*shape, len(parameters)))
    drawn = rng.choice(len(parameters), shape, p=parameters / parameters.sum())
    empty = weights.sum(-1) == 0
    weights[empty, drawn[empty]] = 1
    shares = weights / weights.sum(-1, keepdims=True)
    return np.asarray(shares / shares.sum(-1, keepdims=True))
