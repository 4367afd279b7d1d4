"""Bandits: the tests of the literature, and what is refused."""

import numpy as np
import pytest

import everystep as es
from everystep.errors import EverystepError


def test_the_continuum_is_the_printed_test_scaled():
    bandit = es.problems.bandit_continuum()
    x1, x2 = bandit.coordinates["position"][0].T
    np.testing.assert_allclose(8 * bandit.r[0, 0] - 7, -np.sin(x1) - x2, atol=1e-12)
    np.testing.assert_allclose(2 * bandit.g[0, 0, 0], np.sin(x1) * np.sin(x2) + 0.95, atol=1e-12)
    assert bandit.noise.reward_sigma == 0.05 / 8
    assert bandit.noise.cost_sigma == 0.05 / 2
    bandit.check()
    assert (bandit.g <= 0).sum() == 10
    assert bandit.r.min() >= 0
    assert bandit.r.max() <= 1
    np.testing.assert_allclose(es.planner.solve(bandit).value, 0.8124115986219, atol=1e-12)
    np.testing.assert_allclose(es.planner.solve(bandit, safe=False).value, 0.9999115986219, atol=1e-12)


@pytest.mark.quick
@pytest.mark.parametrize("seed", range(5))
def test_the_arm_that_pays_most_is_unsafe_and_the_safest_is_not_the_best_safe_one(seed):
    bandit = es.problems.bandit(seed=seed)
    bandit.check()
    free, safe = es.planner.solve(bandit, safe=False), es.planner.solve(bandit)
    known = es.planner.evaluate(bandit, bandit.known.safe_action)
    assert known.value < safe.value < free.value
    assert known.violation == 0
    assert es.planner.evaluate(bandit, free.policy).violation > 0


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: es.problems.bandit(horizon=2), "horizon is 2, but a bandit has one step; leave it out."),
        (lambda: es.problems.bandit(arms=2), "arms is 2; give a whole number of at least 3."),
        (
            lambda: es.problems.bandit_continuum(resolution=4),
            "resolution is 4, with which no point of the grid is safe",
        ),
    ],
)
def test_invalid_bandits_are_refused(make, sentence):
    with pytest.raises(EverystepError, match=sentence):
        make()
