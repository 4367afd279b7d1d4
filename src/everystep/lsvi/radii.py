"""How far an estimate may be from the truth: the width of a confidence interval at (x, a).

Every radius turns the squared norm ||phi||^2_{Lambda^-1} of a feature (1 / (n + lam) when features are one-hot and
(x, a) was visited n times) into a width. Three families:

    tuned        beta ||phi||                          a number chosen by a sweep; carries no probability
    paper        the printed formulas                  `beta` is the constant in front of them
                 (of a Gaussian process, its posterior variance stands for the squared norm)
    coordinate   one interval for each (x, a)          valid for one-hot features only; `beta` = 1 is the valid width

Every quantity is an array leaf, so changing a number compiles nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

Scalar = Float[Array, ""] | float | int  # a number until the agent is built, an array leaf from then on
Norms = Float[Array, "..."]


def iota(d: Scalar, horizon: Scalar, episodes: Scalar, p: Scalar, log: Callable[[Scalar], Scalar] = jnp.log) -> Scalar:
    """iota = log(2 d H K / p) of Theorem 1; `log` is that of plain numbers or of arrays."""
    return log(2 * d * horizon * episodes / p)


def with_bonus(width: Norms, bonus: Norms | None) -> Norms:
    """A width of Q plus what the choice adds to it (`protocols.Choice.value_bonus`), if anything."""
    return width if bonus is None else width + bonus


class Tuned(NamedTuple):
    """beta ||phi||_{Lambda^-1}, for values and costs alike; beta sigma(y) with the variance of a Gaussian process."""

    beta: Scalar

    def width(self, norm2: Norms, k: Int[Array, ""], gain: Norms | None = None) -> Norms:
        return self.beta * jnp.sqrt(norm2)


class PaperValue(NamedTuple):
    """beta = c d H sqrt(iota), iota = log(2 d H K / p): the radius of Theorem 1.

    Symbols: c is `beta`, K is `episodes`. Departures from the paper: none; it does not specify c. Where K is unknown
    (None), k^2 (k + 1) replaces it: episode k spends p / (k (k + 1)) of the probability, which sums to p.
    """

    beta: Scalar
    d: Scalar
    horizon: Scalar
    episodes: Scalar | None
    p: Scalar

    def width(self, norm2: Norms, k: Int[Array, ""]) -> Norms:
        now = k.astype(norm2.dtype)
        episodes = now**2 * (now + 1) if self.episodes is None else self.episodes
        root = jnp.sqrt(iota(self.d, self.horizon, episodes, self.p))
        return self.beta * self.d * self.horizon * root * jnp.sqrt(norm2)


class PaperCost(NamedTuple):
    """beta~_h^k(p / H) = sqrt(lam d) + sqrt(d log((1 + k / lam) H / p)): the linear cost radius.

    Symbols: `observations` is the number that each episode adds to one estimator, `estimators` their number.
    Departures from the paper: with m constraints p is split over them; a single estimator shared over steps has seen
    k H observations and replaces H estimators, so k becomes k H and p / H becomes p. `beta` multiplies the whole.
    """

    beta: Scalar
    d: Scalar
    lam: Scalar
    observations: Scalar
    estimators: Scalar
    p: Scalar

    def width(self, norm2: Norms, k: Int[Array, ""]) -> Norms:
        seen = k.astype(norm2.dtype) * self.observations
        radius = jnp.sqrt(self.lam * self.d) + jnp.sqrt(
            self.d * jnp.log((1 + seen / self.lam) * self.estimators / self.p)
        )
        return self.beta * radius * jnp.sqrt(norm2)


class KnownSafeCost(NamedTuple):
    """beta = sigma sqrt(d log((2 + 2 T / lam) / delta)) + sqrt(lam) B: the cost part of SLUCB-QVI's radius.

    Symbols: T, all observations of one estimator, is `observations`; B >= ||gamma|| is `bound`, printed as sqrt(d);
    delta is the share of p of one estimator. `beta` multiplies the whole. Departures from the paper, as reconstructed:
    it takes the larger of this and the radius of the values, with which safe sets do not grow at any feasible K.
    """

    beta: Scalar
    d: Scalar
    lam: Scalar
    bound: Scalar
    sigma: Scalar
    observations: Scalar
    delta: Scalar

    def width(self, norm2: Norms, k: Int[Array, ""]) -> Norms:
        log = jnp.log((2 + 2 * self.observations / self.lam) / self.delta)
        radius = self.sigma * jnp.sqrt(self.d * log) + jnp.sqrt(self.lam) * self.bound
        return self.beta * radius * jnp.sqrt(norm2)


class Multiplied(NamedTuple):
    """A radius times a factor per state: kappa_h(x) of SLUCB-QVI, which compensates for a small safe set."""

    radius: Tuned | PaperValue | CoordinateValue
    factor: Float[Array, "T 1 S"]

    def width(self, norm2: Norms, k: Int[Array, ""]) -> Norms:
        return self.factor * self.radius.width(norm2, k)


class CoordinateCost(NamedTuple):
    """(lam B + sigma sqrt(2 n L)) / (n + lam), L = log(2 m S A H K / p): one interval for each (x, a).

    |g| <= B shrinks by at most lam B / (n + lam); the mean of n observations with sigma-sub-Gaussian noise deviates by
    more than sigma sqrt(2 L / n) with probability 2 exp(-L), and a union over all (i, h, x, a) and all counts n that
    K episodes allow makes it hold at all times. Without noise (sigma = 0) a cost of +1 is labelled unsafe after
    one visit iff lam < 1. Symbols: B is `bound`, L is `log_union`.
    """

    beta: Scalar
    lam: Scalar
    bound: Scalar
    sigma: Scalar
    log_union: Scalar

    def width(self, norm2: Norms, k: Int[Array, ""]) -> Norms:
        n = jnp.maximum(1 / norm2 - self.lam, 0)
        return self.beta * (self.lam * self.bound + self.sigma * jnp.sqrt(2 * n * self.log_union)) * norm2


class CoordinateValue(NamedTuple):
    """(lam cap + cap sqrt((n / 2) L)) / (n + lam), L = log(S A H K / p): Hoeffding for values in [0, cap].

    One-sided, because only optimism needs it. Valid where rewards are not negative and targets stay below the cap,
    so not with normal noise on rewards. Symbols: L is `log_union`.
    """

    beta: Scalar
    lam: Scalar
    cap: Scalar
    log_union: Scalar

    def width(self, norm2: Norms, k: Int[Array, ""]) -> Norms:
        n = jnp.maximum(1 / norm2 - self.lam, 0)
        return self.beta * self.cap * (self.lam + jnp.sqrt(n / 2 * self.log_union)) * norm2


class PaperGP(NamedTuple):
    """beta_h^k(p / H) = B + sigma sqrt(2 (gamma + 1 + ln(2 m H / p))), times sigma_h^k(y): the radius of IGP-UCB.

    Symbols: B >= ||g||_k is `bound`, sigma the noise level, ln(2 m H / p) is `log_union` (no H when shared), gamma
    is `gain`, the variance at (x, a) is `variance`. It holds with lam = 1 + 2 / T, T all observations of the estimator.
    Departures from the paper: it prints B = sigma = 1, and m = 1; gamma is the realised gain, which is what the proof
    needs, not its maximum over all sets. `beta` multiplies the whole.
    """

    beta: Scalar
    bound: Scalar
    sigma: Scalar
    log_union: Scalar

    def width(self, variance: Norms, k: Int[Array, ""], gain: Norms) -> Norms:
        return self.beta * (self.bound + self.sigma * jnp.sqrt(2 * (gain + 1 + self.log_union))) * jnp.sqrt(variance)


def factor_of_norm(radius: AnyRadius, k: Int[Array, ""], like: Norms, *gain: Norms) -> Norms:
    """The factor by which a radius multiplies norms in episode k, in the shape of `like`.

    NaN for radii whose widths are not proportional to norms. `gain` is passed on to radii of Gaussian processes.
    """
    if isinstance(radius, CoordinateCost | CoordinateValue | Multiplied):
        return jnp.full_like(like, jnp.nan)
    return jnp.broadcast_to(radius.width(jnp.ones_like(like), k, *gain), like.shape)


def with_episodes(radius: Radius, episodes: float) -> Radius:
    """The radius that a run of `episodes` episodes would use: the printed radius of values depends on their number."""
    return radius._replace(episodes=episodes) if isinstance(radius, PaperValue) else radius


Radius = Tuned | PaperValue | PaperCost | KnownSafeCost | CoordinateCost | CoordinateValue | Multiplied
GPRadius = Tuned | PaperGP
AnyRadius = Radius | GPRadius
