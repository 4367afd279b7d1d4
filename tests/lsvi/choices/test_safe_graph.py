"""The safe graph: what it admits."""

import numpy as np
import pytest
from problems_for_tests.mixtures import of_one_action

import everystep as es
from everystep.agents import lsvi_new
from everystep.mdp import planner
from everystep.mdp.cmdp import FiniteCMDP, Known


@pytest.mark.quick
def test_one_hot_triples_never_lead_beyond_the_seed():
    rng = np.random.default_rng(0)
    S, A = 3, 2
    p = FiniteCMDP(
        rng.dirichlet(np.ones(S), (S, A)),
        np.tile([0.2, 0.9], (S, 1)),
        np.full((S, A), -0.3),  # everything is safe
        horizon=3,
        known=Known(0.5, np.zeros(S, int), np.eye(S * A * S).reshape(S, A, S, -1)),
    )
    curves = es.run(p, lsvi_new(seed_episodes=10), episodes=300, seeds=2).columns["lsvi-new"]
    np.testing.assert_allclose(curves["value"], of_one_action(p))
    assert planner.solve(p).value > of_one_action(p) + 1
