"""Is the horizon long enough? On an environment whose harm comes six steps after the decision that causes it."""

import gymnasium
import numpy as np
import pytest
from environments_for_tests.falls import DELAY, Delayed, Lossy

import everystep as es
from everystep.training.diagnosis.look_ahead import MARGIN, harm_ahead

pytestmark = pytest.mark.quick


def trained(horizon):
    return es.Learner(Delayed(), es.agents.lsvi_ahead(), horizon=horizon, length=32, seed=0)


@pytest.mark.parametrize(("horizon", "advised"), [(4, 13), (16, None)])
def test_a_longer_horizon_is_advised_where_half_of_it_sees_no_violation_that_is_unavoidable(horizon, advised):
    text = str(trained(horizon).train(12))
    assert (f"may be too few: set horizon={advised}" in text) if advised else ("set horizon" not in text)


def test_the_horizon_advised_before_training_is_the_one_that_needs_no_more_after_it():
    found = es.check_constraint(gymnasium.wrappers.TimeLimit(Delayed(), 32), episodes=4)
    assert found.verdict == "look ahead"
    assert found.horizon == 2 * max(found.avoidable) + MARGIN >= DELAY
    assert max(found.avoidable) >= DELAY  # nothing avoids it any later
    assert "set horizon" not in str(trained(found.horizon).train(12))


def test_violations_that_no_action_changes_ask_for_no_longer_horizon():
    learner = es.Learner(Lossy(), es.agents.lsvi_ahead(), horizon=16, length=32, seed=0)
    plan = learner.train(12).policy.plan
    half, whole = (harm_ahead(plan, np.arange(DELAY + 1), steps).mean() for steps in (8, 16))
    assert whole > 1.5 * half  # which was the sign before
    assert [each for each in learner.diagnose().findings if each.about == "horizon"] == []


def test_no_horizon_is_advised_that_an_episode_does_not_have():
    learner = es.Learner(Delayed(), es.agents.lsvi_ahead(), horizon=4, length=10, seed=0)
    learner.play(12)
    (found,) = [each for each in learner.diagnose().findings if each.about == "horizon"]
    assert found.setting == "set horizon=10"
    assert found.numbers["advised"] == 10


def test_harm_ahead_counts_the_harm_of_the_next_steps():
    learner = trained(16)
    plan = learner.train(12).policy.plan
    for x in range(1, DELAY + 1):
        left = DELAY - x + 1  # steps until the harm has happened
        within = [harm_ahead(plan, np.array([[x]]), steps)[0] for steps in (left - 1, left) if steps]
        assert within[-1] == pytest.approx(1, abs=0.3)  # less by its optimism
        assert within[0] == pytest.approx(0, abs=0.1) or left == 1


def test_a_policy_takes_the_harm_ahead_as_estimated_and_a_cautious_one_its_upper_end():
    """From the same data, the policies of an agent with optimism about harm and of one without choose by the same."""
    batch = es.logged.from_env(gymnasium.wrappers.TimeLimit(Delayed(), 32), None, episodes=2, seed=0)
    plans = {}
    for beta in (0.0, 0.5):
        learner = es.Learner(Delayed(), es.agents.lsvi_ahead(beta_harm=beta), horizon=16, length=32, seed=0)
        learner.learn(batch)
        plans[beta] = learner.policy().plan, learner.policy(optimism=-1).plan
    everywhere = np.arange(DELAY + 1)
    plain, optimistic = (plans[beta][0] for beta in (0.0, 0.5))
    np.testing.assert_allclose(optimistic.scores(0, everywhere), plain.scores(0, everywhere), rtol=1e-12)
    assert (optimistic.bounds(0, everywhere)[1] >= plain.bounds(0, everywhere)[1]).all()  # certificates keep the width
    mean, cautious = (harm_ahead(plan, everywhere, 16) for plan in plans[0.5])
    assert (cautious >= mean).all()
    assert cautious.sum() > mean.sum()


def test_the_last_episodes_may_be_played_as_the_policy_plays():
    learner = trained(16)
    learner.play(3)
    policy, seen = learner.policy(), []
    stage_step = learner.stage.env.step
    learner.stage.env.step = lambda action: seen.append((learner.stage.env.x, action)) or stage_step(action)
    learner.play(1, explore=False)
    assert len(seen) == 32
    assert learner.number == 5
    for t, (x, action) in enumerate(seen):  # among the best; ties are broken at random
        scores = policy.plan.scores(max(t - 16, 0), np.array([x]))[:, 0]
        assert scores[action] >= scores.max() - 1e-9
    with pytest.raises(es.EverystepError, match="without_exploration is 3, and episodes 3"):
        es.train(Delayed(), "lsvi-ahead", horizon=8, episodes=3, without_exploration=3)
