"""What a seed has learnt, from its folder alone."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from environments_for_tests.walks import Point

import everystep as es
from everystep import files
from everystep.errors import EverystepError
from everystep.reports.training import learnt
from everystep.reports.training import results as training_results


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("training") / "point"
    phi = es.features.polynomial(1, low=-2, high=2)
    options = {"features": phi, "episodes": 3, "length": 6, "horizon": 3, "seed": 1, "progress": lambda n: None}
    return es.train(Point(), "lsvi-ae", out=out, **options), out


@pytest.fixture
def copy(trained, tmp_path):
    return shutil.copytree(trained[1], tmp_path / "copy")


def read(folder):
    (seed,) = training_results.read(folder).seeds
    return learnt.read(seed)


@pytest.mark.quick
def test_the_policy_the_findings_and_the_last_transitions_are_those_of_the_training(trained):
    result, folder = trained
    found = read(folder)
    for x in ([0.0, 0.0], [0.5, -1.0]):
        np.testing.assert_array_equal(found.policy.bounds(x), result.policy.bounds(x))
    assert set(result.remarks) <= set(found.remarks)
    assert sum(len(batch) for batch in found.recent) == 18
    low, median, high = (np.array(found.seen[name]) for name in ("low", "median", "high"))
    assert (low <= median).all()
    assert (median <= high).all()
    assert found.fit["episodes"] > 0


def test_findings_are_read_without_the_policy(trained):
    (seed,) = training_results.read(trained[1]).seeds
    found = learnt.read(seed, findings_only=True)
    assert found.policy is None
    assert found.recent == ()
    assert found.remarks == learnt.read(seed).remarks


@pytest.mark.parametrize("wrong", [{"remarks": 3}, {"fit": {"episodes": "x"}}, {"seen": {"low": [1.0]}}, []])
def test_findings_of_another_form_are_refused(copy, wrong):
    (seed,) = training_results.read(copy).seeds
    with pytest.raises(EverystepError, match="found"):
        learnt.read(replace(seed, spec=seed.spec | {"found": wrong}))


def test_a_spec_of_another_form_is_refused_with_the_field(copy):
    (seed,) = training_results.read(copy).seeds
    with pytest.raises(EverystepError, match="confidence"):
        learnt.read(replace(seed, spec=seed.spec | {"confidence": 7}))


def test_an_altered_policy_is_named(copy):
    spec = json.loads((copy / "spec.json").read_text(encoding="utf-8"))
    assert spec["policy"] == files.seal(copy / "policy" / "policy.json").sha256
    with (copy / "policy" / "policy.npz").open("ab") as file:
        file.write(b" ")
    with pytest.raises(EverystepError, match=r"policy\.npz"):
        read(copy)
