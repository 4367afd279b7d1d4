"""Policies: saved, read again, and what they certify."""

import json

import numpy as np
import pytest
from environments_for_tests.broken import Corridor, OpenCorridor
from environments_for_tests.rings import Ring, VectorRing

import everystep as es
from everystep import agents, features
from everystep.errors import EverystepError
from everystep.files import seal
from everystep.files.store import checksum
from everystep.training.agent import stored_agent
from everystep.training.policy.policy import Policy

pytestmark = pytest.mark.quick
EPISODES_BEFORE = Corridor.sound
LENGTH = Corridor.length


def train(env, **more):
    return es.train(env, "lsvi-ae", horizon=LENGTH, episodes=EPISODES_BEFORE + 2, **more)


@pytest.fixture(scope="module")
def trained():
    return train(OpenCorridor(), features=es.features.polynomial(1)).policy


def saved(policy, folder, arrays=None, **content):
    """A policy saved with other arrays and other content, and with checksums that agree with them."""
    policy.save(folder)
    with np.load(folder / "policy.npz") as file:
        np.savez(folder / "policy.npz", **{**file, **(arrays or {})})
    old = json.loads((folder / "policy.json").read_text(encoding="utf-8"))
    old.pop("checksum")
    new = old | {"arrays": old["arrays"] | {"sha256": seal(folder / "policy.npz").sha256}} | content
    (folder / "policy.json").write_text(json.dumps(new | {"checksum": checksum(new)}), encoding="utf-8")
    return folder


def test_a_policy_is_loaded_as_it_was_saved(trained, tmp_path):
    x = np.array([0.3])
    for folder in (trained.save(tmp_path / "one"), saved(trained, tmp_path / "two")):
        again = Policy.load(folder)
        np.testing.assert_array_equal(again.bounds(x), trained.bounds(x))


@pytest.mark.parametrize("file", ["policy.npz", "policy.json"])
def test_a_changed_byte_of_a_policy_is_noticed(trained, tmp_path, file):
    path = trained.save(tmp_path / "policy") / file
    content = bytearray(path.read_bytes())
    at = content.index(b"optimism") + len(b'optimism": ') if file == "policy.json" else len(content) // 2
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(EverystepError, match=r"has changed since it was saved"):
        Policy.load(path.parent)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"arrays": {"cost_plan_weights": np.full((1, 1, 2, 2), np.nan)}}, "holds entries that are not finite"),
        ({"arrays": {"cost_plan_weights": np.zeros((1, 1, 2, 3))}}, "the arrays of costs do not have the shapes"),
        ({"arrays": {"value_plan_inverse": np.zeros((1, 2, 2))}}, "the arrays of values do not have the shapes"),
        ({"arrays": {"price": np.ones((2, LENGTH))}}, "the arrays of costs do not have the shapes"),
        ({"arrays": {"price": np.array(["x"])}}, "price holds entries that are not finite"),
        ({"arrays": {"price": np.ones(3)}}, "price has shape"),
        ({"arrays": {"value_side_psi.powers": np.ones((2, 0), int)}}, "its features do not fit its arrays"),
        ({"optimism": 7}, "optimism is 7; give a number from -1 to 1"),
        ({"cap": float("nan")}, "cap is nan; give a number"),
        ({"choice": "any"}, "cannot be read"),
        ({"spec": {}}, "cannot be read"),
        ({"value": None}, "cannot be read"),
        ({"value": {"kind": "Crossed"}}, "saved features cannot be read"),
        ({"value": {"kind": "Crossed", "psi": None, "actions": 2}}, "cannot be read"),
        ({"value": {"kind": "Crossed", "psi": {"kind": "Polynomial", "scale": "x"}, "actions": 2}}, "cannot be read"),
        ({"arrays": {"price": np.full((1, LENGTH), 1e150)}}, "price holds entries that are not finite .* or too large"),
    ],
    ids=range(16),
)
def test_a_policy_with_wrong_content_is_refused_even_with_right_checksums(trained, tmp_path, changes, sentence):
    with pytest.raises(EverystepError, match=sentence):
        Policy.load(saved(trained, tmp_path / "policy", **changes))


def test_an_empty_batch_of_observations_has_no_actions(trained):
    actions, _ = trained.predict(np.zeros((0, 1)))
    assert actions.shape == (0,)


@pytest.mark.parametrize("folder", [None, 3, "", "\0", "no/such/folder", b"x", 1j])
def test_what_is_not_the_folder_of_a_policy_is_refused(trained, folder):
    with pytest.raises(EverystepError, match="policy"):
        Policy.load(folder)


