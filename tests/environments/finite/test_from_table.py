"""Environments' tables as problems."""

import numpy as np
import pytest

import everystep as es
from everystep.errors import EverystepError
from everystep.mdp import planner

pytestmark = pytest.mark.quick
gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is not installed: environments are not tested")
TAXI = max(name for name in gymnasium.registry if name.startswith("Taxi-v"))
CLIFF = next(name for name in ("CliffWalking-v1", "CliffWalking-v0") if name in gymnasium.registry)


def optimum(table, start, horizon, unsafe=lambda x, a: False):
    """The optimum straight from a table as gymnasium publishes it: early ends are early ends here."""
    V = np.zeros(len(table))
    for _ in range(horizon):
        V = np.array(
            [
                max(
                    sum(p * (r + (0 if end else V[y])) for p, y, r, end in table[x][a])
                    for a in table[x]
                    if not unsafe(x, a)
                )
                for x in range(len(table))
            ]
        )
    return start @ V


def chance_of(table, x, a, what):
    return sum(line[0] for line in table[x][a] if what(line))


@pytest.mark.parametrize("settings", [{}, {"map_name": "8x8"}, {"is_slippery": False}, {"success_rate": 0.8}])
def test_gymnasiums_lake_becomes_a_problem_with_the_same_optima(settings):
    env = gymnasium.make("FrozenLake-v1", **settings).unwrapped
    problem = es.gym.from_toy_text(env, horizon=30)
    holes = (env.desc.reshape(-1) == b"H").tolist()
    falls = lambda x, a: not holes[x] and chance_of(env.P, x, a, lambda line: holes[line[1]]) > 0.5
    start = env.initial_state_distrib
    assert planner.solve(problem, safe=False).value == pytest.approx(optimum(env.P, start, 30), abs=1e-12)
    assert planner.solve(problem).value == pytest.approx(optimum(env.P, start, 30, falls), abs=1e-12)
    assert problem.grid.rows == tuple("".join(row) for row in env.desc.astype(str))


def test_the_holes_of_a_lake_are_its_constraint():
    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    problem = es.gym.from_toy_text(env, horizon=10)
    assert problem.g[0, 0, 1].tolist() == [-1, 1, -1, -1]  # the hole at row 2, column 2 is below cell 1
    assert (problem.g[0, 0, 5] == -1).all()
    assert problem.dense_P[0, 5, :, 5].tolist() == [1, 1, 1, 1]
    assert (problem.r[0, [5, 15]] == 0).all()


def test_tolerance_is_the_allowed_probability_of_a_fall():
    env = gymnasium.make("FrozenLake-v1")
    into_a_hole = lambda line: line[1] in (5, 7, 11, 12)
    falls = np.array([[chance_of(env.unwrapped.P, x, a, into_a_hole) for a in range(4)] for x in (0, 4, 6, 10)])
    for tolerance in (0.4, 0.5, 0.8):
        g = es.gym.from_toy_text(env, horizon=5, tolerance=tolerance).g[0, 0, [0, 4, 6, 10]]
        assert ((g > 0) == (falls > tolerance)).all()
        assert np.abs(g).max() <= 1
    strict = es.gym.from_toy_text(env, horizon=5, tolerance=0.2)
    assert "1 state has no safe action (the cell in row 2, column 3)" in strict.check()[0]


def test_what_is_seen_in_the_problem_is_what_happens_in_the_lake():
    env = es.gym.make_env(es.gym.from_toy_text(gymnasium.make("FrozenLake-v1", is_slippery=False), horizon=6))
    env.reset(seed=0)
    down, right = 1, 2
    seen = [env.step(action)[:2] + (env._now.cost[0],) for action in (right, down, down)]
    assert seen == [(1, 0, -1), (5, 0, 1), (5, 0, -1)]  # into the hole, and there it stays without further violations


