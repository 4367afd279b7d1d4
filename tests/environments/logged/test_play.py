"""Playing a policy for its transitions."""

import numpy as np
import pytest
from environments_for_tests.wrappers import Altered, Fragile
from helpers.transitions import the_same

import everystep as es
from everystep.errors import EverystepError

gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is not installed: logged data is not tested")
CAUTIOUS = lambda obs: 1 if obs[2] > 0 else 0
TILT = lambda obs, action, obs_next, info: abs(obs_next[2]) / 0.2 - 0.5


@pytest.mark.quick
def test_a_policy_that_is_played_leaves_a_batch(lake):
    env = es.gym.make_env(lake)
    best = es.planner.solve(lake).policy
    batch = es.logged.from_env(env, lambda x: best[env.h, x], episodes=3, seed=5)
    assert [part.stop - part.start for part in batch.episodes()] == [15, 15, 15]
    assert batch.violation == 0
    assert not batch.terminated.any()
    assert batch.steps.tolist() == [*range(15)] * 3
    x, _ = env.reset(seed=5)
    for row in range(15):
        assert batch.observations[row] == x
        assert batch.actions[row] == best[row, x]
        x, reward, _, _, info = env.step(best[row, x])
        assert (batch.next_observations[row], batch.rewards[row], batch.costs[row]) == (x, reward, info["constraint"])


def test_a_random_walk_repeats_with_its_seed():
    env = gymnasium.make("CartPole-v1")
    walk = lambda seed: es.logged.from_env(env, None, episodes=4, seed=seed, constraint=TILT)
    assert the_same(walk(1), walk(1))
    assert not np.array_equal(walk(1).observations, walk(2).observations)


def test_episodes_end_when_the_environment_does_or_at_the_horizon():
    env = gymnasium.make("CartPole-v1")
    batch = es.logged.from_env(env, lambda obs: 0, episodes=2, constraint=TILT)
    assert [bool(batch.terminated[part.stop - 1]) for part in batch.episodes()] == [True, True]
    short = es.logged.from_env(env, CAUTIOUS, episodes=2, constraint=TILT, length=4)
    assert short.steps.tolist() == [0, 1, 2, 3] * 2
    assert not short.terminated.any()
    assert short.costs[:, 0].tolist() == [TILT(None, 0, obs, {}) for obs in short.next_observations.astype(np.float32)]


def fails(values):
    raise RuntimeError("the motor is hot")


@pytest.mark.parametrize(
    ("then", "message"),
    [
        (
            fails,
            "^episode 1, step 6: the environment's step raised RuntimeError: the motor is hot",
        ),
        (
            lambda values: [values[0], np.nan, *values[2:]],
            "^episode 1, step 6: the reward is nan",
        ),
        (lambda values: [values[0][:2], *values[1:]], r"an observation has shape \(2,\) after \(4,\)"),
        (lambda values: [*values, 1], "returns 6 values, not five"),
        (
            lambda values: [*values[:4], {"cost": [1, 2]}],
            "there are 2 constraints, and 1 before",
        ),
        (lambda values: [*values[:4], {"cost": None}], r"info\['cost'\] is None"),
        (lambda values: [*values[:4], {}], r"info has neither 'constraint' nor 'cost'"),
    ],
)
def test_when_an_environment_breaks_the_steps_before_are_kept(then, message):
    quiet = lambda values: [*values[:4], {"cost": 0.0}]
    env = Fragile(then)
    env.env = Altered(env.env, quiet)
    with pytest.raises(EverystepError, match=message) as caught:
        es.logged.from_env(env, CAUTIOUS, episodes=3)
    assert len(caught.value.kept) == 5
    assert caught.value.kept.steps.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"policy": lambda obs: 7}, "^episode 1, step 1: the policy's action is 7"),
        (
            {"policy": lambda obs: 1 / 0},
            r"^episode 1, step 1: the policy raised ZeroDivisionError: division by zero\.$",
        ),
        (
            {"constraint": lambda *_: "far"},
            "the constraint function returned far at observation .* action 0",
        ),
        ({"constraint": lambda *_: []}, r"the constraint function returned \[\]"),
        ({"constraint": None}, r"info has neither 'constraint' nor 'cost' \(it has nothing\)"),
        ({"episodes": 0}, r"^episodes is 0"),
        ({"seed": -1}, r"^seed is -1"),
        ({"length": 0}, r"^length is 0"),
        (
            {"env": gymnasium.make("MountainCarContinuous-v0")},
            r"^the action space is Box.*; give actions=es.actions",
        ),
        ({"env": 3}, r"^env is 3; give a gymnasium environment"),
    ],
)
def test_wrong_arguments_of_play_are_refused_in_a_sentence(more, message):
    usual = {"env": gymnasium.make("CartPole-v1"), "policy": lambda obs: 0, "episodes": 2, "constraint": TILT}
    with pytest.raises(EverystepError, match=message) as caught:
        es.logged.from_env(**(usual | more))
    assert caught.value.kept is None
