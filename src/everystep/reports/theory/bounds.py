"""The paper's theorems as functions of numbers: as printed, and repaired where the proof has an error.

    Theorem 1       regret <= H sqrt(H K iota) + beta H sqrt(2 d K iota),  iota = log(2 d H K / p),
                    beta = c d H sqrt(iota)
                    violation <= sum_{k,h} e_h^k + 2 H^2 log K
    Condition 1     0 <= g_h(x,a) - ghat_h^k(x,a) <= e_h^k(x,a) = 2 * (radius of the cost estimate at (x,a))    (eq. 15)
    Lemma linear    sum_{k,h} e_h^k <= H beta~_K sqrt(8 d K log(1 + K / d)),  beta~_K of order sqrt(d)
    Lemma GP        sum_{k,h} e_h^k <= H 2 beta_K sqrt(4 (K + 2) gamma_K),  beta_K of order sqrt(gamma_K)
    Theorem 2       lower bounds on both, for one family of problems and agents that do not observe its costs

All with probability 1 - 2p, for step-indexed estimators, lam = 1, rewards in [0, 1] and an unspecified constant c.
Symbols keep their letters: K episodes, H steps, d features. `rows` is the number of observations that an episode adds
to one estimator: 1 as in the paper, H for an estimator shared over steps; the lemmas for rows > 1 are ours (see
`stretch`).

Arguments and results are plain numbers; no JAX arrays, no agents.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from everystep.lsvi import radii

FAR = 10**18  # a bound that is still above K H at this K counts as never informative


def iota(d: float, H: float, K: float, p: float) -> float:
    """iota = log(2 d H K / p)."""
    return float(radii.iota(d, H, K, p, log=math.log))


def value_radius(c: float, d: float, H: float, K: float, p: float) -> float:
    """beta = c d H sqrt(iota): the radius of Theorem 1, as in `radii.PaperValue` (a test compares them)."""
    return c * d * H * math.sqrt(iota(d, H, K, p))


# --- Theorem 1 --------------------------------------------------------------------------------------------------------
def regret_bound(K: float, H: float, d: float, beta: float, p: float, repaired: bool = False) -> float:
    """H sqrt(H K iota) + beta H sqrt(2 d K iota), with the beta that a run used.

    The first term bounds a martingale, the second sums the bonuses. Repaired, the second is twice as large: the proof
    bounds Q^k - Q^pi by P(V^k - V^pi) + beta ||phi||, but Q^k holds a bonus beta ||phi|| on top of an estimate that may
    itself be beta ||phi|| too high (Lemma error-bound), which makes 2 beta ||phi|| as in Jin et al. (2020).
    The first term also needs d H K >= 2 / p, because 2 log(2 / p) was replaced by iota.
    """
    i = iota(d, H, K, p)
    return H * math.sqrt(H * K * i) + (2 if repaired else 1) * beta * H * math.sqrt(2 * d * K * i)


def price_term(K: float, H: float, repaired: bool = False) -> float:
    """2 H^2 log K, the violation that the price permits in addition to the errors; repaired, 2 H^2 (2 + log K).

    By the choice Z ghat_+(x, a^k) <= Q^k(x, a^k) - Q^k(x, a*), at most 2H in the paper (H is enough), so step h of
    episode k permits 2H / Z_h^k. The paper assumes Z_h^k >= k. But the floor eta_k = k is set after episode k, so
    Z^1 = 1 and Z^k >= k - 1 from k = 2 on, and

        sum_k 1 / Z^k <= 1 + sum_{j=1}^{K-1} 1 / j <= 1 + (1 + log K) = 2 + log K,

    since sum_{j<=n} 1/j <= 1 + log n (not log n, which is below it). The H steps together give 2 H^2 (2 + log K).
    """
    return 2 * H**2 * (2 * repaired + math.log(K))


def violation_bound(K: float, H: float, errors: float, repaired: bool = False) -> float:
    """sum_{k,h} e_h^k + 2 H^2 log K, or its repair; `errors` is the measured sum, or a lemma's bound on it."""
    return errors + price_term(K, H, repaired)


# --- the lemmas on sum e ----------------------------------------------------------------------------------------------
def stretch(most: float) -> float:
    """A c with y <= c log(1 + y) for all 0 <= y <= most: 2 as printed where most <= 1, else most / log(1 + most).

    y / log(1 + y) grows with y. An estimator updated once per episode has `rows` observations with the same
    Lambda; det(I + M) >= 1 + trace(M) then gives log det(Lambda^{k+1} / Lambda^k) >= log(1 + sum of squared norms), so
    that a sum of `rows` squared norms, each counted as at most 1, is at most stretch(rows) times that growth.
    """
    return 2.0 if most <= 1 else most / math.log1p(most)


