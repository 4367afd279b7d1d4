"""Problems as environments of gymnasium, and six-value steps."""

import numpy as np
import pytest
from environments_for_tests.wrappers import CostOfSixValues
from problems_for_tests.random_problem import random_problem

import everystep as es
from everystep.errors import EverystepError
from everystep.mdp import planner
from everystep.mdp.cmdp import Noise
from everystep.mdp.world import start_state, step
from everystep.problems import REGISTERED

pytestmark = pytest.mark.quick
gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is not installed: environments are not tested")
IDS = [problem.gym_id for problem in REGISTERED.values()]


def played(env, seed, actions):
    """All that an environment gives while the actions are played, resetting when an episode is over."""
    given = [env.reset(seed=seed)]
    for action in actions:
        given.append(env.step(action))
        if given[-1][2] or given[-1][3]:
            given.append(env.reset())
    return repr(given)


# Gymnasium's checker takes an episode of one step for a mistake, which in a bandit it is not.
BANDITS = [name for name in IDS if "Bandit" in name]


@pytest.mark.parametrize("name", BANDITS)
def test_an_episode_of_a_bandit_is_one_step(name):
    env = gymnasium.make(name)
    assert env.reset(seed=0)[0] == 0
    _, reward, terminated, truncated, info = env.step(3)
    assert np.isfinite(reward)
    assert info["constraint"].shape == (1,)
    assert (terminated, truncated) == (False, True)


def test_settings_reach_the_problem():
    env = gymnasium.make(IDS[0], horizon=20, cost="realised")
    assert env.unwrapped.problem.horizon == 20
    assert env.unwrapped.problem.noise.cost_on_arrival is not None


def test_a_seed_repeats_everything_and_another_does_not(lake):
    env = es.gym.make_env(random_problem())
    actions = np.random.default_rng(0).integers(0, 3, 30)
    assert played(env, 1, actions) == played(env, 1, actions)
    assert played(env, 1, actions) != played(env, 2, actions)


@pytest.mark.parametrize("start", [2, [0, 3, 5], np.full(6, 1 / 6)])
def test_the_environment_takes_the_steps_of_the_problem(start):
    """The same function on the same draws: a uniform one for the start, then uniform, normal, normals for each step."""
    problem = random_problem(start=start)
    env, rng = es.gym.make_env(problem), np.random.default_rng(7)
    for k in (1, 2, 3, 4):
        x, info = env.reset(seed=7 if k == 1 else None)
        assert x == start_state(problem.world, k, rng.random())
        assert info["constraint"].tolist() == info["mean_constraint"].tolist() == [0, 0]
        assert info["cost"] == 0
        for h in range(problem.horizon):
            assert env.h == h
            a = (x + h) % 3
            want = step(problem.world, h, x, a, rng.random(), rng.standard_normal(), rng.standard_normal(2))
            x, reward, terminated, truncated, info = env.step(a)
            assert (x, reward) == (want.x_next, want.reward)
            assert info["constraint"].tolist() == want.cost.tolist()
            assert info["cost"] == np.maximum(want.cost, 0).sum()
            assert (terminated, truncated) == (False, h == problem.horizon - 1)


def test_info_has_the_true_means_of_the_constraints():
    problem = random_problem()
    env = es.gym.make_env(problem)
    x, _ = env.reset(seed=0)
    info = env.step(2)[-1]
    assert info["mean_constraint"].tolist() == problem.g[:, 0, x, 2].tolist()
    assert info["constraint"].tolist() != info["mean_constraint"].tolist()


def test_problems_that_depend_on_the_step_are_stepped_through():
    P = np.zeros((3, 2, 1, 2))
    P[:, :, 0, 1] = 1
    r = np.arange(6.0).reshape(3, 2, 1)
    env = es.gym.make_env(es.FiniteCMDP(P, r, -np.ones((3, 2, 1)), horizon=3))
    env.reset(seed=0)
    assert [env.step(0)[1] for _ in range(3)] == [0, 3, 5]


def test_playing_the_safe_optimum_earns_its_value_without_violations(lake):
    best = planner.solve(lake)
    env = es.gym.make_env(lake)
    earned, harmed = np.zeros(600), 0.0
    x, _ = env.reset(seed=0)
    for k in range(len(earned)):
        for h in range(lake.horizon):
            x, reward, _, _, info = env.step(best.policy[h, x])
            earned[k] += reward
            harmed += info["cost"]
        x, _ = env.reset()
    assert harmed == 0
    assert abs(earned.mean() - best.value) < 4 * earned.std() / np.sqrt(len(earned))


def test_an_episode_may_start_in_any_state(lake):
    env = es.gym.make_env(lake)
    assert env.reset(options={"start": 42})[0] == 42
    assert env.reset(options={"start": np.int64(7)})[0] == 7
    assert env.reset(options={"minari_autoseed": False})[0] == 0


