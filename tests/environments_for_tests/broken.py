"""Environments that break their contract when they are asked to."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Corridor(gymnasium.Env):
    """Five cells in a row. After the first `sound` episodes `broken` replaces parts of what a step returns."""

    length, sound = 3, 2

    observation_space, action_space = spaces.Discrete(5), spaces.Discrete(2)

    def __init__(self, **broken):
        self.broken, self.episode = broken, 0

    def see(self):
        return self.x

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.t = 0
        self.episode += 1
        return self.see(), {}

    def step(self, action):
        self.x, self.t = min(self.x + int(action), 4), self.t + 1
        parts = {
            "observation": self.see(),
            "reward": float(action),
            "terminated": False,
            "truncated": self.t >= self.length,
            "info": {"cost": -1.0},
        }
        return tuple((parts | (self.broken if self.episode > self.sound else {})).values())


class OpenCorridor(Corridor):
    """The same, with a vector as observation."""

    observation_space = spaces.Box(0, 1, (1,), np.float64)

    def see(self):
        return np.array([self.x / 4])


class Naughty(gymnasium.Env):
    """One state; `misdeed` is called at every step of its third episode, and may return the values of the step."""

    observation_space, action_space = spaces.Box(-1, 1, (2,), np.float64), spaces.Discrete(2)

    def __init__(self, misdeed=lambda: None):
        self.misdeed, self.episode = misdeed, 0

    def reset(self, *, seed=None, options=None):
        self.episode += 1
        return np.zeros(2), {}

    def step(self, action):
        values = self.misdeed() if self.episode == 3 else None
        return values or (np.zeros(2), 0.0, True, False, {"constraint": -1.0})


class Lies(gymnasium.Env):
    """Its space has vectors of three numbers, and every observation is one number."""

    observation_space, action_space = spaces.Box(-1, 1, (3,)), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return 0.5, {}

    def step(self, action):
        return 0.5, 0.0, False, False, {"constraint": -1.0}
