"""Shields: which actions are admissible, and what is played instead."""

import gymnasium
import numpy as np
import pytest
from environments_for_tests.walks import OtherSpaces, Walk
from gymnasium import spaces
from helpers.shields import learner

import everystep as es
from everystep.lsvi.ahead import HarmToGo
from everystep.lsvi.choices.basic import Greedy
from everystep.training.agent.acting import ActingPlan
from everystep.training.policy.shield import judged

pytestmark = pytest.mark.quick


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
    ahead = None if after is None else HarmToGo(False, False, 0.1, weights, 3.0)
    harm_ahead = None if after is None else Given(after[:, None], after_width[:, None])
    values, costs = Given(Q[:, None], np.zeros((len(Q), 1))), Given(mean[..., None], width[..., None])
    price, scale = np.ones((1 if ahead else m, 1)), np.full(m, scale)
    further = {"ahead": ahead, "harm_ahead": harm_ahead, "cost_scale": scale}
    return ActingPlan(values, costs, encoder, encoder, price, Greedy(), 1.0, 100.0, **further)


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


def test_the_function_returns_the_action_itself_or_the_best(policy):
    shield, asked = es.shield(policy, optimism=0), np.array([1])
    assert shield.admissible(5).tolist() == [True, False]
    assert shield(5, 1) == 0
    assert shield(2, asked) is asked


def test_after_the_expected_length_the_shield_looks_ahead_in_full(policy):
    shield = es.shield(policy)
    assert [shield.countdown(t) for t in (0, 14, 15, 19, 20, 99)] == [0, 0, 1, 5, 0, 0]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda p: es.shield(p).wrap(OtherSpaces(actions=3)), "env has 3 actions from 0, and the shield 2 from 0"),
        (lambda p: es.shield(p).wrap(Walk(first=1)), "env has 2 actions from 1, and the shield 2 from 0"),
        (lambda p: es.shield(p).wrap(OtherSpaces(places=12)), "which are not those of the shield"),
        (lambda p: es.shield(p).wrap(OtherSpaces(space=spaces.Box(0, 1, (3,)))), "which are not those of the shield"),
        (lambda p: es.shield(learner()).wrap(OtherSpaces(places=12)), "which are not those of the shield"),
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