def test_what_an_environment_gives_is_not_changed_by_what_comes_later():
    env = es.gym.make_env(random_problem(noise=Noise()))
    env.reset(seed=0)
    info = env.step(1)[-1]
    info["constraint"][:] = 99
    assert (env.problem.world.g < 2).all()


@pytest.mark.parametrize("action", [-1, 3, 0.5, "left", None, np.array([0, 1])])
def test_an_unknown_action_is_refused_in_a_sentence(action):
    env = es.gym.make_env(random_problem())
    env.reset(seed=0)
    with pytest.raises(EverystepError, match=r"^action is .*; give a whole number from 0 to 2\.$"):
        env.step(action)


@pytest.mark.parametrize("action", [1, True, np.int32(1), np.array(1)])
def test_numbers_of_any_kind_are_actions(action):
    env = es.gym.make_env(random_problem())
    assert played(env, 0, [action]) == played(env, 0, [1])
    assert played(env, 0, [action]) != played(env, 0, [0])


def test_stepping_before_or_after_an_episode_is_refused():
    env = es.gym.make_env(random_problem())
    with pytest.raises(EverystepError, match="call reset"):
        env.step(0)
    env.reset(seed=0)
    for _ in range(4):
        env.step(0)
    with pytest.raises(EverystepError, match="over after 4 steps; call reset"):
        env.step(0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"problem": 3}, "^problem is int"),
        ({"problem": "frozen-lak"}, r"^no problem 'frozen-lak'\. Did you mean frozen-lake\?"),
        ({"problem": "frozen-lake", "horizn": 3}, r"^no setting 'horizn'\. Did you mean horizon\?"),
        ({"problem": "frozen-lake", "horizon": 0}, r"^horizon is 0; give a whole number of at least 1\.$"),
        ({"problem": "frozen-lake", "render_mode": "smell"}, r"^render_mode is 'smell'; choose ansi, rgb_array"),
        (
            {"problem": random_problem(), "horizon": 3},
            r"^horizon is not a setting of an environment made from a Finite",
        ),
    ],
)
def test_wrong_arguments_are_refused_in_a_sentence(arguments, message):
    with pytest.raises(EverystepError, match=message):
        es.gym.CMDPEnv(**arguments)


def test_a_wrong_problem_or_start_is_refused():
    with pytest.raises(EverystepError, match="P sums to"):
        es.gym.make_env(es.FiniteCMDP(np.full((2, 1, 2), 0.4), np.zeros((2, 1)), np.zeros((2, 1))))
    env = es.gym.make_env(es.problems.from_map(["S#G"]))
    with pytest.raises(EverystepError, match=r"^start is 3; give a whole number from 0 to 2\.$"):
        env.reset(options={"start": 3})
    with pytest.raises(EverystepError, match=r"^start is 1, which is never entered"):
        env.reset(options={"start": 1})


def test_environments_run_side_by_side():
    vector = gymnasium.make_vec(IDS[0], num_envs=3, vectorization_mode="sync")
    vector.reset(seed=0)
    info = vector.step(np.array([1, 2, 3]))[-1]
    assert info["constraint"].shape == (3, 1)
    assert info["cost"].shape == (3,)
    vector.close()


def test_six_values_and_back_are_the_same_environment():
    plain = es.gym.make_env(random_problem())
    there_and_back = es.gym.FromSixValueStep(es.gym.SixValueStep(es.gym.make_env(random_problem())))
    actions = np.random.default_rng(0).integers(0, 3, 20)
    assert played(plain, 3, actions) == played(there_and_back, 3, actions)


def test_the_third_of_six_values_is_the_cost():
    env = es.gym.SixValueStep(es.gym.make_env(random_problem()))
    env.reset(seed=0)
    obs, reward, cost, terminated, truncated, info = env.step(1)
    assert cost == info["cost"] == np.maximum(info["constraint"], 0).sum()
    assert obs in env.observation_space
    assert isinstance(reward, float)
    assert (terminated, truncated) == (False, False)


def test_the_cost_of_six_values_becomes_a_signed_constraint():
    env = es.gym.FromSixValueStep(CostOfSixValues(es.gym.make_env(random_problem())), limit=1.5)
    env.reset(seed=0)
    infos = [env.step(action)[-1] for action in (0, 1, 2)]
    assert [info["constraint"].tolist() for info in infos] == [[-1.5], [-0.5], [0.5]]
    assert [info["cost"] for info in infos] == [0, 0, 0.5]


def test_wrappers_name_what_is_missing():
    bare = es.gym.SixValueStep(gymnasium.make("FrozenLake-v1"))
    bare.reset(seed=0)
    with pytest.raises(EverystepError, match=r"^info has neither 'constraint' nor 'cost' \(it has prob\)"):
        bare.step(0)
    five = es.gym.FromSixValueStep(es.gym.make_env(random_problem()))
    five.reset(seed=0)
    with pytest.raises(EverystepError, match="returns 5 values, not six"):
        five.step(0)
    with pytest.raises(EverystepError, match="limit is nan"):
        es.gym.FromSixValueStep(es.gym.make_env(random_problem()), limit=np.nan)
