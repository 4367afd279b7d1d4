"""Mirrored features: the plan is its own mirror image, and so are certificates, shields and saved policies."""

import gymnasium
import numpy as np
import pytest

import everystep as es

pytestmark = pytest.mark.quick


def upright(x, action, after, info):
    return max(abs(after[2]) / np.radians(8), abs(after[0]) / 2) - 1


@pytest.fixture(scope="module")
def trained():
    """CartPole pushed left (0) or right (1), which is the same in a mirror."""
    pole = es.features.fourier(20, low=[-2.4, -3, -0.21, -3], high=[2.4, 3, 0.21, 3])
    return es.train(
        gymnasium.make("CartPole-v1"),
        es.agents.lsvi_ahead(lam=0.001),
        constraint=upright,
        features=es.features.mirrored(pole, actions=[1, 0]),
        horizon=12,
        length=60,
        episodes=6,
        seed=3,
    )


def states(n):
    return np.random.default_rng(0).uniform(-1, 1, (n, 4)) * [2, 1, 0.2, 1]


def test_the_plan_is_the_same_in_the_mirror(trained):
    plan, x = trained.policy.plan, states(30)
    here, there = plan.estimates(0, x), plan.estimates(0, -x)
    for name in ("Q", "mean", "width", "after", "after_width"):
        mine, image = getattr(here, name), getattr(there, name)[..., ::-1, :]
        np.testing.assert_allclose(mine, image, rtol=0, atol=1e-9)
    assert np.ptp(here.Q) > 0.1  # it has learnt something
    assert here.mean.max() > 0
    np.testing.assert_array_equal(plan.best(0, x), plan.best(0, -x)[::-1])


def test_a_saved_policy_is_still_mirrored(trained, tmp_path):
    trained.save(tmp_path / "run")
    policy = es.Policy.load(tmp_path / "run" / "policy")
    x = states(20)
    np.testing.assert_array_equal(policy.plan.scores(0, x), trained.policy.plan.scores(0, x))
    card = (tmp_path / "run" / "policy" / "CARD.md").read_text(encoding="utf-8")
    assert "for each pair of actions and their mirror images" in card


def test_a_shield_judges_both_sides_alike(trained):
    shield = es.shield(trained.policy, tolerance=0.05)
    known = [x for x in states(300) if not np.isinf([trained.policy.bounds(x), trained.policy.bounds(-x)]).any()]
    assert len(known) > 3  # outside of what was seen on both sides nothing is known
    for x in known:
        np.testing.assert_array_equal(shield.admissible(x), shield.admissible(-x)[::-1])
