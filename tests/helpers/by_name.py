"""A module with an environment and a constraint, as a user of the command writes it, in the current folder."""

import sys
from contextlib import contextmanager

import pytest

MODULE = """
import gymnasium
import numpy as np

class Walk(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Discrete(5), gymnasium.spaces.Discrete(2)
    render_mode = "rgb_array"

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.t = int(self.np_random.integers(2)), 0
        return self.x, {}

    def step(self, action):
        self.x, self.t = min(max(self.x + (1 if action else -1), 0), 4), self.t + 1
        return self.x, self.x / 4, False, self.t == 6, {}

    def render(self):
        return np.full((10, 12, 3), 50 * self.x, np.uint8)

def edge(obs, action, obs_next, info):
    return 1.0 if obs_next == 4 else -1.0

def fails(obs, action, obs_next, info):
    raise RuntimeError("no sensor")
"""
NAMES = {"env": "walk_by_name:Walk", "constraint": "walk_by_name:edge"}
REQUEST = NAMES | {"agent": "lsvi-ae", "horizon": 3, "length": 6}


@contextmanager
def module_here(folder):
    """The module in `folder`, which is the current one."""
    (folder / "walk_by_name.py").write_text(MODULE, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder
    sys.modules.pop("walk_by_name", None)
