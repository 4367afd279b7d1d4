"""Cruise control (uppaal-gym's CruiseControl-v0): follow a car that drives at random, closely, and never hit it.

    python examples/applications/cruise_control.py [--systems "lsvi-ahead;random"] [--seeds 0:10] [--jobs 2]

Every second the car brakes, coasts or accelerates by 2 m/s; so does the car ahead, as it likes, down to -8 m/s and up
to 20 m/s. The limit is the simulator's own: the distance stays above 0. A crash ends the episode.

    g = 1 in a crash, else -1
    reward = 1 - distance / 200 m

Speed has momentum: when the crash is certain, no action avoids it any more. Every agent observes both speeds, the
distance, and the least distance that would be left if both cars braked as hard as they can.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from application import Application
from uppaal import Uppaal

LENGTH = 120
BRAKES = 2.0  # m/s per second, both cars
BACKWARDS, FASTEST = {"ego": -10.0, "front": -8.0}, 20.0  # the least and the largest speeds, m/s
CHANGE = np.array([-BRAKES, BRAKES, 0.0])  # of the own speed, by action


def closest(v_ego: float, v_front: float, distance: float) -> float:
    """The least distance from now on if both cars brake at every second, as the simulator computes it."""
    least = distance
    while (v_ego > BACKWARDS["ego"] and v_ego > v_front - 1e-9) or v_front > BACKWARDS["front"]:
        before = v_front - v_ego
        v_ego = v_ego - BRAKES if v_ego > BACKWARDS["ego"] else v_ego
        v_front = v_front - BRAKES if v_front > BACKWARDS["front"] else v_front
        distance += (before + v_front - v_ego) / 2
        least = min(least, distance)
    return least


class Cruise(Uppaal):
    def __init__(self) -> None:
        import uppaal_gym  # noqa: F401  (registers its environments)

        super().__init__(gymnasium.make("CruiseControl-v0", disable_env_checker=True, max_steps=10**9))
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float64)

    def state(self) -> tuple[float, ...]:
        here: Any = self.unwrapped
        return here.v_ego, here.v_front, here.distance

    def seen(self, x: np.ndarray) -> np.ndarray:
        return np.array([*x, np.clip(closest(*map(float, x)), -20, 40)])

    def reward(self, x: np.ndarray) -> float:
        return float(np.clip(1 - x[2] / 200, 0, 1))


# --- features of ours ------------------------------------------------------------------------------------------------
def after(x: np.ndarray) -> np.ndarray:
    """(3, 3): what a driver knows of each action: relative speed, own speed and distance a second later.

    As if the car ahead kept its speed.
    """
    v_ego, v_front, distance = x[:3]
    ego = np.clip(v_ego + CHANGE, BACKWARDS["ego"], FASTEST)
    return np.stack([v_front - ego, ego, distance + (v_front - v_ego + v_front - ego) / 2], 1)


def own_motion(size: int, lengthscale: Any, seed: int = 0) -> Any:
    """Random Fourier features of `after`: all actions learn one function of where they lead."""
    import everystep as es

    bounds = {"low": [-30.0, BACKWARDS["ego"], 0.0], "high": [30.0, FASTEST, 200.0]}
    return es.features.landing(es.features.fourier(size, lengthscale, seed, **bounds), after)


FEATURES = {"features": {"of": own_motion, "size": 75, "lengthscale": [1.0, 2.0, 0.3]}, "horizon": 20}


# --- an oracle, which knows both cars --------------------------------------------------------------------------------
def oracle(env: gymnasium.Env) -> np.ndarray:
    """(3,): the actions after which braking still avoids a crash, whatever the car ahead does."""
    here: Any = env.unwrapped
    v_ego, v_front, distance = here.v_ego, here.v_front, here.distance
    safe = []
    for action in range(3):
        ego = v_ego + here.speed_limit(here.v_ego_min, here.v_ego_max, v_ego, here.get_ego_acceleration(action))
        if distance <= here.max_sensor_distance:
            front = v_front + here.speed_limit(here.v_front_min, here.v_front_max, v_front, here.DEC)
            left = distance + (v_front - v_ego + front - ego) / 2
            safe.append(min(left, closest(ego, front, left)) > 0)
        else:  # out of sight; the next car appears 200 m ahead, at any speed
            safe.append(True)
    found = np.array(safe)
    return found if found.any() else np.arange(3) == 0


APPLICATION = Application(
    name="cruise-control",
    title="Cruise control: follow a car that drives at random, closely, and never hit it",
    make=lambda: gymnasium.wrappers.TimeLimit(Cruise(), LENGTH),
    unit="crashes",
    low=(-10.0, -8.0, 0.0, -20.0),
    high=(20.0, 20.0, 200.0, 40.0),
    length=LENGTH,
    steps=6000,
    horizon=12,
    ours={
        "lsvi-ahead": {
            **FEATURES, "beta": 0.1, "beta_harm": 0.05, "beta_cost": 0.0, "lam": 0.001, "lam_cost": 0.01, "floor": 100,
            "tolerance": 0.005, "explored": 0.85,
        },
        "lsvi-ae": {**FEATURES, "beta": 0.1, "beta_cost": 0.01, "lam": 0.001, "lam_cost": 0.01, "explored": 0.85},
        "shield": {"agent": "lsvi-ahead", "shield_tolerance": 0.02},
    },
    rivals={
        "DQN": {"exploration_fraction": 0.1},
        "QR-DQN": {"exploration_fraction": 0.1, "learning_rate": 3e-4},
        "PPO": {"learning_rate": 3e-4},
        "PPO-Lagrangian": {"multiplier_rate": 1.0},
    },
    oracle=oracle,
    packages=("uppaal-gym",),
)  # fmt: skip

if __name__ == "__main__":
    import compare

    compare.main("cruise_control")
