"""Values by counts: the mean of reward plus next value over visits and lam, plus a width, at most the cap."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.episodes import SIZES, SUCCESSORS, episodes, learnt, rows

from everystep.lsvi.radii import Tuned
from everystep.lsvi.values.counts import Counts

LAM, BETA, CAP = 0.3, 0.7, 1.6
V = np.array([0.2, 1.0, 0.6])


@pytest.mark.quick
@pytest.mark.parametrize("listed", [True, False], ids=["lists of next states", "every state may follow"])
@pytest.mark.parametrize("steps", [1, 4], ids=["shared", "by step"])
def test_values_and_expectations_are_means_over_visits_and_lam(steps, listed):
    seen = episodes(6)
    lists = jnp.asarray(SUCCESSORS) if listed else None
    if not listed:  # a slot is the state itself
        seen = [each._replace(slot=each.x_next) for each in seen]
    model = Counts(Tuned(jnp.asarray(BETA)), jnp.asarray(LAM), jnp.asarray(CAP), lists)
    sizes = SIZES if listed else SIZES._replace(successors=3)
    state, update = model.init(sizes, steps), jax.jit(model.update)
    for each in seen:
        state = update(state, jax.tree.map(jnp.asarray, each))
    fit, h = model.fit(state, jnp.int32(7)), 2
    Q, expected = model.estimate(fit, jnp.int32(h), jnp.asarray(V)), model.expect(fit, jnp.int32(h), jnp.asarray(V))
    capped = 0
    for x in range(3):
        for a in range(2):
            own = [row for row in rows(seen, None if steps == 1 else h) if row[:2] == (x, a)]
            total = sum(row[3] + V[row[2]] for row in own) / (len(own) + LAM) + BETA / np.sqrt(len(own) + LAM)
            np.testing.assert_allclose(Q[a, x], min(total, CAP), atol=1e-12)
            np.testing.assert_allclose(expected[a, x], sum(V[row[2]] for row in own) / (len(own) + LAM), atol=1e-12)
            capped += total > CAP
    assert capped < 6


def test_the_log_of_the_determinant_counts_every_visit():
    model, seen = Counts(Tuned(0.0), jnp.asarray(LAM), CAP, jnp.asarray(SUCCESSORS)), episodes(4)
    visits = np.zeros((3, 2))
    for x, a, *_ in rows(seen, None):
        visits[x, a] += 1
    np.testing.assert_allclose(model.log_det(learnt(model, 1, seen)), [np.log(1 + visits / LAM).sum()])
