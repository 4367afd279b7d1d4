"""Critics: one network from an observation to value and harm-to-go of every action, over several horizons at once.

    Q_N(x, a) = (1 - gamma) E[r + gamma r' + ...],   G_N likewise of costs,   gamma = 1 - 1 / H_N     in [0, 1], [0, m]
    Q = mean_N H_N Q_N,   G = mean_N H_N G_N                              what the rule compares, in sums over steps
    a_x = argmax_a {Q - Z [G - min_b G - tolerance]_+}                    the choice and the price of `lsvi-ahead`

The targets of all actions of a state that was seen are imagined steps, which share the member of the model and the
residuals: differences between actions are not differences of luck. After the first step the rule itself acts; deeper
steps count less by the share of the changes that the model predicts.
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
DEPTH, DEPTH_LEARNT = 8, 3  # imagined steps in a row, of a decision and of a target
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


def new(rng: np.random.Generator, sizes: Sizes, last: float = 0.1) -> Layers:
    return networks.new(rng, sizes.critics, sizes.coordinates, 2 * sizes.heads * (1 + sizes.actions), last)


def centred(critics: Layers, sizes: Sizes) -> Layers:
    """The same networks with the output Q_j + advantage_a,j of every action a: advantages have mean 0."""
    *hidden, (weights, biases) = critics
    xp = module_of(weights)

    def together(last: AnyArray) -> AnyArray:
        last = last.reshape(*last.shape[:-1], 1 + sizes.actions, 2 * sizes.heads)
        advantage = last[..., 1:, :]
        every = last[..., :1, :] + advantage - advantage.mean(-2, keepdims=True)
        return every.reshape(*last.shape[:-2], sizes.actions * 2 * sizes.heads)

    return (*hidden, (together(xp.asarray(weights)), together(xp.asarray(biases))))


def scaled(critics: Layers, sizes: Sizes, units: Units) -> Layers:
    """The same, whose outputs are the values themselves, not in units of the spread."""
    *hidden, (weights, biases) = centred(critics, sizes)
    size, mean = (module_of(each).tile(each, sizes.actions) for each in (units.q_size, units.q_mean))
    return (*hidden, (weights * along_last(size, 3), biases * along_last(size, 2) + along_last(mean, 2)))


def heads(layers: Layers, sizes: Sizes, z: AnyArray) -> AnyArray:
    """(K, n, A, 2 N): the outputs of `centred` or `scaled` layers."""
    out = networks.outputs(layers, z.clip(-FARTHEST, FARTHEST)[None])
    return out.reshape(out.shape[0], -1, sizes.actions, 2 * sizes.heads)


def bounded(units: Units, values: AnyArray) -> AnyArray:
    """Values (..., 2 N) within their range."""
    return values.clip(0, along_last(units.most, values.ndim))


def sums(rule: Rule, values: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Q and G (A, n) of values (n, A, 2 N)."""
    N, weights = len(rule.weights), rule.weights
    return (values[..., :N] @ weights).T, (values[..., N:] @ weights).T


def chosen(rule: Rule, values: AnyArray) -> tuple[AnyArray, AnyArray]:
    """(n, 2 N) and (n,): the values of the action that the rule chooses, and the action."""
    Q, G = sums(rule, values)
    ahead = HarmToGo(of_plan=True, events=True, tolerance=rule.tolerance, weights=(), cap=0.0)
    best = CHOICE.scored(Q, ahead.avoidable(G), rule.price).argmax(0)
    return values[module_of(Q).arange(len(best)), best], best


def imagined(
    found: Predicted,
    model: Layers,
    critics: Layers,
    sizes: Sizes,
    units: Units,
    rule: Rule,
    z: AnyArray,
    residuals: AnyArray,
    limit: AnyArray | None = None,
) -> AnyArray:
    """(E, n, C, A, 2 N): every action at z, in each member, then L - 1 steps of the rule: the mean over depths.

    R_j = sum_{i < j} gamma^i alive_i now_i + gamma^j alive_j V(y_j),    sum_j trust^(j - 1) R_j / sum_j trust^(j - 1)

    found       predictions at z (E, n, o) or (1, n, o)
    residuals   (L, E, n, C, o) or (L, E, 1, C, o), in predicted deviations
    limit       (E, n, A, m): the constraints of the first step in the model's units, where they are not learnt
    """
    xp, N = module_of(z), sizes.heads
    E, n, A, o = found.change.shape
    shape = (E, n, residuals.shape[3], A)
    costs = world.costs(units, found.g) if limit is None else world.costs_of(units, limit)
    now, ends = _outcome(world.reward(units, found), costs, found.ends, N)
    now, ends, y = now[:, :, None], ends[:, :, None], z[:, :, None, None]
    change, deviation = found.change[:, :, None], world.deviation(found)[:, :, None]
    nothing = xp.concatenate([xp.broadcast_to(units.nothing.reshape(1), (N,)), xp.zeros(N, np.float32)])
    gamma, nothing = along_last(rule.gamma, 5), along_last(nothing, 5)
    total, alive, value, weight, share = 0.0, 1.0, 0.0, 0.0, 1.0
    for depth, residual in enumerate(residuals, 1):
        y = world.arrive(units, y, change, residual[:, :, :, None] * deviation)
        total = total + alive * ((1 - gamma) * now + gamma * ends * nothing)
        alive = alive * gamma * (1 - ends)
        flat = y.reshape(-1, o)
        then, best = chosen(rule, bounded(units, heads(critics, sizes, flat).mean(0)))
        value = value + share * (total + alive * then.reshape(*shape, 2 * N))
        weight, share = weight + share, share * units.trust
        if depth < len(residuals):
            taken = (best[:, None] == along_last(xp.arange(A), 2)).astype(np.float32)
            after = world.predict_at(model, flat.reshape(E, -1, o), taken.reshape(E, -1, A))
            now, ends = _outcome(world.reward(units, after), world.costs(units, after.g), after.ends, N)
            each_of = (now, ends, after.change, world.deviation(after))
            now, ends, change, deviation = (each.reshape(*shape, -1) for each in each_of)
    return value / weight


def _outcome(reward: AnyArray, costs: AnyArray, ends: AnyArray, N: int) -> tuple[AnyArray, AnyArray]:
    """(..., 2 N) and (..., 1): what a step brings, for every head, and the probability that it is the last one."""
    xp = module_of(reward)
    each = [xp.broadcast_to(brought[..., None], (*reward.shape, N)) for brought in (reward, costs.sum(-1))]
    return xp.concatenate(each, -1), sigmoid(ends)[..., None]
