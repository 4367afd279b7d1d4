"""A random linear CMDP with a known safe action."""

import numpy as np

from everystep.mdp.cmdp import Factored, FiniteCMDP, Known, Noise

LEVELS = (0.1, 0.2, 0.4, 0.7, 1.0)


def star(seed=0, states=8, d=5, horizon=3, directions=3, known=None) -> FiniteCMDP:
    """A random linear CMDP whose actions lie on rays from a safe one: phi = (1 - level) phi(x, a0) + level phi_j(x).

    Factors that pay more cost more; tau = 0.5, and half of the rays end in an unsafe action.
    """
    rng = np.random.default_rng(seed)
    cost = np.linspace(0.1, 0.9, d)
    pay = np.clip(cost + rng.uniform(-0.1, 0.1, d), 0, 1)
    safe = rng.dirichlet(np.linspace(4, 0.2, d), size=states)
    ends = rng.dirichlet(np.full(d, 0.5), size=(states, directions))
    rays = [(1 - level) * safe + level * ends[:, j] for j in range(directions) for level in LEVELS]
    phi = np.stack([safe, *rays], 1)
    mu = rng.dirichlet(np.ones(states), size=d)
    known = Known(threshold=0.5, safe_action=np.zeros(states, int)) if known is None else known
    noise = Noise(reward_sigma=0.01, cost_sigma=0.01)
    return FiniteCMDP(Factored(phi, mu), phi @ pay, phi @ cost - 0.5, horizon=horizon, noise=noise, known=known)
