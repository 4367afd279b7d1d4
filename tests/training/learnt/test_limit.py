"""Limits that are called on imagined steps: when they are, when they are not, and that they are what is learnt."""

import gymnasium as gym
import numpy as np
import pytest
from training.learnt.small import Cart, learner

import everystep as es
from everystep.training.learnt import rounds


def place(obs, action, obs_next, info):
    return abs(float(obs_next[0])) - 1.0


def trained(constraint, envs=None, **settings):
    env = Cart() if envs is None else envs
    made = es.Learner(env, es.agents.lsvi_nets(rounds=2, **settings), constraint=constraint, seed=3)
    made.play(3)
    return made


def counting():
    calls = []

    def limit(obs, action, obs_next, info):
        calls.append(1)
        return len(calls) / 100 - 1

    return limit


def outside(env):
    return lambda obs, action, obs_next, info: abs(env.x) - 1.0


def refusing(obs, action, obs_next, info):
    if not info:
        raise SystemExit(3)
    return info["constraint"]


def test_a_function_of_observations_is_called_on_imagined_steps(monkeypatch):
    made, drawn = trained(place), []
    assert made.agent.limit_agrees
    assert any("called on imagined steps" in each for each in made.result().remarks)
    learnt = rounds.learn
    monkeypatch.setattr(rounds, "learn", lambda *given: (drawn.append(given[-1]), learnt(*given))[1])
    made.play(1)
    agent, last = made.agent, drawn[-1]
    assert last.limit.shape == (*last.states.shape[:-1], 3, 1)
    y = rounds.arrivals(agent.sizes, agent.state.world, agent.scales.units, last.states, last.residuals[:, 0, :, :, 0])
    g = np.abs(agent.scales.observations(np.asarray(y))[..., 0]) - 1
    wrong = last.limit[..., 0] * agent.scales.g_size[0] + agent.scales.g_mean[0] - g
    assert np.abs(wrong).max() < 0.2  # the model learnt two rounds between both


@pytest.mark.parametrize("which", ["info", "count", "environment", "exit", "learnt"])
def test_everything_else_is_learnt(which):
    env = Cart()
    constraint = {
        "info": lambda obs, action, obs_next, info: info["constraint"],
        "count": counting(),
        "environment": outside(env),
        "exit": refusing,
        "learnt": place,
    }[which]
    made = trained(constraint, env, limit="learnt" if which == "learnt" else "called")
    assert not made.agent.limit_agrees
    assert not made.agent.diverged


def test_a_limit_that_fails_on_imagined_steps_is_learnt_from_then_on():
    seen = set()

    def limit(obs, action, obs_next, info):
        if info or tuple(obs_next.tolist()) in seen:
            seen.add(tuple(obs_next.tolist()))
            return abs(float(obs_next[0])) - 1.0
        raise ValueError("nobody was here")

    class Informing(gym.Wrapper):
        def step(self, action):
            *rest, info = self.env.step(action)
            return *rest, {**info, "seen": True}

    made = trained(limit, Informing(Cart()))
    assert not made.agent.limit_agrees
    assert len(made.agent.rows) == 30


def test_several_constraints_and_actions_of_the_environment():
    class Signed(Cart):
        action_space = gym.spaces.Discrete(3, start=-1)

        def __init__(self):
            super().__init__()
            self.action_space = gym.spaces.Discrete(3, start=-1)

        def step(self, action):
            return super().step(action + 1)

    both = lambda obs, action, obs_next, info: [float(obs_next[0]) - 1, 0.1 * abs(action) - 0.05]
    made = trained(both, Signed())
    assert made.agent.limit_agrees
    x, y, a = (made.agent.rows[name] for name in ("x", "y", "a"))
    np.testing.assert_allclose(made.agent.limit(x, y, a), made.agent.rows["g"], atol=1e-6)


def test_a_training_whose_limit_is_called_resumes_exactly(tmp_path):
    first = trained(place)
    first.save(tmp_path / "learner")
    resumed = es.Learner.load(tmp_path / "learner", Cart(), constraint=place)
    for each in (first, resumed):
        each.play(2)
    assert resumed.agent.limit_agrees
    np.testing.assert_array_equal(first.agent.rows["a"], resumed.agent.rows["a"])


@pytest.mark.quick
def test_without_a_function_nothing_is_called():
    made = learner(seed=1)
    made.play(2)
    assert made.agent.limit is None