def potential_bound(K: float, d: float, lam: float = 1.0, rows: float = 1) -> float:
    """The elliptical potential of one estimator: sum min(1, ||phi||^2_{Lambda^-1}) <= 2 d log(1 + K / (d lam)).

    As printed for rows = 1 and lam = 1; otherwise stretch(rows) d log(1 + rows K / (d lam)).
    """
    return stretch(rows) * d * math.log1p(rows * K / (d * lam))


def linear_errors(K: float, d: float, radius: float, lam: float = 1.0, rows: float = 1) -> float:
    """Lemma err-linear for one of the H estimators: sum_k e^k <= beta~_K sqrt(8 d K log(1 + K / d)).

    e = 2 radius ||phi||, the radius at K is the largest, and Cauchy-Schwarz turns the sum of norms into
    sqrt(rows K * potential). With lam < 1 norms above 1 are possible, and all are multiplied by lam^{-1/2}.

    A radius sqrt(lam d) + sqrt(d log(.)) grows like sqrt(d), the rest like sqrt(d K): d sqrt(K) together. The paper
    states this lemma, and in its abstract the bound on violation, as sqrt(d K).
    """
    return float(2 * radius * max(1.0, lam**-0.5) * math.sqrt(rows * K * potential_bound(K, d, lam, rows)))


def gp_errors(K: float, radius: float, gain: float, lam: float, rows: float = 1, largest: float = 1.0) -> float:
    """Lemma err-ga for one of the H estimators: sum_k e^k <= 2 beta_K sqrt(4 (K + 2) gamma_K), lam = 1 + 2 / K.

    The squared deviations over lam sum up to at most stretch(.) * 2 gamma, gamma = 1/2 log det(I + KER / lam) as
    realised, `largest` the largest k(y, y).
    """
    return 2 * radius * math.sqrt(rows * K * lam * stretch(rows * largest / lam) * 2 * gain)


def gain_bound(K: float, eigenvalues: np.ndarray, lam: float, rows: float = 1, largest: float = 1.0) -> float:
    """The largest information gain of n = rows K observations, given the eigenvalues of the kernel at all points.

    gamma = 1/2 log det(I + G^{1/2} D G^{1/2} / lam) with visits D on the diagonal, trace(D) = n. From D <= n I follows
    1/2 sum_i log(1 + n mu_i / lam), and from trace and rank r 1/2 r log(1 + n largest / (r lam)); the smaller of both.
    """
    n, mu = rows * K, eigenvalues[eigenvalues > 1e-12 * eigenvalues.max()]
    rank = min(len(mu), n)
    return float(min(np.log1p(n * mu / lam).sum(), rank * math.log1p(n * largest / (rank * lam)))) / 2


# --- Theorem 2 --------------------------------------------------------------------------------------------------------
def regret_lower_bound(K: float, H: float, d: float) -> float:
    """(H^2 / 20) d sqrt(K delta) / (8 sqrt 2), delta = 1 / H: the lower bound of Theorem 2 for any algorithm.

    For d >= 4, H >= 3, K >= (d - 1)^2 H / 2, in expectation, for some u of the hard instance. On that instance it holds
    for algorithms that do not observe costs (docs/paper.md, which also has instances where it holds for all).
    Its actions have d - 1 coordinates, so the bandit lemma gives d - 1 instead of d.
    """
    return H**2 / 20 * d * math.sqrt(K / H) / (8 * math.sqrt(2))


def violation_lower_bound(K: float, H: float, repaired: bool = False) -> float:
    """(H / 2) (1 - 4 / (3 H)) sqrt(K delta) / (8 sqrt 2), delta = 1 / H: the second part of Theorem 2.

    Its lemma takes 1 - P(N_{h-1}) for the chance to be at x_h, which forgets that the episode may have left the chain
    at an earlier step than h - 1. The chance is a product of h - 1 factors of at least 1 - 4 / (3 H). Repaired, H / 2
    times one factor becomes the sum of these products over the first H / 2 steps:

        sum_{h=1}^{H/2} (1 - 4 / (3 H))^(h-1),     at least (1 - e^(-2/3)) (3 / 4) H = 0.36 H for even H
    """
    stay = 1 - 4 / (3 * H)
    reached = sum(stay ** (h - 1) for h in range(1, int(H // 2) + 1)) if repaired else H / 2 * stay
    return reached * math.sqrt(K / H) / (8 * math.sqrt(2))


# --- when a bound is informative -------------------------------------------------------------------------------------
def first_informative_K(bound: Callable[[float], float], H: float) -> int | None:
    """The smallest K with bound(K) < K H, by doubling and bisection; None if it is beyond 10^18.

    Regret with rewards in [0, 1] and violation with costs up to 1 never exceed K H, so a larger bound carries no
    information. Correct for bounds whose share of K H decreases with K.
    """
    informative = lambda K: bound(K) < K * H
    high = 1
    while not informative(high):
        high *= 2
        if high > FAR:
            return None
    low = high // 2  # not informative, or 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if informative(middle) else (middle, high)
    return high
