"""Critics: one network from an observation to value and harm-to-go of every action, over several horizons at once.

    Q_N(x, a) = (1 - gamma) E[r + gamma r' + ...],   G_N likewise of costs,   gamma = 1 - 1 / H_N     in [0, 1], [0, m]
    Q = mean_N H_N Q_N,   G = mean_N H_N G_N                              what the rule compares, in sums over steps
    a_x = argmax_a {Q - Z [G - min_b G - tolerance]_+}                    the choice and the price of `lsvi-ahead`

The targets of all actions of a state that was seen are imagined steps, which share the member of the model and the
residual: differences between actions are not differences of luck.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from everystep.lsvi.ahead import HarmToGo
from everystep.lsvi.choices.basic import Penalised
from everystep.mdp.world import AnyArray
from everystep.training.learnt import networks, world
from everystep.training.learnt.networks import Layers, along_last, module_of, sigmoid
from everystep.training.learnt.scales import Units
from everystep.training.learnt.world import Predicted, Sizes

FARTHEST = 4.0
CHOICE = Penalised(rectify=True)


class Rule(NamedTuple):
    """What the choice takes.

    gamma (2 N,)   twice: of values and of harm
    weights (N,)   H_N / N
    price (1,)     Z
    tolerance ()
    """

    gamma: AnyArray
    weights: AnyArray
    price: AnyArray
    tolerance: AnyArray

    @classmethod
    def of(cls, horizons: tuple[int, ...], price: float, tolerance: float) -> Rule:
        H = np.array(horizons, np.float64)
        arrays = (np.tile(1 - 1 / H, 2), H / len(H), np.array([price]), np.asarray(tolerance))
        return cls(*(np.asarray(each, np.float32) for each in arrays))


def new(rng: np.random.Generator, sizes: Sizes) -> Layers:
    return networks.new(rng, sizes.critics, sizes.coordinates, 2 * sizes.heads * (1 + sizes.actions), last=0.1)


def heads(critics: Layers, sizes: Sizes, z: AnyArray) -> AnyArray:
    """(K, n, A, 2 N) in units of the spread: a value, and advantages of mean 0."""
    out = networks.outputs(critics, z.clip(-FARTHEST, FARTHEST)[None])
    out = out.reshape(out.shape[0], -1, 1 + sizes.actions, 2 * sizes.heads)
    advantage = out[:, :, 1:]
    return out[:, :, :1] + advantage - advantage.mean(2, keepdims=True)


def bounded(units: Units, values: AnyArray) -> AnyArray:
    """Of heads (..., 2 N): the values themselves, within their range."""
    size, mean, most = (along_last(each, values.ndim) for each in (units.q_size, units.q_mean, units.most))
    return module_of(values).clip(mean + size * values, 0, most)


def sums(rule: Rule, values: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Q and G (A, n) of values (n, A, 2 N)."""
    N, weights = len(rule.weights), along_last(rule.weights, 3)
    return (values[..., :N] * weights).sum(-1).T, (values[..., N:] * weights).sum(-1).T


def chosen(rule: Rule, values: AnyArray) -> AnyArray:
    """(n, 2 N): the values of the action that the rule chooses."""
    Q, G = sums(rule, values)
    ahead = HarmToGo(of_plan=True, events=True, tolerance=rule.tolerance, weights=(), cap=0.0)
    best = CHOICE.scored(Q, ahead.avoidable(G), rule.price).argmax(0)
    return module_of(Q).take_along_axis(values, best[:, None, None], 1)[:, 0]


def imagined(
    found: Predicted, critics: Layers, sizes: Sizes, units: Units, rule: Rule, z: AnyArray, residual: AnyArray
) -> AnyArray:
    """(E, n, C, A, 2 N): one imagined step, and the critics after it.

    found      predictions at z (E, n, o) or (1, n, o)
    residual   (E, n, C, o) or (E, 1, C, o)
    """
    xp = module_of(z)
    y = world.arrive(units, z[:, :, None, None], found.change[:, :, None], residual[..., None, :])
    values = bounded(units, heads(critics, sizes, y.reshape(-1, y.shape[-1])).mean(0))
    then = chosen(rule, values).reshape(*y.shape[:-1], 2 * sizes.heads)
    N = sizes.heads
    r, cost = world.reward(units, found), world.costs(units, found.g).sum(-1)
    shape = (*r.shape[:2], 1, r.shape[2], N)
    now = xp.concatenate([xp.broadcast_to(each[:, :, None, :, None], shape) for each in (r, cost)], -1)
    ends = sigmoid(found.ends)[:, :, None, :, None]
    nothing = xp.concatenate([xp.broadcast_to(units.nothing.reshape(1), (N,)), xp.zeros(N, np.float32)])
    gamma = along_last(rule.gamma, 5)
    return (1 - gamma) * now + gamma * (ends * along_last(nothing, 5) + (1 - ends) * then)
