"""The agent of learnt models: what it learns and when, that nothing breaks it, and that it resumes exactly."""

from dataclasses import replace

import gymnasium as gym
import jax
import numpy as np
import pytest
from helpers import loops
from training.learnt.small import Cart, learner

import everystep as es
from everystep.training.learnt import rounds
from everystep.training.learnt.agent import AT_RANDOM


@pytest.fixture(scope="module")
def trained():
    made = learner(seed=3)
    made.play(4)
    return made


def contents(agent):
    """Every array and number that decides how training goes on."""
    arrays = {}
    return agent.saved(arrays), arrays


def test_every_step_is_learnt_once_and_as_it_happens():
    made, seen = learner(seed=1), []
    made.play(1)
    agent = made.agent
    before, agent.observe = agent.observe, lambda step: (before(step), seen.append(len(agent.rows)))[0]
    made.play(1)
    assert seen == list(range(11, 21))
    assert len(agent.rows) == 20
    assert not agent.waiting
    assert agent.episode == 3


def test_residuals_are_predicted_before_their_step_is_learnt(trained, monkeypatch):
    made = learner(seed=3)
    made.play(3)
    agent, wrong = made.agent, []

    def refreshed(own=agent._refresh_if_due):
        x, y, a = (agent.rows[name][-1:] for name in "xya")
        wrong.append(agent.rows["residual"][-1] - (y - x - agent._predicted(x, a))[0])  # before the rounds of this step
        own()

    monkeypatch.setattr(agent, "_refresh_if_due", refreshed)
    made.play(1)
    assert np.abs(wrong).max() < 1e-6
    x, y, a = (agent.rows[name][-1:] for name in "xya")
    assert np.abs(agent.rows["residual"][-1] - (y - x - agent._predicted(x, a))[0]).max() > 1e-6  # and others after


def test_logged_data_is_learnt_before_and_with_its_own():
    logged = es.logged.from_env(Cart(), None, episodes=3)
    made = learner(seed=2)
    made.learn(logged)
    assert len(made.agent.rows) == 30
    assert made.agent.fitted == 30
    made.play(1)
    assert len(made.agent.rows) == 40


def test_an_episode_that_was_observed_in_part_is_learnt_to_its_end(trained):
    made = learner(seed=4)
    made.play(1)
    agent = made.agent
    batch = es.logged.from_env(Cart(), None, episodes=1, seed=9)
    at = [agent._add(batch.observations[i], batch.actions[i], batch.rewards[i], batch.costs[i],
                     batch.next_observations[i], False) for i in range(4)]  # fmt: skip
    agent.waiting["0"] = np.array(at)
    agent.learn(batch)
    assert len(agent.rows) == 20
    assert (agent.rows["a"][10:] == batch.actions).all()
    assert not agent.waiting


def test_several_environments_are_learnt_together():
    envs = gym.vector.SyncVectorEnv([Cart, Cart])
    made = learner(seed=5, envs=envs)
    made.play(4)
    assert len(made.agent.rows) == 40
    assert made.columns["length"].tolist() == [10] * 4


def test_a_training_resumes_exactly(trained, tmp_path):
    first = learner(seed=7)
    first.play(3)
    first.policy()  # asking for a policy changes nothing
    first.save(tmp_path / "learner")
    resumed = es.Learner.load(tmp_path / "learner", Cart())
    resumed.play(3)
    whole = learner(seed=7)
    whole.play(6)
    for name, column in whole.columns.items():
        np.testing.assert_array_equal(column, resumed.columns[name])
    (told, arrays), (expected, wanted) = contents(resumed.agent), contents(whole.agent)
    assert told == expected
    assert set(arrays) == set(wanted)
    assert all(arrays[name].tobytes() == wanted[name].tobytes() for name in wanted)


@pytest.mark.quick
@pytest.mark.parametrize(
    "change",
    [
        lambda agent: vars(agent).update(fitted=10**6),
        lambda agent: vars(agent).update(price=np.ones((1, 2))),
        lambda agent: vars(agent).update(waiting={"0": np.array([10**6])}),
        lambda agent: vars(agent).update(scales=replace(agent.scales, size=agent.scales.size * 0)),
        lambda agent: vars(agent).update(scales=replace(agent.scales, center=np.full(2, np.nan))),
        lambda agent: agent.rows.columns.update(a=agent.rows.columns["a"] + 7),
        lambda agent: agent.rows.columns.update(x=agent.rows.columns["x"][:, :1]),
        lambda agent: vars(agent.rows).update(count=10**6),
        lambda agent: vars(agent.quality).update(steps=10**6),
        lambda agent: vars(agent.quality).update(missed=agent.quality.missed[1:]),
        lambda agent: vars(agent.quality).update(judged=agent.quality.judged * np.nan),
    ],
)
def test_a_learner_that_was_altered_is_refused(trained, change):
    content, arrays = _saved(trained.agent)
    made = trained.resolved.agent(1, 0)
    made.restore(content, arrays)
    change(made)
    content, arrays = _saved(made)
    with pytest.raises(ValueError, match="other"):
        trained.resolved.agent(1, 0).restore(content, arrays)


