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

from functools import cache
from typing import Any

import gymnasium
import numpy as np
from application import Application
from uppaal import Uppaal

LENGTH = 120
STEP, DELAY = 0.2, 2.0  # seconds: between decisions, and until the pump obeys again


class Oil(Uppaal):
    def __init__(self) -> None:
        import uppaal_gym  # noqa: F401  (registers its environments)

        super().__init__(gymnasium.make("OilPump-v0", disable_env_checker=True))

    def state(self) -> tuple[float, ...]:
        here: Any = self.unwrapped
        return here.t, here.v, here.p, here.l

    def reward(self, x: np.ndarray) -> float:
        return float(np.clip(1 - x[1] / 25, 0, 1))


# --- features of ours ------------------------------------------------------------------------------------------------
def after(x: np.ndarray) -> list[list[float]]:
    """(2, 4): what is known of each action: time and volume as they are, whether the pump then runs, and for how long.

    For how long it will not obey, that is; while it does not, both actions lead to the same.
    """
    t, volume, runs, wait = map(float, x)
    led = []
    for action in (0, 1):
        switches = action != round(runs) and wait <= 0
        led.append([t, volume, action if switches else round(runs), (DELAY if switches else wait) - STEP])
    return led


def own_pump(size: int, lengthscale: Any, seed: int = 0) -> Any:
    """Random Fourier features of `after`: both actions learn one function of where they lead."""
    import everystep as es

    bounds = {"low": [0.0, 4.0, 0.0, 0.0], "high": [20.0, 26.0, 1.0, DELAY]}
    return es.features.landing(es.features.fourier(size, lengthscale, seed, **bounds), after)


def volume_after(x: np.ndarray) -> list[list[float]]:
    """(2, 2): of `after`, the volume and whether the pump then runs."""
    return [led[1:3] for led in after(x)]


def volume(size: int, lengthscale: Any, seed: int = 0) -> Any:
    """Random Fourier features of `volume_after`, for the cost: the limit is the same at all times.

    A crossing at one time of the cycle thus teaches where the limit is at all others.
    """
    import everystep as es

    smooth = es.features.fourier(size, lengthscale, seed, low=[4.0, 0.0], high=[26.0, 1.0])
    return es.features.landing(smooth, volume_after)


FEATURES = {
    "features": {"of": own_pump, "size": 75, "lengthscale": 0.7},
    "cost_features": {"of": volume, "size": 30, "lengthscale": (0.1, 1.0)},
}


# --- an oracle, which knows the machine and the pump -----------------------------------------------------------------
CELL, MARGIN = 0.02, 0.04  # litres
WAIT = 11  # steps until the pump obeys again, rounded up


@cache
def viable() -> np.ndarray:
    """(100, 2, WAIT + 1, cells): from which volumes the limit can be kept for ever, whatever the fluctuations.

    By the step of the cycle, whether the pump runs, the steps until it obeys and the volume: the largest set from each
    state of which some action leads into the set again under all fluctuations, found by removing states until none is
    left to remove.
    """
    from uppaal_gym.envs.oil_pump import OilPumpEnv

    pump = OilPumpEnv()
    volumes = np.arange(pump.v_min + MARGIN, pump.v_max - MARGIN, CELL)
    steps = round(pump.period / pump.time_step)
    kept = np.ones((steps, 2, WAIT + 1, len(volumes)), bool)
    while True:
        before = kept.copy()
        for k in reversed(range(steps)):
            rate = pump.consumption_rate(k * pump.time_step + 1e-9)
            spread = pump.fluctuation * pump.time_step if rate > 0 else 0.0
            for p in range(2):
                for wait in range(WAIT + 1):
                    found = np.zeros(len(volumes), bool)
                    for action in range(2):
                        switches = action != p and wait == 0
                        now = action if switches else p
                        after = kept[(k + 1) % steps, now, (WAIT if switches else wait) - 1 if switches or wait else 0]
                        found |= leads_into(after, now * pump.inflow * pump.time_step - rate * pump.time_step, spread)
                    kept[k, p, wait] = found
        if (kept == before).all():
            return kept


def leads_into(kept: np.ndarray, change: float, spread: float) -> np.ndarray:
    """Which volumes v have all of v + change - spread ... v + change + spread in `kept`, rounded outwards."""
    low, high = int(np.floor((change - spread) / CELL)), int(np.ceil((change + spread) / CELL))
    inside = np.ones(len(kept), bool)
    for shift in range(low, high + 1):
        to = np.arange(len(kept)) + shift
        inside &= np.where((to >= 0) & (to < len(kept)), kept[np.clip(to, 0, len(kept) - 1)], False)
    return inside


def oracle(env: gymnasium.Env) -> np.ndarray:
    """(2,): the actions after which the limit can still be kept, whatever the fluctuations."""
    pump: Any = env.unwrapped
    kept, k = viable(), round(pump.t / pump.time_step)
    rate = pump.consumption_rate(k * pump.time_step + 1e-9)
    safe = []
    for action in range(2):
        switches = action != round(pump.p) and pump.l <= 0.0
        now = action if switches else round(pump.p)
        left = (pump.latency if switches else pump.l) - pump.time_step
        wait = int(np.clip(np.ceil(left / pump.time_step + 1e-9), 0, WAIT))
        v = pump.v + pump.time_step * (now * pump.inflow - rate)
        spread = pump.fluctuation * pump.time_step if rate > 0 else 0.0
        ends = (np.array([v - spread, v + spread]) - pump.v_min - MARGIN) / CELL
        first, last = int(np.floor(ends[0])), int(np.ceil(ends[1]))
        inside = first >= 0 and last < kept.shape[-1]
        safe.append(bool(inside and kept[(k + 1) % len(kept), now, wait, first : last + 1].all()))
    return np.array(safe) if any(safe) else np.ones(2, bool)


APPLICATION = Application(
    name="oil-pump",
    title="Oil pump: as little oil in the tank as possible, between 4.9 and 25.1 litres",
    make=lambda: gymnasium.wrappers.TimeLimit(Oil(), LENGTH),
    unit="crossings",
    low=(0.0, 4.0, 0.0, -2.0),
    high=(20.0, 26.0, 1.0, 2.0),
    length=LENGTH,
    steps=6000,
    horizon=30,
    ours={
        "lsvi-ahead": {
            **FEATURES, "beta": 1.0, "beta_harm": 0.02, "beta_cost": 0.0, "lam": 0.001, "lam_cost": 0.01, "floor": 100,
            "tolerance": 0.01, "explored": 0.85,
        },
        "lsvi-ae": {**FEATURES, "beta": 0.1, "beta_cost": 0.01, "lam": 0.001, "lam_cost": 0.01, "explored": 0.85},
        "shield": {"agent": "lsvi-ahead", "shield_tolerance": 0.1},
    },
    rivals={
        "DQN": {"exploration_fraction": 0.1},
        "DQN, price 100": {"learning_starts": 50, "exploration_fraction": 0.02},
        "QR-DQN": {"exploration_fraction": 0.1},
        "QR-DQN, price 10": {"learning_rate": 3e-4},
        "PPO": {"gamma": 0.95},
        "PPO-Lagrangian": {"multiplier_rate": 1.0},
    },
    oracle=oracle,
    packages=("uppaal-gym",),
)  # fmt: skip

if __name__ == "__main__":
    import compare

    compare.main("oil_pump")
