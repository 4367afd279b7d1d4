"""Specifications of cost models: default widths and ridges, and the radius of a regression."""

import math

import numpy as np
import pytest

from everystep.errors import EverystepError
from everystep.lsvi import radii
from everystep.lsvi.costs.spec import BETA_COST, LAM_COST, CostContext, CostSpec, no_features, ridge_radius
from everystep.mdp.cmdp import FiniteCMDP

pytestmark = pytest.mark.quick
P, G = np.full((3, 2, 3), 1 / 3), np.full((2, 3, 2), -0.5)
PROBLEM = FiniteCMDP(P, np.zeros((3, 2)), G, horizon=4, name="flat")


def context(radius="tuned", sigma=0.0, shared=True, **more):
    given = {"agent": "lsvi-ae", "problem": PROBLEM, "episodes": 10, "phi": None, "true_sigma": sigma, "bound": 1.0}
    given |= {"p": 0.1, "truth": PROBLEM.g, "rarely_asked": False, "radius": radius, "sigma": sigma, "shared": shared}
    return CostContext(**(given | more))


def test_widths_are_at_least_two_standard_deviations_of_the_noise():
    spec = CostSpec()
    assert spec.default_beta(context()) == BETA_COST
    assert spec.default_beta(context(sigma=0.5)) == 1.0
    assert [spec.default_lam(context(radius)) for radius in ("tuned", "coordinate", "paper")] == [LAM_COST, 0.5, 1.0]


@pytest.mark.parametrize(("shared", "observations", "estimators"), [(True, 4.0, 2.0), (False, 1.0, 8.0)])
def test_estimators_are_counted_over_constraints_and_steps(shared, observations, estimators):
    found = context(shared=shared)
    assert (found.pairs, found.observations_per_episode, found.estimators) == (6, observations, estimators)


def test_the_radius_of_a_regression_follows_the_setting():
    given = {"beta": 2.0, "lam": 0.5}
    assert ridge_radius(context(**given), 6.0) == radii.Tuned(2.0)
    assert ridge_radius(context("paper", **given), 6.0) == radii.PaperCost(2.0, 6.0, 0.5, 4.0, 2.0, 0.1)
    union = 2 * 2 * 6 * 4 * 10  # both sides, of each constraint, pair, step and episode
    found = ridge_radius(context("coordinate", sigma=0.3, **given), 6.0)
    assert found == radii.CoordinateCost(2.0, 0.5, 1.0, 0.3, pytest.approx(math.log(union / 0.1)))


def test_a_specification_promises_nothing_unless_it_says_so():
    spec = CostSpec()
    assert (spec.kernel, spec.one_hot, spec.is_valid(context()), spec.remarks(context())) == (None, False, False, ())
    assert spec.decided(PROBLEM, None, "cost") is spec
    with pytest.raises(NotImplementedError, match="CostSpec"):
        spec.model(context())


def test_missing_features_are_named_with_the_problem():
    with pytest.raises(EverystepError, match="'flat' has no features"):
        raise no_features("setting cost", PROBLEM)
