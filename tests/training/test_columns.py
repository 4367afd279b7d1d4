"""Columns of a training that grow: the arrays of the whole lists, at the cost of what is new."""

import numpy as np
import pytest

from everystep.training.columns import Columns

pytestmark = pytest.mark.quick


def test_arrays_are_those_of_the_lists_as_they_grow():
    columns, returns, unsafe = Columns(), [], []
    for i in range(100):
        returns.append(0.1 * i)
        unsafe.append(i)
        for name, values in (("return", returns), ("unsafe_steps", unsafe)):
            found = columns.of(name, values)
            np.testing.assert_array_equal(found, values)
            assert found.dtype == np.array(values).dtype


def test_an_array_that_was_given_out_does_not_change():
    columns, values = Columns(), [1.0, 2.0]
    before = columns.of("x", values)
    values.append(3.0)
    assert columns.of("x", values).tolist() == [1.0, 2.0, 3.0]
    assert before.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        before[0] = 9.0


def test_another_list_is_read_from_its_beginning():
    columns, values = Columns(), [1.0, 2.0, 3.0]
    columns.of("x", [5.0, 6.0])
    assert columns.of("x", values).tolist() == [1.0, 2.0, 3.0]
    del values[1:]
    assert columns.of("x", values).tolist() == [1.0]


def test_whole_numbers_become_real_ones_when_a_real_one_is_added():
    columns, values = Columns(), [1, 2]
    assert columns.of("x", values).dtype.kind == "i"
    values.append(0.5)
    assert columns.of("x", values).tolist() == [1.0, 2.0, 0.5]
