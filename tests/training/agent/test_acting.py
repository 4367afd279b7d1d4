"""A plan at any observation: its scores and bounds by the formulas, with predictors made by hand."""

import numpy as np
import pytest

from everystep.lsvi.ahead import HarmToGo
from everystep.lsvi.choices.basic import Greedy, Penalised
from everystep.training.agent.acting import ActingPlan, divisor, largest_size

pytestmark = pytest.mark.quick
rng = np.random.default_rng(0)
A, N, M = 3, 5, 2
Q, WIDTH_Q = rng.normal(size=(A, N)), rng.random((A, N))
MEAN, WIDTH = rng.normal(0, 0.5, (M, A, N)), rng.random((M, A, N))
AFTER, WIDTH_AFTER = 2 * rng.random((A, N)), rng.random((A, N))
PRICE = np.array([[2.0], [3.0]])
X = np.zeros((N, 1))


class Given:
    """Predicts what it was given, and encodes observations as they are."""

    def __init__(self, *prediction):
        self.prediction = prediction

    def predict(self, h, encoded):
        return self.prediction

    def encode(self, observations):
        return observations


def plan(costs=True, ahead=None, choice=None, optimism=1.0, cap=1.0, scale=None, price=PRICE):
    encoder = Given()
    models = Given(Q, WIDTH_Q), Given(MEAN, WIDTH) if costs else None
    return ActingPlan(
        *models,
        *(encoder, encoder, price, choice or Penalised(True), optimism, cap),
        ahead=ahead,
        harm_ahead=None if ahead is None else Given(AFTER, WIDTH_AFTER),
        cost_scale=scale,
    )


def ahead(**changed):
    given = {"events": False, "tolerance": 0.2, "weights": np.array([1.0, 0.5]), "cap": 1.5, "optimism": 1.0}
    return HarmToGo(of_plan=False, **(given | changed))


def test_values_are_clipped_and_greedy_agents_choose_by_them_alone():
    expected = (Q + WIDTH_Q).clip(0, 1)
    np.testing.assert_allclose(plan().estimates(0, X).Q, expected)
    np.testing.assert_allclose(plan(costs=False, choice=Greedy()).scores(0, X), expected)


@pytest.mark.parametrize("optimism", [1.0, 0.0, -1.0])
def test_scores_are_values_less_priced_estimates(optimism):
    ghat = MEAN - optimism * WIDTH
    expected = (Q + WIDTH_Q).clip(0, 1) - (PRICE[:, 0, None, None] * np.maximum(ghat, 0)).sum(0)
    np.testing.assert_allclose(plan(optimism=optimism).scores(0, X), expected)


def test_an_agent_that_looks_ahead_prices_what_is_avoidable():
    ghat = MEAN - WIDTH
    G = (np.maximum(ghat[0], 0) + 0.5 * np.maximum(ghat[1], 0) + AFTER - WIDTH_AFTER).clip(0, 1.5)
    expected = (Q + WIDTH_Q).clip(0, 1) - 2.0 * np.maximum(G - G.min(0) - 0.2, 0)
    np.testing.assert_allclose(plan(ahead=ahead(), price=PRICE[:1]).scores(0, X), expected)


def test_bounds_are_the_ends_of_the_intervals_in_the_units_of_the_constraints():
    lower, upper = plan(scale=np.array([2.0, 0.0])).bounds(0, X)
    np.testing.assert_allclose(lower[0], 2 * (MEAN - WIDTH)[0])
    np.testing.assert_allclose(upper[1], (MEAN + WIDTH)[1])
    lower, upper = plan(ahead=ahead()).bounds(0, X)
    assert lower.shape == upper.shape == (1, A, N)
    most = np.maximum((MEAN + WIDTH)[0], 0) + 0.5 * np.maximum((MEAN + WIDTH)[1], 0) + AFTER + WIDTH_AFTER
    np.testing.assert_allclose(upper[0], most.clip(0, 1.5) - 0.2)


def test_labels_follow_from_the_bounds():
    lower, upper = plan().bounds(0, X)
    expected = np.where((upper <= 0).all(0), 1, np.where((lower > 0).any(0), -1, 0)).T
    np.testing.assert_array_equal(plan().labels(0, X), expected)


def test_the_highest_score_is_chosen_and_ties_are_drawn():
    chosen = plan().choose(0, X, np.random.default_rng(0))
    scores = plan().scores(0, X)
    np.testing.assert_allclose(scores[chosen, np.arange(N)], scores.max(0), atol=1e-9)
    tied = plan(costs=False, choice=Greedy(), cap=-10.0)
    tied = tied.__class__(**{**vars(tied), "lowest": -10.0})
    drawn = [int(a) for seed in range(40) for a in tied.choose(0, X, np.random.default_rng(seed))]
    assert set(drawn) == {0, 1, 2}


def test_costs_are_divided_by_the_largest_seen_so_far():
    costs = np.array([[1.0, -4.0], [0.5, 2.0]])
    assert largest_size(np.array([2.0, 0.0]), costs, together=False).tolist() == [2.0, 4.0]
    assert largest_size(np.array([2.0, 0.0]), costs, together=True).tolist() == [4.0, 4.0]
    assert divisor(np.array([0.0, 2.0])).tolist() == [1.0, 2.0]
