"""How much harm an action leads to at least and at most: the intervals behind certificates ahead.

    Glow_h(x, a) = sum_i w_i [lower_i(x, a)]_+ + max{low(Phat_h Clow_{h+1}), min_y Clow_{h+1}(y)}
    Gup_h(x, a)  = sum_i w_i [upper_i(x, a)]_+ + min{up(Phat_h Cup_{h+1}),   max_y Cup_{h+1}(y)}
    Clow_h(x) = min_a Glow_h(x, a),     Cup_h(x) = min_a Gup_h(x, a),     Clow = Cup = 0 after the last step

    Glow_h <= G*_h <= Gup_h     at all (k, h, x, a) with probability 1 - 2 p         (proved in docs/look-ahead.md)

lower and upper are the ends of the cost intervals, Phat is the plain mean over what followed (x, a), without the ridge,
and y is any state that may be entered: no agent here knows which states can follow (x, a). With one-hot features
`low` and `up` are the ends of the Chernoff interval, all mu with n kl(u, mu) <= L around a mean u of n numbers in
[0, 1], here in units of the most harm that can follow; L = log(2 H S A n (n + 1) / p). The cost intervals spend one p
and the transitions the other. With other features the width of the regression is used, which carries no probability.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from everystep.lsvi import loop, rowwise
from everystep.lsvi.ahead import HarmToGo
from everystep.lsvi.algorithm import Agent, State
from everystep.lsvi.protocols import FiniteValueModel
from everystep.lsvi.radii import Scalar
from everystep.lsvi.values.counts import Counts
from everystep.mdp.world import Sizes, at_step

MOST_KEPT = 250_000  # (h, x, a): 4 MB for each seed
BISECTIONS = 32  # of [0, 1], rounded outwards: to 3e-10


class HarmBounds(NamedTuple):
    """Bounds on the harm that each action leads to, in the units that the agent learns in."""

    lower: Float[Array, "H A S"]
    upper: Float[Array, "H A S"]


def are_kept(agent: Agent, sizes: Sizes) -> bool:
    """Whether a run keeps these bounds at its end: of agents that estimate harm-to-go, unless they are too many."""
    return isinstance(agent.ahead, HarmToGo) and sizes.horizon * sizes.states * sizes.actions <= MOST_KEPT


def bounds(agent: Agent, state: State, entered: Bool[Array, " S"]) -> HarmBounds:
    """Glow and Gup before episode k, from everything that the agent has learnt; `entered`: states that may be."""
    ahead, values = agent.ahead, agent.values
    assert isinstance(ahead, HarmToGo)
    assert isinstance(values, FiniteValueModel)
    H = state.price.shape[1]
    fit = values.fit(state.values, state.k)
    norm2 = values.squared_norms(state.values, None)  # (T, A, S)
    now = HarmBounds(*(ahead.harm(end.swapaxes(0, 1)) for end in loop.bounds(agent, state)))  # (T, A, S)
    most_now = ahead.weights.sum()
    width = None if isinstance(values, Counts) else _width(agent, state, norm2)

    def backward(C: HarmBounds, h: Array) -> tuple[HarmBounds, HarmBounds]:
        most = most_now * (H - 1 - h).astype(norm2.dtype)  # that can follow
        means = HarmBounds(*(values.expect(fit, h, each) for each in C))
        if isinstance(values, Counts):
            after = _chernoff(means, at_step(norm2, h), values.lam, most, H / ahead.p)
        else:
            after = HarmBounds(means.lower - at_step(width, h), means.upper + at_step(width, h))
        least, worst = C.lower.min(where=entered, initial=jnp.inf), C.upper.max(where=entered, initial=0)
        after = HarmBounds(jnp.maximum(after.lower, least), jnp.minimum(after.upper, worst))
        G = HarmBounds(*(at_step(c, h) + rest.clip(0, most) for c, rest in zip(now, after, strict=True)))
        G = G._replace(upper=jnp.minimum(G.upper, most_now + most))
        return HarmBounds(*map(rowwise.lowest, G)), G

    nothing = HarmBounds(*(jnp.zeros(norm2.shape[-1]),) * 2)
    return lax.scan(backward, nothing, jnp.arange(H, dtype=jnp.int32), reverse=True)[1]


def _width(agent: Agent, state: State, norm2: Float[Array, "T A S"]) -> Float[Array, "T A S"]:
    """The width of the regression of C where features are not one-hot.

    An agent that does not lower its harm-to-go (beta_harm = 0) has no such width; that of Q takes its place.
    """
    ahead, values = agent.ahead, agent.values
    assert isinstance(ahead, HarmToGo)
    assert isinstance(values, FiniteValueModel)
    if ahead.radius is not None:
        return ahead.radius.width(norm2, state.k)
    return ahead.weights.sum() * values.radius.width(norm2, state.k)


def _chernoff(
    means: HarmBounds, norm2: Float[Array, "A S"], lam: Scalar, most: Float[Array, ""], functions_over_p: Scalar
) -> HarmBounds:
    """The interval of the mean of a function in [0, most], from ridge means of a lower and of an upper bound on it."""
    n = jnp.round(jnp.maximum(1 / norm2 - lam, 0))
    log_union = jnp.log(2 * functions_over_p * norm2.size * jnp.maximum(n * (n + 1), 1))
    level = log_union / jnp.maximum(n, 1)
    unit = jnp.where(most > 0, most, 1)  # nothing can follow the last step
    plain = lambda mean: (mean / (jnp.maximum(n, 1) * norm2 * unit)).clip(0, 1)
    both = jnp.stack([plain(means.lower), 1 - plain(means.upper)])  # one program for both: it compiles in half the time
    low, from_top = chernoff_low(both, jnp.broadcast_to(level, both.shape))
    return HarmBounds(jnp.where(n > 0, most * low, 0), jnp.where(n > 0, most * (1 - from_top), most))


def kl(u: Array, mu: Array) -> Array:
    """u log(u / mu) + (1 - u) log((1 - u) / (1 - mu)), the divergence of two coins; infinite where mu excludes u."""
    term = lambda u, mu: jnp.where(u > 0, u * jnp.log(jnp.where(u > 0, u, 1) / mu), 0)
    return term(u, mu) + term(1 - u, 1 - mu)


def chernoff_low(u: Array, level: Array) -> Array:
    """The smallest mu with kl(u, mu) <= level, from below: of numbers in [0, 1] whose average over n is u.

    The largest one is 1 - chernoff_low(1 - u, level).
    """

    def halved(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        middle = (ends[0] + ends[1]) / 2
        outside = kl(u, middle) > level
        return jnp.where(outside, middle, ends[0]), jnp.where(outside, ends[1], middle)

    return lax.fori_loop(0, BISECTIONS, halved, (jnp.zeros_like(u), u))[0]
