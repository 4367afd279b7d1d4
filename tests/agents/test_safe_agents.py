"""SLUCB-QVI and RSLUCB-QVI learn without violations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import stepping
from problems_for_tests.star import star

import everystep as es
from everystep import agents
from everystep.lsvi import loop
from everystep.mdp import planner
from everystep.problems import from_map


@pytest.fixture(scope="module")
def bed():
    return star()


@pytest.fixture(scope="module")
def few():
    """The same with a single ray of actions, which compiles sooner."""
    return star(directions=1)


@pytest.fixture(scope="module")
def runs(few):
    both = [agents.Recipe(name, {"switch": 2}) for name in ("slucb-qvi", "rslucb-qvi")]
    return {each.name: es.run(few, each, episodes=2000, seeds=4) for each in both}


def share_of_gap(problem, curves):
    """How far the last 100 episodes of each seed came from a0's value to the safe optimum."""
    always = planner.evaluate(problem, np.zeros((problem.horizon, problem.states), int)).value
    return (curves["value"][:, -100:].mean(1) - always) / (planner.solve(problem).value - always)


@pytest.mark.quick
def test_slucb_qvi_learns_and_no_action_it_takes_is_unsafe(bed):
    result = es.run(bed, agents.slucb_qvi(switch=1.2), episodes=10_000, seeds=8)
    curves = result.columns["slucb-qvi"]
    assert (curves["violation"] == 0).all()
    assert (curves["expected_violation"] == 0).all()
    assert (share_of_gap(bed, curves) > 0.5).all()
    assert "mixture_violation" not in curves
    certified = result.certified["slucb-qvi"]
    assert certified["p"] == 0.05
    assert certified["seeds_with_a_false_label"] == 0
    assert 5 < certified["safe_set"] < bed.actions


def test_rslucb_qvi_learns_and_is_safe_in_the_mean_over_its_draws_alone(few, runs):
    curves = runs["rslucb-qvi"].columns["rslucb-qvi"]
    assert curves["mixture_violation"].max() <= 1e-12
    assert (share_of_gap(few, curves) > 0.5).all()
    assert (curves["violation"].sum(1) > 0).all()  # single draws are another matter
    assert (curves["expected_violation"][:, -1] > 0).all()


@pytest.fixture(scope="module")
def pond():
    return from_map(("SFF", "FHF", "FFG"), horizon=6)


def test_with_one_hot_features_slucb_qvi_never_leaves_the_safe_action():
    problem = star(states=4)
    result = es.run(problem, agents.slucb_qvi(features="one-hot"), episodes=300, seeds=2)
    always = planner.evaluate(problem, np.zeros((problem.horizon, problem.states), int)).V[0]
    np.testing.assert_allclose(result.columns["slucb-qvi"]["value"], always[0], rtol=0, atol=1e-12)
    assert result.certified["slucb-qvi"]["safe_set"] == 1


def test_rslucb_qvi_leaves_the_safe_action_on_a_lake(pond):
    result = es.run(pond, agents.rslucb_qvi(safe_action="safest"), episodes=300, seeds=2)
    curves = result.columns["rslucb-qvi"]
    assert curves["mixture_violation"].max() <= 1e-12
    always = planner.evaluate(pond, pond.g[0, 0].argmin(1)).value
    assert (curves["value"][:, -1] > always + 0.01).all()
    assert result.spec["agents"][0]["confidence"] == 0.05


@pytest.mark.parametrize("name", ["slucb-qvi", "rslucb-qvi"])
def test_stepping_and_rare_plans_record_the_same(name, few, runs):
    compiled = runs[name].columns[name]
    built = agents.Recipe(name, {"switch": 2}).resolve(few, 2000).build()
    carry = loop.start(built.agent, few.sizes, built.share_values, built.share_costs)
    world = jax.tree.map(jnp.asarray, few.world)
    stepped = [metrics for _, metrics, _ in stepping.episodes(built.agent, world, few.sizes, carry, 3, 20)]
    columns = {"value": "value", "return": "earned", "mixture_violation": "mixture_violation"}
    for column in columns.keys() & compiled.keys():
        found = np.array([getattr(metrics, columns[column]) for metrics in stepped])
        np.testing.assert_allclose(found, compiled[column][3, :20], rtol=0, atol=1e-8)


def test_intervals_carry_no_probability_when_costs_are_not_linear_or_exceed_their_bound(bed):
    wrong = agents.slucb_qvi(threshold=0, features=bed.features[..., :4]).resolve(bed, 10)
    assert wrong.confidence is None
    assert "not linear in the features" in wrong.remarks[0]
    narrow = agents.slucb_qvi(bound=0.1).resolve(bed, 10)
    assert narrow.confidence is None
    assert "above the bound 0.1" in narrow.remarks[0]
    assert agents.slucb_qvi(radius_cost="tuned").resolve(bed, 10).confidence is None
    assert agents.slucb_qvi().resolve(bed, 10).confidence == 0.05
