"""Current control of a DC motor (gym-electric-motor's Finite-CC-PermExDc-v0): never more than 210 A.

    python examples/applications/electric_motor.py [--systems "lsvi-ae;random"] [--seeds 0:10] [--jobs 2]

Every 10 microseconds one of four switch positions of the converter is chosen, two of which apply no voltage, so that
the current of a permanently excited motor follows a wandering set-point. A full voltage moves the current by 20 to 40 A
in one step. Beyond 210 A the converter trips, which ends the episode:

    g = |i| / 210 A - 1
    reward = 1 - |i - set-point| / 42 A, at least 0

The simulator's own reward has a penalty for a trip, which is left out, because the limit says it. Every agent observes
the current, its set-point and their difference, in units of 210 A; speed and supply voltage are constant.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from application import Application

LENGTH = 200  # steps of an episode: 2 ms
VOLTAGE = np.array([0.0, 1.0, -1.0, 0.0])  # of each switch position, in units of the supply
FULL_MARKS = 5.0  # the reward is 0 where the error is 1 / 5 of the limit


class Motor(gymnasium.Wrapper):
    def __init__(self) -> None:
        import gym_electric_motor as gem

        super().__init__(gem.make("Finite-CC-PermExDc-v0", visualization=None))
        self.observation_space = gymnasium.spaces.Box(-2.0, 2.0, (3,), np.float64)
        self.current = list(self.unwrapped.physical_system.state_names).index("i")

    def seen(self, x: Any) -> np.ndarray:
        self.state, reference = x
        i, wanted = self.state[self.current], reference[0]
        return np.array([i, wanted, wanted - i])

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        x, info = self.env.reset(seed=seed)
        self.wanted = x[1][0]
        return self.seen(x), info

    def step(self, action: Any) -> Any:
        x, _, terminated, truncated, info = self.env.step(action)
        now = self.seen(x)
        error, self.wanted = abs(self.wanted - now[0]), now[1]
        g = abs(now[0]) - 1
        return now, max(1 - FULL_MARKS * error, 0.0), terminated, truncated, {**info, "constraint": float(g)}


def next_currents(env: gymnasium.Env) -> np.ndarray:
    """(4,): the current after each switch position, by the model, in units of the limit.

    di/dt = (u - psi omega - R i) / L, with u and omega constant within a step of tau seconds.
    """
    motor: Any = env.unwrapped
    system = motor.physical_system
    known, limits = system.electrical_motor.motor_parameter, dict(zip(system.state_names, system.limits, strict=True))
    state = dict(zip(system.state_names, env.get_wrapper_attr("state") * system.limits, strict=True))
    u = limits["u_sup"] * VOLTAGE
    decay = np.exp(-known["r_a"] / known["l_a"] * system.tau)
    ends_at = (u - known["psi_e"] * state["omega"]) / known["r_a"]
    return (ends_at + (state["i"] - ends_at) * decay) / limits["i"]


def controller(env: gymnasium.Env) -> int:
    """The position that leads closest to the set-point without breaking the limit."""
    i = next_currents(env)
    error = np.abs(env.get_wrapper_attr("wanted") - i)
    return int(np.where(np.abs(i) <= 1, error, 10 + np.abs(i)).argmin())


def outward(seed: int = 0, inner: float = 0.4) -> Any:
    """Features of (x, a) for the cost: 1, |i|, whether the voltage of a drives i outward or inward, and the side of i.

        phi(x, a) = (1, |i|, sign(i) u_a, sign(i)) / 2.5,   u = (0, 1, -1, 0)

    A step adds a current that depends on the voltage alone, so |i| after it is linear in them, with one weight for all
    four positions. Near 0, where the current may change its side, it is not: beyond `inner` and below it, weights are
    apart.
    """
    from everystep.features import function

    def phi(x: np.ndarray) -> np.ndarray:
        i, side, all_four = abs(x[0]), np.sign(x[0]), np.ones(4)
        z = np.column_stack([all_four, i * all_four, side * VOLTAGE, side * all_four]) / 2.5
        return np.concatenate([z * (i > inner), z * (i <= inner)], 1)

    return function(phi, d=8)


CHOSEN = {
    "features": {"size": 100, "lengthscale": [2.0, 2.0, 0.2]}, "cost_features": {"of": outward}, "beta": 0.1,
    "lam": 0.001, "beta_cost": 0.0, "lam_cost": 1e-4, "floor": 1000, "react": True, "explored": 0.85,
}  # fmt: skip
REPLAY = {"gamma": 0.9, "learning_rate": 3e-4, "learning_starts": 50, "exploration_fraction": 0.02}

APPLICATION = Application(
    name="electric-motor",
    title="Electric motor: never more than 210 A",
    make=lambda: gymnasium.wrappers.TimeLimit(Motor(), LENGTH),
    unit="excess current, in units of 210 A",
    low=(-1.0, -0.5, -0.5),
    high=(1.0, 0.5, 0.5),
    length=LENGTH,
    steps=10_000,
    horizon=5,
    ours={
        "lsvi-ahead": {**CHOSEN, "harm": "mean", "beta_harm": 0.01, "tolerance": 0.001},
        "lsvi-ae": CHOSEN,
        "shield": {"agent": "lsvi-ae", "shield_tolerance": 0.0},
    },
    rivals={
        "DQN": REPLAY,
        "QR-DQN": REPLAY,
        "PPO": {"gamma": 0.9},
        "PPO-Lagrangian": {"gamma": 0.9, "multiplier_rate": 10.0},
    },
    controller=controller,
    packages=("gym-electric-motor",),
)  # fmt: skip

if __name__ == "__main__":
    import compare

    compare.main("electric_motor")
