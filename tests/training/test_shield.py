"""Shields: which actions are admissible, what is played instead, and what a learner learns behind another agent."""

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

import everystep as es
from everystep.environments.play.batch import BatchBuilder
from everystep.lsvi.choices.basic import Greedy
from everystep.training.agent.acting import ActingPlan, HarmAhead
from everystep.training.policy.shield import ShieldWarning, judged

pytestmark = pytest.mark.quick


class Walk(gymnasium.Env):
    """A walk on a line of nine places: action 1 (or `first`) goes left, the next one right, where the reward is."""

    observation_space = spaces.Discrete(9)

    def __init__(self, first=0, limit=20):
        self.action_space, self.limit = spaces.Discrete(2, start=first), limit

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.t = int(self.np_random.integers(4)), 0
        return self.x, {}

    def step(self, action):
        self.x, self.t = int(np.clip(self.x + (1 if action > self.action_space.start else -1), 0, 8)), self.t + 1
        return self.x, self.x / 8, False, self.t >= self.limit, {}


def beyond_five(seen, action, after, info):
    return (after - 5.5) / 6


OPTIONS = {"constraint": beyond_five, "horizon": 6, "length": 20}


def learner(agent="lsvi-ae", first=0, **options):
    return es.Learner(Walk(first), agent, **(OPTIONS | options))


@pytest.fixture(scope="module")
def policy():
    return es.train(Walk(), "lsvi-ae", episodes=8, **OPTIONS).policy


def episode(env, ask, seed=None):
    """The info of every step of an episode in which `ask(observation)` is asked for."""
    (x, _), over, infos = env.reset(seed=seed), False, []
    while not over:
        before = x
        x, reward, terminated, truncated, info = env.step(ask(x))
        over = terminated or truncated
        infos.append({**info, "before": before, "after": x, "reward": reward})
    return infos


# --- which actions are admissible ------------------------------------------------------------------------------------
class Given:
    """A predictor, or an encoder, that returns what it was given."""

    def __init__(self, *numbers, actions=0):
        self.numbers, self.actions = numbers, actions

    def predict(self, h, encoded):
        return self.numbers

    def encode(self, observations):
        return observations


def plan_of(Q, mean, width, after=None, after_width=None, scale=1.0, weights=None):
    encoder, m = Given(actions=len(Q)), len(mean)
    ahead = None if after is None else HarmAhead(Given(after[:, None], after_width[:, None]), False, 0.1, weights, 3.0)
    values, costs = Given(Q[:, None], np.zeros((len(Q), 1))), Given(mean[..., None], width[..., None])
    price, scale = np.ones((1 if ahead else m, 1)), np.full(m, scale)
    return ActingPlan(values, costs, encoder, encoder, price, Greedy(), 1.0, 100.0, ahead=ahead, cost_scale=scale)


def by_hand(Q, ends, middles, tolerance, asked):
    """The definition, one action at a time."""
    allowed = [a for a in range(len(Q)) if ends[a] <= tolerance]
    if not allowed:
        allowed = [a for a in range(len(Q)) if ends[a] <= min(ends) + 1e-9]
        allowed = [a for a in allowed if middles[a] <= min(middles[b] for b in allowed) + 1e-9]
    return allowed, asked if asked in allowed else max(allowed, key=lambda a: (Q[a], -ends[a]))


