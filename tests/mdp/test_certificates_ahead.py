"""Labels ahead: how bounds become labels, and what probability they carry."""

import numpy as np
import pytest
from problems_for_tests.brink import brink

import everystep as es
from everystep.mdp import certificates
from everystep.mdp.certificates import SAFE, UNKNOWN, UNSAFE

CLIFF = 0.3  # how likely action 1 of state 0 leads to state 1, where every action is unsafe


@pytest.mark.quick
def test_harm_of_events_is_what_is_suffered_on_average():
    on_arrival = certificates.violation_of_step(brink(arrival=True), events=True)[0]
    np.testing.assert_allclose(on_arrival, [[0, 0], [CLIFF, 0]])  # of the mean, 2 * 0.3 - 1 < 0, there is none
    assert (certificates.violation_of_step(brink(arrival=True)) == 0).all()
    noisy = certificates.violation_of_step(brink(sigma=0.4), events=True)[0]
    draws = np.random.default_rng(1).normal(size=200_000) * 0.4
    for a, x in np.ndindex(2, 2):
        g = brink().g[0, 0, x, a]
        np.testing.assert_allclose(noisy[a, x], np.maximum(g + draws, 0).mean(), atol=4e-3)
    np.testing.assert_array_equal(
        certificates.violation_of_step(brink(), events=True), certificates.violation_of_step(brink())
    )


def test_labels_ahead_compare_bounds_with_the_tolerance():
    lower, upper = np.array([[0.0, 0.2, 0.3, 0.0]]), np.array([[0.1, 0.4, 0.5, 0.2]])
    np.testing.assert_array_equal(certificates.labels_ahead(lower, upper, 0.2)[0], [SAFE, UNKNOWN, UNSAFE, SAFE])
    label = np.array([SAFE, SAFE, UNSAFE, UNSAFE, UNKNOWN], np.int8).reshape(1, 5, 1)
    G = np.array([0.1, 0.3, 0.1, 0.3, 0.3]).reshape(1, 5, 1)
    assert certificates.count_labels_ahead(label, G, np.ones(1, bool), 0.2) == (2, 2, 2)
    assert certificates.count_labels_ahead(label, G, np.zeros(1, bool), 0.2) == (0, 0, 0)


@pytest.mark.parametrize(
    ("settings", "problem", "p"),
    [
        ({"radius_cost": "coordinate", "p": 0.1}, brink(), 0.2),
        ({"radius_cost": "coordinate", "p": 0.1}, brink(sigma=0.2), 0.2),
        ({"radius_cost": "coordinate", "harm": "events"}, brink(arrival=True), 0.1),
        ({"radius_cost": "coordinate", "harm": "events"}, brink(sigma=0.2), None),  # E max(g, 0) may exceed 1
        ({"radius_cost": "coordinate", "beta_cost": 0.5}, brink(), None),
        ({}, brink(), None),
    ],
    ids=["valid", "noise", "events", "events with normal noise", "half of the width", "tuned"],
)
def test_only_valid_intervals_give_labels_ahead_a_probability(settings, problem, p):
    resolved = es.agents.lsvi_ahead(**settings).resolve(problem, 10)
    assert resolved.labels_ahead["p"] == p
    if settings.get("harm") == "events":  # intervals for E max(g, 0) do not tell the sign of g
        assert resolved.confidence is None
    assert es.agents.lsvi_ae().resolve(problem, 10).labels_ahead is None
