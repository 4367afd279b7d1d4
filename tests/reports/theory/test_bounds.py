"""The paper's bounds as functions: against numbers computed by hand, plain NumPy, and the quantities they bound."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

import everystep as es
from everystep.lsvi import radii
from everystep.mdp import planner
from everystep.reports.theory import bounds


@pytest.mark.quick
def test_the_constants_of_theorem_1_are_those_worked_out_by_hand():
    assert bounds.iota(2, 3, 100, 0.05) == pytest.approx(10.0858091, abs=1e-6)  # log 24000
    assert bounds.value_radius(1, 2, 3, 100, 0.05) == pytest.approx(6 * math.sqrt(10.0858091), abs=1e-6)
    # 3 sqrt(300 * 10.0858) + 10 * 3 sqrt(400 * 10.0858), and the bonus twice
    assert bounds.regret_bound(100, 3, 2, 10.0, 0.05) == pytest.approx(165.02 + 1905.49, abs=0.02)
    assert bounds.regret_bound(100, 3, 2, 10.0, 0.05, repaired=True) == pytest.approx(165.02 + 2 * 1905.49, abs=0.03)
    assert bounds.price_term(100, 3) == pytest.approx(82.8931, abs=1e-3)
    assert bounds.price_term(100, 3, repaired=True) == pytest.approx(118.8931, abs=1e-3)
    assert bounds.violation_bound(100, 3, 50.0, repaired=True) == pytest.approx(168.8931, abs=1e-3)


def test_the_lemmas_on_errors_are_those_worked_out_by_hand():
    assert bounds.linear_errors(100, 2, 3.0) == pytest.approx(3 * math.sqrt(8 * 2 * 100 * math.log(51)))
    assert bounds.potential_bound(100, 2, lam=0.25) == pytest.approx(2 * 2 * math.log(201))  # 100 / (2 * 0.25) = 200
    # three rows an episode: 3 / log 4 in place of 2, and 300 / (2 * 0.25) = 600
    assert bounds.potential_bound(100, 2, lam=0.25, rows=3) == pytest.approx(3 / math.log(4) * 2 * math.log(601))
    # norms of up to lam^{-1/2} = 2
    assert bounds.linear_errors(100, 2, 3.0, lam=0.25) == pytest.approx(2 * 3 * 2 * math.sqrt(100 * 4 * math.log(201)))
    assert bounds.linear_errors(100, 2, 3.0, lam=4.0) == pytest.approx(2 * 3 * math.sqrt(100 * 4 * math.log(13.5)))
    assert bounds.gp_errors(100, 2.0, 5.0, lam=1.02) == pytest.approx(2 * 2 * math.sqrt(4 * 102 * 5))


@pytest.mark.quick
def test_theorem_2_has_the_numbers_of_its_formulas():
    assert bounds.regret_lower_bound(256, 3, 4) == pytest.approx(1.46969, abs=1e-4)
    assert bounds.violation_lower_bound(2**16, 3) == pytest.approx(10.8866, abs=1e-3)
    # d H sqrt(H K) and sqrt(H K), up to constants
    assert bounds.regret_lower_bound(4e4, 6, 8) == pytest.approx(8 * 6 * math.sqrt(6 * 4e4) / (160 * math.sqrt(2)))
    assert bounds.violation_lower_bound(4e4, 4) / bounds.violation_lower_bound(1e4, 4) == pytest.approx(2)


@pytest.mark.quick
def test_the_repaired_violation_lemma_counts_episodes_that_left_the_chain_at_any_earlier_step():
    """A policy that errs at h = H / 2 alone: reached with 0.63, where the printed lemma has at least 0.93."""
    H = 20
    problem = es.problems.hard_instance(4, H, episodes=10**6, seed=1)
    g = problem.g[0]  # (H, S, A)
    policy = np.eye(problem.actions)[g.argmin(-1)]
    policy[H // 2 - 1] = np.roll(policy[H // 2 - 1], 1, axis=-1)
    violation = planner.evaluate(problem, policy).violation
    stay = 1 - 4 / (3 * H)
    assert violation == pytest.approx(0.63, abs=0.001)
    assert stay ** (H // 2 - 1) < violation < stay == pytest.approx(0.9333, abs=1e-4)
    one_bandit = math.sqrt(1e6 / H) / (8 * math.sqrt(2))
    repaired = bounds.violation_lower_bound(1e6, H, repaired=True)
    assert repaired / one_bandit == pytest.approx(sum(stay**j for j in range(10)))
    assert 0.36 * H < repaired / one_bandit < 0.81 * bounds.violation_lower_bound(1e6, H) / one_bandit


def test_the_radius_of_theorem_1_is_the_one_the_program_uses():
    radius = radii.PaperValue(0.7, 5.0, 4.0, 300.0, 0.1)
    assert float(radius.width(jnp.ones(()), jnp.int32(3))) == pytest.approx(bounds.value_radius(0.7, 5, 4, 300, 0.1))


def test_the_price_permits_what_the_repaired_term_bounds_and_more_than_the_printed_one():
    """Without violations Z^k has its lowest value: 1, then the floor of the previous episode."""
    price, total = 1.0, 0.0
    for k in range(1, 2001):
        total += 1 / price
        assert total <= bounds.price_term(k, 1, repaired=True) / 2
        assert total > bounds.price_term(k, 1) / 2
        price = max(price, k)


def walk(rng, K, d, rows, lam):
    """Norms (K, rows) of random unit features under a Gram matrix that learns once an episode; its final log det."""
    Lambda, norms = lam * np.eye(d), []
    for _ in range(K):
        phi = rng.normal(size=(rows, d))
        phi /= np.linalg.norm(phi, axis=1, keepdims=True)
        norms.append(np.sqrt(np.einsum("nd,dn->n", phi, np.linalg.solve(Lambda, phi.T))))
        Lambda = Lambda + phi.T @ phi
    return np.array(norms), np.linalg.slogdet(Lambda / lam)[1]


@pytest.mark.parametrize("lam", [1.0, 0.05, 4.0])
@pytest.mark.parametrize("rows", [1, 2, 7])
@pytest.mark.parametrize("d", [1, 3, 10])
def test_potentials_and_sums_of_norms_stay_below_their_bounds(d, rows, lam):
    for K in (1, 60):
        norms, log_det = walk(np.random.default_rng(d), K, d, rows, lam)
        potential = np.minimum(norms**2, 1).sum()
        assert potential <= bounds.stretch(rows) * log_det + 1e-9
        assert potential <= bounds.potential_bound(K, d, lam, rows)
        assert 2 * 1.3 * norms.sum() <= bounds.linear_errors(K, d, 1.3, lam, rows)


def test_a_potential_with_late_updates_may_exceed_the_printed_bound():
    """All rows of an episode see the same matrix: the printed lemma, which learns after every row, does not hold."""
    rows = 40
    norms, log_det = walk(np.random.default_rng(0), 1, 1, rows, 1.0)
    potential = np.minimum(norms**2, 1).sum()
    assert potential > 2 * log_det
    assert potential == pytest.approx(bounds.stretch(rows) * log_det) == pytest.approx(40)  # ours is attained here


@pytest.mark.parametrize("rows", [1, 5])
def test_deviations_of_a_process_and_its_information_stay_below_their_bounds(rows):
    rng = np.random.default_rng(rows)
    points, K, lam = rng.uniform(0, 4, 12), 40, 1 + 2 / (40 * rows)
    G = np.exp(-((points[:, None] - points) ** 2) / 2)
    seen, total = [], 0.0
    for _ in range(K):
        new = rng.integers(12, size=rows)
        cov = G - G[:, seen] @ np.linalg.solve(G[np.ix_(seen, seen)] + lam * np.eye(len(seen)), G[seen])
        total += np.sqrt(cov.diagonal()[new]).sum()
        seen += list(new)
    gain = np.linalg.slogdet(np.eye(len(seen)) + G[np.ix_(seen, seen)] / lam)[1] / 2
    assert 2 * 1.7 * total <= bounds.gp_errors(K, 1.7, gain, lam, rows)
    assert gain <= bounds.gain_bound(K, np.linalg.eigvalsh(G), lam, rows)


def test_the_bound_on_information_is_worked_out_by_hand():
    """Six observations with lam = 2: from trace and rank 1/2 * 2 log(1 + 6 / (2 * 2)), which 3 visits each attain."""
    bound = lambda *eigenvalues, K=3, **more: bounds.gain_bound(K, np.array(eigenvalues), lam=2, rows=2, **more)
    visited_alike = np.linalg.slogdet(np.eye(2) + np.diag([3, 3]) / 2)[1] / 2
    assert bound(1.0, 1.0) == pytest.approx(math.log(2.5)) == pytest.approx(visited_alike)
    assert bound(1.0, 1.0, 1e-15) == pytest.approx(math.log(2.5))  # rounding is no rank
    assert bound(1.5, 0.01) == pytest.approx((math.log(5.5) + math.log(1.03)) / 2)  # from D <= n I, the smaller here
    assert bound(0.5, 0.5, largest=0.5) == pytest.approx(math.log(1.75))
    assert bound(1.0, 1.0, 1.0, K=0.5) == pytest.approx(math.log(1.5) / 2)  # one observation has rank 1


def test_the_first_informative_episode_is_the_smallest_by_trying_them_all():
    bound = lambda K: bounds.regret_bound(K, 3, 2, bounds.value_radius(0.1, 2, 3, K, 0.05), 0.05)
    first = next(K for K in range(1, 10**6) if bound(K) < 3 * K)
    assert bounds.first_informative_K(bound, 3) == first
    assert bounds.first_informative_K(lambda K: 0.5, 1) == 1
    assert bounds.first_informative_K(lambda K: 12.0, 3) == 5  # 12 = 4 * 3 says nothing yet
    assert bounds.first_informative_K(lambda K: K + 1.0, 1) is None


def test_the_bound_of_the_lemma_grows_like_d_and_not_like_its_root():
    radius = lambda d: math.sqrt(d) + math.sqrt(d * math.log((1 + 1e6) / 0.05))
    small, large = (bounds.linear_errors(1e6, d, radius(d)) / math.sqrt(math.log1p(1e6 / d)) for d in (4, 64))
    assert large / small == pytest.approx(16)
