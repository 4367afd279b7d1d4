"""The plan: what it estimates, that it is one of the family, and that it is saved and read whole."""

import numpy as np
import pytest
from training.learnt.small import Cart, learner

import everystep as es
from everystep.errors import EverystepError
from everystep.training.learnt import critics, world
from everystep.training.learnt.plan import LearntPlan

X = np.random.default_rng(0).uniform(-1, 1, (40, 2))


@pytest.fixture(scope="module")
def trained():
    made = learner(seed=3)
    made.play(4)
    return made


@pytest.fixture(scope="module")
def plan(trained):
    return trained.agent.newest()


def test_estimates_are_half_critics_and_half_an_imagined_step(plan):
    found, z = plan.estimates(0, X), plan.scales.inputs(X)
    predicted = world.predict(plan.model, z[None], 3)
    values = critics.scaled(plan.averaged, plan.sizes, plan.units)
    direct = critics.bounded(plan.units, critics.heads(values, plan.sizes, z)).mean(0)
    given = (predicted, plan.model, values, plan.sizes, plan.units, plan.rule, z[None])
    steps = np.stack([
        critics.imagined(*given, plan.residuals[:, :, None, [c]])
        for c in range(plan.residuals.shape[2])
    ]).mean((0, 1, 3))  # fmt: skip
    Q, G = critics.sums(plan.rule, (direct + steps) / 2)
    np.testing.assert_allclose(found.Q, Q, atol=1e-4)
    np.testing.assert_allclose(found.mean.sum(0) + found.after, G, atol=1e-4)
    harm = plan.ahead.led_to(found.mean, found.after)
    expected = Q - 100 * np.maximum(harm - harm.min(0) - 0.01, 0)
    np.testing.assert_allclose(plan.scores(0, X), expected, atol=0.05)


def test_many_observations_are_those_one_by_one(plan):
    together = plan.estimates(0, np.resize(X, (600, 2)))
    np.testing.assert_allclose(together.Q[:, 599], plan.estimates(0, np.resize(X, (600, 2))[599:]).Q[:, 0], atol=1e-4)
    mean, width = plan.cost_intervals(0, X)
    np.testing.assert_allclose(mean, plan.in_units(plan.estimates(0, X).mean), atol=1e-5)
    assert (width >= 0).all()


def test_costs_are_expected_violations_in_units(plan, trained):
    mean, _ = plan.cost_intervals(0, X)
    assert (mean >= 0).all()
    assert mean.max() <= trained.agent.cost_scale[0] * (1 + 1e-6)


@pytest.mark.quick
def test_labels_follow_from_the_ends(plan):
    lower, upper = plan.bounds(0, X)
    labels = plan.labels(0, X)
    assert ((labels == 1) == (upper[0] <= 0).T).all()
    assert ((labels == -1) == (lower[0] > 0).T).all()


def test_optimism_lowers_what_is_priced(trained):
    bold, wary = (trained.agent.newest(optimism) for optimism in (1.0, -1.0))
    found = bold.estimates(0, X)
    assert (bold.harm(found, 1.0) <= wary.harm(found, -1.0)).all()
    assert (found.after_width > 0).any()


def test_a_policy_is_saved_and_acts_the_same(trained, tmp_path):
    policy = trained.policy()
    policy.save(tmp_path / "policy")
    read = es.Policy.load(tmp_path / "policy")
    np.testing.assert_array_equal(read.batch(X), policy.batch(X))
    np.testing.assert_array_equal(read.labels(X), policy.labels(X))
    np.testing.assert_array_equal(read.plan.scores(0, X), policy.plan.scores(0, X))
    assert "heuristic" in read.confidence


def test_a_shield_and_an_evaluation_use_it(trained):
    policy = trained.policy()
    assert es.shield(policy).admissible(np.zeros(2)).any()
    assert len(es.evaluate(policy, Cart(), episodes=2).columns["return"]) == 2


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("learnt_model_weights_1", lambda array: array[:, 1:]),
        ("learnt_critics_biases_0", lambda array: array * np.float32(np.nan)),
        ("learnt_scale_center", lambda array: array[:1]),
        ("learnt_residuals", lambda array: array[:1]),
        ("price", lambda array: array[0]),
    ],
)
def test_arrays_that_do_not_fit_are_refused(plan, name, change):
    arrays = plan.arrays()
    assert isinstance(LearntPlan.read(plan.to_json(), arrays, plan.value_encoder), LearntPlan)
    with pytest.raises(EverystepError, match="save the policy again"):
        LearntPlan.read(plan.to_json(), arrays | {name: change(arrays[name])}, plan.value_encoder)


@pytest.mark.parametrize("at", range(6))
def test_sizes_larger_than_the_arrays_are_refused_before_anything_is_made(plan, at, monkeypatch):
    content = plan.to_json()
    content["networks"]["sizes"][at] = 10**9
    monkeypatch.setattr(world, "new", None)
    with pytest.raises(EverystepError, match="do not fit together"):
        LearntPlan.read(content, plan.arrays(), plan.value_encoder)
