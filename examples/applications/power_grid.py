"""Running a distribution grid with wind, sun and a battery: line loading and voltage within their limits all day.

    python examples/applications/power_grid_rules.py     measures simple rules and the shipped controller on it

The grid is ANM6Easy of gym-anm (Henry and Ernst 2021): six buses behind one transformer; houses, industry and a
charging station for cars; a solar park, a wind farm and a battery, which the operator commands every 15 minutes.

What is limited. A line that carries more than its rating heats up, sags, and is disconnected by its protection;
voltage beyond 10 % of its nominal value damages appliances. Both are said as they are, of every step:

    g = max( |S_l| / rating_l - 1 over lines l,  |V_b - 1| / 0.1 - 1 over buses b ),  clipped to [-1, 1]

Safe iff g <= 0. One decision alone cannot keep it: at the peaks of the charging station, about 08:00 to 11:00 and 18:00
to 21:00, its line is overloaded unless the battery at its end gives power, hence has been charged in the hours before.

What is earned. Energy that is not lost: 1 - (loss - LEAST) / (MOST - LEAST) of gym-anm's loss per step, which counts
curtailed wind and sun, losses in lines, and what goes into the battery minus what comes out. Its penalty for violations
is left out, because the limit says it. Reward and limit conflict: all wind and all sun overload lines, and a battery
kept for the peak has given no energy.

Observation, all in [-1, 1]: sine and cosine of the time of day, the state of charge, and the power that each bus with
devices would give to the grid in the coming 15 minutes, by forecast, under each set-point of its device: load plus
generation for the two limits on the sun, the three limits on the wind and the three uses of the battery. Every agent
observes the same; `by_action` picks the numbers of each action. The forecast of 15 minutes is right.

Chosen by hand: the set-points in ACTIONS (reactive power 0, as the shipped controllers command it); episodes of one
day from midnight, because at other times a start with an empty battery may be too late for the peak; the state of
charge at midnight, uniform from empty to full (gym-anm 2.0.1 draws at most 1 MWh); that every load, the wind and the
sun of a day are the shipped ones times factors from [0.8, 1], because all days of gym-anm are the same; LEAST and MOST.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from application import Application
from gymnasium.envs.registration import EnvSpec

from everystep.errors import EverystepError
from everystep.features import function

STEPS, HOURS = 96, 0.25  # of a day; of a step
VOLTAGE = 0.1  # p.u.: every bus within 0.9 and 1.1 of its nominal voltage
RATINGS = {(0, 1): 32.0, (1, 2): 25.0, (1, 3): 18.0, (2, 4): 18.0, (2, 5): 18.0}  # MVA; (0, 1) is the transformer
CAPACITY, EFFICIENCY = 100.0, 0.9  # of the battery, MWh; of charging, and of discharging
SMALLEST = 0.8  # factor of a load, the wind or the sun of a day
LARGEST = 37.0  # MW, the most that a bus takes or gives under these set-points
LEAST, MOST = -0.03, 0.15  # energy lost per step, 100 MWh
WIND = {"wind 20 MW": 20.0, "wind 35 MW": 35.0, "all wind": 50.0}  # the most that is let into the grid, MW
SUN = {"sun 18 MW": 18.0, "all sun": 30.0}
BATTERY = {"charge": -10.0, "idle": 0.0, "discharge": 10.0}  # MW into the grid
ACTIONS = {f"{w}, {s}, {b}": (SUN[s], WIND[w], BATTERY[b]) for w in WIND for s in SUN for b in BATTERY}
NAMES = tuple(ACTIONS)
KNOTS = (0.3, 0.4, 0.5, 0.6, 0.7)  # of LARGEST
PICKED = np.array([(3 + s, 5 + w, 8 + b) for w in range(3) for s in range(2) for b in range(3)])  # of an observation


def excess(loading: Sequence[float], voltage: Sequence[float]) -> float:
    """g from the loading of lines, as shares of their ratings, and the voltage of buses in p.u."""
    used = max(np.max(np.abs(loading)), np.max(np.abs(np.asarray(voltage) - 1)) / VOLTAGE)
    return float(np.clip(used - 1, -1, 1))


def earned(loss: float) -> float:
    """Reward in [0, 1] of a step that lost `loss` (100 MWh)."""
    return float(np.clip(1 - (loss - LEAST) / (MOST - LEAST), 0, 1))


def injections(forecast: np.ndarray, charge: float) -> np.ndarray:
    """(8,) MW into the grid at the buses of sun, wind and battery, one for each set-point in SUN, WIND and BATTERY.

    forecast   gym-anm's variables of the next step: three loads (negative), available sun and wind, all MW
    charge     MWh; what the battery can give or take within a step ends at empty and full
    """
    houses, industry, cars, sun, wind = forecast[:5]
    least, most = (charge - CAPACITY) / (HOURS * EFFICIENCY), charge * EFFICIENCY / HOURS
    at_sun, at_wind = np.minimum(list(SUN.values()), sun), np.minimum(list(WIND.values()), wind)
    at_battery = np.clip(list(BATTERY.values()), least, most)
    return np.concatenate([houses + at_sun, industry + at_wind, cars + at_battery])


def project(device: Any, p: float, q: float, *hours: float) -> None:
    """Map a set-point (p.u.) to the nearest one that a device can run at, as gym-anm's map_pq does.

    map_pq solves a convex problem, three times a step. Every device can run without reactive power, so for q = 0 the
    nearest point is the nearest p: the same numbers, and a step takes a fifth of the time.
    """
    if q != 0:
        return type(device).map_pq(device, p, q, *hours)
    low, high = device.p_min, device.p_max
    if hours:  # a battery
        low = max(low, (device.soc - device.soc_max) / (hours[0] * device.eff))
        high = min(high, device.eff * (device.soc - device.soc_min) / hours[0])
    else:
        high = min(high, device.p_pot)
    device.p, device.q = float(np.clip(p, low, high)), 0.0


class PowerGrid(gymnasium.Env):
    """One day of the grid; info has "constraint", "loading" by line, "voltage" by bus, "loss" and "charge"."""

    def __init__(self) -> None:
        try:
            from gym_anm.envs import ANM6Easy
        except ImportError:
            raise EverystepError("the power grid needs gym-anm; install gym-anm.") from None
        self.grid = ANM6Easy()
        self.shipped, self.day = (self.grid.P_loads, self.grid.P_maxs), self.grid.init_state
        self.grid.init_state = self.midnight
        for number in (2, 4, 6):  # sun, wind, battery
            device = self.grid.simulator.devices[number]
            device.map_pq = partial(project, device)
        self.action_space = gymnasium.spaces.Discrete(len(NAMES))
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (11,), np.float32)

    def midnight(self) -> np.ndarray:
        """gym-anm's draw of a start, repeated until it is at midnight, on a day of its own."""
        self.grid.P_loads, self.grid.P_maxs = (
            each * self.np_random.uniform(SMALLEST, 1, (len(each), 1)) for each in self.shipped
        )
        while (state := self.day())[-1] != 0:
            pass
        state[14] = self.np_random.uniform(0, CAPACITY)
        return state

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.grid.reset(seed=seed)
        return self.seen(), {}

    def step(self, action: Any) -> Any:
        sun, wind, battery = ACTIONS[NAMES[int(action)]]
        if self.grid.step(np.array([sun, wind, 0.0, 0.0, battery, 0.0]))[2]:  # no power flow: the voltage collapsed
            return np.zeros(11, np.float32), 0.0, True, False, {"constraint": 1.0}
        state = self.grid.simulator.state
        loading = {line: abs(s) / RATINGS[line] for line, s in state["branch_s"]["MVA"].items()}
        voltage, loss = dict(state["bus_v_magn"]["pu"]), float(self.grid.e_loss)
        info = {"loading": loading, "voltage": voltage, "loss": loss, "charge": state["des_soc"]["MWh"][6]}
        info["constraint"] = excess(list(loading.values()), list(voltage.values()))
        return self.seen(), earned(loss), False, False, info

    def seen(self) -> np.ndarray:
        turn, charge = 2 * np.pi * self.grid.state[-1] / STEPS, self.grid.simulator.state["des_soc"]["MWh"][6]
        power = injections(self.grid.next_vars(self.grid.state), charge) / LARGEST
        return np.float32(np.clip([np.sin(turn), np.cos(turn), 2 * charge / CAPACITY - 1, *power], -1, 1))


