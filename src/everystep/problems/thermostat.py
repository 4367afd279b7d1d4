"""A heated room: the heater is slow to change, the temperature has limits, and energy has a price."""

from __future__ import annotations

import numpy as np

from everystep.errors import real_number, whole_number
from everystep.mdp import memory
from everystep.mdp.cmdp import FiniteCMDP, Noise, Successors
from everystep.problems.registry import Comparison, register

ACTIONS = ("lower", "keep", "raise")
LOSS = 2  # half degrees that the room loses in an hour; the heater has levels 0 to 2 * LOSS
COLDEST = 18.0  # degrees, the lower limit
BEYOND = 3  # half degrees outside the limits that the room can reach
CHEAP, DEAR = 1.0, 3.0  # the price of one level for an hour
SHIFT = 6  # hours of each tariff


@register("thermostat", gym_id="everystep/Thermostat-v0", compared=Comparison(episodes=2000))
def thermostat(horizon: int = 24, band: int = 9, gust: float = 0.2) -> FiniteCMDP:
    """A room to be kept within limits by a heater that changes by one level per hour, at a tariff.

    States      (temperature, heater level): half degrees from 3 below the lower limit of 18 degrees to 3 above the
                upper one, and levels 0 to 4. There are `band` temperatures within the limits: 18, 18.5, ..., 22; 15
                temperatures in all and 75 states.
    Actions     lower, keep or raise the level by one; below 0 and above 4 it stays.
    Transitions the temperature changes by the new level - 2 half degrees, and by one more or less with probability
                `gust` each; it stays within the temperatures of the states.
    Reward      - price * new level: the price is 1 in the first six hours, 3 in the next six, and so on.
    Constraint  g = mean distance of the next temperature from the limits, where it may leave them; otherwise -(1 + the
                least possible distance to a limit), in half degrees. Both are divided by the larger of 3 and the
                largest distance within the limits + 1.
    Observed    the distance at the next temperature (0 if it is within the limits), where it may leave them.
    Start       the middle temperature at level 2, which holds it.
    Optimum     -73.464697209571 under the constraint, -1 without it (the heater is turned off). 32 states have no safe
                action, and from 34 of the 75 violations cannot be avoided; from the start they can.
    Origin      thermal storage under a tariff is a common example of control with constraints; the numbers were chosen
                for this library.

    A cold room with the heater off cannot be warm in an hour: in those states no action is safe. It pays to heat before
    the price rises, which leads towards the upper limit. The coordinate `next` is the mean next temperature, in half
    degrees above 18; g depends on it alone.
    """
    horizon, band = whole_number("horizon", horizon), whole_number("band", band)
    gust = real_number("gust", gust, most=0.5)
    n, levels = band + 2 * BEYOND, 2 * LOSS + 1
    of_rewards = lambda band, horizon: (band + 2 * BEYOND) * levels * len(ACTIONS) * (5 * horizon + 90)
    memory.check_problem({"band": band, "horizon": horizon}, of_rewards, {"band": 9, "horizon": 24})
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
    price = np.where(np.arange(horizon) // SHIFT % 2 == 0, CHEAP, DEAR)
    # Beyond the range two drifts may lead to the same temperature; the distance from the limits is then the same, too.
    problem = FiniteCMDP(
        Successors((after + BEYOND) * levels + level[..., None], np.broadcast_to(chances, after.shape)),
        -price[:, None, None] * level,
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
