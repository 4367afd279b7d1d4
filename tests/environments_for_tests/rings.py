"""States in a ring, and five levers."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Ring(gymnasium.Env):
    """A walk on a ring of four states: action 1 moves on for a reward, unsafe into state 3; action 0 stays."""

    observation_space, action_space = spaces.Discrete(4), spaces.Discrete(2)

    def __init__(self, length=5, breaks_at=None, ends=False):
        self.length, self.breaks_at, self.ends = length, breaks_at, ends
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.t = 0
        return self.x, {}

    def step(self, action):
        self.steps += 1
        if self.steps == self.breaks_at:
            raise RuntimeError("a wheel came off")
        self.x, self.t = (self.x + int(action)) % 4, self.t + 1
        ended = self.ends and self.x == 2
        return self.x, float(action), ended, self.t >= self.length, {}


class VectorRing(Ring):
    """A ring whose observation is the point on the unit circle."""

    observation_space = spaces.Box(-1, 1, (2,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.see(), {}

    def see(self):
        angle = np.pi / 2 * self.x
        return np.array([np.cos(angle), np.sin(angle)], np.float32)

    def step(self, action):
        _, *rest = super().step(action)
        return self.see(), *rest


class Levers(gymnasium.Env):
    """Five levers, of which only the last is safe; an episode has 20 pulls."""

    observation_space, action_space = gymnasium.spaces.Discrete(1), gymnasium.spaces.Discrete(5)

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return 0, {}

    def step(self, action):
        self.t += 1
        return 0, 0.0, False, self.t == 20, {"constraint": -1.0 if action == 4 else 1.0}


class CallingRing(gymnasium.Env):
    """Three states in a ring; `stop` is called before every step with its number."""

    observation_space, action_space = gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(2)

    def __init__(self, stop=lambda step: None):
        self.stop, self.steps = stop, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = 0
        return self.x, {}

    def step(self, action):
        self.steps += 1
        self.stop(self.steps)
        self.x = (self.x + int(action)) % 3
        return self.x, float(action), False, False, {"constraint": 1.0 if self.x == 2 else -1.0}


class ChanceRing(gymnasium.Env):
    """Four states in a ring; each step is unsafe by chance, more often after action 1."""

    observation_space, action_space = gymnasium.spaces.Discrete(4), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = 0
        return 0, {}

    def step(self, action):
        self.x = (self.x + 1) % 4
        g = 1.0 if self.np_random.random() < 0.15 + 0.1 * action else -1.0
        return self.x, float(action), False, False, {"constraint": g}


class FreshStates(ChanceRing):
    """The same observation is never met again, and action 1 is always unsafe."""

    def __init__(self, states):
        self.observation_space, self.x = gymnasium.spaces.Discrete(states), 0

    def reset(self, *, seed=None, options=None):
        return self.x, {}

    def step(self, action):
        self.x += 1
        return self.x, float(action), False, False, {"constraint": 1.0 if action else -1.0}


class TrapRing(ChanceRing):
    """A ring of four states, of which the last is unsafe whatever is done."""

    def step(self, action):
        g = 1.0 if self.x == 3 else -1.0
        self.x = (self.x + 1) % 4
        return self.x, float(action), False, False, {"constraint": g}
