"""Where actions were taken: outside of it labels are unknown and bounds infinite."""

import json

import numpy as np
import pytest
from environments_for_tests.walks import SlippingWalk

import everystep as es
from everystep.errors import EverystepError
from everystep.files import store

pytestmark = pytest.mark.quick


@pytest.fixture(scope="module")
def states_policy():
    return es.train(SlippingWalk(), "lsvi-ae", episodes=2, horizon=6, length=12).policy


def test_outside_of_what_was_seen_labels_are_unknown_and_bounds_infinite(box_policy, tmp_path):
    seen = box_policy.observed
    middle = (seen.low + seen.high) / 2
    for policy in (box_policy, es.Policy.load(box_policy.save(tmp_path / "policy"))):
        assert policy.certify(middle).tolist() == [1, 1, 1]
        for far in ([-1e300, 0.0], [0.0, 2.0], seen.high + 0.06 * (seen.high - seen.low)):
            assert policy.certify(far).tolist() == [0, 0, 0]
            lower, upper = policy.bounds(far)
            assert (lower == -np.inf).all()
            assert (upper == np.inf).all()
        assert policy.certify(seen.high + 0.04 * (seen.high - seen.low)).any()
        for wrong in (np.nan, np.inf):
            for ask in (policy.certify, policy.bounds, policy):
                with pytest.raises(EverystepError, match="give finite numbers"):
                    ask([wrong, 0.0])


def test_a_state_in_which_it_never_acted_is_unknown_even_without_widths():
    agent = es.agents.lsvi_ae(beta_cost=0.0)
    policy = es.train(SlippingWalk(), agent, constraint=lambda *step: -1.0, episodes=1, horizon=3, length=3).policy
    visited = policy.observed.visited
    assert 0 < visited.sum() < 9
    for x in range(9):
        assert policy.certify(x).any() == visited[x]


def test_a_shield_admits_nothing_by_an_upper_end_outside_of_what_was_seen(box_policy):
    seen = box_policy.observed
    middle, far = (seen.low + seen.high) / 2, [1.0, 50.0]
    shield = es.shield(box_policy)
    assert shield.admissible(middle).all()
    judged = shield.judged(shield.plan(), np.array(far), 0)
    assert (judged.harm == np.inf).all()
    plan = box_policy.plan
    least = plan.estimates(0, np.array([far])).mean.max(0)[:, 0]
    assert judged.admissible.tolist() == (least <= least.min() + 1e-9).tolist()
    assert judged.instead_of(int(least.argmax())) in np.flatnonzero(judged.admissible)
    assert es.shield(box_policy, optimism=0.0).admissible(far).all()  # the middle counts as it is


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.pop("observed"),
        lambda content: content["observed"].update(layout=[2]),
        lambda content: content["observed"].update(sizes=[10**12]),
        lambda content: content["observed"].update(sizes=None),
        lambda content: content["observed"].update(first=["a"]),
        lambda content: content["spec"].pop("length"),
        lambda content: content["spec"].update(horizon="6"),
    ],
)
def test_a_policy_whose_steps_or_states_cannot_be_is_refused(change, states_policy, tmp_path):
    folder = states_policy.save(tmp_path / "policy")
    content = json.loads((folder / "policy.json").read_text(encoding="utf-8"))
    del content["checksum"]
    change(content)
    content["checksum"] = store.checksum(content)
    (folder / "policy.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(EverystepError, match=r"cannot be read|length is None|its plan has 6 steps"):
        es.Policy.load(folder)
