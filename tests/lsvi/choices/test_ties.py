"""Ties are broken evenly, by priorities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from everystep.lsvi import algorithm
from everystep.lsvi.choices import ties as drawn
from everystep.lsvi.choices.basic import Greedy, Penalised, Reacting

# Compiled as a whole: one operation after the other takes a program for each.
best, plan, cost_belief = jax.jit(drawn.best), jax.jit(algorithm.plan), jax.jit(algorithm.cost_belief)

ties, priorities = jax.jit(drawn.ties, static_argnums=(1, 2)), jax.jit(drawn.priorities, static_argnums=1)


@pytest.mark.quick
def test_near_ties_count_as_ties_and_are_broken_evenly():
    words = ties(jnp.uint32(1), 1, 6000)[0]
    score = jnp.array([1.0, 1.0 + 5e-10, 0.5, 1.0 - 3e-10])
    wins = best(jnp.broadcast_to(score[:, None], (4, 6000)), words).sum(1)
    assert wins[2] == 0
    np.testing.assert_allclose(wins[jnp.array([0, 1, 3])] / 6000, 1 / 3, atol=0.03)


@pytest.mark.parametrize(
    ("top", "gap", "tied"),
    [
        (0.0, 1e-9, True),
        (1.0, 5e-9, False),
        (1e-3, 5e-10, True),  # at least 1e-9, however small the score
        (1e6, 5e-4, True),
        (-1e6, 5e-4, True),
        (1e6, 5e-3, False),
    ],
)
def test_what_ties_depends_on_the_size_of_the_score(top, gap, tied):
    words = ties(jnp.uint32(1), 1, 100)[0]
    wins = best(jnp.broadcast_to(jnp.array([top, top - gap])[:, None], (2, 100)), words).sum(1)
    assert (wins[1] > 0) == tied


@pytest.mark.parametrize("actions", [2, 3, 4, 7, 16])
def test_every_action_comes_first_equally_often_and_no_two_rank_alike(actions):
    ranks = np.asarray(priorities(ties(jnp.uint32(7), 10, 4000), actions))
    assert (ranks > 0).all()
    assert (np.diff(np.sort(ranks, axis=0), axis=0) > 0).all()
    first = np.bincount(ranks.argmax(0).ravel(), minlength=actions) * actions / 40_000
    np.testing.assert_allclose(first, 1, atol=0.1)


@pytest.mark.parametrize(
    "choice",
    [Greedy(), Penalised(True), Penalised(False), Reacting(Penalised(True))],
    ids=["greedy", "rectified", "with its sign", "reacting"],
)
def test_the_action_of_the_highest_score_is_the_compiled_choice(choice):
    """`score` is for NumPy arrays, as agents of environments use it; half of the costs are below 0."""
    rng = np.random.default_rng(4)
    Q, ghat, price = rng.random((3, 40)), rng.uniform(-1, 1, (2, 3, 40)), np.array([0.4, 1.5])
    chosen = jax.jit(lambda *given: choice(*given))(*map(jnp.asarray, (Q, ghat, price)), ties(jnp.uint32(0), 1, 40)[0])
    np.testing.assert_array_equal(choice.score(Q, ghat, price).argmax(0), np.asarray(chosen).argmax(0))
