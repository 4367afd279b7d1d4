"""Values as JSON and arrays."""

import json

import jax
import numpy as np
import pytest
from soak.drifting import Drift

from everystep.training.folder import plain_values
from everystep.training.folder.plain_values import UnknownContentError, from_plain, to_plain


@pytest.mark.quick
@pytest.mark.parametrize(
    "value",
    [
        None, True, -3, 0.1, float("inf"), "text", [], (), {}, [1, 2], [1.5, None], (1, "a", [2.0]), [True, False],
        {"a": [1], "b": {"c": 2}}, {b"ab": 1, b"abc": 2}, {1: "x"}, [2**70, 1], [None, None], [[], [1]],
    ],
    ids=str,
)  # fmt: skip
def test_plain_values_come_back(value):
    arrays = {}
    found = from_plain(json.loads(json.dumps(to_plain(value, arrays, "x"))), arrays)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.quick
@pytest.mark.parametrize(
    "value",
    [
        np.arange(3), np.zeros((2, 0)), np.array(4), [np.arange(2), np.arange(3)], [np.ones(2)] * 3, [np.array(1)] * 2,
        [np.int64(3), np.int64(4)], [None, np.ones((2, 2)), np.ones((1, 2))], [np.ones(1), np.ones((2, 2))],
    ],
    ids=str,
)  # fmt: skip
def test_arrays_come_back(value):
    arrays = {}
    found = from_plain(json.loads(json.dumps(to_plain(value, arrays, "x"))), arrays)
    assert str(found) == str(value)
    assert jax.tree.map(lambda x: x.dtype, found) == jax.tree.map(lambda x: x.dtype, value)


@pytest.mark.quick
def test_nothing_else_is_saved():
    for value in (object(), lambda: 0, [object()], np.array([object()]), Drift()):
        with pytest.raises(UnknownContentError):
            to_plain(value, {}, "x")
    for content in ({"record": "Path", "fields": {}}, {"generator": {"bit_generator": "seed"}}, {"list": {"each": 1}}):
        with pytest.raises((KeyError, ValueError, TypeError)):
            from_plain(content, {})


@pytest.mark.quick
@pytest.mark.parametrize("wrong", ["x", True, 1.5, [1], {}])
def test_a_restored_value_is_of_the_kind_of_the_one_just_made(wrong):
    assert plain_values.alike(3, 2) == 3
    assert plain_values.alike((1, 2.0), (0.5, 0.5)) == (1, 2.0)
    assert plain_values.alike(wrong, None) is wrong
    with pytest.raises(ValueError, match="another kind"):
        plain_values.alike(wrong, 2)
    with pytest.raises(ValueError, match="another kind"):
        plain_values.alike((1.0, "x" if wrong == 1.5 else wrong), (0.5, 0.5))
