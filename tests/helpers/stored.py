"""Agents on stored transitions, and random batches for them."""

import numpy as np

from everystep import agents
from everystep.environments.logged import Batch
from everystep.training.agent.resolve import EnvironmentInfo, ResolvedForTraining


def resolved(settings, phi, coordinates, horizon, reward_range=None):
    """The settings of LSVI-AE on an environment with these features, whose episodes have `horizon` steps."""
    info = EnvironmentInfo(phi, phi, coordinates, phi.actions, horizon, horizon, reward_range)
    return ResolvedForTraining.resolve(agents.lsvi_ae(**settings), info)


ACTIONS, HORIZON, CONSTRAINTS = 3, 4, 2


class Box:
    def __init__(self, o):
        self.low, self.high, self.shape = -np.ones(o), np.ones(o), (o,)


def random_batch(rng, number, length, ended, first=0):
    x = rng.normal(size=(length + 1, 2))
    x /= np.linalg.norm(x, axis=1, keepdims=True) * 1.1
    return Batch(
        x[:-1],
        rng.integers(0, ACTIONS, length),
        rng.uniform(-2, 3, length),
        rng.uniform(-1, 1, (length, CONSTRAINTS)),
        x[1:],
        np.arange(length) == (length - 1 if ended else -1),
        np.arange(first, first + length),
        np.full(length, number),
    )
