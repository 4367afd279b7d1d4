"""Policies that several files use."""

import pytest
from environments_for_tests.walks import SlippingWalk, Walk
from helpers.shields import OPTIONS

import everystep as es


@pytest.fixture(scope="session")
def box_policy():
    """Where every observed step was safe, so that the model calls everything safe."""
    options = {"features": es.features.polynomial(1), "actions": es.actions.grid(3), "horizon": 3, "length": 12}
    return es.train(SlippingWalk("vectors"), "lsvi-ae", constraint=lambda *step: -1.0, episodes=20, **options).policy


@pytest.fixture(scope="session")
def policy():
    return es.train(Walk(), "lsvi-ae", episodes=8, **OPTIONS).policy