@pytest.mark.parametrize("ahead", [False, True])
def test_admissible_actions_and_the_best_of_them_are_those_of_the_definition(ahead):
    rng, fallbacks, replaced = np.random.default_rng(0), 0, 0
    for _ in range(300):
        A, m, scale = int(rng.integers(2, 6)), int(rng.integers(1, 4)), float(rng.choice([1.0, 4.0]))
        Q, optimism = rng.integers(0, 3, A).astype(float), float(rng.choice([-1, -0.5, 0, 1]))
        mean, width = rng.normal(0, 0.5, (m, A)), rng.random((m, A))
        after, spread, weights = 3 * rng.random(A), rng.random(A), rng.random(m)
        tolerance, asked = float(rng.choice([0.0, 0.5, 2.0])), int(rng.integers(A))

        def harm(a, optimism):
            g = [mean[i, a] - optimism * width[i, a] for i in range(m)]  # noqa: B023
            if not ahead:
                return scale * max(g)  # noqa: B023
            follows = after[a] - optimism * spread[a]  # noqa: B023
            return scale * min(max(sum(w * max(x, 0) for w, x in zip(weights, g, strict=True)) + follows, 0), 3)  # noqa: B023

        ends, middles = [[harm(a, each) for a in range(A)] for each in (optimism, 0.0)]
        allowed, best = by_hand(Q, ends, middles, tolerance, asked)
        further = (after, spread, scale, weights) if ahead else (None, None, scale)
        found = judged(plan_of(Q, mean, width, *further), 0, np.zeros((1, 1)), optimism, tolerance)
        assert np.flatnonzero(found.admissible).tolist() == allowed
        assert found.instead_of(asked) == best
        fallbacks, replaced = fallbacks + (min(ends) > tolerance), replaced + (best != asked)
    assert fallbacks > 30
    assert replaced > 30


def test_the_least_harmful_is_admitted_by_the_middle_where_all_upper_ends_are_the_most_there_is():
    Q, mean, width = np.array([2.0, 1.0, 1.0]), np.array([[0.9, 0.2, 0.2]]), np.full((1, 3), 100.0)
    plan = plan_of(Q, mean, width, np.zeros(3), np.zeros(3), weights=np.ones(1))
    assert judged(plan, 0, np.zeros((1, 1)), -1.0, 0.0).admissible.tolist() == [False, True, True]


def test_the_upper_end_is_that_of_the_bounds_of_a_policy_and_its_default(policy):
    for x in range(9):
        lower, upper = (each.max(0) for each in policy.bounds(x))
        for tolerance in (0.0, 0.3):
            for shield, end in ((es.shield(policy, tolerance), upper), (es.shield(policy, tolerance, 1), lower)):
                expected = end <= tolerance
                if expected.any():
                    assert (shield.admissible(x) == expected).all()


@pytest.mark.parametrize("agent", ["lsvi-ae", "lsvi-ahead"])
def test_everything_is_admitted_while_nothing_is_known(agent):
    shield = es.shield(learner(agent), 0.0, optimism=-1)
    assert shield.admissible(3).tolist() == [True, True]
    assert shield(3, 1) == 1


def test_the_tolerance_of_the_agent_is_the_default_in_the_unit_of_the_constraint():
    shield, A, m = es.shield(learner()), 2, 1
    nothing = np.zeros((m, A))
    ahead = plan_of(np.zeros(A), nothing, nothing, np.zeros(A), np.zeros(A), scale=4.0, weights=np.ones(m))
    assert shield.tolerance(ahead) == pytest.approx(4 * 0.1)
    assert shield.tolerance(plan_of(np.zeros(A), nothing, nothing, scale=4.0)) == 0
    assert es.shield(learner(), 0.3).tolerance(ahead) == 0.3


# --- the environment -------------------------------------------------------------------------------------------------
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


def test_the_function_returns_the_action_itself_or_the_best(policy):
    shield, asked = es.shield(policy, optimism=0), np.array([1])
    assert shield.admissible(5).tolist() == [True, False]
    assert shield(5, 1) == 0
    assert shield(2, asked) is asked


def test_after_the_expected_length_the_shield_looks_ahead_in_full(policy):
    shield = es.shield(policy)
    assert [shield.countdown(t) for t in (0, 14, 15, 19, 20, 99)] == [0, 0, 1, 5, 0, 0]


# --- learning behind another agent -----------------------------------------------------------------------------------
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
    with pytest.raises(es.EverystepError, match="the constraint function raised ZeroDivisionError"):
        env.step(1)
    env.reset()
    assert inside.so_far.steps == 2


