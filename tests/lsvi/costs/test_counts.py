"""Costs by counts: a shrunken mean of what was seen at (x, a), and a width by its number of visits."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers.episodes import episodes, learnt, rows

from everystep.lsvi.costs.counts import CountCosts
from everystep.lsvi.radii import Tuned

pytestmark = pytest.mark.quick
LAM, BETA = 0.3, 0.7


@pytest.mark.parametrize("steps", [1, 4], ids=["shared", "by step"])
def test_the_estimate_is_the_sum_of_costs_over_visits_and_lam(steps):
    model, seen = CountCosts(Tuned(jnp.asarray(BETA)), jnp.asarray(LAM)), episodes(6)
    state = learnt(model, steps, seen)
    found = model.estimate(state, jnp.int32(7))
    for h in range(steps):
        observed = rows(seen, None if steps == 1 else h)
        for x in range(3):
            for a in range(2):
                costs = [row[4] for row in observed if row[:2] == (x, a)]
                n = len(costs)
                np.testing.assert_allclose(found.mean[h, :, a, x], sum(costs, np.zeros(2)) / (n + LAM), atol=1e-12)
                np.testing.assert_allclose(found.width[h, 0, a, x], BETA / np.sqrt(n + LAM))


def test_the_information_gain_is_half_the_log_of_the_determinant():
    model, seen = CountCosts(Tuned(jnp.asarray(BETA)), jnp.asarray(LAM)), episodes(5)
    gain = model.information_gain(learnt(model, 1, seen))
    visits = np.zeros((3, 2))
    for x, a, *_ in rows(seen, None):
        visits[x, a] += 1
    np.testing.assert_allclose(gain, [np.log(np.prod(1 + visits / LAM)) / 2])
