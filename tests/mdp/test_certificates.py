"""Certificates: labels safe, unsafe and unknown, and how often they are false."""

import numpy as np
import pytest

import everystep as es
from everystep.mdp import certificates
from everystep.mdp.certificates import SAFE, UNKNOWN, UNSAFE
from everystep.mdp.cmdp import FiniteCMDP, Noise


@pytest.fixture(scope="module")
def pond():
    return es.problems.from_map(("SFF", "FHF", "FFG"), horizon=6)


def test_an_action_is_safe_if_all_its_upper_bounds_are_and_unsafe_if_one_lower_bound_is():
    lower = np.array([-0.5, -0.5, 0.1, -0.5, 0.0]).reshape(1, 1, 5, 1)
    upper = np.array([0.0, 0.1, 0.4, -0.1, 0.0]).reshape(1, 1, 5, 1)
    label = certificates.labels(lower, upper)
    np.testing.assert_array_equal(label[0, :, 0], [SAFE, UNKNOWN, UNSAFE, SAFE, SAFE])
    second = certificates.labels(np.concatenate([lower, lower + 0.2], 1), np.concatenate([upper, upper + 0.2], 1))
    np.testing.assert_array_equal(second[0, :, 0], [UNKNOWN, UNKNOWN, UNSAFE, UNKNOWN, UNSAFE])


def test_a_label_shared_over_steps_is_false_if_it_is_at_any_step():
    g = np.array([[-1.0, 1.0, -1.0], [-1.0, 1.0, 1.0]]).reshape(2, 1, 3, 1)
    label = np.array([SAFE, UNSAFE, SAFE], np.int8).reshape(1, 3, 1)
    assert certificates.count_labels(label, g, np.ones(1, bool)) == (2, 1, 1)
    assert certificates.count_labels(-label, g, np.ones(1, bool)) == (1, 2, 3)
    assert certificates.count_labels(label.repeat(2, 0), g, np.ones(1, bool)) == (4, 2, 1)
    on_the_edge = np.zeros((1, 2, 3, 1))  # costs of exactly 0 are safe
    assert certificates.count_labels(label, on_the_edge, np.ones(1, bool)) == (2, 1, 1)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("settings", "p"),
    [
        ({"radius_cost": "coordinate", "p": 0.1}, 0.1),
        ({"radius_cost": "paper", "cost": "gp", "bound": 3, "p": 0.2}, 0.2),
        ({"radius_cost": "paper", "cost": "gp", "bound": 2}, None),  # the norm of g is 3
        ({"radius_cost": "paper", "cost": "gp", "bound": 3, "lam_cost": 0.1}, None),
        ({"radius_cost": "coordinate", "beta_cost": 0.5}, None),
        ({"radius_cost": "coordinate", "bound": 0.5}, None),
        ({"cost": "gp"}, None),
        ({}, None),
    ],
)
def test_only_valid_radii_carry_a_probability(pond, settings, p):
    assert es.agents.lsvi_ae(**settings).resolve(pond, 10).confidence == p


def test_costs_that_features_cannot_show_leave_no_probability():
    rng = np.random.default_rng(1)
    P, r, phi = rng.dirichlet(np.ones(3), (3, 2)), rng.random((3, 2)), rng.dirichlet(np.ones(4), (3, 2))
    g = -phi @ np.array([0.2, 0.4, 0.1, 0.9])
    printed = es.agents.lsvi_ae(radius_cost="paper")
    assert printed.resolve(FiniteCMDP(P, r, g, horizon=3, features=phi), 10).confidence == 0.05
    assert printed.resolve(FiniteCMDP(P, r, -(g**2), horizon=3, features=phi[..., :1]), 10).confidence is None
    loud = FiniteCMDP(P, r, g, horizon=3, features=phi, noise=Noise(cost_sigma=3))
    assert printed.resolve(loud, 10).confidence is None


def test_actions_that_are_falsely_told_to_be_safe_leave_no_probability(pond):
    confidence = lambda known: (
        es.agents.lsvi_ae(radius_cost="coordinate", known_safe=known).resolve(pond, 10).confidence
    )
    assert confidence("safest") == 0.05
    assert confidence(np.ones((9, 4), bool)) is None


