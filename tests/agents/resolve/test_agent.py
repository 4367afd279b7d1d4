"""Settings of an agent on a problem: what `auto` becomes, and what does not fit."""

import numpy as np
import pytest

import everystep as es
from everystep.errors import EverystepError
from everystep.mdp.cmdp import FiniteCMDP, Noise

pytestmark = pytest.mark.quick
P = np.random.default_rng(0).dirichlet(np.ones(3), (3, 2))
R = np.random.default_rng(1).random((3, 2))
G = np.array([[-1.0, 0.5]] * 3)
PHI = np.random.default_rng(2).normal(size=(3, 2, 4)) / 4


@pytest.fixture(scope="module")
def problem():
    return FiniteCMDP(P, R, G, horizon=4, features=PHI, noise=Noise(reward_sigma=0.5, cost_sigma=0.4))


@pytest.fixture(scope="module")
def by_step():
    return FiniteCMDP(np.stack([P] * 4), np.stack([R * (h + 1) / 4 for h in range(4)]), G, horizon=4)


def test_auto_depends_on_the_problem(problem, by_step):
    decided = es.agents.lsvi_ae().resolve(problem, 10).to_json()
    assert (decided["value"], decided["cost"]) == ("linear", "linear")
    assert decided["share_values"] is decided["share_costs"] is True
    assert decided["beta_cost"] == pytest.approx(0.8)  # two standard deviations of the noise
    assert decided["beta"] == pytest.approx(2 * 0.5 / (R.max() - R.min()))  # in units of the range of rewards
    stepped = es.agents.lsvi_ae().resolve(by_step, 10).to_json()
    assert (stepped["value"], stepped["cost"], stepped["features"]) == ("counts", "counts", "one-hot")
    assert stepped["share_values"] is stepped["share_costs"] is False


def test_what_is_set_stays(problem):
    given = {"beta": 0.5, "lam": 0.25, "value": "counts", "cost": "counts", "share_values": False, "beta_cost": 0.1}
    decided = es.agents.lsvi_ae(**given).resolve(problem, 10).to_json()
    assert {name: decided[name] for name in given} == given


def test_printed_radii_have_factors_and_ridges_of_one(problem):
    decided = es.agents.lsvi_ae(radius="paper").resolve(problem, 10).to_json()
    assert [decided[name] for name in ("beta", "lam", "beta_cost", "lam_cost")] == [1.0] * 4
    assert decided["radius_cost"] == "paper"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"share_values": True}, "share_values .* depends on the step"),
        ({"switch": "5%"}, "switch .* percentage"),
        ({"features": np.ones((3, 3, 2))}, r"features .* shape \(3, 3, 2\)"),
        ({"features": np.ones((3, 2, 2))}, "norm of 1.41421"),
    ],
)
def test_a_setting_that_does_not_fit_the_problem_is_named(by_step, settings, words):
    with pytest.raises(EverystepError, match=words):
        es.agents.lsvi_ae(**settings).resolve(by_step, 10)


def test_single_precision_is_for_counts(problem):
    with pytest.raises(EverystepError, match="precision"):
        es.agents.lsvi_ae(precision="float32").resolve(problem, 10)
    counted = es.agents.lsvi_ae(precision="float32", value="counts", cost="counts").resolve(problem, 10)
    assert counted.build().precision == "float32"
