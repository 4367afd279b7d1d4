"""Looking ahead, one step at a time: what an action leads to, what of it is avoidable, and what is carried backward."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers.episodes import SUCCESSORS, episodes, learnt

from everystep.lsvi.ahead import HarmToGo, Marked
from everystep.lsvi.radii import Tuned
from everystep.lsvi.values.counts import Counts

pytestmark = pytest.mark.quick
rng = np.random.default_rng(0)
GHAT, AFTER = rng.uniform(-1, 1, (2, 3, 5)), rng.random((3, 5))  # (m, A, S), (A, S)
WEIGHTS = np.array([1.0, 0.5])


def to_go(of_plan=False, events=False, tolerance=0.0, cap=1.5, **more):
    return HarmToGo(of_plan, events, tolerance, jnp.asarray(WEIGHTS), cap, **more)


def test_an_action_leads_to_the_violation_of_this_step_and_of_what_follows_up_to_the_cap():
    total = sum(w * np.maximum(g, 0) for w, g in zip(WEIGHTS, GHAT, strict=True)) + AFTER
    np.testing.assert_allclose(to_go(cap=1.5).led_to(jnp.asarray(GHAT), jnp.asarray(AFTER)), total.clip(0, 1.5))
    assert (total > 1.5).any()
    np.testing.assert_allclose(Marked(jnp.asarray(WEIGHTS)).led_to(jnp.asarray(GHAT), jnp.asarray(AFTER)), total)


def test_avoidable_is_what_exceeds_the_least_by_more_than_the_tolerance():
    G = jnp.asarray(AFTER)
    np.testing.assert_allclose(
        to_go(tolerance=0.2).avoidable(G), np.maximum(AFTER - AFTER.min(0) - 0.2, 0)[None], atol=1e-15
    )
    assert (np.asarray(Marked(jnp.asarray(WEIGHTS)).avoidable(G)).min(1) == 0).all()


def test_the_least_or_that_of_the_plan_is_carried_backward():
    pi = jnp.asarray(np.arange(3)[:, None] == rng.integers(3, size=5))
    G = jnp.asarray(AFTER)
    np.testing.assert_allclose(to_go().carried(G, pi), AFTER.min(0))
    np.testing.assert_allclose(to_go(of_plan=True).carried(G, pi), (AFTER * np.asarray(pi)).sum(0))
    marked = Marked(jnp.asarray(WEIGHTS)).carried(jnp.asarray([[0.0, 1.0], [2.0, 1.0]]), pi[:2, :2])
    assert marked.tolist() == [0.0, 1.0]


def test_events_are_learnt_as_the_violation_that_was_observed():
    cost = jnp.array([-0.5, 0.25])
    assert to_go(events=True).learnt(cost).tolist() == [0.0, 0.25]
    assert to_go().learnt(cost).tolist() == cost.tolist()


def test_what_follows_is_the_expectation_of_the_values_lowered_by_the_width():
    values = Counts(Tuned(0.0), jnp.asarray(0.5), 10.0, jnp.asarray(SUCCESSORS))
    state = learnt(values, 1, episodes(4))
    fit, C = values.fit(state, jnp.int32(5)), jnp.array([0.0, 1.0, 0.5])
    ahead = to_go(radius=Tuned(jnp.asarray(0.3)), optimism=0.5)
    width = ahead.width(values, state, jnp.int32(5))
    np.testing.assert_allclose(width, 0.3 * np.sqrt(values.squared_norms(state)))
    mean = values.expect(fit, jnp.int32(0), C)
    np.testing.assert_allclose(ahead.after(values, fit, jnp.int32(0), C, width[0]), mean - 0.5 * width[0])
    assert to_go().width(values, state, jnp.int32(5)) is None
    seen = Marked(jnp.asarray(WEIGHTS)).after(values, fit, jnp.int32(0), C, None)
    np.testing.assert_array_equal(seen, np.asarray(mean) > 0)
