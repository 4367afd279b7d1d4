"""What is stepped is what was evaluated: one policy in every loop, and labels only where it has been."""

import gymnasium
import numpy as np
import pytest
from environments_for_tests.walks import SlippingWalk
from environments_for_tests.wrappers import FromZero
from helpers import loops
from helpers.loops import EPISODES

import everystep as es
from everystep.errors import EverystepError
from everystep.training.policy.evaluation import FIRST_SEED

pytestmark = pytest.mark.quick


def cartpole():
    return gymnasium.make("CartPole-v1", max_episode_steps=30)


def tilt(obs, action, obs_next, info):
    return abs(obs_next[2]) / 0.1 - 1


CASES = {
    "states": (SlippingWalk, None, {"horizon": 6, "length": 12}),
    "cartpole": (cartpole, tilt, {"horizon": 10, "features": es.features.polynomial(2, low=-3, high=3)}),
    "box": (
        lambda: SlippingWalk("vectors"),
        None,
        {"horizon": 5, "length": 12, "features": es.features.polynomial(2), "actions": es.actions.grid(3)},
    ),
}


@pytest.fixture(scope="module", params=[(case, "lsvi-ae") for case in CASES] + [("cartpole", "lsvi-ahead")], ids=str)
def trained(request):
    case, agent = request.param
    make, constraint, options = CASES[case]
    return make, constraint, es.train(make(), agent, constraint=constraint, episodes=6, **options).policy


def test_every_loop_earns_what_the_evaluation_says_to_the_last_bit(trained):
    make, constraint, policy = trained
    found = es.evaluate(policy, make(), constraint=constraint, episodes=EPISODES).columns["return"].tolist()
    for loop, earned in loops.returns(policy, make).items():
        assert earned == found, loop
    at_first = [policy(x) for x in _observations(policy)]
    at_the_end = [policy(x, step=policy.countdown.length) for x in _observations(policy)]
    assert not np.array_equal(at_first, at_the_end)  # or the countdown would be tested by nothing


def test_evaluate_policy_of_stable_baselines3_earns_the_same(trained):
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation")
    from stable_baselines3.common.vec_env import DummyVecEnv

    make, constraint, policy = trained
    found = es.evaluate(policy, make(), constraint=constraint, episodes=EPISODES).columns["return"].tolist()
    evaluate = lambda *given, **named: evaluation.evaluate_policy(*given, **named, warn=False)
    for play in loops.in_copies(evaluate, DummyVecEnv):
        assert play(policy, make) == found


def _observations(policy):
    low, high = policy.observed.low, policy.observed.high
    if policy.observed.sizes is not None:
        return range(9)
    return [low + (high - low) * np.random.default_rng(i).random(len(low)) for i in range(100)]


def test_a_policy_of_observations_in_parts_predicts_one_and_many():
    env = SlippingWalk("parts")
    options = {"features": es.features.polynomial(1), "actions": es.actions.grid(3), "horizon": 3, "length": 12}
    policy = es.train(env, "lsvi-ae", episodes=2, **options).policy
    some = [env.reset(seed=i)[0] for i in range(4)]
    together = {name: np.stack([x[name] for x in some]) for name in some[0]}
    actions, (steps,) = policy.predict(together, (np.array([0, 3, 11, 40]),), np.array([False, False, False, True]))
    assert steps.tolist() == [1, 4, 12, 1]
    assert actions.dtype == np.float32
    np.testing.assert_array_equal(actions, [policy(x, t) for x, t in zip(some, steps, strict=True)])
    action, _ = policy.predict(some[0])
    np.testing.assert_array_equal(action, policy(some[0]))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"observation": np.zeros(3)}, r"have shape \(2,\); give one of them, or a batch"),
        ({"observation": {"place": 0.0}}, "does not have the parts of the space"),
        ({"observation": np.array([np.nan, 0.0])}, "an observation holds nan; give finite numbers"),
        ({"observation": np.zeros((2, 2)), "state": (np.zeros(3, int),)}, "for 2 observations; give what predict"),
        (
            {"observation": np.zeros((2, 2)), "episode_start": np.ones(3)},
            "give True or False for each of 2 observations",
        ),
    ],
)
def test_what_predict_cannot_take_is_refused_in_a_sentence(box_policy, given, words):
    with pytest.raises(EverystepError, match=words):
        box_policy.predict(**given)


@pytest.mark.parametrize("agent", ["lsvi-ae", "lsvi-ahead"])
def test_the_policy_uses_the_estimates_themselves_as_episodes_without_exploration_do(agent):
    learner = es.Learner(SlippingWalk(), agent, horizon=6, length=12, seed=1)
    learner.play(2)
    assert learner.agent.plan().optimism == 1.0
    shipped, same = learner.policy(), learner.agent.plan_without_exploration()
    assert shipped.plan.optimism == same.optimism == learner.result().policy.plan.optimism == 0.0
    assert shipped.plan.ahead is None or shipped.plan.ahead.optimism == 0.0
    np.testing.assert_array_equal(shipped.plan.scores(0, np.arange(9)), same.scores(0, np.arange(9)))
    assert learner.policy(optimism=-1).plan.optimism == -1.0


def test_a_batch_collected_by_a_policy_is_what_it_plays_when_it_is_evaluated():
    env = FromZero(SlippingWalk())
    policy = es.train(env, "lsvi-ae", episodes=6, horizon=6, length=12).policy
    batch = es.logged.from_env(env, policy, episodes=1, seed=FIRST_SEED)
    assert batch.rewards.sum() == pytest.approx(es.evaluate(policy, env, episodes=1).columns["return"][0])