def make() -> gymnasium.Env:
    """The environment, with a specification that says how long an episode is."""
    return gymnasium.make(EnvSpec("PowerGrid-v0", PowerGrid, max_episode_steps=STEPS, disable_env_checker=True))


def by_action(size: int = 150, lengthscale: float | Sequence[float] = 1.0, seed: int = 0) -> Any:
    """Random Fourier features of (x, a): time, charge, the power of each bus under a, and the battery's part in it.

    phi(x, a) = (cos W z, sin W z) / sqrt(size),   z = (x_0, x_1, x_2, x_sun(a), x_wind(a), x_battery(a), its change)

    Actions that do the same to the grid have the same features. lengthscale: one for all coordinates of z, or seven.
    """
    W = np.random.default_rng(seed).normal(size=(size, 7)) / np.broadcast_to(lengthscale, 7)

    def phi(x: np.ndarray) -> np.ndarray:
        x = np.asarray(x, float)
        power = x[PICKED]
        change = power[:, 2] - x[9]  # against an idle battery
        z = np.column_stack([np.broadcast_to(x[:3], (len(power), 3)), power, change]) @ W.T
        return np.concatenate([np.cos(z), np.sin(z)], 1) / np.sqrt(size)

    return function(phi, d=2 * size)


def by_line(seed: int = 0) -> Any:
    """Features of (x, a) for the cost: the power over each line under a, from what hangs behind it, losses left out.

    phi(x, a) = (1, |f|, max(|f| - c, 0) for c in KNOTS) / 6,
    f = (sun, wind, battery, wind + battery, sun + wind + battery) of a: the lines to the buses, and those before them

    The ratings are not in it: where |f| becomes too much, and for which line, is what the agent learns.
    """

    def phi(x: np.ndarray) -> np.ndarray:
        power = np.asarray(x, float)[PICKED]
        f = np.abs(np.column_stack([power, power[:, 1] + power[:, 2], power.sum(1)]))
        return np.column_stack([np.ones(len(f)), f, *(np.maximum(f - c, 0) for c in KNOTS)]) / 6

    return function(phi, d=1 + 5 * (1 + len(KNOTS)))


CHOSEN = {
    "lam": 1e-3, "lam_cost": 5e-5, "beta": 0.0, "beta_harm": 0.0, "beta_cost": 0.0, "floor": 100, "tolerance": 0.01,
    "react": True, "explored": 0.85, "features": {"of": by_action, "size": 150, "lengthscale": 1.5},
    "cost_features": {"of": by_line},
}  # fmt: skip

REPLAY = {"learning_starts": 64, "exploration_fraction": 0.03}

APPLICATION = Application(
    name="power-grid",
    title="Power grid: line loading and voltage within their limits all day",
    make=make,
    unit="overload, in units of the rating",
    low=(-1.0,) * 11,
    high=(1.0,) * 11,
    length=STEPS,
    steps=21 * STEPS,  # three weeks
    horizon=48,
    ours={
        "lsvi-ahead": CHOSEN,
        "lsvi-ae": {name: each for name, each in CHOSEN.items() if name not in ("beta_harm", "tolerance")},
        "shield": {"agent": "lsvi-ahead", "shield_tolerance": 0.05},
    },
    rivals={"DQN": REPLAY, "QR-DQN": REPLAY},
    packages=("gym-anm",),
)

if __name__ == "__main__":
    import compare

    compare.main("power_grid")
