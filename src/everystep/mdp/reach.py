"""Which states an episode can be in at each step: a state that no policy can reach by step h needs no plan for step h.

States are put in the order in which they can first be entered. At step h an episode is then in one of the first n_h of
them under every policy, and a plan for step h reads V_{h+1} at the first n_{h+1} only. Steps are grouped into a
few `Span`s, each with one number of states, because every span is compiled separately.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from everystep.mdp.world import AnyArray, Observed, World, at_step, can_follow

if TYPE_CHECKING:
    from everystep.mdp.cmdp import FiniteCMDP

MOST_SPANS = 4
SPAN_COST = 80  # of one more span, in (h, x): its loop costs as much, and a second of compiling
WORTH = 0.8  # planning in spans pays below this part of all (h, x)


class Span(NamedTuple):
    """Steps first, ..., stop - 1 (from 0), in which an episode can only be in the first `states` states."""

    first: int
    stop: int
    states: int


class Reach(NamedTuple):
    """states[i] is the state in place i of the order, place[x] the place of state x, both (S,)."""

    states: AnyArray
    place: AnyArray


def first_steps(problem: FiniteCMDP) -> np.ndarray:
    """The first step (from 0) at which an episode can be in each state, (S,); H + 1 where it never can."""
    from everystep.mdp.planner import start_distribution

    stationary = problem.stationary
    reached = start_distribution(problem) > 0
    first = np.where(reached, 0, problem.horizon + 1)
    latest = reached
    for h in range(problem.horizon):
        after = can_follow(at_step(problem.P, h), latest if stationary else reached)
        latest = after & ~reached
        first[latest] = h + 1
        reached = reached | after
        if stationary and not latest.any():
            break
    return first


def reach(problem: FiniteCMDP) -> tuple[Reach, tuple[Span, ...]] | None:
    """The order of states and the spans of steps; None where planning in spans would hardly save anything."""
    H, S = problem.horizon, problem.states
    first = first_steps(problem)
    counts = np.bincount(first, minlength=H + 2)[: H + 1].cumsum()  # n_0, ..., n_H
    spans = best_spans(np.array([_rounded(int(n), S) for n in counts[1:]]))
    if sum((span.stop - span.first) * span.states for span in spans) > WORTH * H * S:
        return None
    order = np.argsort(first, kind="stable").astype(np.int32)
    place = np.empty(S, np.int32)
    place[order] = np.arange(S, dtype=np.int32)
    return Reach(order, place), spans


def _rounded(states: int, most: int) -> int:
    """A few states more, where compiled loops are faster: a multiple of 4 that is not a power of 2."""
    rounded = -(-states // 4) * 4
    return min(rounded + 4 * (rounded & (rounded - 1) == 0), most)


def best_spans(needed: np.ndarray) -> tuple[Span, ...]:
    """At most `MOST_SPANS` spans with the least number of planned states, where step h needs at least needed[h]."""
    H = len(needed)
    # cost[s, stop]: the least cost of the steps before `stop` in s spans; cut[s, stop]: where the last of them begins
    cost, cut = np.full((MOST_SPANS + 1, H + 1), np.inf), np.zeros((MOST_SPANS + 1, H + 1), int)
    cost[0, 0] = 0
    for spans in range(1, MOST_SPANS + 1):
        for stop in range(1, H + 1):
            total = cost[spans - 1, :stop] + (stop - np.arange(stop)) * needed[stop - 1] + SPAN_COST
            cut[spans, stop] = int(total.argmin())
            cost[spans, stop] = total[cut[spans, stop]]
    left, end, chosen = int(cost[:, H].argmin()), H, []
    while end:
        begin = int(cut[left, end])
        chosen.append(Span(begin, end, int(needed[end - 1])))
        left, end = left - 1, begin
    return tuple(reversed(chosen))


# --- arrays in that order ---------------------------------------------------------------------------------------------
def in_order(world: World, reach: Reach) -> World:
    """A world with successor lists, its states in the order of `reach`; `start` stays. For NumPy and JAX arrays."""

    def by(array: AnyArray | None) -> AnyArray | None:
        return None if array is None else array[..., reach.states]

    def seen(of: World | Observed) -> dict[str, AnyArray | None]:
        return {name: by(getattr(of, name)) for name in ("r", "g", "reward_seen", "cost_seen")}

    return world._replace(
        successors=reach.place[by(world.successors)],
        P=by(world.P),
        cumulative=by(world.cumulative),
        **seen(world),
        units=None if world.units is None else world.units._replace(**seen(world.units)),
    )


def first_states(world: World, states: int) -> World:
    """The first states of a world; only states that cannot be reached yet have successors beyond them."""
    few: Callable[[AnyArray], AnyArray] = lambda array: array[..., :states]
    return world._replace(successors=few(world.successors), P=few(world.P), r=few(world.r), g=few(world.g))
