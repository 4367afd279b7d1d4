"""Constrained bandits: one state, one step, and arms of which some are unsafe."""

from __future__ import annotations

import numpy as np

from everystep.errors import EverystepError, real_number, seed_number, whole_number
from everystep.mdp.cmdp import FiniteCMDP, Known, Noise
from everystep.problems.registry import Comparison, register
from everystep.runtime import memory

SIDE = 6.0  # the continuum is the square [0, 6]^2
LEAST_REWARD, REWARD_RANGE = -7.0, 8.0  # of -sin x1 - x2 there
LARGEST_COST = 2.0  # of sin x1 sin x2 + 0.95, rounded up
KERNEL = "rbf(1, on=position)"  # suits the continuum


@register("bandit", gym_id="everystep/Bandit-v0", compared=Comparison(episodes=1000))
def bandit(arms: int = 10, seed: int = 0, noise: float = 0.1, horizon: int = 1) -> FiniteCMDP:
    """Ten arms with random rewards and costs, one pull per episode: S = 1, H = 1.

    States      one.
    Actions     `arms` arms.
    Reward      uniform in [0, 1].
    Constraint  uniform in [-1, 1]. Rewards and constraints are drawn until the arm with the highest reward is unsafe,
                and the arm with the lowest g is safe but not the best safe one.
    Observed    rewards and costs with normal noise of standard deviation `noise`.
    Known       the safest arm.
    Optimum     0.7111428779897 under the constraint, 0.9320596866134 without it, 0.5293121601968 for the safest arm.
    Origin      made for this library.

    >>> arms = es.problems.bandit()
    >>> arms.actions, round(es.planner.solve(arms).value, 4)
    (10, 0.7111)
    """
    arms, seed = whole_number("arms", arms, at_least=3), seed_number("seed", seed)
    noise = real_number("noise", noise, 0, 1e6)
    memory.check_problem(lambda arms: 40.0 * arms, arms=arms)
    rng = np.random.default_rng(seed)
    while True:
        r, g = rng.random(arms), rng.uniform(-1, 1, arms)
        if g.min() < 0 < g[r.argmax()] and r[g.argmin()] < r[g <= 0].max():
            break
    return FiniteCMDP(
        np.ones((1, arms, 1)),
        r[None],
        g[None],
        start=0,
        horizon=_one_step(horizon),
        noise=Noise(reward_sigma=noise, cost_sigma=noise),
        name=f"bandit-{seed}",
        kernel="categorical(on=action)",
        known=Known(safe_action=np.array([g.argmin()])),
    )


@register(
    "bandit-continuum",
    gym_id="everystep/BanditContinuum-v0",
    compared=Comparison(episodes=300, settings={"cost": "gp", "value": f"kernel({KERNEL})"}),
)
def bandit_continuum(resolution: int = 25, noise: float = 0.05, horizon: int = 1) -> FiniteCMDP:
    """A continuum of arms on a grid: f = -sin x1 - x2 under sin x1 sin x2 + 0.95 <= 0 on [0, 6]^2.

    States      one.
    Actions     `resolution` x `resolution` points of the square, x1 and x2 from 0 to 6.
    Reward      r = (f + 7) / 8, which lies in [0, 1]: f is between -7 and 1.
    Constraint  g = (sin x1 sin x2 + 0.95) / 2, which lies in [-0.025, 0.975]. Two small islands are safe, around
                (3 pi / 2, pi / 2) and (pi / 2, 3 pi / 2): 10 of 625 points.
    Observed    rewards and costs with normal noise, of standard deviation `noise` before scaling.
    Coordinates `position`, (x1, x2) of each arm; the kernel is rbf(1, on=position).
    Optimum     0.8124115986219 under the constraint (f = -0.5007), 0.9999115986219 without it.
    Origin      the experiment in RPOL's paper (Guo, Zhu and Liu, L4DC 2023), which uses the square itself and no
                scaling; its noise N(0, 0.05) is taken as a standard deviation.

    >>> arms = es.problems.bandit_continuum(resolution=9)
    >>> arms.actions, arms.points["position"].shape
    (81, (1, 81, 2))
    """
    n = whole_number("resolution", resolution, at_least=2)
    noise = real_number("noise", noise, 0, 1e6)
    memory.check_problem(lambda resolution: 40.0 * resolution**2, resolution=n)
    side = np.linspace(0, SIDE, n)
    x1, x2 = (each.reshape(1, -1) for each in np.meshgrid(side, side, indexing="ij"))
    g = (np.sin(x1) * np.sin(x2) + 0.95) / LARGEST_COST
    if g.min() > 0:
        raise EverystepError(
            f"resolution is {n}, with which no point of the grid is safe; give another number, such as 25."
        )
    return FiniteCMDP(
        np.ones((1, n * n, 1)),
        (-np.sin(x1) - x2 - LEAST_REWARD) / REWARD_RANGE,
        g,
        start=0,
        horizon=_one_step(horizon),
        noise=Noise(reward_sigma=noise / REWARD_RANGE, cost_sigma=noise / LARGEST_COST),
        name="bandit-continuum",
        coordinates={"position": np.stack([x1, x2], -1)},
        kernel=KERNEL,
    )


def _one_step(horizon: int) -> int:
    if whole_number("horizon", horizon) != 1:
        raise EverystepError(f"horizon is {horizon}, but a bandit has one step; leave it out.")
    return 1
