"""A small environment with a limit, and learners on it that compile few programs, for the tests of learnt models."""

import gymnasium as gym
import numpy as np

import everystep as es


class Cart(gym.Env):
    """A cart on a line that is pushed left, not at all or right; the limit is on its place.

    reward     of one step; kind: "place" 1 less the distance to 0.5, else this number
    ends       whether it terminates at the limit
    two        whether the constraint is 1 or -1, else a number times `unit`
    """

    observation_space = gym.spaces.Box(-5.0, 5.0, (2,))
    action_space = gym.spaces.Discrete(3)

    def __init__(self, length=10, reward="place", ends=False, two=False, unit=1.0, limit=1.0, actions=3):
        self.length, self.reward, self.ends, self.two = length, reward, ends, two
        self.unit, self.limit = unit, limit
        self.action_space = gym.spaces.Discrete(actions)

    def _seen(self):
        return np.array([self.x, self.v], np.float32)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.v, self.t = self.np_random.uniform(-0.3, 0.3), 0.0, 0
        return self._seen(), {}

    def step(self, action):
        self.v = 0.9 * self.v + 0.05 * (action - 1) + 0.01 * self.np_random.normal()
        self.x = float(np.clip(self.x + self.v, -4, 4))
        self.t += 1
        out = abs(self.x) > self.limit
        g = (1.0 if out else -1.0) if self.two else self.unit * (abs(self.x) - self.limit)
        r = 1 - abs(self.x - 0.5) if self.reward == "place" else self.reward
        return self._seen(), float(r), self.ends and out, self.t >= self.length, {"constraint": g}


def learner(seed=0, envs=None, **settings):
    """One with two rounds a step."""
    env = Cart() if envs is None else envs
    return es.Learner(env, es.agents.lsvi_nets(rounds=2, **settings), seed=seed)


def ending(seed=0, **settings):
    """One whose episodes end at the limit, so that it is known what came of every step."""
    return learner(seed, at_the_limit(), **settings)


def at_the_limit():
    """The environment of `ending`, by name."""
    return Cart(ends=True, two=True, limit=0.2, length=30)
