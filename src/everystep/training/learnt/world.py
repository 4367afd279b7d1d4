"""The model: networks of (z, a) for the change of the observation, the reward, each g, and the logit of termination.

Beside the means mu of the change and the reward they predict v = log sigma^2 and learn both by the loss

    (e^2 / sigma^2 + v) sigma^(2 beta) / 2,    e = target - mu,    beta = 1/2,

in which the factor sigma^(2 beta) is held constant: the beta-NLL of Seitzer, Tavakoli, Antic and Martius, "On the
Pitfalls of Heteroscedastic Uncertainty Estimation with Probabilistic Neural Networks", ICLR 2022. beta = 1 would learn
the means as least squares do, beta = 0 by maximum likelihood. So a few steps that nobody can predict, such as a leg
that touches the ground, do not spoil the prediction of all others. Constraints are learnt by least squares: steps that
break a limit are rare and hard to predict, and must not count less for it.

y = z + (change + sigma residual) step      a residual, over sigma, of a step that was predicted before it was learnt
cost_i = max(g_i, 0), or its mean where g_i has two values: low + P(high) (high - low)
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from everystep.mdp.world import AnyArray
from everystep.training.learnt import networks
from everystep.training.learnt.networks import Layers, along_last, module_of, sigmoid, silu
from everystep.training.learnt.scales import Units

FARTHEST, LARGEST = 6.0, 12.0  # units to which inputs are clipped, and usual changes to which changes are
MOST_LOG = 7.0  # log variances lie within +-7
BETA = 0.5


class Sizes(NamedTuple):
    """What compiled code depends on."""

    coordinates: int
    actions: int
    constraints: int
    members: int
    heads: int  # N, the number of horizons
    critics: int = 2


class Predicted(NamedTuple):
    """Of every member at every observation and action, (E, n, A, ...), in the model's units.

    variance (..., o + 1)   the logarithms of those of the change and the reward
    """

    change: AnyArray
    reward: AnyArray
    ends: AnyArray
    g: AnyArray
    variance: AnyArray


def new(rng: np.random.Generator, sizes: Sizes) -> Layers:
    o, A = sizes.coordinates, sizes.actions
    return networks.new(rng, sizes.members, o + A, 2 * (o + 1) + sizes.constraints + 1)


def split(out: AnyArray, coordinates: int) -> Predicted:
    """Outputs: change and reward, the logarithms of their variances, the logit of termination, and each g."""
    o, k = coordinates, coordinates + 1
    variance = MOST_LOG * module_of(out).tanh(out[..., k : 2 * k] / MOST_LOG)
    return Predicted(out[..., :o], out[..., o], out[..., 2 * k], out[..., 2 * k + 1 :], variance)


def deviation(found: Predicted) -> AnyArray:
    """sigma of the change (..., o), in usual changes."""
    return module_of(found.variance).exp(found.variance[..., : found.change.shape[-1]] / 2)


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
    return costs_of(units, as_targets(units, g))


def as_targets(units: Units, g: AnyArray) -> AnyArray:
    """Outputs g (..., m) as what they are learnt from: a logit as a probability."""
    return module_of(g).where(along_last(units.two, g.ndim), sigmoid(g), g)


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
    o, v = change.shape[-1], found.variance
    total = _beta_nll(found.change - change[None], v[..., :o]).mean(-1) + _beta_nll(found.reward - r[None], v[..., o])
    return total + _logistic(found.ends, ended[None]) + error_of_g(found.g, g[None], two)


def _beta_nll(error: AnyArray, v: AnyArray) -> AnyArray:
    return (error**2 * jnp.exp(-v) + v) / 2 * jnp.exp(BETA * lax.stop_gradient(v))


def error_of_g(found: AnyArray, g: AnyArray, two: AnyArray) -> AnyArray:
    """(...): summed over constraints (..., m)."""
    return jnp.where(along_last(two, found.ndim), _logistic(found, g), (found - g) ** 2).sum(-1)
