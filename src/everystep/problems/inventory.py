"""An inventory whose orders arrive later: orders placed today decide whether the stock lasts days later."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product

import numpy as np

from everystep.errors import EverystepError, listed, real_number, shown, whole_number
from everystep.mdp.cmdp import FiniteCMDP, Noise, Successors
from everystep.problems.registry import Comparison, register
from everystep.runtime import memory

DEMAND = (0.2, 0.5, 0.3)
LONGEST_DELAY = 20


@register("inventory", gym_id="everystep/Inventory-v0", compared=Comparison(episodes=2000))
def inventory(
    horizon: int = 20,
    capacity: int = 6,
    delay: int = 2,
    order: int = 2,
    demand: Sequence[float] = DEMAND,
    holding: float = 0.1,
) -> FiniteCMDP:
    """A warehouse that must neither run out nor overflow, though orders arrive two periods later.

    States      (stock, orders in transit): 0 to `capacity` units, and for each of the `delay` coming periods the 0 to
                `order` units that arrive in it; with delay 2, 7 x 3 x 3 = 63 states.
    Actions     the number of units to order, 0 to `order`; they arrive after `delay` periods.
    Transitions what is due arrives, as far as it fits; then customers ask for d units with probability demand[d], and
                receive them as far as there are any; orders in transit are one period closer.
    Reward      units sold - `holding` * units left in stock.
    Constraint  two, both decided by what is available, stock + arriving units. Stock-out: g_1 = P(demand exceeds it)
                where that is possible, else -1. Overflow: g_2 = 1 if it exceeds the capacity, else -1.
    Observed    sales; and a stock-out (1) or none (0) where one is possible, else -1. What customers did not receive is
                not seen in the next state: where the stock ends at 0, the observation is the mean of g_1 given that.
    Start       the stock that lasts until orders can arrive, and the mean demand in transit.
    Optimum     16.37 under the constraint, 17.664132727044 without it. 18 states have no safe action, and from 36
                of the 63 violations cannot be avoided; from the start they can.
    Origin      a classic of operations research, inventory control with lead time and lost sales; the numbers were
                chosen for this library.

    With delay >= 1 no order changes whether today's demand is met: with too little in stock and in transit every action
    is unsafe, so a limit on each single decision cannot be kept. With delay 0 an order arrives at once. The coordinate
    `available` is stock + arriving units.

    >>> stock = es.problems.inventory(delay=1)
    >>> stock.sizes, stock.dead_ends.states
    (Sizes(states=21, actions=3, successors=3, horizon=20, constraints=2), 6)
    """
    horizon, capacity = whole_number("horizon", horizon), whole_number("capacity", capacity)
    delay, order = whole_number("delay", delay, 0, LONGEST_DELAY), whole_number("order", order)
    chances, holding = _probabilities(demand), real_number("holding", holding, most=1e6)
    numbers = partial(_numbers, demands=len(chances))
    memory.check_problem(numbers, capacity=capacity, delay=delay, order=order)
    states = [(stock, transit) for stock in range(capacity + 1) for transit in product(range(order + 1), repeat=delay)]
    S, A, J = len(states), order + 1, len(chances)
    stock, due = np.array([each for each, _ in states]), np.array([each[0] if delay else 0 for _, each in states])
    actions = np.arange(A)
    available = stock[:, None] + (due[:, None] if delay else actions) + np.zeros((S, A), int)
    kept = available.clip(max=capacity)
    left = (kept[..., None] - np.arange(J)).clip(min=0)  # (S, A, J): the stock after each demand

    # The number of a state is that of its stock and transit in mixed radix: arriving units leave, a new order enters.
    later = (np.arange(S) % A**delay)[:, None] * A % A**delay + actions if delay else np.zeros((1, A), int)
    risk = np.array([chances[d + 1 :].sum() for d in range(J)])  # P(demand > d)
    short = np.where(kept < J - 1, risk[kept.clip(max=J - 1)], 0.0)
    # Where the stock ends at 0, either the demand was met exactly or not: P(not met | it was at least what was kept).
    at_least = np.array([chances[d:].sum() for d in range(J)])[kept.clip(max=J - 1)]
    unmet = np.divide(short, at_least, out=np.zeros_like(short), where=at_least > 0)
    seen = np.where((short > 0)[..., None], np.where(left == 0, unmet[..., None], 0.0), -1.0)
    over = np.where(available > capacity, 1.0, -1.0)
    earned = kept[..., None] - left - holding * left
    problem = FiniteCMDP(
        Successors(left * A**delay + later[..., None], np.broadcast_to(chances, (S, A, J))),
        earned @ chances,
        np.stack([np.where(short > 0, short, -1.0), over]),
        start=_start(capacity, delay, order, chances),
        horizon=horizon,
        noise=Noise(
            reward_on_arrival=earned, cost_on_arrival=np.stack([seen, np.broadcast_to(over[..., None], seen.shape)])
        ),
        name="inventory",
        state_names=tuple(_name(*each) for each in states),
        action_names=tuple(f"order {a}" for a in range(A)),
        coordinates={"available": available},
        kernel="categorical(on=available)",
    )
    problem.check()
    return problem


def _numbers(capacity: float, delay: float, order: float, demands: float) -> float:
    """Numbers of 8 bytes that an inventory takes while it is made and checked."""
    states = (capacity + 1) * (order + 1) ** delay
    return float(states * (order + 1) * (40 + 25 * demands + 6 * (order + 1) * demands))


def _probabilities(given: Sequence[float]) -> np.ndarray:
    values = listed("demand", given, 10**4)
    try:
        chances = np.array([real_number("demand", each, 0, 1) for each in values])
    except EverystepError:
        chances = np.zeros(0)
    if len(chances) < 1 or abs(chances.sum() - 1) > 1e-9:
        raise EverystepError(f"demand is {shown(given)}; give the probabilities of 0, 1, ... units, which sum to 1.")
    return np.asarray(chances / chances.sum())


def _start(capacity: int, delay: int, order: int, chances: np.ndarray) -> int:
    """The state with the mean demand, rounded, in transit for each period and the stock for the highest demand."""
    usual = min(order, round(float(chances @ np.arange(len(chances)))))
    most = int(np.flatnonzero(chances)[-1])
    stock = min(capacity, most + delay * (most - usual))
    return int(stock * (order + 1) ** delay + sum(usual * (order + 1) ** i for i in range(delay)))


def _name(stock: int, transit: tuple[int, ...]) -> str:
    return f"{stock} in stock" + (f", {' then '.join(map(str, transit))} in transit" if transit else "")
