"""Environments in which a violation follows from an earlier action: slides, sleds and delays."""

import random

import gymnasium
import numpy as np
from gymnasium import spaces


class Slide(gymnasium.Env):
    """Six places on a slope; beyond 2 nothing stops it, and at 5 it falls, which is unsafe and ends the episode."""

    observation_space, action_space = spaces.Discrete(6), spaces.Discrete(2)

    def __init__(self, reward):
        self.reward = reward

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = 0
        return 0, {}

    def step(self, action):
        self.x = self.x + 1 if action or self.x > 2 else max(self.x - 1, 0)
        fell = self.x == 5
        return self.x, self.reward, fell, False, {"constraint": 1.0 if fell else -1.0}


class DrawnSlide(Slide):
    """Draws its start by one of several generators."""

    def __init__(self, draw):
        super().__init__(1.0)
        self.draw = draw

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self.draw == "seeded" and seed is not None:
            np.random.seed(seed)  # noqa: NPY002
            random.seed(seed)
        if self.draw == "own":
            self.x = int(self.np_random.integers(2))
        else:
            self.x = int(np.random.randint(2) if self.draw != "python" else random.randrange(2))  # noqa: NPY002
        return self.x, {}


class Fall(gymnasium.Env):
    """Earns 1 a step; every fourth episode ends with -100."""

    observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)
    episode = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.t = self.episode + 1, 0
        return 0, {}

    def step(self, action):
        self.t += 1
        fell = self.episode % 4 == 0 and self.t == 6
        return 1, -100.0 if fell else 1.0, fell, False, {"constraint": 1.0 if fell else -1.0}


DELAY = 6  # steps from the decision to the violation of `Delayed`


class Delayed(gymnasium.Env):
    """At 0, action 1 earns 1 and starts a countdown that nothing stops; DELAY steps later g is 1, and it is at 0."""

    observation_space, action_space = gymnasium.spaces.Discrete(DELAY + 1), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = 0
        return self.x, {}

    def step(self, action):
        violated, started = self.x == DELAY, self.x == 0 and action == 1
        self.x = 1 if started else 0 if self.x in (0, DELAY) else self.x + 1
        return self.x, float(started), False, False, {"constraint": 1.0 if violated else -1.0}


class Lossy(Delayed):
    """A step is unsafe by chance, whatever is done: twice as much violation is expected in twice the time."""

    def step(self, action):
        *step, _ = super().step(action)
        return *step, {"constraint": 1.0 if self.np_random.random() < 0.2 else -1.0}


class Sled(gymnasium.Env):
    """Position and speed on a line: action 0 brakes by 1, action 1 accelerates, up to `fastest`. The wall is at 9."""

    observation_space, action_space = spaces.Box(-100, 100, (2,), np.float64), spaces.Discrete(2)

    def __init__(self, fastest=3, start=0):
        self.fastest, self.start = fastest, start

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.v = self.start, 0
        return np.array([self.x, self.v], float), {}

    def step(self, action):
        self.v = min(max(self.v + (1 if action else -1), 0), self.fastest)
        self.x += self.v
        return np.array([self.x, self.v], float), 1.0, self.x > 12, False, {}


class SledWithoutCopies(Sled):
    """Refuses to be copied."""

    def __deepcopy__(self, memo):
        raise TypeError("no")


class EntangledSled(Sled):
    """Draws from a generator that no seed sets, and that copies share."""

    def __init__(self):
        super().__init__()
        self.shared = np.random.default_rng(0)

    def __deepcopy__(self, memo):
        twin = EntangledSled()
        twin.__dict__ |= self.__dict__
        return twin

    def step(self, action):
        x, *rest = super().step(action)
        return x + self.shared.random(), *rest


class Counter(gymnasium.Env):
    """Counts its steps from 0; action 1 is unsafe by 0.5 and ends the episode, as step 4 does without a violation."""

    observation_space = gymnasium.spaces.Box(0.0, 10.0, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return np.zeros(1), {}

    def step(self, action):
        self.t += 1
        g = 0.5 if action == 1 else -0.5
        return np.full(1, float(self.t)), 1.0, action == 1, self.t == 4, {"constraint": g}
