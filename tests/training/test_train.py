"""Training on environments: what is learnt, on real ones and on small ones."""

import gymnasium
import numpy as np
import pytest
from environments_for_tests.rings import Levers, Ring
from gymnasium import spaces

import everystep as es
from everystep import agents, features
from everystep.environments.logged import from_env
from everystep.mdp import planner


def harm(obs, action, obs_next, info):
    return 1.0 if obs_next == 3 and action else -0.5


def test_a_ring_is_learnt_with_few_violations_and_ends_at_the_safe_optimum():
    result = es.train(Ring(), "lsvi-ae", constraint=harm, horizon=5, episodes=25)
    blind = es.train(Ring(), "lsvi", constraint=harm, horizon=5, episodes=25)
    assert result.columns["violation"].sum() <= 4
    assert blind.columns["violation"].sum() >= 20
    assert (result.columns["return"][-5:] == 2).all()  # 0 -> 1 -> 2, and stay: state 3 is never entered
    assert (blind.columns["return"][-5:] == 5).all()


@pytest.mark.quick
def test_several_constraints_are_kept_apart():
    both = lambda *step: [harm(*step), -1.0]
    episodes = es.train(Ring(), "lsvi-ae", constraint=both, horizon=5, episodes=6).columns
    assert episodes["violation_2"].sum() == 0
    np.testing.assert_array_equal(episodes["violation"], episodes["violation_1"])


def test_an_environment_made_from_a_problem_reports_its_constraints():
    env = es.gym.make_env(es.problems.from_map(("SFF", "FHF", "FFG"), horizon=6))
    result = es.train(env, "lsvi-ae", episodes=40, seed=1)
    assert result.spec["constraints"] == 1
    assert result.columns["violation"][-10:].sum() < result.columns["violation"][:10].sum() + 1
    assert result.spec["horizon"] == 6


def test_frozen_lake_of_gymnasium_is_solved_and_the_agent_stops_falling_into_holes():
    env = gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=10)
    fell = lambda obs, a, after, info: 1.0 if after in (5, 7, 11, 12) else -1.0
    result = es.train(env, "lsvi-ae", constraint=fell, horizon=10, episodes=80)
    assert result.columns["violation"].sum() <= 12
    assert result.columns["return"][-5:].mean() == 1
    x, total = env.reset(seed=0)[0], 0.0
    for _ in range(10):
        x, reward, ended, *_ = env.step(result.policy(x))
        total += reward
        if ended:
            break
    assert total == 1


def test_cart_pole_stays_up_and_its_limits_are_kept_after_a_few_episodes():
    env = gymnasium.make("CartPole-v1", max_episode_steps=60)
    high = np.array([2.4, 3.0, 0.21, 3.0])
    leaning = lambda obs, a, after, info: min(((after[2] + after[3] / 4) / 0.14) ** 2 - 1, 1)
    phi = features.fourier(30, lengthscale=1.0, low=-high, high=high)
    agent = agents.lsvi_ae(switch=2)
    result = es.train(env, agent, constraint=leaning, features=phi, horizon=10, episodes=15)
    assert (result.columns["length"][-5:] == 60).all()
    assert result.columns["violation"][-5:].mean() < result.columns["violation"][:3].mean() / 2
    assert result.plans == result.columns["planned"].sum()
    assert f"{result.plans} plans (d log(1 + K) = {120 * np.log(16):.0f})" in str(result)


def test_a_reward_of_minus_one_a_step_makes_an_early_end_worth_while():
    class Hurry(Ring):
        def step(self, action):
            x, _, *rest = super().step(action)
            return x, -1.0, *rest

    result = es.train(Hurry(ends=True), "lsvi-ae", constraint=lambda *step: -1.0, horizon=5, episodes=15)
    assert (result.columns["return"][-3:] == -2).all()


def test_a_warm_start_avoids_violations_in_the_logged_data():
    batch = from_env(Ring(), None, episodes=20, seed=3, constraint=harm)
    assert batch.violation > 0
    warm = es.train(Ring(), "lsvi-ae", constraint=harm, horizon=5, episodes=20, warm_start=batch)
    assert warm.columns["violation"].sum() == 0


def test_it_reacts_within_the_very_first_episode():
    unsafe = {}
    for react in (False, True):
        agent = agents.lsvi_ae(react=react, beta_cost=0.0, lam_cost=1e-6, floor=1000)
        unsafe[react] = es.train(Levers(), agent, episodes=1, length=20, horizon=2, seed=0).columns["unsafe_steps"][0]
    assert unsafe[True] <= 4 < unsafe[False]  # each unsafe lever once


def test_a_box_of_actions_can_be_made_discrete_by_the_user():
    env = gymnasium.make("MountainCarContinuous-v0")
    pushes = [np.array([-1.0], np.float32), np.array([1.0], np.float32)]
    env = gymnasium.wrappers.TransformAction(env, lambda i: pushes[i], spaces.Discrete(len(pushes)))
    result = es.train(
        env, "lsvi-ae", constraint=lambda *step: -1.0, features=features.centres(3), horizon=3, length=3, episodes=2
    )
    assert len(result.columns["return"]) == 2


def test_the_optimum_of_a_published_table_is_reached_by_training_on_its_environment():
    env = gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=8)
    problem = es.gym.from_toy_text(env, horizon=8)
    fell = lambda obs, a, after, info: 1.0 if after in (5, 7, 11, 12) else -1.0
    result = es.train(env, "lsvi-ae", constraint=fell, horizon=8, episodes=60)
    assert result.columns["return"][-3:].mean() == pytest.approx(planner.solve(problem).value)
