"""Bounds on the violation that an action leads to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems_for_tests.brink import brink
from scipy.stats import binom

import everystep as es
from everystep.lsvi import ahead_bounds
from everystep.mdp import certificates, planner
from everystep.mdp.certificates import UNKNOWN
from everystep.mdp.cmdp import FiniteCMDP

CLIFF = 0.3  # how likely action 1 of state 0 leads to state 1, where every action is unsafe


def highest_mean(u, level):
    return 1 - ahead_bounds.chernoff_low(1 - u, level)


def test_the_interval_of_a_mean_is_worked_out_by_hand():
    """kl(0, mu) = -log(1 - mu), kl(1, mu) = -log(mu), kl(1/2, mu) = -log(4 mu (1 - mu)) / 2."""
    with jax.enable_x64(True):
        u, level = jnp.array([0, 1, 0.5]), jnp.array([0.1, 0.1, -np.log(0.75) / 2])
        up, low = highest_mean(u, level), ahead_bounds.chernoff_low(u, level)
        np.testing.assert_allclose(up, [1 - np.exp(-0.1), 1, 0.75], atol=1e-9)
        np.testing.assert_allclose(low, [0, np.exp(-0.1), 0.25], atol=1e-9)
        finer = jnp.linspace(0, 1, 41)
        for end in (highest_mean, ahead_bounds.chernoff_low):  # both grow with u, which the proof needs
            assert (np.diff(end(finer, jnp.full(41, 0.05))) > -1e-12).all()


def test_the_interval_covers_the_worst_coin_as_often_as_promised():
    """The probability of a miss is a sum of binomial ones, at most exp(-L) on each side; half of L fails."""
    L = 4.0

    n, heads = np.array([(n, heads) for n in (1, 5, 30, 100) for heads in range(n + 1)]).T
    q = np.linspace(0.005, 0.995, 199)[:, None]
    mass = binom.pmf(heads, n, q)

    def worst_miss(level):
        with jax.enable_x64(True):
            means, levels = jnp.asarray(heads / n), jnp.asarray(level / n)
            up, low = highest_mean(means, levels), ahead_bounds.chernoff_low(means, levels)
        missed = lambda mask: max((mass * mask)[:, n == each].sum(1).max() for each in set(n))
        return max(missed(np.asarray(up) < q), missed(np.asarray(low) > q))

    assert worst_miss(L) <= np.exp(-L) < worst_miss(L / 2)


@pytest.mark.quick
def test_the_harm_that_an_action_leads_to_is_worked_out_by_hand():
    G = certificates.led_to(brink())  # (H, A, S)
    np.testing.assert_allclose(G[:, :, 0].T, [[0, 0, 0], [CLIFF / 2, CLIFF / 2, 0]])
    np.testing.assert_allclose(G[:, :, 1].T, [[1] * 3, [0.5] * 3])
    problem = brink()
    C = planner.least_harm(problem)
    for h in range(3):
        np.testing.assert_allclose(G[h], planner.harm_of_actions(problem, h, C[h + 1]))


def test_bounds_close_in_on_the_harm_that_actions_lead_to():
    """Without noise costs are known at once, and of transitions the rarely tried ones are the least certain."""
    problem = brink()
    recipe = es.agents.lsvi_ahead(radius_cost="coordinate", lam_cost=0.01)
    result = es.run(problem, recipe, episodes=3000, seeds=2)
    lower, upper = (result.certificates[f"lsvi-ahead_ahead_{end}"] for end in ("lower", "upper"))  # (seeds, H, S, A)
    G = certificates.led_to(problem).swapaxes(-1, -2)
    assert (lower <= G + 1e-9).all()
    assert (upper >= G - 1e-9).all()
    np.testing.assert_allclose(lower[:, 2], np.broadcast_to(G[2], lower[:, 2].shape), atol=0.02)  # nothing follows
    np.testing.assert_allclose(upper[:, 2, 0], 0)  # the last step is certain once the cost is
    assert (upper[:, 0, 0, 0] < 0.1).all()  # staying was tried often, and nothing ever followed
    assert result.certified["lsvi-ahead"]["ahead"]["tolerance"] == 0
    labels = certificates.summary(problem, result.spec["agents"], result.certificates, 0.3)["lsvi-ahead"]["ahead"]
    assert labels["p"] == 0.1
    assert labels["false"] == 0
    assert labels["safe"] >= 4
    assert labels["safe"] + labels["unsafe"] + labels["unknown"] == labels["actions"] == 12


def test_an_action_that_was_never_tried_is_neither_safe_nor_unsafe_ahead():
    result = es.run(brink(), es.agents.lsvi_ahead(radius_cost="coordinate", tolerance=0.5), episodes=1, seeds=2)
    lower, upper = (result.certificates[f"lsvi-ahead_ahead_{end}"][0] for end in ("lower", "upper"))
    low, up = (result.certificates[f"lsvi-ahead_{end}"][0, 0, 0] for end in ("lower", "upper"))  # (S, A)
    untried = (low == -1) & (up == 1)  # the interval of the cost is all that is possible
    assert untried.any()
    assert (certificates.labels_ahead(lower, upper, 0.5)[:, untried] == UNKNOWN).all()
    assert (lower[:, untried] == 0).all()
    most_after = upper[1:].min(-1).max(-1)  # of the worst state, by its best action
    np.testing.assert_allclose(upper[:, untried], 1 + np.append(most_after, 0)[:, None].repeat(untried.sum(), 1))


def harmless(exempt=None) -> FiniteCMDP:
    """Two states, two actions, g = -0.5 everywhere; where one is exempt, nothing leads to it."""
    P = np.full((2, 2, 2), 0.5) if exempt is None else np.broadcast_to([1.0, 0.0], (2, 2, 2))
    return FiniteCMDP(P, np.zeros((2, 2)), np.full((2, 2), -0.5), horizon=3, exempt=exempt)


@pytest.mark.parametrize("exempt", [None, [False, True]], ids=["all states are entered", "one never is"])
def test_where_every_state_is_certified_all_actions_are_safe_ahead_whatever_follows(exempt):
    """No P can lead to harm then, so a tolerance of 0 is met before the last step, too."""
    result = es.run(harmless(exempt), es.agents.lsvi_ahead(radius_cost="coordinate"), episodes=400, seeds=1)
    upper = result.certificates["lsvi-ahead_ahead_upper"][0]  # (H, S, A)
    assert (upper[:, [True, exempt is None]] == 0).all()
    found = result.certified["lsvi-ahead"]["ahead"]
    assert (found["safe"], found["actions"], found["tolerance"]) == ((12, 12, 0) if exempt is None else (6, 6, 0))


def test_where_no_state_has_a_safe_action_harm_that_follows_is_certain_before_anything_was_seen_to_follow():
    """min_y Clow: from the first costs on an action leads to at least as much harm as the least harmful state."""
    problem = FiniteCMDP(np.full((2, 2, 2), 0.5), np.zeros((2, 2)), np.full((2, 2), 0.5), horizon=3)
    recipe = es.agents.lsvi_ahead(radius_cost="coordinate", lam_cost=0.01)
    lower = es.run(problem, recipe, episodes=60, seeds=1).certificates["lsvi-ahead_ahead_lower"][0]
    for h in (0, 1):
        assert (lower[h] >= lower[2] + lower[h + 1].min() - 1e-12).all()
        assert (lower[h] <= 0.5 * (3 - h) + 1e-9).all()
    assert lower[0].min() > 1.4  # of 1.5
