"""The units that agents learn in: rewards in [0, 1], as in the paper, and constraints in [-1, 1].

    r~ = (r - low) / (high - low)         low and high: the smallest and largest reward that an episode can observe
    g~_i = g_i / scale_i                  only where the problem has a `scale`; the sign of g decides safety and stays

Bonuses and prices are numbers in these units, so the unit of reward does not change what an agent does: an episode has
H steps, and H low is the same for every policy. All reported quantities (values, regret, violations, the columns
of a run) stay in the units of the user. This module is the only place that converts:

    problem.in_units      the problem as an agent sees it: settings are resolved on it, models are made for it
    problem.world.units   what the agent observes in one step, beside what is recorded

r~ is rounded to the digits that r carries, 12 at most: subtracting `low` cancels leading digits, and what is left of
1e-6 r + 5 differs from r by up to 4e-10, enough to break a tie between two actions.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from everystep.errors import EverystepError
from everystep.mdp.cmdp import Factored, FiniteCMDP
from everystep.mdp.world import AnyArray, Observed, World, at_step, can_follow

LARGEST = 1e100  # of a return: its square, for intervals over seeds, must be finite
DIGITS = 12  # decimals of a reward in units of the range
CONSTANT = 1e-12  # rewards that differ by less than this part of the largest |r| are one reward


class RewardRange(NamedTuple):
    """The range of rewards: r~ = (r - low) / span, rounded to `digits` decimals; None keeps every bit (r~ = r)."""

    low: float
    span: float
    digits: int | None

    @property
    def high(self) -> float:
        return self.low + self.span

    def scaled(self, reward: np.ndarray) -> np.ndarray:
        """Rewards in units of the range."""
        if self.digits is None:
            return reward
        with np.errstate(over="ignore", invalid="ignore"):  # of outcomes that cannot happen
            return np.asarray(np.round((reward - self.low) / self.span, self.digits))

    def scaled_sigma(self, sigma: float) -> float:
        """A standard deviation in units of the range."""
        return sigma if self.digits is None else float(f"{sigma / self.span:.{self.digits}g}")

    def scaled_cap(self, cap: float, horizon: int) -> float:
        """The highest return of an episode, in units of the range."""
        return cap if self.digits is None else round((cap - horizon * self.low) / self.span, 9)

    def highest(self, value: float, horizon: int) -> float:
        """The inverse of `scaled_cap`."""
        return value if self.digits is None else value * self.span + horizon * self.low


UNIT_RANGE = RewardRange(0.0, 1.0, None)


def reward_range(problem: FiniteCMDP) -> RewardRange:
    """The smallest and largest reward of the states that an episode can enter; as observed, but without normal noise.

    A constant reward is 0 in units: nothing depends on it.
    """
    world, here = problem.compressed, entered(problem)
    rewards = world.r[..., here]
    if world.reward_seen is not None:
        # Factors exclude rewards on arrival, so P is a table here.
        seen, possible = np.broadcast_arrays(world.reward_seen[..., here], np.asarray(world.P)[..., here] > 0)
        rewards = seen[possible]
    low, high = float(rewards.min()), float(rewards.max())
    largest = max(abs(low), abs(high))
    if not math.isfinite(largest):
        return UNIT_RANGE  # `FiniteCMDP.check` reports the entry
    if largest * problem.horizon > LARGEST:
        raise EverystepError(
            f"r has entries of {largest:.6g}, so returns over {problem.horizon} steps exceed {LARGEST:g}; "
            "give rewards in a larger unit."
        )
    span = high - low
    if (low, span) == (0.0, 1.0):
        return UNIT_RANGE
    if span <= CONSTANT * largest:
        return RewardRange(low, float(problem.noise.reward_sigma) or 1.0, DIGITS)
    return RewardRange(low, span, min(DIGITS, math.floor(15 - math.log10(largest / span))))


def entered(problem: FiniteCMDP) -> np.ndarray:
    """The states that an episode can enter, booleans (S,)."""
    from everystep.mdp.planner import start_distribution

    here = start_distribution(problem) > 0
    stationary = len(problem.P.phi if isinstance(problem.P, Factored) else problem.P.probabilities) == 1
    reached, latest = here.copy(), here
    for h in range(problem.horizon - 1):
        after = can_follow(at_step(problem.P, h), latest)
        latest = after & ~reached if stationary else after
        reached |= after
        if not latest.any():
            break
    return reached


def scaled_costs(g: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """g (m, ...) in units of its scale (m,); the sign never changes, even where the quotient is too small for it."""
    quotient = g / scale.reshape(-1, *(1,) * (g.ndim - 1))
    tiny = np.finfo(np.float64).tiny
    return np.where((g > 0) & (quotient < tiny), tiny, quotient)


def where_possible(P: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """What is seen on arrival, 0 at states that cannot follow at any step; the step axis of both leads."""
    return np.where((P > 0).any(0), seen, 0.0)


def observed(problem: FiniteCMDP, world: World) -> Observed | None:
    """What an agent observes in the world of a problem, in its units; None where those are the user's."""
    rewards, scale, seen = problem.reward_range, problem.scale, world.reward_seen
    if rewards.digits is None and scale is None:
        return None

    def costs(g: AnyArray | None) -> AnyArray | None:
        return g if scale is None or g is None else scaled_costs(np.moveaxis(g, 1, 0), scale).swapaxes(0, 1)

    return Observed(
        r=rewards.scaled(world.r),
        g=costs(world.g),
        reward_seen=None if seen is None else where_possible(np.asarray(world.P), rewards.scaled(seen)),
        cost_seen=costs(world.cost_seen),
        reward_sigma=None
        if world.reward_sigma is None
        else np.float64(rewards.scaled_sigma(float(world.reward_sigma))),
        cost_sigma=world.cost_sigma if scale is None or world.cost_sigma is None else world.cost_sigma / scale,
    )


def in_units(problem: FiniteCMDP) -> FiniteCMDP:
    """The problem as an agent sees it; the same problem where its units are the user's."""
    units = problem.world.units
    if units is None:
        return problem
    rewards, scale, noise = problem.reward_range, problem.scale, problem.noise
    costs = problem.cost_on_arrival
    sigma = np.asarray(noise.cost_sigma, float)
    seen = noise.reward_on_arrival
    scaled = copy.copy(problem)
    for name in ("compressed", "in_units", "dead_ends"):
        scaled.__dict__.pop(name, None)
    fields = {
        "r": rewards.scaled(problem.r),
        "g": problem.g if scale is None else scaled_costs(problem.g, scale),
        "noise": replace(
            noise,
            reward_on_arrival=None if seen is None else where_possible(problem.P.probabilities, rewards.scaled(seen)),
            cost_on_arrival=noise.cost_on_arrival if scale is None or costs is None else scaled_costs(costs, scale),
            reward_sigma=rewards.scaled_sigma(float(noise.reward_sigma)),
            cost_sigma=noise.cost_sigma if scale is None else sigma / scale,
        ),
        "known": problem.known
        if scale is None
        else replace(problem.known, threshold=np.asarray(problem.known.threshold) / scale),
        "scale": None,
        "world": problem.world._replace(**units._asdict(), units=None),
        "reward_range": UNIT_RANGE,
    }
    for name, value in fields.items():
        scaled.__dict__[name] = value
    return scaled
