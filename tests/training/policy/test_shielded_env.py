"""A shield in front of an environment, and what the learner inside learns."""

import gymnasium
import jax
import numpy as np
import pytest
from environments_for_tests.walks import Walk
from gymnasium.utils.env_checker import check_env
from helpers.shields import beyond_five, episode, learner

import everystep as es
from everystep.environments.play.batch import BatchBuilder

pytestmark = pytest.mark.quick


def steps(env, actions, seed):
    """All that an environment returns, for given actions."""
    found = [env.reset(seed=seed)[0]]
    for action in actions:
        x, reward, terminated, truncated, info = env.step(action)
        found += [x, reward, terminated, truncated, {key: info[key] for key in info if key not in ADDED}]
        if terminated or truncated:
            found.append(env.reset()[0])
    return found


ADDED = ("shielded", "asked", "played")


@pytest.mark.parametrize("guide", ["policy", "learner"])
def test_a_shield_that_admits_everything_changes_nothing_bit_for_bit(guide):
    make = lambda: gymnasium.make("CartPole-v1", max_episode_steps=20)
    limit = lambda seen, action, after, info: abs(after[2]) / 0.05 - 1
    features = es.features.polynomial(1, low=[-3] * 4, high=[3] * 4)
    inside = es.Learner(make(), "lsvi-ahead", constraint=limit, features=features, horizon=5)
    inside.play(1)
    inside = inside.policy() if guide == "policy" else inside
    actions = list(np.random.default_rng(0).integers(0, 2, 70))
    plain, shielded = steps(make(), actions, 3), steps(es.shield(inside, np.inf).wrap(make()), actions, 3)
    assert len(plain) == len(shielded)
    assert all(type(a) is type(b) and np.array_equal(a, b) for a, b in zip(plain, shielded, strict=True))


@pytest.mark.parametrize("guide", ["policy", "learner"])
@pytest.mark.filterwarnings("ignore:.*different from the unwrapped version")
def test_gymnasium_accepts_the_wrapper(guide, policy):
    env = es.shield(policy if guide == "policy" else learner()).wrap(Walk())
    check_env(env, skip_render_check=True)


@pytest.mark.parametrize("first", [0, 1])
def test_an_inadmissible_action_is_replaced_and_reported(first):
    inside = learner(first=first)
    env = es.shield(inside).wrap(Walk(first))
    right = lambda x: np.int64(first + 1)
    assert not any(info["shielded"] for info in episode(env, right, seed=0))  # nothing is known
    infos = episode(env, right) + episode(env, right)
    assert any(info["shielded"] for info in infos)
    for info in infos:
        step = 1 if info["played"] == first + 1 else -1
        assert info["after"] == np.clip(info["before"] + step, 0, 8)
        assert info["asked"] == first + 1
        assert info["shielded"] == (info["played"] != info["asked"])
    assert not any(info["shielded"] for info in episode(env, lambda x: first))
    unshielded = episode(Walk(first), right)
    late = [max(beyond_five(0, 0, info["after"], {}), 0) for info in episode(env, right)]
    assert sum(late) == 0 < sum(max(beyond_five(0, 0, info["after"], {}), 0) for info in unshielded)


def test_the_price_of_a_replaced_action_is_paid_by_the_other_agent_alone():
    inside = learner(reward_range=(0, 1))
    env = es.shield(inside).wrap(Walk(), price=0.5)
    infos = [info for _ in range(3) for info in episode(env, lambda x: 1)]
    assert sum(info["shielded"] for info in infos) > 3
    assert all(info["reward"] == info["after"] / 8 - 0.5 * info["shielded"] for info in infos)
    assert inside.agent.rewards.tolist() == [info["after"] / 8 for info in infos]


def test_masks_are_the_admissible_actions_and_what_they_admit_is_played():
    inside = learner()
    env, rng = es.shield(inside).wrap(Walk()), np.random.default_rng(0)
    closed = 0
    for _ in range(6):
        (x, _), over, t = env.reset(), False, 1
        while not over:
            mask = env.action_masks()
            assert mask.shape == (2,)
            assert mask.dtype == bool
            assert mask.any()
            assert (mask == env.shield.admissible(x, t)).all()
            closed += not mask.all()
            env.action_masks()[:] = False  # a copy
            x, _, _, over, info = env.step(rng.choice(np.flatnonzero(mask)))
            assert not info["shielded"]
            t += 1
    assert closed


def test_the_learner_learns_what_it_would_learn_from_a_log_of_the_same_steps():
    seen, logged = learner(), learner()
    env, ask, builder = es.shield(seen).wrap(Walk()), np.random.default_rng(1), BatchBuilder()
    for number in range(4):
        for t, info in enumerate(episode(env, lambda x: int(ask.integers(2)), seed=number)):
            x, after = np.array(info["before"]), np.array(info["after"])
            cost = np.array([beyond_five(0, 0, info["after"], {})])
            builder.add(observation=x, action=info["played"], reward=info["reward"], cost=cost, next_observation=after,
                        terminated=False, step=t, episode=number)  # fmt: skip
    logged.learn(builder.batch(2))
    assert seen.number == 5
    assert seen.so_far.steps == 80
    same = jax.tree.map(lambda a, b: bool((np.asarray(a) == np.asarray(b)).all()), seen.agent.state, logged.agent.state)
    assert all(jax.tree.leaves(same))


def test_it_plans_again_by_the_rule_of_the_learner():
    plans = {}
    for switch in ("none", "50%"):
        inside = learner(es.agents.lsvi_ae(switch=switch))
        env = es.shield(inside).wrap(Walk())
        for _ in range(9):
            episode(env, lambda x: 0)
        plans[switch] = inside.plans
    assert plans == {"none": 8, "50%": 5}  # with half as much again: after 1, 2, 3, 5 and 8 episodes


def test_it_reacts_within_an_episode_if_the_agent_does():
    second = {}
    for react in (False, True):
        env = es.shield(learner(es.agents.lsvi_ae(react=react, beta_cost=0.0, lam_cost=1e-6))).wrap(Walk())
        episode(env, lambda x: 0)
        seen = [info["before"] for info in episode(env, lambda x: 1) if info["after"] > 5 and info["played"] == 1]
        second[react] = len(seen) - len(set(seen))  # unsafe steps that were already known from this episode
    assert second[True] == 0 < second[False]


def test_unfinished_episodes_are_learnt_and_evaluation_learns_nothing():
    inside = learner()
    shield = es.shield(inside)
    env = shield.wrap(Walk())
    env.reset(seed=0)
    env.step(1)
    assert inside.so_far.steps == 0
    env.reset()
    assert inside.so_far.steps == 1
    env.step(1)
    env.close()
    assert inside.so_far.steps == 2
    episode(shield.wrap(Walk(), learn=False), lambda x: 1)
    assert inside.so_far.steps == 2


def test_a_constraint_that_fails_loses_nothing():
    calls = []

    def fails(seen, action, after, info):
        calls.append(seen)
        if len(calls) == 3:
            raise ZeroDivisionError
        return -1.0

    inside = learner(constraint=fails)
    env = es.shield(inside).wrap(Walk())
    env.reset(seed=0)
    env.step(1)
    env.step(1)
    with pytest.raises(es.EverystepError, match="raised ZeroDivisionError"):
        env.step(1)
    env.reset()
    assert inside.so_far.steps == 2
