"""A plan from JSON and arrays: the same plan again, and what a plan cannot be."""

import json

import numpy as np
import pytest
from environments_for_tests.walks import Point

import everystep as es
from everystep.errors import UNLIKE, EverystepError
from everystep.training.agent import plan_files


@pytest.fixture(scope="module", params=["lsvi-ae", "lsvi-ahead"])
def plan(request):
    phi = es.features.polynomial(1, low=-2, high=2)
    options = {"features": phi, "episodes": 3, "length": 6, "horizon": 3, "seed": 1, "progress": lambda n: None}
    return es.train(Point(), request.param, **options).policy.plan


def parts(plan):
    """The content of a file, as JSON gives it, and its arrays."""
    return json.loads(json.dumps(plan.to_json())), dict(plan.arrays())


def again(plan, content, arrays):
    return plan_files.read(content, arrays, plan.value_encoder, plan.cost_encoder)


@pytest.mark.quick
def test_a_plan_is_read_as_it_was_written(plan):
    content, arrays = parts(plan)
    found = again(plan, content, arrays)
    plan_files.check(found, arrays)
    x = np.random.default_rng(0).uniform(-1, 1, (5, 2))
    for h in range(3):
        for one, other in zip(found.bounds(h, x), plan.bounds(h, x), strict=True):
            np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(found.scores(h, x), plan.scores(h, x))


@pytest.mark.parametrize(
    "changed",
    [{"choice": "any"}, {"optimism": 2}, {"cap": "x"}, {"lowest": 1}, {"rectify": 3}, {"cost_scale": [-1]}],
    ids=str,
)
def test_content_that_is_no_plan_is_refused(plan, changed):
    content, arrays = parts(plan)
    with pytest.raises((EverystepError, *UNLIKE)):
        again(plan, content | changed, arrays)


@pytest.mark.parametrize("wrong", ["shape", "nan", "huge", "text"])
def test_arrays_that_do_not_fit_are_named(plan, wrong):
    content, arrays = parts(plan)
    price = arrays["price"]
    changes = {
        "shape": price[:, :-1],
        "nan": np.full_like(price, np.nan),
        "huge": np.full_like(price, 1e150),
        "text": np.array(["x"]),
    }
    arrays["price"] = changes[wrong]
    with pytest.raises(EverystepError, match=r"price|arrays of"):
        plan_files.check(again(plan, content, arrays), arrays)


def test_arrays_of_one_side_are_found_by_their_names():
    arrays = {"value_plan_w": 1, "cost_plan_w": 2, "price": 3}
    assert plan_files.named(arrays, "value_plan_") == {"w": 1}
