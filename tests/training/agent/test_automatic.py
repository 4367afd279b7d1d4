"""features="auto": when features are chosen, that everything is learnt again with them, and what is refused."""

import re

import gymnasium
import jax
import numpy as np
import pytest
from environments_for_tests.broken import Lies
from environments_for_tests.walks import Point

import everystep as es
from everystep.errors import EverystepError
from everystep.training.agent import automatic

STEPS = 8


@pytest.fixture
def soon(monkeypatch):
    """Features that are chosen after 1, 16 and 40 transitions, few of them."""
    monkeypatch.setattr(automatic, "MOMENTS", (1, 16, 40))
    monkeypatch.setattr(automatic, "EVIDENCE", 16)
    monkeypatch.setattr(automatic.automatic, "FREQUENCIES", 6)


def learner(env=None, agent="lsvi-ae", **options):
    return es.Learner(env or Point(), agent, **{"length": STEPS, "horizon": 4, "seed": 3} | options)


def state_of(agent):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(agent.state)]


def test_features_are_chosen_at_the_stated_moments_and_transitions_dropped_after_the_last(soon):
    made, after, kept = learner(), [], []
    for _ in range(7):
        made.play(1)
        after.append(made.automatic.chosen_after)
        kept.append(sum(map(len, made.automatic.kept)))
    assert after == [8, 16, 16, 16, 40, 40, 40]
    assert kept == [8, 16, 24, 32, 0, 0, 0]
    words = "\n".join(made.result().remarks)
    assert re.search(
        r"features were chosen after 40 transitions: values fourier\(6, .*\), costs (polynomial|fourier)", words
    )
    assert "observations were scaled to [-1, 1] from" in words
    assert made.plans >= 6
    assert made.agent.episode == 8


def test_everything_is_learnt_again_as_if_the_features_had_been_known(soon):
    made = learner()
    made.play(2)
    batches = list(made.automatic.kept)
    chosen = made.automatic.chosen
    known = learner(
        agent=es.agents.lsvi_ae(lam_cost=made.resolved["lam_cost"], beta_cost=made.resolved["beta_cost"]),
        features=chosen.features,
        cost_features=chosen.cost_features,
    )
    for batch in batches:
        known.learn(batch)
    for one, other in zip(state_of(made.agent), state_of(known.agent), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.quick
def test_the_same_seed_makes_the_same_choice_and_training(soon):
    one, again = (learner().train(6) for _ in range(2))
    assert one.remarks == again.remarks
    for name, column in one.columns.items():
        assert (column == again.columns[name]).all()


def test_a_training_with_chosen_features_goes_on_after_it_was_saved(soon, tmp_path):
    whole = learner(Point()).train(7)
    first = learner(Point())
    first.play(3)
    first.save(tmp_path / "mine")
    rest = es.Learner.load(tmp_path / "mine", Point())
    assert rest.automatic.chosen_after == 16
    assert rest.resolved["lam_cost"] == first.resolved["lam_cost"]
    result = rest.train(4)
    for name, column in whole.columns.items():
        assert (column == result.columns[name]).all(), name
    assert [each for each in whole.remarks if "chosen" in each] == [each for each in result.remarks if "chosen" in each]


def test_only_what_is_not_given_is_chosen(soon):
    given = es.features.polynomial(1, low=-2, high=2)
    assert learner(features=given).automatic is None
    costs = learner(features=given, cost_features="auto")
    assert costs.automatic.chooses == ("cost_features",)
    values = learner(cost_features=given)
    values.play(2)
    assert values.automatic.chooses == ("features",)
    assert "costs" not in values.automatic.remarks[0]
    assert values.resolved["lam_cost"] == 0.1  # the ridge of given features is not chosen
    kernel = "rbf(0.5, on=observation)*categorical(on=action)"
    agent = es.agents.lsvi_ae(value=es.kernel_values(kernel), cost=es.gp(kernel))
    assert learner(agent=agent).automatic is None


def test_logged_data_is_looked_at_instead_of_a_random_episode(soon):
    made = learner()
    made.play(3)
    other = learner()
    for each in made.automatic.kept:
        other.learn(each)
    assert other.automatic.chosen_after == made.automatic.chosen_after
    assert not other.automatic.looking
    assert other.policy().plan.value_encoder.d == 26


def test_integers_keep_their_own_features_and_vectors_of_looking_ahead_learn_harm():
    assert learner(gymnasium.make("FrozenLake-v1"), constraint=lambda *step: 0.0).automatic is None
    assert learner(agent="lsvi-ahead").automatic.events
    assert not learner().automatic.events
    assert not learner(agent=es.agents.lsvi_ahead(harm="mean")).automatic.events


@pytest.mark.quick
def test_observations_that_are_not_those_of_the_space_are_said(soon):
    with pytest.raises(EverystepError, match=r"observations have shape .*need \(n, 3\)"):
        es.train(Lies(), "lsvi-ae", length=4, horizon=2, episodes=2)
