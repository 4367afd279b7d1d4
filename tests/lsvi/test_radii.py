"""Intervals hold with the stated probability, with noise, at all times."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom

from everystep import agents
from everystep.lsvi.episode import Episode
from everystep.lsvi.radii import CoordinateValue, KnownSafeCost, PaperValue
from everystep.mdp.cmdp import FiniteCMDP, Noise

RUNS, EPISODES, P_FAIL = 300, 60, 0.2


def noisy(sigma: float) -> FiniteCMDP:
    rng = np.random.default_rng(1)
    g = rng.uniform(-1, 1, (3, 2))
    g[:, 0] = -np.abs(g[:, 0])
    return FiniteCMDP(
        rng.dirichlet(np.ones(3), size=(3, 2)), rng.random((3, 2)), g, start=0, horizon=3, noise=Noise(cost_sigma=sigma)
    )


def share_of_runs_with_a_miss(problem: FiniteCMDP, recipe: agents.Recipe, sigma: float) -> float:
    """How often g leaves [ghat, ghat + 2 width] at any (k, h, x, a), over runs of a policy that acts at random."""
    built = recipe.resolve(problem, EPISODES).build()
    costs = built.agent.costs
    g = jnp.asarray(problem.g[:, 0].swapaxes(-1, -2))[None]  # (1, m, A, S)

    def run(key):
        def episode(state_k, key):
            state, k = state_k
            estimate = costs.estimate(state, k)
            missed = (jnp.abs(estimate.mean - g) > estimate.width + 1e-12).any()
            keys = jax.random.split(key, 3)
            x = jax.random.randint(keys[0], (3,), 0, 3, jnp.int32)
            a = jax.random.randint(keys[1], (3,), 0, 2, jnp.int32)
            cost = g[0, 0][a, x] + sigma * jax.random.normal(keys[2], (3,))
            seen = Episode(x, a, x, x, jnp.zeros(3), cost[:, None])
            return (costs.update(state, seen), k + 1), missed

        first = costs.init(problem.sizes, 1 if built.share_costs else 3), jnp.asarray(1, jnp.int32)
        return jax.lax.scan(episode, first, jax.random.split(key, EPISODES))[1].any()

    return float(jax.vmap(run)(jax.random.split(jax.random.key(7), RUNS)).mean())


@pytest.mark.parametrize("radius", ["coordinate", "paper"])
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "step-indexed"])
def test_the_true_cost_lies_in_its_interval_as_often_as_promised(radius, shared):
    problem = noisy(sigma=0.5)
    recipe = agents.lsvi_ae(radius=radius, p=P_FAIL, share_costs=shared)
    assert share_of_runs_with_a_miss(problem, recipe, 0.5) <= P_FAIL


def test_the_check_above_can_fail():
    problem = noisy(sigma=0.5)
    assert share_of_runs_with_a_miss(problem, agents.lsvi_ae(radius="coordinate", sigma=0.05), 0.5) > P_FAIL


# --- the formulas, by hand: p is chosen so that logarithms are whole numbers ------------------------------------------
K, D, H = 1000, 6, 3


def radii_of(p, k=1, **settings):
    """Widths (value, cost) as functions of the squared norm, at episode k."""
    agent = agents.lsvi_ae(p=p, **settings).resolve(noisy(0.0), K).build().agent
    parts = (agent.values.radius, agent.costs.radius)
    return [lambda norm2, each=each: float(each.width(jnp.asarray(norm2), jnp.asarray(k, jnp.int32))) for each in parts]


@pytest.mark.quick
def test_the_printed_value_radius_is_worked_out_by_hand():
    """iota = log(2 d H K / p) = log(36000 / p) = 16, so that c d H sqrt(iota) = 6 * 3 * 4 = 72."""
    value, _ = radii_of(36_000 * np.exp(-16), radius="paper", share_values=False)
    np.testing.assert_allclose([value(1.0), value(0.25), value(0.0)], [72, 36, 0])


@pytest.mark.parametrize(
    ("p", "settings", "width"),
    [
        (18 * np.exp(-6), {"share_costs": False}, 6**0.5 + 6),  # (1 + 5 / 1) H = 18
        (33 * np.exp(-6), {"share_costs": False, "lam_cost": 0.5}, 3**0.5 + 6),  # (1 + 5 / 0.5) H = 33
        (16 * np.exp(-6), {"share_costs": True}, 6**0.5 + 6),  # 1 + 5 H / 1 = 16, for one estimator
    ],
)
def test_the_printed_cost_radius_is_worked_out_by_hand(p, settings, width):
    """sqrt(lam d) + sqrt(d log((1 + k / lam) H / p)) with the logarithm 6 and d = 6, in episode 5."""
    _, cost = radii_of(p, 5, radius="paper", **settings)
    np.testing.assert_allclose([cost(1.0), cost(0.25)], [width, width / 2])


def test_a_radius_without_a_number_of_episodes_spends_all_of_p_and_no_more():
    """In episode k it is the printed one with p / (k (k + 1)) in place of p, and k in place of K."""
    unknown, k = PaperValue(1.0, 6.0, 3.0, None, 0.1), np.arange(1, 6)
    one = lambda radius, k: float(radius.width(jnp.ones(()), jnp.asarray(k, jnp.int32)))
    shares = 0.1 / (k * (k + 1))
    np.testing.assert_allclose(shares.sum(), 0.1 * 5 / 6)  # 0.1 (1 - 1 / 6)
    known = [PaperValue(1.0, 6.0, 3.0, float(k), p) for k, p in zip(k, shares, strict=True)]
    np.testing.assert_allclose([one(unknown, k) for k in k], [one(each, 1) for each in known])


def test_a_coordinate_width_of_costs_is_worked_out_by_hand():
    """L = log(2 m S A H K / p) = log(36000 / p) = 14 and n = 7: sqrt(2 n L) = 14 and (0.5 + 0.3 * 14) / 7.5."""
    _, cost = radii_of(36_000 * np.exp(-14), radius="coordinate", lam_cost=0.5, sigma=0.3)
    np.testing.assert_allclose(cost(1 / 7.5), 4.7 / 7.5)
    np.testing.assert_allclose(cost(1 / 0.5), 1)  # before any visit, |g| <= 1 is all that is known


def test_a_coordinate_width_of_values_is_worked_out_by_hand():
    """L = log(S A H K / p) = log(18000 / p) = 14 and n = 7: sqrt(n L / 2) = 7, 3 (0.5 + 7) / 7.5 = 3 for a cap of 3."""
    value, _ = radii_of(18_000 * np.exp(-14), radius="coordinate", lam=0.5)
    np.testing.assert_allclose(value(1 / 7.5), 3)
    np.testing.assert_allclose(value(1 / 28.5), 3 * (0.5 + 14) / 28.5)  # four times the visits
    np.testing.assert_allclose(value(1 / 0.5), 3)


def test_the_radius_with_a_known_safe_action_is_worked_out_by_hand():
    """(2 + 2 * 7 / 0.25) / delta = 58 / delta = e^9: 0.5 sqrt(4 * 9) + sqrt(0.25) * 3 = 4.5, and twice that."""
    radius = KnownSafeCost(2.0, 4.0, 0.25, 3.0, 0.5, 7.0, 58 * np.exp(-9))
    width = lambda norm2: float(radius.width(jnp.asarray(norm2), jnp.asarray(1, jnp.int32)))
    np.testing.assert_allclose([width(1.0), width(0.25)], [9, 4.5])


@pytest.mark.parametrize("lam", [0.01, 1.0])
def test_a_coordinate_width_of_values_covers_the_worst_coin_as_often_as_promised(lam):
    """Mean of n draws from {0, cap}, shrunk by n / (n + lam), plus the width: below the truth at most exp(-L) often.

    The probability is exact, a sum of binomial ones. With two thirds of the width some coin is missed more often.
    """
    cap, log_union = 3.0, 5.0
    radius = CoordinateValue(1.0, lam, cap, log_union)
    worst, worst_of_less = 0.0, 0.0
    for n in (1, 5, 20, 80):
        width = float(radius.width(jnp.asarray(1 / (n + lam)), jnp.asarray(1, jnp.int32)))
        heads, q = np.arange(n + 1), np.linspace(0.01, 1, 100)[:, None]
        mass = binom.pmf(heads, n, q)
        missed = lambda share, n=n, heads=heads, q=q, mass=mass, width=width: (
            (mass * (cap * heads / (n + lam) + share * width < cap * q - 1e-12)).sum(1).max()
        )
        worst, worst_of_less = max(worst, missed(1.0)), max(worst_of_less, missed(2 / 3))
    assert worst <= np.exp(-log_union) < worst_of_less
