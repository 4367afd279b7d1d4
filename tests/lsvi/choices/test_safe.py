"""The set of actions that are admitted."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from everystep.lsvi.choices.safe import SafeSet, admitted


@pytest.mark.quick
def test_an_upper_end_of_exactly_zero_is_safe_and_every_constraint_counts():
    Q, upper = jnp.array([1.0, 2.0, 3.0, 4.0]), jnp.array([[-0.5, 0.0, -0.5, 0.1], [-0.5, 0.0, 0.1, 0.1]])
    scores, chosen = jax.jit(lambda Q, upper: (admitted(Q, upper), SafeSet()(Q, upper, jnp.ones(2), jnp.uint32(0))))(
        Q, upper
    )
    np.testing.assert_array_equal(scores, [1.0, 2.0, -np.inf, -np.inf])
    assert chosen.tolist() == [False, True, False, False]
