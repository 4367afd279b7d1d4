"""Episodes planned only where states can be reached are those of the plain loop."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from everystep.agents import lsvi, lsvi_ae, lsvi_primal
from everystep.experiments.engines import local
from everystep.lsvi import loop, reachable
from everystep.mdp import reach
from everystep.mdp.cmdp import FiniteCMDP, Noise
from everystep.problems import frozen_lake
from everystep.problems.frozen_lake import from_map

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
    """So that a small problem has several."""
    monkeypatch.setattr(reach, "SPAN_COST", 0)


def assert_same(want, got):
    """All that is learnt, done and observed to the last bit; exact values, which are computed elsewhere, to 1e-12."""
    exact = ("value", "expected_violation")
    for name in exact:
        np.testing.assert_allclose(getattr(got[1], name), getattr(want[1], name), rtol=1e-12, atol=1e-12)
    without = lambda pair: (pair[0], pair[1]._replace(**dict.fromkeys(exact)))
    for a, b in zip(jax.tree.leaves(without(want)), jax.tree.leaves(without(got)), strict=True):
        np.testing.assert_array_equal(a, b)


PLAIN = from_map(MAP, horizon=7)
CASES = {
    "lsvi-ae": (PLAIN, lsvi_ae(), False),
    "lsvi": (PLAIN, lsvi(), False),
    "lsvi-primal, radii of the paper": (PLAIN, lsvi_primal(radius="paper"), False),
    "one estimator for each step": (PLAIN, lsvi_ae(share_values=False, share_costs=False), True),
    "noise, steps, two constraints": (stepped(from_map(MAP, horizon=7, cost="realised")), lsvi_ae(), True),
}


@pytest.mark.parametrize("case", CASES)
def test_the_same_episodes(case):
    problem, recipe, certify = CASES[case]
    with jax.enable_x64(True):
        pair = local.AgentOnProblem(problem, recipe.resolve(problem, 60).build(), certify=certify)
        job = pair.job()
        assert job.reach is not None
        assert len(job.spans) > 1
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
    with jax.enable_x64(True):
        job, seeds, carry, count = pair.job(), jnp.array([5], jnp.uint32), pair.start_seeds(1), jnp.int32(30)
        want = loop.scan_seeds(replace(job, reach=None, spans=()), carry, seeds, count, 30, False)
        monkeypatch.setattr(reachable, "FEW_ACTIONS", 1)
        got = reachable.scan_seeds.__wrapped__(job, carry, seeds, count, 30)
    assert_same(want, got)


@pytest.mark.quick
def test_other_agents_keep_the_plain_loop():
    lake = frozen_lake()
    assert local.AgentOnProblem(lake, lsvi_ae().resolve(lake, 10).build()).job().reach is not None
    for recipe in (lsvi_ae(cost="gp"), lsvi_ae(react=True), lsvi_ae(switch=2.0)):
        assert not reachable.supports(recipe.resolve(lake, 10).build().agent, lake.world)
