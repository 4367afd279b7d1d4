"""Functions of rows are those of whole arrays, for few actions (unrolled) and for many, and for tuples of rows."""

import jax.numpy as jnp
import numpy as np
import pytest

from everystep.lsvi import rowwise
from everystep.mdp.world import FEW

pytestmark = pytest.mark.quick
rng = np.random.default_rng(0)


@pytest.fixture(params=[3, FEW + 1], ids=["few", "many"])
def scores(request):
    return jnp.asarray(rng.normal(size=(request.param, 4)))


def test_extremes_are_those_over_the_first_axis(scores):
    np.testing.assert_array_equal(rowwise.highest(scores), np.max(scores, 0))
    np.testing.assert_array_equal(rowwise.lowest(scores), np.min(scores, 0))
    np.testing.assert_array_equal(rowwise.highest(tuple(scores[:3])), np.max(scores[:3], 0))


def test_a_function_of_rows_is_applied_to_each(scores):
    found = rowwise.map_rows(lambda row, other: 2 * row + other, scores, scores + 1)
    np.testing.assert_allclose(found, 3 * scores + 1)
    rows = rowwise.map_rows(jnp.negative, tuple(scores[:2]))
    assert isinstance(rows, tuple)
    np.testing.assert_array_equal(rows, -scores[:2])


def test_the_value_under_a_policy_is_its_mean_or_the_row_it_selects(scores):
    actions = rng.integers(len(scores), size=4)
    one_hot = jnp.asarray(np.arange(len(scores))[:, None] == actions)
    selected = np.asarray(scores)[actions, np.arange(4)]
    np.testing.assert_array_equal(rowwise.under(one_hot, scores), selected)
    np.testing.assert_array_equal(rowwise.picked(jnp.asarray(actions), scores), selected)
    pi = rng.dirichlet(np.ones(len(scores)), 4).T
    np.testing.assert_allclose(rowwise.under(jnp.asarray(pi), scores), (pi * scores).sum(0), atol=1e-12)


def test_what_is_packed_is_unpacked():
    first, second = rng.normal(size=(2, 5))
    packed = rowwise.pack(jnp.asarray(first), jnp.asarray(second))
    np.testing.assert_array_equal(np.stack(rowwise.unpack(packed)), [first, second])
