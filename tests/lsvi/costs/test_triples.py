"""Costs on features of triples."""

import pytest
from problems_for_tests.mixtures import passage

import everystep as es
from everystep.agents import lsvi_new

SMALL = {"seed_episodes": 6, "lam_cost": 0.02}


@pytest.mark.quick
def test_cost_intervals_hold_the_true_mean_costs():
    p = passage()
    result = es.run(p, lsvi_new(**SMALL), episodes=100, seeds=4, certify=True)
    assert result.spec["agents"][0]["confidence"] == 0.05
    assert result.columns["lsvi-new"]["false_labels"].sum() == 0
    assert result.columns["lsvi-new"]["safe_labels"][:, -1].min() > 4
    assert (result.certificates["lsvi-new_lower"] <= p.g[None] + 1e-12).all()
