"""The inventory against a plain simulation of its rules; its dead ends by hand."""

from itertools import product

import numpy as np
import pytest
from helpers.problems import least_harm_and_best

import everystep as es
from everystep.errors import EverystepError
from everystep.mdp import planner


def by_name(problem):
    return {name: x for x, name in enumerate(problem.state_names)}


def a_day(stock, transit, order, demand, capacity):
    """One period as the documentation has it: the stock, what is in transit, sales, a stock-out, an overflow."""
    arriving, transit = (transit[0], (*transit[1:], order)) if transit else (order, ())
    overflow = stock + arriving > capacity
    stock = min(stock + arriving, capacity)
    sold = min(stock, demand)
    return stock - sold, transit, sold, demand > stock, overflow


DEMANDS = {"usual": (0.2, 0.5, 0.3), "never none": (0.0, 0.25, 0.0, 0.75), "certain": (0.0, 1.0)}


@pytest.mark.parametrize("demand", list(DEMANDS.values()), ids=list(DEMANDS))
@pytest.mark.parametrize(("capacity", "delay", "order"), [(6, 2, 2), (3, 0, 3), (4, 1, 1), (2, 3, 1)])
def test_every_order_in_every_state_does_what_a_simulated_day_does(capacity, delay, order, demand):
    problem = es.problems.inventory(capacity=capacity, delay=delay, order=order, demand=demand, holding=0.5)
    states = list(product(range(capacity + 1), product(range(order + 1), repeat=delay)))
    number = {state: x for x, state in enumerate(states)}
    assert (problem.states, problem.actions) == (len(states), order + 1)
    P = problem.dense_P[0]
    for (stock, transit), a in product(states, range(order + 1)):
        x = number[stock, transit]
        days = [(chance, a_day(stock, transit, a, d, capacity)) for d, chance in enumerate(demand)]
        expected = np.zeros(problem.states)
        for chance, (left, later, *_) in days:
            expected[number[left, later]] += chance
        np.testing.assert_allclose(P[x, a], expected, atol=1e-15)
        assert problem.r[0, x, a] == pytest.approx(sum(p * (sold - 0.5 * left) for p, (left, _, sold, *_) in days))
        short = sum(chance * day[3] for chance, day in days)
        assert problem.g[0, 0, x, a] == pytest.approx(short if short > 0 else -1)
        assert problem.g[1, 0, x, a] == (1 if days[0][1][4] else -1)
        assert problem.coordinates["available"][x, a, 0] == stock + (transit[0] if delay else a)


@pytest.mark.quick
def test_an_order_comes_too_late_for_an_empty_warehouse():
    problem = es.problems.inventory()
    C, V = least_harm_and_best(problem)
    at = by_name(problem)
    assert problem.states == 63
    assert C[problem.start[0]] == 0
    assert problem.describe(int(problem.start[0])) == "4 in stock, 1 then 1 in transit"
    assert (problem.g[:, 0] > 0).all(2).sum(1).tolist() == [9, 9]  # fewer than two units available, more than six
    # Nothing comes for two periods. Today's demand is not met with 0.8; what comes then is still nothing: 0.8 again.
    assert C[at["0 in stock, 0 then 0 in transit"]] == pytest.approx(1.6)
    # Two units meet any demand of today. Tomorrow what is left of them must: 0.2 * 0 + 0.5 * 0.3 + 0.3 * 0.8.
    two = problem.g[0, 0, at["2 in stock, 0 then 0 in transit"]]
    assert (two == -1).all()
    assert C[at["2 in stock, 0 then 0 in transit"]] == pytest.approx(0.5 * 0.3 + 0.3 * 0.8)
    assert C[at["6 in stock, 2 then 0 in transit"]] == 1  # an overflow today, whatever is ordered
    assert V[problem.start[0]] == pytest.approx(16.37)


