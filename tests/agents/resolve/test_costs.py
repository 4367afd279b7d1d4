"""The cost models of an agent on a problem: which they are, and whether their intervals are valid."""

import numpy as np
import pytest

import everystep as es
from everystep.errors import EverystepError
from everystep.lsvi.costs.counts import CountCosts
from everystep.lsvi.costs.estimate import EachCost
from everystep.lsvi.costs.linear import LinearCosts
from everystep.mdp.cmdp import FiniteCMDP, Noise

pytestmark = pytest.mark.quick
rng = np.random.default_rng(0)
PHI = rng.normal(size=(3, 2, 4)) / 4
LINEAR = np.einsum("sad,md->msa", PHI, rng.normal(size=(2, 4)) / 4)


def problem(g=LINEAR, **more):
    return FiniteCMDP(rng.dirichlet(np.ones(3), (3, 2)), rng.random((3, 2)), g.clip(-1, 1), horizon=3, **more)


def model(of, **settings):
    return es.agents.lsvi_ae(**settings).resolve(of, 10).cost_model()


def test_features_are_used_where_there_are_some_and_one_model_for_each_constraint_where_asked():
    with_features = problem(features=PHI)
    assert isinstance(model(with_features), LinearCosts)
    assert isinstance(model(problem()), CountCosts)
    each = model(with_features, cost=["counts", "linear"])
    assert isinstance(each, EachCost)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"cost": ["counts"]}, "1 models for 2 constraints"),
        ({"cost": "linear"}, "has no features"),
        ({"known_safe": np.zeros(4, int)}, r"known_safe .* shape \(4,\)"),
        ({"known_safe": np.full(3, 2)}, "known_safe .* actions below 2"),
        ({"react": True, "share_costs": False}, "react .* share_costs"),
    ],
)
def test_what_does_not_fit_is_named(settings, words):
    with pytest.raises(EverystepError, match=words):
        es.agents.lsvi_ae(**settings).resolve(problem(), 10)


def test_known_safe_actions_are_given_for_each_state_or_are_the_safest():
    g = np.array([[[-0.5, 0.5], [0.5, -0.1], [0.2, 0.3]]])
    of = problem(g)
    known = lambda value: es.agents.lsvi_ae(known_safe=value).resolve(of, 10).known_safe
    assert known("none") is None
    assert known("safest").tolist() == [[True, False, False], [False, True, False]]  # (A, S); state 2 has none
    assert known(np.array([1, 0, 1])).tolist() == [[False, True, False], [True, False, True]]
    assert known(np.eye(3, 2, dtype=bool)).tolist() == [[True, False, False], [False, True, False]]


def test_intervals_are_valid_if_the_noise_and_the_bound_are_as_assumed():
    confidence = lambda of, **settings: es.agents.lsvi_ae(**settings).resolve(of, 10).confidence
    noisy = problem(noise=Noise(cost_sigma=0.5))
    assert confidence(noisy, radius_cost="coordinate", p=0.1) == 0.1
    assert confidence(noisy) is None  # tuned
    assert confidence(noisy, radius_cost="coordinate", sigma=0.1) is None
    assert confidence(noisy, radius_cost="coordinate", beta_cost=0.5) is None
    assert confidence(problem(np.full((2, 3, 2), -1.0)), radius_cost="coordinate", bound=0.5) is None
