"""The thermostat against a plain simulation of its rules; its dead ends by hand."""

from itertools import product

import numpy as np
import pytest
from helpers.problems import least_harm_and_best

import everystep as es
from everystep.mdp import planner


def by_name(problem):
    return {name: x for x, name in enumerate(problem.state_names)}


@pytest.mark.parametrize(("band", "gust"), [(9, 0.2), (2, 0.5), (5, 0.0), (1, 0.1)])
def test_every_turn_of_the_heater_does_what_a_simulated_hour_does(band, gust):
    problem = es.problems.thermostat(horizon=8, band=band, gust=gust, tariff=(1, 1, 3))
    temperatures = range(-3, band + 3)
    number = {state: x for x, state in enumerate(product(temperatures, range(5)))}
    assert (problem.states, problem.actions) == (len(number), 3)
    P, scale = problem.dense_P[0], max(3, 1 + (band - 1) // 2)
    for (degrees, heater), (a, turn) in product(number, enumerate((-1, 0, 1))):
        x, level = number[degrees, heater], min(max(heater + turn, 0), 4)
        expected, outside, inside = np.zeros(problem.states), 0.0, []
        for drift, chance in ((-1, gust), (0, 1 - 2 * gust), (1, gust)):
            if chance == 0:
                continue
            then = min(max(degrees + level - 2 + drift, -3), band + 2)
            expected[number[then, level]] += chance
            outside += chance * max(0 - then, then - (band - 1), 0)
            inside.append(min(then, band - 1 - then))
        np.testing.assert_allclose(P[x, a], expected, atol=1e-15)
        assert problem.g[0, 0, x, a] == pytest.approx((outside if min(inside) < 0 else -1 - min(inside)) / scale)
        np.testing.assert_allclose(problem.r[:, x, a], [-level * price for price in (1, 1, 3, 1, 1, 3, 1, 1)])


@pytest.mark.quick
def test_a_cold_room_with_the_heater_off_cannot_be_warm_in_an_hour():
    problem = es.problems.thermostat()
    C, V = least_harm_and_best(problem)
    at = by_name(problem)
    assert problem.states == 75
    assert problem.describe(int(problem.start[0])) == "20 degrees, heater at 2"
    assert C[problem.start[0]] == 0
    assert (problem.g[0, 0] > 0).all(1).sum() == 32
    assert C[at["18 degrees, heater at 0"]] > 0
    # 19.5 degrees, level 0: 19 (raised to 1) or 18.5, which is allowed, but then 18 (at 2, after a gust) and below.
    falling = at["19 degrees, heater at 0"]
    assert (problem.g[0, 0, falling] <= 0).any()
    assert C[falling] > 0
    assert V[problem.start[0]] == pytest.approx(-45.09002982761102)
    assert problem.stationary


def test_heating_before_the_price_rises_uses_the_room_as_a_store():
    problem = es.problems.thermostat(gust=0.0, tariff=[1] * 6 + [3] * 6)
    _, V = least_harm_and_best(problem)
    held = -2 * (12 * 1 + 12 * 3)  # level 2 all day
    assert V[problem.start[0]] == -60 > held
    policy = planner.solve(problem).policy
    x, warmest = int(problem.start[0]), 0
    for h in range(6):  # at the low price
        x = int(problem.P.states[x, policy[h, x], 0])
        warmest = max(warmest, x // 5 - 3)
    assert warmest == 8  # 22 degrees, the upper limit


def test_costs_of_the_thermostat_depend_on_the_mean_next_temperature_alone():
    problem = es.problems.thermostat()
    mean, g = problem.coordinates["next"].reshape(-1), problem.g.reshape(-1)
    for value in np.unique(mean):
        assert np.ptp(g[mean == value]) < 1e-12
