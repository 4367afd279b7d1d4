"""Penalised and random choices."""

import jax.numpy as jnp
import numpy as np
import pytest

from everystep.lsvi import algorithm
from everystep.lsvi.choices.basic import Penalised


@pytest.mark.quick
def test_safety_earns_credit_only_where_costs_keep_their_sign():
    """Action 1 is worth less and safer than 0 by 0.5: rectified both cost nothing, with its sign 1 is better."""
    Q, ghat, price = jnp.array([1.0, 0.9]), jnp.array([[-0.1, -0.6]]), jnp.array([1.0])
    assert Penalised(True)(Q, ghat, price, jnp.uint32(0)).tolist() == [True, False]
    assert Penalised(False)(Q, ghat, price, jnp.uint32(0)).tolist() == [False, True]


def test_a_uniform_number_picks_the_action_whose_share_it_falls_into():
    policy = np.array([0.25, 0.5, 0.0, 0.25])
    drawn = [int(algorithm.act(policy, np.float64(u))) for u in (0.0, 0.2499, 0.25, 0.7499, 0.75, 0.9999)]
    assert drawn == [0, 0, 1, 1, 3, 3]
    assert [int(algorithm.act(np.eye(3, dtype=bool)[a], np.float64(u))) for a in range(3) for u in (0.0, 0.9)] == [
        0, 0, 1, 1, 2, 2,
    ]  # fmt: skip
