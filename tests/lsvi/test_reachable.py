"""Episodes planned only where states can be reached are those of the plain loop."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import stepping
from oracles.cases import DEAD_ENDS
from oracles.cases import problem as case_problem

from everystep.agents import lsvi_ae, lsvi_ahead, lsvi_priced, lsvi_primal, sucbvi
from everystep.experiments.engines import local
from everystep.lsvi import algorithm, loop, reachable
from everystep.mdp import reach
from everystep.mdp.cmdp import FiniteCMDP, Noise
from everystep.problems import frozen_lake
from everystep.problems.frozen_lake import from_map
from everystep.problems.racetrack import racetrack_from

MAP = ["SFFF.H", "FHFFFF", "FFFH#F", "FFFFFG"]


def stepped(problem: FiniteCMDP) -> FiniteCMDP:
    """Rewards that depend on the step, two constraints, noise on both, and two starts by chance."""
    H = problem.horizon
    r = problem.r * np.linspace(0.5, 1, H)[:, None, None]
    g = np.stack([problem.g[0, 0], np.full_like(problem.g[0, 0], -0.5)])
    start = np.zeros(problem.states)
    start[[0, 1]] = 0.5
    noise = Noise(reward_sigma=0.1, cost_sigma=0.2)
    return FiniteCMDP(problem.P, r, g, start=start, horizon=H, noise=noise, exempt=problem.exempt)


@pytest.fixture(autouse=True)
def spans_cost_nothing(monkeypatch):
    """So that a small problem has two, and is planned in them."""
    monkeypatch.setattr(reach, "MOST_SPANS", 2)
    monkeypatch.setattr(reach, "SPAN_COST", 0)
    monkeypatch.setattr(reach, "WORTH", 1)


def assert_same(want, got):
    """All that is learnt, done and observed to the last bit; exact values, which are computed elsewhere, to 1e-12."""
    exact = ("value", "expected_violation")
    for name in exact:
        np.testing.assert_allclose(getattr(got[1], name), getattr(want[1], name), rtol=1e-12, atol=1e-12)
    without = lambda pair: (pair[0], pair[1]._replace(**dict.fromkeys(exact)))
    for a, b in zip(jax.tree.leaves(without(want)), jax.tree.leaves(without(got)), strict=True):
        np.testing.assert_array_equal(a, b)


PLAIN = from_map(MAP, horizon=7)
# Copies, because the order of their states depends on what this file patches.
DEADLY = case_problem.__wrapped__(DEAD_ENDS)
TRACK = racetrack_from(["S....#", ".....G"], top_speed=2, failure=0.2, horizon=6)
LOWERED = {"beta": 0.2, "beta_harm": 0.05, "share_values": False}
CASES = {
    "lsvi-ae": (PLAIN, lsvi_ae(), False),
    "a price inside the reward": (PLAIN, lsvi_priced(violation_price=0.7), False),
    "lsvi-primal, radii of the paper": (PLAIN, lsvi_primal(radius="paper"), False),
    "noise, steps, two constraints, one estimator for each step": (
        stepped(from_map(MAP, horizon=7, cost="realised")),
        lsvi_ae(share_values=False, share_costs=False),
        True,
    ),
    "looking ahead": (PLAIN, lsvi_ahead(), False),
    "looking ahead, harm of the plan": (PLAIN, lsvi_ahead(mode="plan", floor=0.5), False),
    "dead ends, lowered harm": (DEADLY, lsvi_ahead(**LOWERED, harm="events", tolerance=0.05), False),
    "dead ends, lowered harm of the plan": (DEADLY, lsvi_ahead(**LOWERED, mode="plan", floor=0.5), False),
    "dead ends, marked": (DEADLY, sucbvi(beta=0.2), False),
    "a list of next states for each action": (TRACK, lsvi_ahead(beta=0.2), False),
}


@pytest.mark.parametrize("case", CASES)
def test_the_same_episodes(case):
    problem, recipe, certify = CASES[case]
    with jax.enable_x64(True):
        pair = local.AgentOnProblem(problem, recipe.resolve(problem, 60).build(), certify=certify)
        job = pair.job()
        assert job.reach is not None
        assert len(job.spans) > 1 or problem is DEADLY
        plain = replace(job, reach=None, spans=())
        seeds = np.array([3, 8], np.uint32)
        carry = pair.start_seeds(2)
        for count in (47, 13):  # a block that is not full, and another call
            want = loop.scan_seeds(plain, carry, seeds, np.int32(count), 60, False)
            got = reachable.scan_seeds(job, carry, seeds, np.int32(count), 60)
            assert_same(want, got)
            carry = got[0]


def test_large_problems_are_planned_step_by_step_with_the_same_result(monkeypatch):
    pair = local.AgentOnProblem(PLAIN, lsvi_ae().resolve(PLAIN, 30).build())
    with jax.enable_x64(True):  # of the shapes of the first case, whose plain loop is compiled already
        job, seeds, carry, count = pair.job(), jnp.array([5, 6], jnp.uint32), pair.start_seeds(2), jnp.int32(30)
        want = loop.scan_seeds(replace(job, reach=None, spans=()), carry, seeds, count, 60, False)
        monkeypatch.setattr(reachable, "FEW_ACTIONS", 1)
        got = reachable.scan_seeds.__wrapped__(job, carry, seeds, count, 60)
    assert_same(want, got)


@jax.jit
def planned_if_harmless(job, state, word):
    """The actions planned as if no harm were to go, whether that is right, and the actions of the whole plan."""
    fitted, actions = algorithm.fit_models(job.agent, state), jnp.zeros((job.sizes.horizon, job.sizes.states), jnp.int8)
    planning = reachable.planning(job.agent, fitted, state, word, job.reach, job.spans)
    short, valid = reachable.plan_if_harmless(planning, None, actions)
    return short, valid, reachable.plan_ahead(planning, None, actions)


@pytest.mark.parametrize("mode", ["least", "plan"])
def test_a_plan_as_if_no_harm_were_to_go_is_used_only_where_it_is_right(mode):
    pair = local.AgentOnProblem(DEADLY, lsvi_ahead(mode=mode, beta=0.2, floor=0.3).resolve(DEADLY, 30).build())
    with jax.enable_x64(True):
        job, carry, seed = pair.job(), jax.tree.map(lambda leaf: leaf[0], pair.start_seeds(1)), 3
        inside = reachable.job_in_order(job, job.reach)
        seen = set()
        for after, _, _ in stepping.episodes(job.agent, job.world, job.sizes, carry, seed, 25):
            state = reachable.carry_in_order(after, job.reach.states).agent
            short, valid, whole = planned_if_harmless(inside, state, jnp.uint32(5))
            seen.add((bool(valid), bool((short == whole).all())))
    assert (True, True) in seen
    assert (False, False) in seen
    assert (True, False) not in seen


@pytest.mark.quick
def test_other_agents_keep_the_plain_loop():
    lake = frozen_lake()
    assert local.AgentOnProblem(lake, lsvi_ae().resolve(lake, 10).build()).job().reach is not None
    for recipe in (lsvi_ae(cost="gp"), lsvi_ae(react=True), lsvi_ae(switch=2.0)):
        assert not reachable.supports(recipe.resolve(lake, 10).build().agent, lake.world)