def _saved(agent):
    arrays = {}
    return agent.saved(arrays), arrays


def test_the_price_has_a_floor_and_grows_by_violations():
    agent = learner(seed=1).resolved.agent(1, 0)
    assert agent.price == 100
    before = agent._floored(agent.price, 0.25)
    assert before == 100.25
    assert agent._floored(before, 0.0) == 100.25


def test_rounds_that_diverge_are_undone_and_said(trained, monkeypatch):
    made = learner(seed=3)
    made.play(3)
    state, learnt = made.agent.state, rounds.learn
    broken = lambda *given: (jax.tree.map(lambda leaf: leaf * np.nan, learnt(*given)[0].world), np.False_)
    monkeypatch.setattr(rounds, "learn", broken)
    made.play(1)
    assert made.agent.state is state or all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(made.agent.state.world))
    assert made.agent.diverged >= 10
    assert any("diverged" in each for each in made.result().remarks)


def test_parameters_that_are_no_numbers_are_noticed(trained):
    agent = trained.agent
    broken = agent.state._replace(critics=jax.tree.map(lambda leaf: leaf * np.nan, agent.state.critics))
    drawn = rounds.draw(np.random.default_rng(0), agent.rows, agent.scales, agent.sizes, 2)
    assert not rounds.learn(agent.sizes, broken, agent.scales.units, agent._rule, drawn)[1]
    assert rounds.learn(agent.sizes, agent.state, agent.scales.units, agent._rule, drawn)[1]


@pytest.mark.parametrize(
    "env",
    [
        {"reward": 0.0}, {"reward": 1.0}, {"limit": 9.0}, {"limit": -1.0}, {"unit": 1e-9}, {"unit": 1e9},
        {"reward": 1e9}, {"reward": -1e-9}, {"two": True, "limit": 0.2},
    ],
    ids=str,
)  # fmt: skip
def test_nothing_breaks_it(env):
    made = learner(seed=1, envs=Cart(**env))
    made.play(3)
    policy = made.result().policy
    assert policy.certify(np.zeros(2)).shape == (3,)
    assert all(np.isfinite(end).all() for end in made.agent.newest().bounds(0, np.zeros((1, 2))))
    assert not made.agent.diverged


def test_the_unit_of_a_constraint_changes_nothing():
    plain, *others = (learner(seed=1, envs=Cart(unit=unit, limit=0.2)) for unit in (1.0, 2.0**40, 1e-6, 1e6))
    for each in (plain, *others):
        each.play(3)
    for each in others:
        np.testing.assert_array_equal(plain.columns["return"], each.columns["return"])


def test_every_loop_earns_what_the_evaluation_says_to_the_last_bit(trained):
    policy, make = trained.policy(), Cart
    found = es.evaluate(policy, make(), episodes=loops.EPISODES).columns["return"].tolist()
    assert len(set(found)) > 1
    for loop, earned in loops.returns(policy, make).items():
        assert earned == found, loop


def test_one_action_and_episodes_of_one_step():
    single = learner(seed=1, envs=Cart(actions=1))
    single.play(3)
    assert single.policy()(np.zeros(2)) == 0
    short = es.Learner(Cart(length=1), es.agents.lsvi_nets(rounds=2), length=1, seed=1)
    assert short.resolved.horizons == (1,)
    short.play(AT_RANDOM + 4)
    assert short.agent.fitted


def test_before_it_has_learnt_it_prefers_nothing_and_certifies_nothing():
    made = learner(seed=1)
    made.play(1)
    policy = made.policy()
    assert made.agent.plan_in_force.best(0, np.zeros((1, 2))).all()
    assert policy.certify(np.zeros(2)).tolist() == [0, 0, 0]
    assert any(f"before {AT_RANDOM}" in each for each in made.remarks)


def test_ending_early_does_not_pay():
    """Each step costs 1, and the limit ends an episode: in reward alone it would pay to violate it at once."""
    made = learner(seed=0, envs=Cart(length=20, reward=-1.0, ends=True, two=True, limit=0.4))
    made.play(25)
    assert made.columns["length"][-5:].mean() >= 18
