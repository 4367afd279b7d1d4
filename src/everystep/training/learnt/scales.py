"""Units of everything that networks see: chosen from what was seen, and chosen again as data grows.

    z = (x - center) / size                 an observation; a coordinate that never varied has size 1
    (y - x) / change                        a change of the observation, in usual changes: the deviation without jumps
    (r - reward_mean) / reward_size         a reward, and likewise a constraint g
    (r - reward_low) / (reward_high - reward_low) in [0, 1]         a reward as critics see it
    max(g, 0) / cost_size in [0, 1]                                 the cost of a step as critics see it
    (target - q_mean) / q_size                                      a target of the critics, in units of its own spread

A constraint with at most two values is a probability; coordinates with few values are snapped to them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from everystep.mdp.world import AnyArray
from everystep.training.learnt import networks
from everystep.training.learnt.networks import Layers
from everystep.training.learnt.rows import Rows

FEW_VALUES = 8  # of a coordinate that is snapped to them
ROUNDING, DIGITS = 1e-7, 6  # a coordinate that varies by less than this share of its size is constant
TAIL = 0.02  # the share of changes at each end that may be jumps
LARGEST_INPUT = 1e6  # of an observation in units; networks clip much earlier
MOST_FACTOR = 4.0  # by which a unit may change at once


class Units(NamedTuple):
    """What imagined steps take, in 32-bit numbers; observations and their limits in units.

    step (o,)              one usual change
    low, high (o,)         limits of an imagined observation
    values (o, V), discrete (o,)    the values of coordinates that have few
    reward, cost (m,)      a model's output to [0, 1]: factor and offset
    two (m,)               constraints with two values, whose output is the logit of the higher one;
    two_low, two_high      the costs of both
    nothing                the reward 0 in [0, 1]
    q_mean, q_size, most (2 N,)     spread and largest value of critics
    trust ()               of a further imagined step: 1 less its error, relative to the spread of observations
    """

    step: AnyArray
    low: AnyArray
    high: AnyArray
    values: AnyArray
    discrete: AnyArray
    reward_factor: AnyArray
    reward_offset: AnyArray
    cost_factor: AnyArray
    cost_offset: AnyArray
    two: AnyArray
    two_low: AnyArray
    two_high: AnyArray
    nothing: AnyArray
    q_mean: AnyArray
    q_size: AnyArray
    most: AnyArray
    trust: AnyArray


@dataclass(frozen=True)
class Scales:
    """See the module."""

    center: np.ndarray
    size: np.ndarray
    change: np.ndarray
    low: np.ndarray
    high: np.ndarray
    values: np.ndarray
    discrete: np.ndarray
    reward_mean: np.ndarray
    reward_size: np.ndarray
    reward_low: np.ndarray
    reward_high: np.ndarray
    g_mean: np.ndarray
    g_size: np.ndarray
    cost_size: np.ndarray
    two: np.ndarray
    g_low: np.ndarray
    g_high: np.ndarray
    q_mean: np.ndarray
    q_size: np.ndarray
    trust: np.ndarray

    @classmethod
    def blank(cls, coordinates: int, constraints: int, heads: int) -> Scales:
        """Before anything was seen."""
        o, m = coordinates, constraints
        zeros, ones, number = np.zeros, np.ones, np.asarray
        return cls(
            center=zeros(o), size=ones(o), change=ones(o), low=-ones(o), high=ones(o),
            values=zeros((o, FEW_VALUES)), discrete=zeros(o, bool),
            reward_mean=number(0.0), reward_size=number(1.0), reward_low=number(0.0), reward_high=number(1.0),
            g_mean=zeros(m), g_size=ones(m), cost_size=number(1.0), two=zeros(m, bool), g_low=zeros(m),
            g_high=zeros(m), q_mean=np.r_[np.full(heads, 0.5), zeros(heads)], q_size=np.full(2 * heads, 0.1),
            trust=number(0.0),
        )  # fmt: skip

    def refreshed(self, rows: Rows, declared: tuple[float, float] | None) -> Scales:
        """By all rows; critics keep their units. `declared` is a range of rewards that the user gave."""
        x, y, r, g = (rows[name] for name in ("x", "y", "r", "g"))
        every, change = np.concatenate([x, y]), y - x
        low, high = every.min(0), every.max(0)
        span = high - low
        span = np.where(span > ROUNDING * np.maximum(np.abs(low), np.abs(high)), span, 0.0)
        known = np.where(span > 0, np.round((every - low) / np.where(span > 0, span, 1.0), DIGITS), 0.0)
        listed = [low[j] + span[j] * np.unique(known[:, j]) for j in range(len(low))]
        discrete = np.array([len(each) <= FEW_VALUES for each in listed])
        values = [
            np.resize(each, FEW_VALUES) if few else np.zeros(FEW_VALUES)
            for each, few in zip(listed, discrete, strict=True)
        ]
        least, most = declared or (min(r.min(), 0.0), max(r.max(), 0.0))
        most = most if most > least else least + 1.0
        size = np.abs(g).max()
        size = size if size > 0 else 1.0
        spread = np.where(span > 0, np.maximum(usual_change(change), 1e-3 * span), 1.0)
        return replace(
            self,
            center=every.mean(0),
            size=np.where(span > 0, np.maximum(every.std(0), 0.02 * span), 1.0),
            change=spread,
            low=low - 0.1 * span,
            high=high + 0.1 * span,
            values=np.array(values),
            discrete=discrete,
            reward_mean=np.asarray(r.mean()),
            reward_size=np.asarray(max(r.std(), 0.01 * (most - least))),
            reward_low=np.asarray(float(least)),
            reward_high=np.asarray(float(most)),
            g_mean=g.mean(0),
            g_size=np.maximum(g.std(0), 0.05 * size),
            cost_size=np.asarray(size),
            two=np.array([len(np.unique(column)) <= 2 for column in g.T]),
            g_low=g.min(0),
            g_high=g.max(0),
            trust=np.asarray(trusted(rows["residual"], np.where(span > 0, every.std(0), 0.0))),
        )

    def with_spread(self, mean: np.ndarray, size: np.ndarray) -> Scales:
        """Other units of critics; harm keeps its zero."""
        heads = len(mean) // 2
        size = np.maximum(size.clip(self.q_size / MOST_FACTOR, self.q_size * MOST_FACTOR), 1e-3)
        return replace(self, q_mean=np.r_[mean[:heads], np.zeros(heads)], q_size=size)

    @property
    def usable(self) -> bool:
        """Whether all sizes are positive, and no range is upside down, as `refreshed` chooses them."""
        sizes = (self.size, self.change, self.reward_size, self.g_size, self.cost_size, self.q_size)
        ranges = ((self.low, self.high), (self.g_low, self.g_high))
        rightly = all((low <= high).all() for low, high in ranges) and bool(self.reward_low < self.reward_high)
        return rightly and all((each > 0).all() for each in sizes)

    # --- to units ----------------------------------------------------------------------------------------------------
    def inputs(self, x: np.ndarray) -> np.ndarray:
        return _single((x - self.center) / self.size)

    def observations(self, z: np.ndarray) -> np.ndarray:
        """Back from units."""
        return np.asarray(z * self.size + self.center)

    def changes(self, change: np.ndarray) -> np.ndarray:
        return _single(change / self.change)

    def rewards(self, r: np.ndarray) -> np.ndarray:
        return _single((r - self.reward_mean) / self.reward_size)

    def targets(self, g: np.ndarray) -> np.ndarray:
        """What the model learns of constraints (..., m): whether it is the higher of two values, or its units."""
        higher = g > (self.g_low + self.g_high) / 2
        return _single(np.where(self.two, higher, (g - self.g_mean) / self.g_size))

    @property
    def units(self) -> Units:
        span, S, m = self.reward_high - self.reward_low, self.cost_size, len(self.two)
        heads = len(self.q_mean) // 2
        found = Units(
            step=self.change / self.size,
            low=(self.low - self.center) / self.size,
            high=(self.high - self.center) / self.size,
            values=(self.values - self.center[:, None]) / self.size[:, None],
            discrete=self.discrete,
            reward_factor=self.reward_size / span,
            reward_offset=(self.reward_mean - self.reward_low) / span,
            cost_factor=self.g_size / S,
            cost_offset=self.g_mean / S,
            two=self.two,
            two_low=np.maximum(self.g_low, 0) / S,
            two_high=np.maximum(self.g_high, 0) / S,
            nothing=-self.reward_low / span,
            q_mean=self.q_mean,
            q_size=self.q_size,
            most=np.r_[np.ones(heads), np.full(heads, float(m))],
            trust=self.trust,
        )
        return Units(*(each if each.dtype == bool else np.asarray(each, np.float32) for each in found))

    # --- networks in other units -------------------------------------------------------------------------------------
    def carried_inputs(self, layers: Layers, new: Scales) -> Layers:
        """Networks of observations in these units, as the same functions of observations in new ones."""
        factor = _bounded(new.size / self.size)
        return networks.with_inputs(layers, factor, ((new.center - self.center) / self.size).clip(-4, 4))

    def carried_world(self, world: Layers, new: Scales) -> Layers:
        """The model, with inputs and predictions in new units. What becomes a probability, or ceases to be, is new."""
        o, m = len(self.center), len(self.two)
        kept, k = self.two == new.two, o + 1
        factor, offset = np.ones(2 * k + 1 + m), np.zeros(2 * k + 1 + m)
        factor[:k] = _bounded(np.r_[self.change / new.change, self.reward_size / new.reward_size])
        offset[o] = (self.reward_mean - new.reward_mean) / new.reward_size
        offset[k : 2 * k] = 2 * np.log(factor[:k])  # of log variances
        factor[2 * k + 1 :] = np.where(kept, np.where(new.two, 1.0, _bounded(self.g_size / new.g_size)), 0.0)
        offset[2 * k + 1 :] = np.where(kept & ~new.two, (self.g_mean - new.g_mean) / new.g_size, 0.0)
        offset = offset.clip(-MOST_FACTOR, MOST_FACTOR)
        return networks.with_outputs(self.carried_inputs(world, new), factor, offset)

    def carried_critics(self, critics: Layers, new: Scales) -> Layers:
        """Critics, with inputs and values in new units."""
        rows = critics[-1][1].shape[-1] // len(self.q_mean)  # the value, and the advantage of each action
        offset = np.zeros((rows, len(self.q_mean)))
        offset[0] = (self.q_mean - new.q_mean) / new.q_size
        factor = np.tile(self.q_size / new.q_size, rows)
        return networks.with_outputs(self.carried_inputs(critics, new), factor, offset.reshape(-1))


def usual_change(change: np.ndarray) -> np.ndarray:
    """(o,): the deviation of changes less the tails, where jumps are; at least a fifth of the deviation with them."""
    low, high = np.quantile(change, (TAIL, 1 - TAIL), axis=0)
    return np.asarray(np.maximum(change.clip(low, high).std(0), change.std(0) / 5))


def trusted(residual: np.ndarray, size: np.ndarray) -> float:
    """1 - median_j min(RMS residual_j / size_j, 1) over coordinates that vary, in the newer half of all rows."""
    error = np.sqrt((residual[len(residual) // 2 :] ** 2).mean(0))[size > 0] / size[size > 0]
    return float(1 - np.median(error.clip(0, 1))) if len(error) else 1.0


def _bounded(factor: np.ndarray) -> np.ndarray:
    return np.asarray(np.clip(factor, 1 / MOST_FACTOR, MOST_FACTOR))


def _single(array: np.ndarray) -> np.ndarray:
    """In 32-bit numbers."""
    return np.asarray(array.clip(-LARGEST_INPUT, LARGEST_INPUT).astype(np.float32))
