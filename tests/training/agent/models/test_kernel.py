"""Values and costs in the space of a kernel."""

import pytest
from environments_for_tests.rings import VectorRing

import everystep as es
from everystep import agents, features
from everystep.training.agent import stored_agent
from everystep.training.result import BrokenError


def harm_on_the_line(obs, action, obs_next, info):
    return 1.0 if obs_next[1] < -0.5 and action else -0.5


@pytest.mark.quick
def test_values_and_costs_may_live_in_the_space_of_a_kernel(monkeypatch):
    monkeypatch.setattr(stored_agent, "CAPACITY", 128)
    kernel = "rbf(0.3, on=observation)*categorical(on=action)"
    agent = agents.lsvi_ae(value=es.kernel_values(kernel), cost=es.gp(kernel))
    result = es.train(VectorRing(), agent, constraint=harm_on_the_line, horizon=5, episodes=15)
    assert result.columns["violation"].sum() <= 3
    assert (result.columns["return"][-3:] == 2).all()


def test_a_kernel_that_outgrows_memory_ends_in_a_sentence_and_the_learner_stays_usable(monkeypatch):
    monkeypatch.setattr(stored_agent, "MOST", 2e5)
    monkeypatch.setattr(stored_agent, "CAPACITY", 32)
    kernel = es.kernel_values("rbf(0.3, on=observation)*categorical(on=action)")
    learner = es.Learner(
        VectorRing(), agents.lsvi_ae(value=kernel), constraint=harm_on_the_line, features=features.centres(3), horizon=5
    )
    with pytest.raises(BrokenError, match=r"kernel .* GB; use features") as caught:
        learner.train(200)
    assert caught.value.result.policy([1.0, 0.0]) in (0, 1)