def test_noise_that_is_understated_leaves_no_probability(pond):
    noisy = FiniteCMDP(pond.dense_P[0], pond.r[0], pond.g[:, 0], horizon=6, noise=Noise(cost_sigma=0.3))
    assert es.agents.lsvi_ae(radius_cost="coordinate").resolve(noisy, 10).confidence == 0.05
    assert es.agents.lsvi_ae(radius_cost="coordinate", sigma=0.1).resolve(noisy, 10).confidence is None


def test_a_bound_below_the_norm_of_the_costs_is_remarked(pond):
    remarks = es.agents.lsvi_ae(radius_cost="paper", cost="gp", bound=2).resolve(pond, 10).remarks
    assert any("norm of 3 in the kernel" in remark and "set bound to at least that" in remark for remark in remarks)


@pytest.mark.parametrize("cost", ["counts", "gp(0.5*constant + 0.5*rbf(1, on=y))"], ids=["counts", "process"])
def test_runs_with_any_false_label_at_any_time_are_at_most_a_share_p(cost):
    rng = np.random.default_rng(3)
    where = rng.uniform(0, 3, (4, 3, 2))
    K = 0.5 + 0.5 * np.exp(-((where.reshape(12, 1, 2) - where.reshape(12, 2)) ** 2).sum(-1) / 2)
    alpha = rng.normal(size=12)
    wave = K @ alpha / np.sqrt(alpha @ K @ alpha)
    g = (wave - wave.min() - 0.35).reshape(4, 3)
    g -= max(g.min(1).max() + 0.05, 0)  # a safe action everywhere
    P, r = rng.dirichlet(np.ones(4), (4, 3)), rng.random((4, 3))
    problem = FiniteCMDP(P, r, g, horizon=4, coordinates={"y": where}, noise=Noise(cost_sigma=0.2))
    p = 0.2
    settings = {"radius_cost": "coordinate"} if cost == "counts" else {"radius_cost": "paper", "bound": 2}
    recipe = es.agents.lsvi_ae(cost=cost, p=p, **settings)
    assert recipe.resolve(problem, 300).confidence == p
    result = es.run(problem, recipe, episodes=300, seeds=100, certify=True)
    certified = result.certified["lsvi-ae"]
    assert certified["seeds_with_a_false_label_at_any_time"] <= p * 100
    assert certified["safe"] > 0.5
    # and labels that promise less are false more often: this can fail
    careless = es.agents.lsvi_ae(cost=cost, p=p, beta_cost=0.1, **settings)
    certified = es.run(problem, careless, episodes=100, seeds=100, certify=True).certified["lsvi-ae"]
    assert certified["p"] is None
    assert certified["seeds_with_a_false_label_at_any_time"] > p * 100


def test_labels_of_cells_that_are_never_entered_do_not_count():
    walled = es.problems.from_map(("SF#", "FHF", "FFG"), horizon=6)
    agents = [es.agents.lsvi_ae(cost="gp"), "lsvi"]
    result = es.run(walled, agents, episodes=40, seeds=3, certify=True)
    assert result.certified["lsvi-ae"]["actions"] == 32
    assert (result.columns["lsvi-ae"]["safe_labels"] <= 32).all()
    assert "safe_labels" not in result.columns["lsvi"]
    assert result.episodes["safe_labels"].null_count == 120


def test_a_false_label_at_the_end_counts_as_one_at_any_time(pond):
    wrong = es.agents.lsvi_ae(cost="gp(constant(1))", lam_cost=0.01)
    certified = es.run(pond, wrong, episodes=1, seeds=3, certify=True).certified["lsvi-ae"]
    assert certified["seeds_with_a_false_label"] == certified["seeds_with_a_false_label_at_any_time"] == 3


def test_known_safe_actions_are_certified_from_the_start(pond):
    result = es.run(pond, es.agents.lsvi_ae(known_safe="safest"), episodes=1, seeds=1, certify=True)
    assert result.columns["lsvi-ae"]["safe_labels"][0, 0] == 9