def harm(obs, action, obs_next, info):
    return 1.0 if obs_next == 3 and action else -0.5


def harm_on_the_line(obs, action, obs_next, info):
    return 1.0 if obs_next[1] < -0.5 and action else -0.5


@pytest.mark.quick
@pytest.mark.parametrize("kind", ["linear", "kernel", "lsvi"])
def test_a_policy_comes_back_from_its_folder_and_acts_and_certifies_as_before(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(stored_agent, "CAPACITY", 128)
    kernel = "rbf(0.3, on=observation)*categorical(on=action)"
    agent = {
        "linear": agents.lsvi_ae(),
        "kernel": agents.lsvi_ae(value=es.kernel_values(kernel), cost=es.gp(kernel)),
        "lsvi": agents.lsvi(),
    }[kind]
    phi = features.centres(3)
    result = es.train(VectorRing(), agent, constraint=harm_on_the_line, features=phi, horizon=5, episodes=8)
    result.save(tmp_path / "run")
    again = Policy.load(tmp_path / "run" / "policy")
    line = VectorRing()
    line.reset()
    for x in range(4):
        line.x = x
        obs = line.see()
        assert again(obs) == result.policy(obs)
        assert again(obs, step=5) == result.policy(obs, step=5)
        np.testing.assert_array_equal(again.certify(obs), result.policy.certify(obs))
        for one, other in zip(again.bounds(obs), result.policy.bounds(obs), strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)
    assert again.confidence == result.policy.confidence
    assert json.loads((tmp_path / "run" / "spec.json").read_text(encoding="utf-8"))["environment"] == "VectorRing"


def test_a_policy_certifies_what_it_has_seen_and_nothing_else():
    agent = agents.lsvi_ae(beta_cost=0.1)
    policy = es.train(Ring(), agent, constraint=harm, horizon=5, episodes=20).policy
    assert policy.certify(0)[1] == 1
    assert policy.certify(2)[1] == -1
    assert policy.confidence.startswith("heuristic")


def test_what_was_never_tried_is_neither_safe_nor_unsafe():
    policy = es.train(Ring(), "lsvi-ae", constraint=harm, horizon=5, episodes=1).policy
    assert 0 in policy.certify(3)


def test_a_policy_with_printed_radii_states_when_its_labels_hold():
    agent = agents.lsvi_ae(radius="paper")
    policy = es.train(Ring(), agent, constraint=harm, horizon=5, episodes=2).policy
    assert "probability 0.95" in policy.confidence


def test_a_damaged_policy_is_refused_and_never_unpickled(tmp_path):
    result = es.train(Ring(), "lsvi-ae", constraint=harm, horizon=5, episodes=2)
    folder = result.policy.save(tmp_path / "policy")
    (folder / "policy.npz").write_bytes(b"\x80\x04K\x01.")
    with pytest.raises(EverystepError, match=r"has changed since it was saved"):
        Policy.load(folder)


def test_a_function_as_features_is_given_again_and_touches_nothing_else(tmp_path):
    shape = lambda x: np.array([x[0], x[1], 1.0]) / 2
    phi, phi_cost = features.function(shape, d=3, crossed=True), features.polynomial(1)
    result = es.train(
        VectorRing(),
        "lsvi-ae",
        constraint=harm_on_the_line,
        features=phi,
        cost_features=phi_cost,
        horizon=5,
        episodes=6,
    )
    result.policy.save(tmp_path)
    with pytest.raises(EverystepError, match=r"a custom function"):
        Policy.load(tmp_path)
    obs = np.array([0.6, 0.8])
    for given in (shape, features.bind(phi, VectorRing.observation_space, 2)):
        again = Policy.load(tmp_path, features=given)
        assert again(obs) == result.policy(obs)
        for one, other in zip(again.bounds(obs), result.policy.bounds(obs), strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)


def test_a_policy_of_another_format_is_refused_in_a_sentence(tmp_path):
    es.train(Ring(), "lsvi-ae", constraint=harm, horizon=5, episodes=2).policy.save(tmp_path)
    content = json.loads((tmp_path / "policy.json").read_text(encoding="utf-8"))
    (tmp_path / "policy.json").write_text(json.dumps(content | {"format": 7}), encoding="utf-8")
    with pytest.raises(EverystepError, match=r"format 7, .* format 1"):
        Policy.load(tmp_path)