# --- what it says ----------------------------------------------------------------------------------------------------
def played(shield, env, right, episodes=25):
    """500 steps in a wrapped environment, or more, in which the right is asked for with a probability."""
    env, rng = shield.wrap(env), np.random.default_rng(0)
    for _ in range(episodes):
        episode(env, lambda x: int(rng.random() < right))


class Doomed(Walk):
    """At odd places every action is unsafe."""

    def step(self, action):
        g = 1.0 if self.x % 2 else -1.0
        *step, info = super().step(action)
        return *step, info | {"constraint": g}


def test_replacing_without_effect_is_warned_about_once_and_kept_as_a_finding():
    shield = es.shield(learner(constraint=None))
    with pytest.warns(ShieldWarning, match="replacing does not help: take lsvi-ahead") as said:
        played(shield, Doomed(), 0.5, episodes=50)
    assert len(said) == 1
    found, declines = shield.diagnose().findings
    assert (found.about, declines.about) == ("effect", "violations")
    assert found.numbers["unsafe_replaced"] >= 0.5 * found.numbers["replaced"]


def test_an_agent_whose_actions_are_nearly_all_replaced_is_warned_about(policy):
    shield = es.shield(policy, optimism=0)
    with pytest.warns(ShieldWarning, match="actions were replaced, so that the other agent decides almost nothing"):
        played(shield, Pushed(), 1.0)
    assert [each.about for each in shield.diagnose().findings] == ["replaced"]


class Pushed(Walk):
    """Starts at the limit, and comes back to it."""

    def step(self, action):
        _, *rest = super().step(action)
        self.x = 5
        return 5, *rest

    def reset(self, **given):
        _, info = super().reset(**given)
        self.x = 5
        return 5, info


def test_a_shield_that_helps_says_nothing():
    shield = es.shield(learner())
    played(shield, Walk(), 0.8, episodes=50)
    assert str(shield.diagnose()) == "No problem was found."


# --- what is refused -------------------------------------------------------------------------------------------------
class Other(Walk):
    def __init__(self, actions=2, places=9, space=None):
        super().__init__()
        self.action_space, self.observation_space = spaces.Discrete(actions), space or spaces.Discrete(places)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda p: es.shield(p).wrap(Other(actions=3)), "env has 3 actions from 0, and the shield 2 from 0"),
        (lambda p: es.shield(p).wrap(Walk(first=1)), "env has 2 actions from 1, and the shield 2 from 0"),
        (lambda p: es.shield(p).wrap(Other(places=12)), "which are not those of the shield"),
        (lambda p: es.shield(p).wrap(Other(space=spaces.Box(0, 1, (3,)))), "which are not those of the shield"),
        (lambda p: es.shield(learner()).wrap(Other(places=12)), "which are not those of the shield"),
        (lambda p: es.shield(p).wrap(gymnasium.vector.SyncVectorEnv([Walk, Walk])), "before they are put into"),
        (lambda p: es.shield(p).wrap("Nothing-v0"), "cannot be made"),
        (lambda p: es.shield(p).wrap(Walk(), learn="yes"), "learn is yes"),
        (lambda p: es.shield(p).wrap(Walk(), price=-1), "price is -1"),
        (lambda p: es.shield(p).wrap(Walk()).step(0), "the episode has not begun"),
        (lambda p: es.shield(p).wrap(Walk()).action_masks(), "the episode has not begun"),
        (lambda p: es.shield("policy"), "a policy or an es.Learner"),
        (lambda p: es.shield(learner("lsvi")), "never learns costs"),
        (lambda p: es.shield(p, tolerance=-0.1), "tolerance is -0.1"),
        (lambda p: es.shield(p, tolerance=np.nan), "tolerance is nan"),
        (lambda p: es.shield(p, optimism=2), "optimism is 2"),
        (lambda p: es.shield(p)(0, 2), "action is 2"),
        (lambda p: es.shield(p)(0, "left"), "action is left"),
        (lambda p: es.shield(p).admissible(0, step=0), "step is 0"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_in_a_sentence(make, sentence, policy):
    with pytest.raises(es.EverystepError, match=sentence):
        make(policy)
