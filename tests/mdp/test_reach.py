"""Which states can be reached by which step, and the spans of steps that planning uses."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from everystep.mdp import reach
from everystep.mdp.cmdp import FiniteCMDP, Successors
from everystep.mdp.reach import Span, best_spans, first_steps
from everystep.problems import frozen_lake, linear, streaming
from everystep.problems.frozen_lake import from_map

pytestmark = pytest.mark.quick


def by_enumeration(problem: FiniteCMDP) -> np.ndarray:
    """The first step in each state, from all sequences of actions; P as a table."""
    P = problem.dense_P
    starts = problem.start if problem.start.dtype.kind == "i" else np.flatnonzero(problem.start)
    first = np.full(problem.states, problem.horizon + 1)
    first[starts] = 0
    here = {int(x) for x in starts}
    for h in range(problem.horizon):
        here = {int(y) for x in here for a in range(problem.actions) for y in np.flatnonzero(P[h % len(P), x, a])}
        for y in here:
            first[y] = min(first[y], h + 1)
    return first


def random_problem(seed: int, stepped: bool) -> FiniteCMDP:
    rng = np.random.default_rng(seed)
    S, A, J, H = 9, 2, 2, 4
    T = H if stepped else 1
    states = rng.integers(0, S, (S, A, J))
    P = rng.dirichlet(np.ones(J), (T, S, A)) * (rng.random((T, S, A, J)) < 0.8)
    P[..., 0] += 1 - P.sum(-1)
    start = rng.integers(0, S, 2) if seed % 2 else np.eye(S)[rng.integers(0, S, 2)].mean(0)
    r, g = rng.random((S, A)), -rng.random((S, A))
    return FiniteCMDP(Successors(states, P if stepped else P[0]), r, g, start=start, horizon=H)


@pytest.mark.parametrize("stepped", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_the_first_step_in_each_state_is_that_of_an_enumeration(seed, stepped):
    problem = random_problem(seed, stepped)
    np.testing.assert_array_equal(first_steps(problem), by_enumeration(problem))


@pytest.mark.parametrize("problem", [frozen_lake(), streaming(), from_map(["SF#G", "FFFF"], horizon=3), linear()])
def test_problems_of_every_kind_have_first_steps(problem):
    np.testing.assert_array_equal(first_steps(problem), by_enumeration(problem))


def test_the_spans_cover_all_steps_and_hold_what_the_next_step_is_read_at():
    problem = frozen_lake()
    first = first_steps(problem)
    order, spans = problem.reach
    assert [span.first for span in spans] == [0, *(span.stop for span in spans[:-1])]
    assert spans[-1].stop == problem.horizon
    for span in spans:
        assert span.states >= (first <= span.stop).sum()
    np.testing.assert_array_equal(first[order.states], np.sort(first))
    np.testing.assert_array_equal(order.states[order.place], np.arange(problem.states))


def test_the_spans_are_the_cheapest(monkeypatch):
    needed = np.array([2, 3, 5, 5, 9, 30, 31])
    monkeypatch.setattr(reach, "SPAN_COST", 3)
    cost = lambda spans: sum((stop - first) * states + 3 for first, stop, states in spans)
    every = []
    for count in range(reach.MOST_SPANS):
        for cuts in itertools.combinations(range(1, 7), count):
            ends = [*cuts, 7]
            every.append([Span(a, b, int(needed[b - 1])) for a, b in zip([0, *cuts], ends, strict=True)])
    found = best_spans(needed)
    assert list(found) in every
    assert cost(found) == min(map(cost, every))


def test_where_everything_is_near_there_is_nothing_to_save():
    assert streaming().reach is None
    assert from_map(["SF", "FG"], horizon=8).reach is None
