"""The model: networks of (z, a) for the change of the observation, the reward, the logit of termination, and each g.

y = z + (change + residual) step            a residual of a step that was predicted before it was learnt
cost_i = max(g_i, 0), or its mean where g_i has two values: low + P(high) (high - low)
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from everystep.mdp.world import AnyArray
from everystep.training.learnt import networks
from everystep.training.learnt.networks import Layers, along_last, module_of, sigmoid, silu
from everystep.training.learnt.scales import Units

FARTHEST, LARGEST = 6.0, 12.0  # units to which inputs are clipped, and usual changes to which changes are


class Sizes(NamedTuple):
    """What compiled code depends on."""

    coordinates: int
    actions: int
    constraints: int
    members: int
    heads: int  # N, the number of horizons
    critics: int = 2


class Predicted(NamedTuple):
    """Of every member at every observation and action, (E, n, A, ...), in the model's units."""

    change: AnyArray
    reward: AnyArray
    ends: AnyArray
    g: AnyArray


def new(rng: np.random.Generator, sizes: Sizes) -> Layers:
    o, A = sizes.coordinates, sizes.actions
    return networks.new(rng, sizes.members, o + A, o + 2 + sizes.constraints)


def split(out: AnyArray, coordinates: int) -> Predicted:
    o = coordinates
    return Predicted(out[..., :o], out[..., o], out[..., o + 1], out[..., o + 2 :])


def predict(world: Layers, z: AnyArray, actions: int) -> Predicted:
    """All actions, at observations (E, n, o) or (1, n, o). The first layer is shared by the actions."""
    o, (weights, biases) = z.shape[-1], world[0]
    here = z.clip(-FARTHEST, FARTHEST) @ weights[:, :o]
    hidden = silu(here[:, :, None] + weights[:, None, o:] + biases[:, None, None])
    E, n = hidden.shape[:2]
    out = networks.outputs(world[1:], hidden.reshape(E, n * actions, hidden.shape[-1]))
    return split(out.reshape(E, n, actions, out.shape[-1]), o)


def predict_at(world: Layers, z: AnyArray, chosen: AnyArray) -> Predicted:
    """(E, n, ...) at observations (E, n, o) or (1, n, o), for one action of each, one-hot (E, n, A) or (1, n, A)."""
    o, (weights, biases) = z.shape[-1], world[0]
    here = z.clip(-FARTHEST, FARTHEST) @ weights[:, :o] + chosen @ weights[:, o:]
    return split(networks.outputs(world[1:], silu(here + biases[:, None])), o)


def arrive(units: Units, z: AnyArray, change: AnyArray, residual: AnyArray) -> AnyArray:
    """The next observation, within limits; coordinates with few values have one of them."""
    d = change.ndim
    y = z + (change.clip(-LARGEST, LARGEST) + residual) * along_last(units.step, d)
    y = y.clip(along_last(units.low, d), along_last(units.high, d))
    xp = module_of(y)
    if xp is np and not units.discrete.any():
        return y
    nearest = xp.broadcast_to(along_last(units.values[:, 0], d), y.shape)
    gap = xp.abs(y - nearest)
    for k in range(1, units.values.shape[1]):
        value = along_last(units.values[:, k], d)
        distance = xp.abs(y - value)
        nearest, gap = xp.where(distance < gap, value, nearest), xp.minimum(gap, distance)
    return xp.where(along_last(units.discrete, d), nearest, y)


def reward(units: Units, found: Predicted) -> AnyArray:
    """In [0, 1]."""
    return (found.reward * units.reward_factor + units.reward_offset).clip(0, 1)


def costs(units: Units, g: AnyArray) -> AnyArray:
    """(..., m): the expected cost of a step in [0, 1], for outputs g (..., m)."""
    return costs_of(units, module_of(g).where(along_last(units.two, g.ndim), sigmoid(g), g))


def costs_of(units: Units, targets: AnyArray) -> AnyArray:
    """(..., m): the same for what the outputs are learnt from, in which two values are 0 and 1."""
    d = targets.ndim
    low, high = along_last(units.two_low, d), along_last(units.two_high, d)
    measured = (targets * along_last(units.cost_factor, d) + along_last(units.cost_offset, d)).clip(0, 1)
    return module_of(targets).where(along_last(units.two, d), low + targets * (high - low), measured)


def _logistic(logit: AnyArray, yes: AnyArray) -> AnyArray:
    return jnp.logaddexp(jnp.zeros_like(logit), logit) - yes * logit


def loss(found: Predicted, change: AnyArray, r: AnyArray, g: AnyArray, ended: AnyArray, two: AnyArray) -> AnyArray:
    """(E, n): the error of one-step predictions (E, n, ...) for targets (n, ...)."""
    total = ((found.change - change[None]) ** 2).mean(-1) + (found.reward - r[None]) ** 2
    total = total + _logistic(found.ends, ended[None])
    return total + error_of_g(found.g, g[None], two)


def error_of_g(found: AnyArray, g: AnyArray, two: AnyArray) -> AnyArray:
    """(...): summed over constraints (..., m)."""
    return jnp.where(along_last(two, found.ndim), _logistic(found, g), (found - g) ** 2).sum(-1)
