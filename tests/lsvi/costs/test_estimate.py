"""A model, a noise and a column for each constraint."""

import numpy as np
import pytest
from problems_for_tests.ponds import featured

import everystep as es
from everystep.mdp.cmdp import FiniteCMDP, Noise


@pytest.mark.quick
def test_each_constraint_may_have_its_own_model_and_its_own_column():
    problem = featured(m=2)
    cost = ["counts", es.gp(es.kernels.Linear(on="features"))]
    result = es.run(problem, es.agents.lsvi_ae(cost=cost), episodes=30, seeds=2)
    curves = result.columns["lsvi-ae"]
    np.testing.assert_allclose(curves["violation"], curves["violation_1"] + curves["violation_2"])
    alone = es.run(problem, es.agents.lsvi_ae(cost=["counts", "counts"]), episodes=30, seeds=2)
    together = es.run(problem, es.agents.lsvi_ae(cost="counts"), episodes=30, seeds=2)
    for column in curves:
        np.testing.assert_allclose(
            alone.columns["lsvi-ae"][column], together.columns["lsvi-ae"][column], rtol=0, atol=1e-12
        )


def test_each_constraint_has_its_own_noise():
    problem = featured(m=2)
    problem = FiniteCMDP(problem.dense_P[0], problem.r[0], problem.g[:, 0], horizon=4, features=problem.features,
                         noise=Noise(cost_sigma=(0.0, 0.5)))  # fmt: skip
    linear = "gp(linear(on=features))"
    apart = es.agents.lsvi_ae(cost=[linear, linear]).resolve(problem, 10)
    assert apart["lam_cost"] == [0.01, 0.25]
    assert [float(model.lam) for model in apart.build().agent.costs.models] == [0.01, 0.25]
    assert es.agents.lsvi_ae(cost=linear).resolve(problem, 10)["lam_cost"] == 0.25
