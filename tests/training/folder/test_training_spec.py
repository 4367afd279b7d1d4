"""The form of the spec of a training."""

import pytest

from everystep.training.folder.training_spec import fault

pytestmark = pytest.mark.quick
SPEC = {
    **dict.fromkeys(("environment", "agent", "guarantee"), "words"),
    **{key: {} for key in ("settings", "value", "cost")},
    **{"horizon": 3, "length": 6, "constraints": 1, "d": None, "confidence": 0.05, "versions": {"jax": "1"}},
}


def test_a_spec_of_this_form_has_no_fault():
    assert fault(SPEC) is None
    assert fault(SPEC | {"found": {}, "more": 1}) is None


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({"horizon": 0}, "horizon"),
        ({"horizon": 7}, "horizon"),  # longer than an episode
        ({"length": 2**40}, "length"),
        ({"agent": 3}, "agent"),
        ({"confidence": 2}, "confidence"),
        ({"versions": {"jax": 1}}, "versions"),
        ({"settings": []}, "settings"),
    ],
)
def test_the_field_that_differs_is_named(changed, where):
    assert where in fault(SPEC | changed)


@pytest.mark.parametrize("missing", ["environment", "versions", "horizon"])
def test_a_missing_field_is_named(missing):
    assert missing in fault({name: value for name, value in SPEC.items() if name != missing})


def test_a_policy_needs_less_and_its_first_action():
    kept = {name: SPEC[name] for name in ("guarantee", "horizon", "length")}
    assert fault(kept | {"first_action": 0}, of_policy=True) is None
    assert "first_action" in fault(kept, of_policy=True)
    assert fault(SPEC | {"first_action": 0, "horizon": "3"}, of_policy=True) == "horizon"