@pytest.mark.parametrize("slippery", [False, True])
def test_the_cliff_becomes_a_problem(slippery):
    """Slipping, one action may lead to the start both by the cliff and by standing still: means are kept."""
    env = gymnasium.make(CLIFF, is_slippery=slippery).unwrapped
    cliff = lambda obs, action, obs_next, info: info["reward"] <= -100 or -1
    problem = es.gym.from_toy_text(env, horizon=25, constraint=cliff)
    falls = lambda x, a: x not in range(37, 48) and chance_of(env.P, x, a, lambda line: line[2] <= -100) > 0.5
    start = env.initial_state_distrib
    assert planner.solve(problem).value == pytest.approx(optimum(env.P, start, 25, falls))
    assert planner.solve(problem, safe=False).value == pytest.approx(optimum(env.P, start, 25))
    assert slippery or planner.solve(problem).value == -13


def test_the_taxi_becomes_a_problem_with_two_constraints():
    env = gymnasium.make(TAXI).unwrapped
    rules = lambda obs, action, obs_next, info: [1.0 if info["reward"] == -10 else -1.0, -0.5]
    problem = es.gym.from_toy_text(env, horizon=20, constraint=rules)
    assert (problem.states, problem.constraints) == (500, 2)
    assert planner.solve(problem).value == pytest.approx(optimum(env.P, env.initial_state_distrib, 20))


class Tabular:
    """A custom environment that is only a table."""

    def __init__(self, P, **more):
        self.P = P
        vars(self).update(more)


SAFE = lambda obs, action, obs_next, info: -1.0
GOOD = {0: {0: [(1.0, 1, 1.0, True)]}, 1: {0: [(1.0, 1, 0.0, True)]}}


def test_a_custom_table_needs_only_a_start():
    problem = es.gym.from_toy_text(Tabular(GOOD), horizon=3, constraint=SAFE, start=0)
    assert planner.solve(problem).value == 1


@pytest.mark.parametrize(
    ("env", "more", "message"),
    [
        (object(), {}, r"^object publishes no table P .* with es\.train\.$"),
        (Tabular({0: {0: []}, 1: {}}), {}, r"^the table P of Tabular is incomplete"),
        (Tabular({0: {0: [(1.0, 2, 0.0, False)]}}), {}, r"^P\[0\]\[0\] has the outcome \(1\.0, 2, 0\.0, False\)"),
        (Tabular({0: {0: [(1.0, 0)]}}), {}, r"^P\[0\]\[0\] has the outcome"),
        (Tabular(GOOD), {"start": None}, r"^Tabular has no initial_state_distrib; give start="),
        (Tabular(GOOD), {"start": 2}, r"^start is 2; give a state from 0 to 1"),
        (Tabular(GOOD), {"start": 1}, r"^state 1 ends an episode on one arrival and not on another"),
        (Tabular(GOOD), {"constraint": None}, r"has no map with holes; give constraint="),
        (Tabular(GOOD), {"constraint": 3}, r"^constraint is 3; give a function"),
        (Tabular(GOOD), {"constraint": lambda *_: np.nan}, r"^the constraint function returned nan at observation 0"),
        (Tabular(GOOD), {"constraint": lambda *_: 1 / 0}, r"^the constraint function raised ZeroDivisionError"),
        (Tabular(GOOD), {"constraint": lambda *_: 7}, r"^g is 7 at state 0"),
        (Tabular(GOOD), {"horizon": "long"}, r"^horizon is long; give a whole number"),
        (Tabular({0: {0: [(0.5, 0, 0.0, False)]}}), {}, r"^P sums to 0\.5"),
    ],
)
def test_a_wrong_table_is_refused_in_a_sentence(env, more, message):
    with pytest.raises(EverystepError, match=message):
        es.gym.from_toy_text(env, **({"horizon": 3, "constraint": SAFE, "start": 0} | more))


def test_a_wrong_tolerance_is_refused():
    with pytest.raises(EverystepError, match=r"^tolerance is 2; give a probability"):
        es.gym.from_toy_text(gymnasium.make("FrozenLake-v1"), horizon=3, tolerance=2)
