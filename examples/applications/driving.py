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

from typing import Any

import gymnasium
import numpy as np
from application import Application

TIME, DISTANCE, FAR, FAST, LANE = 3.0, 10.0, 60.0, 15.0, 4.0  # s, m, m, m/s, m
LENGTH = 30


def missing(gap: float, closing: float) -> float:
    """How much of the gap is missing, in units of 30 m; negative where there is room."""
    return float(np.clip((DISTANCE + TIME * closing - gap) / 30, -1, 1))


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
        g = 1.0 if info["crashed"] else missing(x[4] * FAR, x[5] * FAST)
        return x, reward, terminated, truncated, {**info, "constraint": g}

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


def by_action(seed: int = 0) -> Any:
    """Features of (x, a) that actions share: what is ahead in the lane that a leads to, and what a changes.

    All actions learn one cost: a gap in the left lane, seen when going left, is a gap in any lane. To these come the
    lane and the speed, for each action of its own.
    """
    from everystep.features import function

    lanes = np.array([1, 0, 2, 0, 0])  # of the observation: own, left, right; the lane that each action leads to
    faster, moves = np.array([0, 0, 0, 1, -1.0]), np.array([1, 0, 1, 0, 0.0])

    def phi(x: np.ndarray) -> np.ndarray:
        x = np.asarray(x, float)
        there, own = x[4:].reshape(3, 5)[lanes], x[4:9]
        shared = [np.ones(5), there, there[:, :4] * faster[:, None], there * moves[:, None], own[2:4] * moves[:, None]]
        alone = np.kron(np.eye(5), np.concatenate([[1.0], x[:4]])[None])  # (5, 25)
        return np.column_stack([*shared, faster, moves, alone]) / 6

    return function(phi)


NETWORK = {"policy_kwargs": {"net_arch": [256, 256]}, "gamma": 0.8, "learning_rate": 5e-4, "normalise": False}
POLICY = {**NETWORK, "gamma": 0.9, "learning_rate": 1e-3}
REPLAY = {
    **NETWORK, "learning_starts": 100, "batch_size": 32, "train_freq": 1, "gradient_steps": 1,
    "target_update_interval": 50, "exploration_fraction": 0.5,
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
            "features": {"degree": 1}, "beta": 1.0, "beta_harm": 0.0, "lam": 0.1, "beta_cost": 0.0, "lam_cost": 0.003,
            "react": True, "tolerance": 0.01, "explored": 0.85,
        },
        "lsvi-ae": {
            "features": {"degree": 1}, "beta": 1.0, "lam": 0.1, "beta_cost": 0.01, "lam_cost": 0.003, "react": True,
            "floor": 100, "explored": 0.85,
        },
        "shield": {"agent": "lsvi-ahead", "shield_tolerance": 0.05},
    },
    rivals={
        "DQN": REPLAY,
        "QR-DQN": {**REPLAY, "policy_kwargs": {"n_quantiles": 50, "net_arch": [256, 256]}},
        "PPO": POLICY,
        "PPO-Lagrangian": {**POLICY, "multiplier_rate": 1.0},
    },
    packages=("highway-env",),
)  # fmt: skip

if __name__ == "__main__":
    import compare

    compare.main("driving")
