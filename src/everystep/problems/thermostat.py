"""A heated room: the heater is slow to change, the temperature has limits, and energy has a price."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from everystep.errors import EverystepError, listed, real_number, whole_number
from everystep.mdp.cmdp import FiniteCMDP, Noise, Successors
from everystep.problems.registry import Comparison, register
from everystep.runtime import memory

ACTIONS = ("lower", "keep", "raise")
LOSS = 2  # half degrees that the room loses in an hour; the heater has levels 0 to 2 * LOSS
COLDEST = 18.0  # degrees, the lower limit
DEAREST = 1e6
BEYOND = 3  # half degrees outside the limits that the room can reach
WIDEST = 100_000  # half degrees between the limits


@register("thermostat", gym_id="everystep/Thermostat-v0", compared=Comparison(episodes=2000))
def thermostat(horizon: int = 24, band: int = 9, gust: float = 0.2, tariff: Sequence[float] = (1.0,)) -> FiniteCMDP:
    """A room to be kept within limits by a heater that changes by one level per hour, as cheaply as possible.

    States      (temperature, heater level): half degrees from 3 below the lower limit of 18 degrees to 3 above the
                upper one, and levels 0 to 4. There are `band` temperatures within the limits: 18, 18.5, ..., 22; 15
                temperatures in all and 75 states.
    Actions     lower, keep or raise the level by one; below 0 and above 4 it stays.
    Transitions the temperature changes by the new level - 2 half degrees, and by one more or less with probability
                `gust` each; it stays within the temperatures of the states.
    Reward      - price * new level. The price is `tariff`, hour by hour and from its beginning again: 1 by default.
    Constraint  g = mean distance of the next temperature from the limits, where it may leave them; otherwise -(1 + the
                least possible distance to a limit), in half degrees. Both are divided by the larger of 3 and the
                largest distance within the limits + 1.
    Observed    the distance at the next temperature (0 if it is within the limits), where it may leave them.
    Start       the middle temperature at level 2, which holds it.
    Optimum     -45.090029827611 under the constraint, -1 without it (the heater is turned off). 32 states have no safe
                action, and from 34 of the 75 violations cannot be avoided; from the start they can.
    Origin      thermal storage under a tariff is a common example of control with constraints; the numbers were chosen
                for this library.

    A cold room with the heater off cannot be warm in an hour: in those states no action is safe. At a constant price
    the optimum is near the lower limit. With tariff=(1, 1, 1, 3, 3, 3) it pays to heat before the price rises, towards
    the upper limit; rewards then depend on the step, so that values are not shared over steps and learning takes
    longer. The coordinate `next` is the mean next temperature, in half degrees above 18; g depends on it alone.

    >>> room = es.problems.thermostat()
    >>> room.states, round(es.planner.solve(room).value, 2)
    (75, -45.09)
    """
    horizon, band = whole_number("horizon", horizon), whole_number("band", band, at_most=WIDEST)
    gust = real_number("gust", gust, most=0.5)
    prices = np.array([real_number("tariff", each, most=DEAREST) for each in listed("tariff", tariff)])
    if len(prices) == 0:
        raise EverystepError("tariff is empty; give the price of each hour.")
    n, levels = band + 2 * BEYOND, 2 * LOSS + 1
    pairs: Callable[[int], int] = lambda band: (band + 2 * BEYOND) * levels * len(ACTIONS)
    if len(prices) == 1:
        memory.check_problem(lambda band: 100 * pairs(band), band=band)
    else:
        memory.check_problem(lambda band, horizon: (5 * horizon + 90) * pairs(band), band=band, horizon=horizon)
    above = np.repeat(np.arange(n) - BEYOND, levels)  # half degrees above the lower limit
    level = (np.tile(np.arange(levels), n)[:, None] + np.arange(len(ACTIONS)) - 1).clip(0, levels - 1)
    mean = above[:, None] + level - LOSS
    drifts, chances = np.array([-1, 0, 1]), np.array([gust, 1 - 2 * gust, gust])
    after = (mean[..., None] + drifts).clip(-BEYOND, band - 1 + BEYOND)  # (S, A, 3)
    outside = np.maximum(-after, after - (band - 1)).clip(min=0)
    inside = np.minimum(after, band - 1 - after).clip(min=0)
    possible = chances > 0
    scale = max(BEYOND, 1 + (band - 1) // 2)
    risky = (outside[..., possible] > 0).any(-1)
    safe = -(1 + inside[..., possible].min(-1)) / scale
    # Beyond the range two drifts may lead to the same temperature; the distance from the limits is then the same, too.
    problem = FiniteCMDP(
        Successors((after + BEYOND) * levels + level[..., None], np.broadcast_to(chances, after.shape)),
        -prices[0] * level if len(prices) == 1 else -prices[np.arange(horizon) % len(prices), None, None] * level,
        np.where(risky, outside @ chances / scale, safe),
        start=(BEYOND + (band - 1) // 2) * levels + LOSS,
        horizon=horizon,
        noise=Noise(cost_on_arrival=np.where(risky[..., None], outside / scale, safe[..., None])),
        name="thermostat",
        state_names=tuple(
            f"{COLDEST + half / 2:g} degrees, heater at {x % levels}" for x, half in enumerate(above.tolist())
        ),
        action_names=ACTIONS,
        coordinates={"next": mean},
        kernel="rbf(2, on=next)",
    )
    problem.check()
    return problem
