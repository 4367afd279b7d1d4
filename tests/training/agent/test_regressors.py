"""Custom regressors in place of the linear model."""

import pytest
from environments_for_tests.rings import Ring
from sklearn.tree import DecisionTreeRegressor

import everystep as es
from everystep import agents
from everystep.errors import EverystepError


def harm(obs, action, obs_next, info):
    return 1.0 if obs_next == 3 and action else -0.5


@pytest.mark.quick
def test_custom_regressors_replace_the_linear_model():
    tree = es.regression(lambda: DecisionTreeRegressor(max_depth=4, random_state=0))
    result = es.train(Ring(), agents.lsvi_ae(value=tree), constraint=harm, horizon=5, episodes=20)
    assert result.columns["violation"].sum() <= 4
    assert (result.columns["return"][-3:] == 2).all()
    with pytest.raises(EverystepError, match=r"cannot be saved without pickle"):
        result.policy.save("nowhere")


def test_an_ensemble_that_disagrees_explores():
    forest = es.regression(lambda: DecisionTreeRegressor(random_state=0), members=4, bonus="disagreement")
    agent = agents.lsvi_ae(value=forest, beta=2.0)
    result = es.train(Ring(), agent, constraint=harm, horizon=5, episodes=15)
    assert result.columns["return"].max() >= 2