def test_without_delay_every_state_has_a_safe_action():
    problem = es.problems.inventory(delay=0)
    assert (problem.g <= 0).all((0, 1)).any(1).all()
    np.testing.assert_array_equal(least_harm_and_best(problem)[0], 0)


def test_a_sold_out_day_is_observed_as_the_chance_that_somebody_left_with_nothing():
    problem = es.problems.inventory()
    x = by_name(problem)["1 in stock, 0 then 0 in transit"]
    after = problem.P.states[x, 0, :2] // 9
    assert after.tolist() == [0, 1]
    np.testing.assert_allclose(problem.cost_on_arrival[0, 0, x, 0, :2], [0.3 / 0.8, 0])
    np.testing.assert_allclose(problem.reward_on_arrival[0, x, 0, :2], [1, -0.1])


@pytest.mark.parametrize("make", ["inventory", "thermostat"])
def test_the_planner_finds_the_least_harm_and_the_optimum_computed_here(make):
    problem = getattr(es.problems, make)()
    C, V = least_harm_and_best(problem)
    best = planner.solve(problem)
    np.testing.assert_allclose(best.C_1, C, atol=1e-12)
    np.testing.assert_allclose(best.V_1, V, atol=1e-12)
    free = planner.solve(problem, safe=False).value
    expected = {"inventory": (16.37, 17.664132727044386, 36), "thermostat": (-45.09002982761102, -1.0, 34)}[make]
    assert (best.value, free, (C > 0).sum()) == pytest.approx(expected)
    assert any("no safe action" in remark for remark in problem.check())


@pytest.mark.parametrize(
    ("make", "given", "sentence"),
    [
        ("inventory", {"capacity": 0}, r"^capacity is 0; give a whole number of at least 1\.$"),
        ("inventory", {"delay": -1}, r"^delay is -1; give a whole number of at least 0\.$"),
        ("inventory", {"delay": 21}, r"^delay is 21; give a whole number from 0 to 20\.$"),
        ("inventory", {"order": 1.5}, r"^order is 1\.5; give a whole number of at least 1\.$"),
        (
            "inventory",
            {"demand": [0.5, 0.4]},
            r"^demand is \[0\.5, 0\.4\]",
        ),
        ("inventory", {"demand": ["a"]}, r"^demand is \['a'\]; give the probabilities"),
        ("inventory", {"demand": [-0.5, 1.5]}, r"^demand is \[-0\.5, 1\.5\]; give the probabilities"),
        ("inventory", {"demand": 3}, r"^demand is 3; give a list\.$"),
        ("inventory", {"holding": -1}, r"^holding is -1; give a number from 0 to 1e\+06\.$"),
        ("inventory", {"delay": 20}, "^delay is 20: the problem would take .* of memory, and 1 GB are free"),
        ("inventory", {"capacity": 10**9}, r"^capacity is 1000000000: the problem would take .* of memory, and 1 GB"),
        ("thermostat", {"band": 0}, r"^band is 0; give a whole number of at least 1\.$"),
        ("thermostat", {"band": 100_000}, r"^band is 100000: the problem would take .* of memory, and 1 GB are free"),
        ("thermostat", {"gust": 0.6}, r"^gust is 0\.6; give a number from 0 to 0\.5\.$"),
        (
            "thermostat",
            {"horizon": 10**8, "tariff": (1, 2)},
            r"^horizon is 100000000: the problem would take .* of mem",
        ),
        ("thermostat", {"tariff": []}, r"^tariff is empty; give the price of each hour\.$"),
        ("thermostat", {"tariff": [1, -1]}, r"^tariff is -1; give a number from 0 to 1e\+06\.$"),
        ("thermostat", {"tariff": 3}, r"^tariff is 3; give a list\.$"),
    ],
)
def test_numbers_that_make_no_sense_are_refused_in_one_sentence(make, given, sentence, monkeypatch):
    monkeypatch.setattr("everystep.runtime.memory.free_memory", lambda: 1e9)
    with pytest.raises(EverystepError, match=sentence):
        getattr(es.problems, make)(**given)
