"""Driving on a highway (highway-env's highway-fast-v0): no crash, and keep the gap to the car ahead.

    python examples/applications/driving.py [--systems "lsvi-ae;random"] [--seeds 0:10] [--jobs 2]

Once a second the car changes lane, keeps its speed, or changes it; the reward of the simulator pays for speed and for
the right lane. The limit is that of a cautious driver: the gap to the car ahead never closes within 3 s, beyond 10 m
from centre to centre, and no crash, which ends the episode:

    g = (10 m + 3 s * closing speed - gap) / 30 m, clipped to [-1, 1], and 1 in a crash

Braking or a free lane nearly always keeps it, but a car that cuts in just ahead can break it under every action, so
that no driver keeps it always. Every agent observes the lane, the speed, and for its own and both neighbouring lanes
the gap, the closing speed, how much of the gap is missing, and whether a car is beside.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium
import numpy as np
from application import Application

TIME, DISTANCE, FAR, FAST, LANE = 3.0, 10.0, 60.0, 15.0, 4.0  # s, m, m, m/s, m
LENGTH = 30


def missing(gap: Any, closing: Any) -> Any:
    """How much of the gap is missing, in units of 30 m; negative where there is room."""
    return np.clip((DISTANCE + TIME * closing - gap) / 30, -1, 1)


class Driving(gymnasium.Wrapper):
    def __init__(self) -> None:
        import highway_env  # noqa: F401  (registers its environments)

        view = {"type": "Kinematics", "vehicles_count": 9, "see_behind": True, "normalize": False, "order": "sorted"}
        super().__init__(gymnasium.make("highway-fast-v0", config={"vehicles_count": 12, "observation": view}))
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (19,), np.float64)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        rows, info = self.env.reset(seed=seed, options=options)
        return self.seen(rows), info

    def step(self, action: Any) -> Any:
        rows, reward, terminated, truncated, info = self.env.step(action)
        x = self.seen(rows)
        gap, crash = float(missing(x[4] * FAR, x[5] * FAST)), float(info["crashed"])
        # Ours is told of the parts of the limit one by one: the gap, what was missing of it, and the crash. The first
        # is known at safe steps, too, and so learnt from them; the mean of the second counts what happens by chance.
        parts = gap, max(gap, 0.0), crash
        g = 1.0 if crash else gap
        return x, reward, terminated, truncated, {**info, "constraint": g, "constraints": parts}

    def seen(self, rows: np.ndarray) -> np.ndarray:
        me, cars = rows[0], rows[1:][rows[1:, 0] > 0]  # presence, x, y, vx, vy; cars relative to me
        lane = int(np.clip(np.rint(me[2] / LANE), 0, 2))
        own = self.look(me, cars, lane, lane)
        beside = [self.look(me, cars, other, lane) if 0 <= other <= 2 else own for other in (lane - 1, lane + 1)]
        return np.clip([*(np.arange(3) == lane), (me[3] - 25) / 10, *own, *beside[0], *beside[1]], -1, 1)

    @staticmethod
    def look(me: np.ndarray, cars: np.ndarray, lane: int, own: int) -> tuple[float, ...]:
        here = cars[np.abs(me[2] + cars[:, 2] - LANE * lane) < 2.5]
        ahead = here[(here[:, 1] > 0) & (here[:, 1] < FAR)]
        gap, closing = (FAR, 0.0) if len(ahead) == 0 else ahead[ahead[:, 1].argmin()][[1, 3]] * (1, -1)
        short = missing(gap, closing)
        return gap / FAR, closing / FAST, short, max(short, 0.0), lane != own and bool((np.abs(here[:, 1]) < 10).any())


# --- features of ours ------------------------------------------------------------------------------------------------
# By action: the lane that it leads to (of the observation: own 0, left 1, right 2), the lanes beside that one as far
# as they are seen, the change of speed that is asked for, and whether it changes lane.
LANES = np.array([1, 0, 2, 0, 0])
NEIGHBOURS = np.array([[0, 0], [1, 2], [0, 0], [1, 2], [1, 2]])
FASTER, MOVES = np.array([0, 0, 0, 1, -1.0]), np.array([1, 0, 1, 0, 0.0])
LATER = (0, 1, 3)  # s, after the first


class Prospect(NamedTuple):
    """What motion at constant speeds says of each of the five actions.

    With the `change` of the own speed within a second, for t = 1, 2 and 4 s:

        closing' = closing + change,   gap' = gap - closing - change / 2 - (t - 1) closing',   missing(gap', closing')

    short        (3, 5) how much of the gap will be missing in the lane that the action leads to
    cut_in       (3, 5) how much would be missing if the next car of a lane beside it were in it; at least 0
    gap          (5,) to the car ahead in that lane now, m; `FAR` where there is none
    closing      (5,) its closing speed, m/s
    left         (5,) the gap after a second, m
    beside       (5,) whether a car is beside in that lane
    """

    short: np.ndarray
    cut_in: np.ndarray
    gap: np.ndarray
    closing: np.ndarray
    left: np.ndarray
    beside: np.ndarray


def prospect(x: np.ndarray) -> Prospect:
    speed, ahead = 25 + 10 * x[3], x[4:].reshape(3, 5)
    change = np.clip(speed + 5 * FASTER, 20, 30) - speed

    def in_lanes(lanes: np.ndarray, change: np.ndarray) -> tuple[np.ndarray, ...]:
        gap, closing = ahead[lanes, 0] * FAR, ahead[lanes, 1] * FAST
        left = np.where(gap >= FAR, FAR, gap - closing - change / 2)
        after = closing + change
        short = [np.where(gap >= FAR, -1, missing(left - t * after, after)) for t in LATER]
        return gap, closing, left, np.array(short)

    gap, closing, left, short = in_lanes(LANES, change)
    there = np.array([1, 1 - x[0], 1 - x[2]])[NEIGHBOURS]  # beside an outer lane there is no further one
    cut_in = (np.maximum(in_lanes(NEIGHBOURS, change[:, None])[3], 0) * there).max(-1)
    return Prospect(short, cut_in, gap, closing, left, ahead[LANES, 4])


def same_as(x: np.ndarray) -> list[int]:
    """Actions that are the same: on the outer lanes, going further out is going on."""
    return [1 if x[0] else 0, 1, 1 if x[2] else 2, 3, 4]


def by_action(seed: int = 0) -> Any:
    """Features of (x, a) that actions share: how much of the gap will be missing in the lane that a leads to.

    All actions learn one function of their `Prospect`: a gap in the left lane, seen when going left, is a gap in any
    lane. To these come the lane and the speed, for each action of its own.
    """
    from everystep.features import function

    def phi(x: np.ndarray) -> np.ndarray:
        x = np.asarray(x, float)
        led = prospect(x)
        short_own = missing(x[4] * FAR - x[5] * FAST, x[5] * FAST) if x[4] < 1 else -1.0  # a change of lane takes time
        shared = [
            np.ones(5), *led.short, *np.maximum(led.short, 0), led.beside, led.short[0] * MOVES,
            np.maximum(led.short[0], 0) * MOVES, max(short_own, 0) * MOVES, led.gap >= FAR, led.gap / FAR,
            led.closing / FAST, FASTER, MOVES, *led.cut_in,
        ]  # fmt: skip
        alone = np.kron(np.eye(5), np.concatenate([[1.0], x[:4]])[None])  # (5, 25)
        return np.column_stack([*shared, alone])[same_as(x)] / 6

    return function(phi)


def by_gap(seed: int = 0) -> Any:
    """Features of (x, a) for the costs, few and shared by all actions, so that a handful of steps teaches them.

    The more a feature is expected to say, the larger it is, because the ridge then shrinks its weight less: first of
    all how much of the gap will be missing after a second, then whether a car is beside, or near in the lane that is
    entered or left, then whether one may cut in.
    """
    from everystep.features import function

    def phi(x: np.ndarray) -> np.ndarray:
        x = np.asarray(x, float)
        led = prospect(x)
        own = np.clip(1.5 - (x[4] * FAR - x[5] * FAST) / 10, 0, 1) if x[4] < 1 else 0.0
        found = [
            0.6 * led.short[0], 0.4 * led.beside, 0.4 * np.clip(1.5 - led.left / 10, 0, 1), 0.4 * own * MOVES,
            0.3 * led.cut_in[0], *(0.2 * np.maximum(led.short, 0)), 0.1 * np.ones(5), 0.1 * MOVES,
        ]  # fmt: skip
        return np.column_stack(found)[same_as(x)] / 1.05  # a norm of at most 1

    return function(phi)


NETWORK = {"policy_kwargs": {"net_arch": [256, 256]}, "gamma": 0.8, "learning_rate": 5e-4, "normalise": False}
POLICY = {**NETWORK, "gamma": 0.9, "learning_rate": 1e-3, "n_steps": 128, "batch_size": 64}
REPLAY = {
    **NETWORK, "learning_starts": 32, "batch_size": 32, "train_freq": 1, "gradient_steps": 1,
    "target_update_interval": 50, "exploration_fraction": 0.02,
}  # fmt: skip
CHOSEN = {
    "features": {"of": by_action}, "cost_features": {"of": by_gap}, "beta": 0.0, "lam": 0.1, "beta_cost": 0.0,
    "lam_cost": 0.03, "react": True, "explored": 0.85,
}  # fmt: skip

APPLICATION = Application(
    name="driving",
    title="Driving: no crash, and keep the gap to the car ahead",
    make=Driving,
    unit="gaps missing",
    low=(-1.0,) * 19,
    high=(1.0,) * 19,
    length=LENGTH,
    steps=2000,
    horizon=5,
    ours={
        "lsvi-ahead": {
            **CHOSEN, "horizon": 15, "lam": 0.2, "beta_harm": 0.0, "harm": "mean", "floor": 10, "tolerance": 0.02,
        },
        "lsvi-ae": {**CHOSEN, "floor": 100},
        "shield": {"agent": "lsvi-ahead", "shield_tolerance": 0.05},
    },
    rivals={
        "DQN": REPLAY,
        "QR-DQN": {**REPLAY, "policy_kwargs": {"n_quantiles": 50, "net_arch": [256, 256]}},
        "PPO": POLICY,
        "PPO-Lagrangian": {**POLICY, "n_steps": 64, "batch_size": 32, "learning_rate": 5e-4, "multiplier_rate": 1.0},
    },
    packages=("highway-env",),
)  # fmt: skip

if __name__ == "__main__":
    import compare

    compare.main("driving")
