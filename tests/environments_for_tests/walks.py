"""Walks and points on a line or in a box."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Walk(gymnasium.Env):
    """A walk on a line of nine places: action 1 (or `first` + 1) goes right, where the reward is.

    It begins in one of the first `starts` places, a step does nothing with the probability `slip`, and an episode has
    `limit` steps, or no end.
    """

    observation_space = spaces.Discrete(9)

    def __init__(self, first=0, limit=20, starts=4, slip=0.0):
        self.action_space, self.limit, self.starts, self.slip = spaces.Discrete(2, start=first), limit, starts, slip

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.t = int(self.np_random.integers(self.starts)), 0
        return self.x, {}

    def step(self, action):
        slipped = self.slip and self.np_random.random() >= 1 - self.slip
        move = 0 if slipped else 1 if action > self.action_space.start else -1
        self.x, self.t = int(np.clip(self.x + move, 0, 8)), self.t + 1
        return self.x, self.x / 8, False, self.limit is not None and self.t >= self.limit, {}


class SlowWalk(Walk):
    """A walk without an end, in which one step of five does nothing."""

    def __init__(self):
        super().__init__(limit=None, starts=3, slip=0.2)


class Slope(gymnasium.Env):
    """A position in [0, 1]; actions move it by -0.1, 0 and 0.1. The limit is 0.85, and the reward is the position."""

    observation_space, action_space = gymnasium.spaces.Box(0, 1, (1,)), gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.uniform(0, 0.6)
        return np.array([self.x]), {}

    def step(self, action):
        moved = self.x + 0.1 * (action - 1)
        self.x = min(max(moved, 0), 1)
        return np.array([self.x]), self.x, False, False, {"too_far": moved - 0.85}


class SlippingWalk(gymnasium.Env):
    """A walk on a line, which slips; towards the end it pays to leave the middle, so that the countdown matters."""

    def __init__(self, kind="states", length=12):
        self.kind, self.length = kind, length
        self.observation_space = {
            "states": spaces.Discrete(9),
            "vectors": spaces.Box(-1, 1, (2,), np.float32),
            "parts": spaces.Dict(place=spaces.Box(-1, 1, (1,), np.float32), wind=spaces.Box(-1, 1, (1,), np.float32)),
        }[kind]
        self.action_space = spaces.Discrete(3, start=1) if kind == "states" else spaces.Box(-1, 1, (1,), np.float32)

    def observation(self):
        x, wind = np.float32(self.x / 4 - 1), np.float32(self.np_random.uniform(-1, 1))
        if self.kind == "parts":
            return {"place": np.array([x]), "wind": np.array([wind])}
        return self.x if self.kind == "states" else np.array([x, wind])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.t = int(self.np_random.integers(3, 6)), 0
        return self.observation(), {}

    def step(self, action):
        move = int(action) - 2 if self.kind == "states" else int(np.sign(action[0]))
        self.x = int(np.clip(self.x + (move if self.np_random.random() < 0.8 else 0), 0, 8))
        self.t += 1
        reward = 0.1 * (self.x == 4) + 0.3 * (self.x == 8) + 0.01 * self.np_random.random()
        return self.observation(), reward, False, self.t >= self.length, {"constraint": (self.x - 6.5) / 3}


class NoisyWalk(gymnasium.Env):
    """A random walk on [-1, 1]: action 1 tends to the right, and earns a reward."""

    observation_space, action_space = spaces.Box(-1, 1, (1,), np.float64), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.uniform(-1, 1, 1)
        return self.x.copy(), {}

    def step(self, action):
        self.x = np.clip(self.x + self.np_random.normal(0.2 * (2 * action - 1), 0.3, 1), -1, 1)
        return self.x.copy(), float(action), False, False, {}


UNIT = spaces.Box(-1, 1, (1,))


class PushedPoint(gymnasium.Env):
    """x moves by a fifth of the action and a little noise; reward x, and x may not exceed 0.4."""

    def __init__(self, action_space=UNIT, listed=False):
        self.action_space, self.listed = action_space, listed
        self.observation_space = spaces.Discrete(5) if listed else spaces.Box(-1, 1, (1,))
        self.actions = []

    def _seen(self):
        return int(np.clip(np.round(2 * self.x + 2), 0, 4)) if self.listed else np.array([self.x], np.float32)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.t = self.np_random.uniform(-0.5, 0.5), 0
        return self._seen(), {}

    def step(self, action):
        force = action - 1 if isinstance(self.action_space, spaces.Discrete) else float(np.ravel(action)[0])
        self.actions.append(np.copy(action))
        if isinstance(action, np.ndarray):
            action[...] = 9  # candidates must not be changed by this
        self.x = float(np.clip(self.x + 0.2 * force + 0.05 * self.np_random.normal(), -1, 1))
        self.t += 1
        return self._seen(), self.x, False, self.t == 9, {"constraint": self.x - 0.4}


class Point(gymnasium.Env):
    """A point without declared bounds: action 1 moves it right for a reward; beyond 1 is unsafe."""

    observation_space, action_space = spaces.Box(-np.inf, np.inf, (2,), np.float64), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.uniform(-1, 0, 2)
        return self.x.copy(), {}

    def step(self, action):
        self.x = self.x + [0.2 * int(action), 0.0] + self.np_random.normal(0, 0.05, 2)
        return self.x.copy(), float(action), False, False, {"constraint": self.x[0] - 1}


class Drift(gymnasium.Env):
    """A point that drifts at random: action 1 pushes it to the right, for a reward; too far right is unsafe."""

    observation_space, action_space = spaces.Box(-1, 1, (2,), np.float64), spaces.Discrete(2)

    def __init__(self, on_step=lambda: None):
        self.on_step = on_step

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.uniform(-0.5, 0.5, 2)
        return self.x.copy(), {}

    def step(self, action):
        self.on_step()
        push = [0.3 * int(action), 0.0]
        self.x = np.clip(self.x + push + self.np_random.normal(0, 0.1, 2), -1, 1)
        return self.x.copy(), float(action), bool(self.x[0] > 0.9), False, {"constraint": self.x[0] - 0.5}


class Anywhere(gymnasium.Env):
    """Every observation is drawn from its space; actions count from 2, and have the same reward in some places."""

    def __init__(self, space):
        self.observation_space, self.action_space = space, spaces.Discrete(3, start=2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        constraint = self.np_random.uniform(-1, 1)
        return self.observation_space.sample(), float(action == 3), False, False, {"constraint": constraint}


class VectorWalk(SlowWalk):
    """Without chance, on observations that are vectors; it keeps the actions that it received."""

    observation_space = spaces.Box(0.0, 8.0, (1,))

    def __init__(self):
        super().__init__()
        self.actions = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.array([self.x], np.float32), {}

    def step(self, action):
        self.actions.append(int(action))
        self.x = int(np.clip(self.x + (1 if action else -1), 0, 8))
        return np.array([self.x], np.float32), self.x / 8, False, False, {}


class PushedBack(Walk):
    """Starts at the limit, and comes back to it."""

    def step(self, action):
        _, *rest = super().step(action)
        self.x = 5
        return 5, *rest

    def reset(self, **given):
        _, info = super().reset(**given)
        self.x = 5
        return 5, info


class OtherSpaces(Walk):
    """A walk that declares other spaces."""

    def __init__(self, actions=2, places=9, space=None):
        super().__init__()
        self.action_space, self.observation_space = spaces.Discrete(actions), space or spaces.Discrete(places)
