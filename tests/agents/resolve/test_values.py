"""The value model of an agent on a problem."""

import math

import numpy as np
import pytest

import everystep as es
from everystep.errors import EverystepError
from everystep.lsvi.values.counts import Counts
from everystep.lsvi.values.kernel import KernelValues
from everystep.lsvi.values.linear import Linear
from everystep.mdp.cmdp import FiniteCMDP

pytestmark = pytest.mark.quick
rng = np.random.default_rng(0)
PHI = rng.normal(size=(3, 2, 4)) / 4


def problem(**more):
    g = np.array([[-1.0, 0.5]] * 3)
    return FiniteCMDP(rng.dirichlet(np.ones(3), (3, 2)), rng.random((3, 2)), g, horizon=3, **more)


@pytest.mark.parametrize(
    ("features", "setting", "kind", "d"),
    [
        (None, "auto", Counts, 6),
        (PHI, "auto", Linear, 4),
        (PHI, "counts", Counts, 6),
        (PHI, "kernel", KernelValues, 6),
        (None, "kernel(categorical(on=action))", KernelValues, 2),
    ],
)
def test_the_model_and_its_number_of_features_follow_from_the_setting_and_the_features(features, setting, kind, d):
    resolved = es.agents.lsvi_ae(value=setting, cost="counts").resolve(problem(features=features), 10)
    assert isinstance(resolved.value_model(), kind)
    words, scale = resolved.plan_scale
    assert scale == pytest.approx(d * math.log(11))
    assert "d log(1 + K)" in words


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"value": "linear"}, "has no features"),
        ({"value": "kernel"}, "no features for a linear kernel"),
        ({"value": "kernel(categorical(on=action))", "radius": "paper"}, "radius .* space of a kernel"),
    ],
)
def test_what_does_not_fit_is_named(settings, words):
    with pytest.raises(EverystepError, match=words):
        es.agents.lsvi_ae(**settings).resolve(problem(), 10)


def test_the_radius_for_each_coordinate_needs_one_hot_features():
    with pytest.raises(EverystepError, match="coordinate, which needs one-hot features"):
        es.agents.lsvi_ae(radius="coordinate").resolve(problem(features=PHI), 10)


def test_the_cap_is_in_units_of_the_range_of_rewards():
    of = problem()
    low, high = (float(end) for end in (of.r.min(), of.r.max()))
    cap = lambda value: float(es.agents.lsvi_ae(cap=value).resolve(of, 10).value_model().cap)
    assert cap("auto") == 3  # the horizon
    assert cap(3 * high) == pytest.approx(3)
    assert cap("none") > 1e6
    assert high > low
