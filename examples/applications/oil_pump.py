"""An oil pump (uppaal-gym's OilPump-v0): as little oil in the tank as possible, between 4.9 and 25.1 litres.

    python examples/applications/oil_pump.py [--systems "lsvi-ahead;random"] [--seeds 0:10] [--jobs 2]

A machine draws oil from a tank in a cycle of 20 s with fluctuations; every 0.2 s the pump is switched on or off, but it
obeys only 2 s after it was last switched. The limit is the simulator's own: the volume stays within its bounds. A
crossing ends the episode.

    g = 1 at a crossing, else -1
    reward = 1 - volume / 25 litres

Because the pump obeys late, the decision that loses the oil comes seconds before the tank is empty. Every agent
observes the time in the cycle, the volume, whether the pump runs, and the time until it obeys again.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from application import Application
from uppaal import Uppaal

LENGTH = 120
FEATURES = {"features": {"size": 50, "lengthscale": 0.7}}


class Oil(Uppaal):
    def __init__(self) -> None:
        import uppaal_gym  # noqa: F401  (registers its environments)

        super().__init__(gymnasium.make("OilPump-v0", disable_env_checker=True))

    def state(self) -> tuple[float, ...]:
        here: Any = self.unwrapped
        return here.t, here.v, here.p, here.l

    def reward(self, x: np.ndarray) -> float:
        return float(np.clip(1 - x[1] / 25, 0, 1))


APPLICATION = Application(
    name="oil-pump",
    title="An oil pump: as little oil in the tank as possible, between 4.9 and 25.1 litres",
    make=lambda: gymnasium.wrappers.TimeLimit(Oil(), LENGTH),
    unit="crossings",
    low=(0.0, 4.0, 0.0, -2.0),
    high=(20.0, 26.0, 1.0, 2.0),
    length=LENGTH,
    steps=6000,
    horizon=30,
    ours={
        "lsvi-ahead": {
            **FEATURES, "beta": 1.0, "beta_harm": 0.05, "beta_cost": 0.0, "lam": 0.001, "lam_cost": 0.01, "floor": 100,
            "tolerance": 0.01, "explored": 0.85,
        },
        "lsvi-ae": {**FEATURES, "beta": 0.1, "beta_cost": 0.01, "lam": 0.001, "lam_cost": 0.01, "explored": 0.85},
        "shield": {"agent": "lsvi-ahead", "shield_tolerance": 0.1},
    },
    rivals={
        "DQN": {"exploration_fraction": 0.1},
        "QR-DQN": {"exploration_fraction": 0.1},
        "PPO": {"gamma": 0.95},
        "PPO-Lagrangian": {"multiplier_rate": 1.0},
    },
    packages=("uppaal-gym",),
)  # fmt: skip

if __name__ == "__main__":
    import compare

    compare.main("oil_pump")
