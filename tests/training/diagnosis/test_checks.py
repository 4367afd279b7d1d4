"""learner.diagnose(): each finding where it is due, with the setting that removes it, and none elsewhere."""

from types import SimpleNamespace

import numpy as np
import pytest
from environments_for_tests.falls import DrawnSlide, Slide
from environments_for_tests.walks import NoisyWalk

import everystep as es
from everystep.errors import EverystepError
from everystep.training.diagnosis import checks, fit

STEPS = 10


def bowl(obs, action, obs_next, info):
    """Unsafe beyond 0.7 on both sides; no straight line represents it."""
    return obs[0] ** 2 - 0.5


def trained(constraint=bowl, agent=None, episodes=12, env=None, **options):
    shared = {"features": es.features.fourier(1, constant=True), "cost_features": es.features.fourier(1)}
    options = {**shared, "length": STEPS, "horizon": 4} | options  # the same sizes in all tests: compiled once
    learner = es.Learner(env or NoisyWalk(), agent or es.agents.lsvi_ae(), constraint=constraint, seed=1, **options)
    learner.play(episodes)
    return learner


def about(learner, topic):
    return [each for each in learner.diagnose().findings if each.about == topic]


@pytest.mark.quick
def test_features_that_would_halve_the_error_are_named_and_do():
    flat = trained(cost_features=es.features.polynomial(1))
    (finding,) = [each for each in about(flat, "fit") if "not fitted to" in each.sentence]
    assert finding.setting.startswith("set cost_features=es.features.fourier(75, 0.5, low=[-1.0], high=[1.0])")
    assert "is 0.41 of the largest |g|, and would be 0.041 with other features" in finding.sentence


def test_the_error_is_that_of_ridge_regression_on_rows_held_out():
    learner = trained(cost_features=es.features.polynomial(1))
    phi = learner.resolved.cost.phi
    rng = np.random.default_rng(0)
    x, a, y = rng.uniform(-1, 1, (30, 1)), rng.integers(0, 2, 30), rng.normal(size=(30, 1))
    held = np.arange(30) % 3 == 2
    from sklearn.linear_model import Ridge

    rows = phi(x)[np.arange(30), a]
    model = Ridge(alpha=0.2, fit_intercept=False).fit(rows[~held], y[~held])
    expected = np.sqrt(((model.predict(rows[held]).reshape(-1, 1) - y[held]) ** 2).mean())
    assert fit._error(phi, x, a, y, held, 0.2) == pytest.approx(expected, rel=1e-10)


def test_too_little_optimism_is_found_and_the_setting_removes_it():
    shy = es.agents.lsvi_ae(beta=0.01, lam=0.01, beta_cost=0.01, lam_cost=0.1)
    values, costs = about(trained(agent=shy), "optimism")  # features of norm 1
    assert values.setting == "set beta to 0.4"
    assert "is 0.1, and values reach 4" in values.sentence
    assert costs.setting == "set beta_cost to 0.32"
    brave = es.agents.lsvi_ae(beta=0.4, lam=0.01, beta_cost=0.32, lam_cost=0.1)
    assert about(trained(agent=brave), "optimism") == []
    assert about(trained(), "optimism") == []


def test_a_constraint_that_is_never_violated_and_a_reward_that_compresses_others():
    (finding,) = about(trained(lambda *step: -0.5), "constraints")
    assert finding.sentence == "constraint 1 was never violated in 12 episodes"
    assert "es.check_constraint" in finding.setting
    columns = {"return": np.ones(3), "violation": np.ones(3), "violation_1": np.ones(3), "violation_2": np.zeros(3)}
    two = SimpleNamespace(columns=columns, agent=SimpleNamespace(constraints=2))
    assert ["constraint 2" in each.sentence for each in checks._about_constraints(two)] == [True]

    class Fined(NoisyWalk):
        def step(self, action):
            x, reward, *rest = super().step(action)
            return x, -1000.0 if x[0] > 0.99 and self.np_random.random() < 0.2 else reward, *rest

    learner = trained(env=Fined())
    (finding,) = about(learner, "rewards")
    assert "set reward_range" in finding.setting


@pytest.mark.quick
def test_a_diagnosis_needs_data():
    with pytest.raises(EverystepError, match="there is no data yet"):
        es.Learner(NoisyWalk(), "lsvi-ae", constraint=bowl, length=STEPS).diagnose()


def test_only_the_last_transitions_are_kept_and_none_of_images(monkeypatch):
    monkeypatch.setattr(checks, "RECENT", 25)
    learner = trained(episodes=6)
    assert [len(each) for each in learner.recent] == [STEPS] * 3
    image = learner.recent[0]
    wide = np.zeros((STEPS, 100))
    from dataclasses import replace

    assert checks.recent([], replace(image, observations=wide, next_observations=wide)) == []


# --- endings ----------------------------------------------------------------------------------------------------------


def slid(reward, agent="lsvi-ae"):
    learner = es.Learner(Slide(reward), agent, horizon=12, length=12, seed=0)
    return learner, learner.train(30)


def test_agents_that_violate_to_end_an_episode_are_found_and_the_constant_makes_episodes_long_again():
    learner, result = slid(-1.0)
    assert result.columns["length"][10:].mean() < 6  # it falls as soon as it can
    (finding,) = about(learner, "endings")
    assert "so it pays to violate the constraint and end early" in finding.sentence
    assert f"reward + {finding.numbers['constant']:g}" in finding.setting
    (declines,) = about(learner, "violations")
    assert declines.setting == "first change what other findings name (endings, agent)"
    for each in learner.diagnose().findings:
        assert f"note: {each.remark}" in str(result)
    learner, result = slid(-1.0 + finding.numbers["constant"])
    assert result.columns["length"][10:].mean() == 12
    assert about(learner, "endings") == []


def test_negative_rewards_alone_are_no_finding():
    learner, result = slid(-1.0, "lsvi-ahead")
    assert result.columns["unsafe_steps"][10:].sum() == 0
    assert str(learner.diagnose()) == "No problem was found."


# --- what was decided silently ----------------------------------------------------------------------------------------


def test_a_training_reports_that_its_environment_does_not_repeat_and_draws_nothing_itself():
    before = np.random.get_state()[2]  # noqa: NPY002
    assert "self.np_random" not in str(es.train(DrawnSlide("own"), "lsvi-ae", horizon=12, length=12, episodes=3))
    assert np.random.get_state()[2] == before  # noqa: NPY002
    assert "let it draw from self.np_random" in str(
        es.train(DrawnSlide("global"), "lsvi-ae", horizon=12, length=12, episodes=3)
    )


@pytest.mark.quick
def test_episodes_that_were_cut_without_being_asked_are_a_note():
    words = "episodes were cut after 12 steps, because the environment has no limit of its own: set length"
    assert words in str(es.train(Slide(1.0), "lsvi-ae", horizon=12, episodes=3))
    assert words not in str(es.train(Slide(1.0), "lsvi-ae", horizon=12, length=12, episodes=3))
    limited = Slide(1.0)
    limited.spec = SimpleNamespace(id="Slide-v0", max_episode_steps=12, kwargs={})
    assert words not in str(es.train(limited, "lsvi-ae", horizon=12, episodes=3))
