"""SLUCB-QVI and RSLUCB-QVI: what they are told, what they believe, and that they learn without ever being unsafe."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import everystep as es
from everystep import agents, drive, planner
from everystep.experiment import digest
from everystep.parts.costs import CountCosts, LinearCosts
from everystep.parts.experience import Episode
from everystep.parts.linalg import OnDemand
from everystep.parts.projected import ProjectedCosts, ProjectedCounts, Told
from everystep.parts.radii import Tuned
from everystep.problem import Factored, FiniteCMDP, Known, Noise, Sizes
from everystep.problems import from_map
from everystep.store import save_problem

LEVELS = (0.1, 0.2, 0.4, 0.7, 1.0)


def star(seed=0, states=8, d=5, horizon=3, directions=3) -> FiniteCMDP:
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
    known = Known(threshold=0.5, safe_action=np.zeros(states, int))
    noise = Noise(reward_sigma=0.01, cost_sigma=0.01)
    return FiniteCMDP(Factored(phi, mu), phi @ pay, phi @ cost - 0.5, horizon=horizon, noise=noise, known=known)
