"""Gaussian-process posteriors, the linear algebra: on finitely many points, and on a set that grows.

    mean(y) = k_y^T (K + lam I)^-1 c        var(y) = k(y, y) - k_y^T (K + lam I)^-1 k_y
    gain    = 1/2 log det(I + K / lam) = 1/2 sum_i log(1 + var_{i-1}(y_i) / lam)      the realised information gain

Both are exact and take n observations at a time. On N given points the posterior itself is stored: conditioning on n of
them takes O(n N^2) and no array grows. On a growing set the Cholesky factor of K + lam I is stored in blocks of fixed
capacity and gains n rows at a time, together with what the predictions at N watched points need.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from everystep.kernels import Kernel, Point, diagonal, gram
from everystep.lsvi.regression import linalg


class Posterior(NamedTuple):
    """The posterior of m functions with one kernel at N points."""

    mean: Float[Array, "m N"]
    cov: Float[Array, "N N"]
    gain: Float[Array, ""]


def prior(K: Float[Array, "N N"], m: int) -> Posterior:
    """The posterior before any observation."""
    return Posterior(jnp.zeros((m, len(K))), K, jnp.zeros(()))


def condition(
    before: Posterior, i: Int[Array, " n"], c: Float[Array, "n m"], lam: Float[Array, ""] | float
) -> Posterior:
    """The posterior after observing c at points i, with noise variance lam; points may repeat.

    mean + (L^-1 (c - mean[i]))^T U,  cov - U^T U, with L and U of `seen_at`.
    """
    L, U, gain = seen_at(before.cov, i, lam)
    surprise = linalg.forward(L, c - before.mean[:, i].T)
    return Posterior(before.mean + surprise.T @ U, before.cov - U.T @ U, before.gain + gain)


def seen_at(
    cov: Float[Array, "N N"], i: Int[Array, " n"], lam: Float[Array, ""] | float
) -> tuple[Float[Array, "n n"], Float[Array, "n N"], Float[Array, ""]]:
    """The effect of observing points i on a covariance, whatever the observations: L, U = L^-1 cov[i, :] and the gain.

    L L^T = cov[i, i] + lam I;  the covariance becomes cov - U^T U.
    """
    C = cov[i]
    L = jnp.linalg.cholesky(C[:, i] + lam * jnp.eye(len(i)))
    return L, linalg.forward(L, C), half_log_det(L) - len(i) / 2 * jnp.log(lam)


def half_log_det(L: Float[Array, "n n"]) -> Float[Array, ""]:
    """1/2 log det(L L^T)."""
    return jnp.log(jnp.diagonal(L)).sum()


class Block(NamedTuple):
    """Rows of the Cholesky factor L of K + lam I, with the same rows of z and W; the first `used` of b are in use.

    Columns of earlier blocks are `before`, those of this block `own` (lower triangular; the identity where unused).
    z = L^-1 c and W = L^-1 K(points, watched), in these rows.
    """

    points: Point  # (b, d), or named ones
    before: Float[Array, "b s"]
    own: Float[Array, "b b"]
    z: Float[Array, "b m"]
    W: Float[Array, "b N"]
    used: Int[Array, ""]


class Growing(NamedTuple):
    """The posterior from points that arrive episode by episode. Each block is as large as all earlier blocks together.

    So capacity doubles without copying, and half of the factor, the zeros above its diagonal blocks, is neither stored
    nor read.
    """

    blocks: tuple[Block, ...]
    mean: Float[Array, "m N"]
    var: Float[Array, " N"]
    gain: Float[Array, ""]


def nothing_yet(kernel: Kernel, watched: Point, m: int, capacity: int = 256) -> Growing:
    """An empty set with room for `capacity` points."""
    N = len(jax.tree.leaves(watched)[0])
    return Growing((_empty(watched, m, N, 0, capacity),), jnp.zeros((m, N)), diagonal(kernel, watched), jnp.zeros(()))


def _empty(like: Point, m: int, N: int, start: int, size: int) -> Block:
    return Block(
        jax.tree.map(lambda leaf: jnp.zeros((size, *leaf.shape[1:])), like),
        jnp.zeros((size, start)),
        jnp.eye(size),
        jnp.zeros((size, m)),
        jnp.zeros((size, N)),
        jnp.zeros((), jnp.int32),
    )


def room(known: Growing) -> int:
    """The number of points that still fit. Not for compiled code."""
    last = known.blocks[-1]
    return last.own.shape[-1] - int(np.max(last.used))


def with_room(known: Growing, n: int) -> Growing:
    """The same posterior with room for n more points: if they do not fit, capacity doubles. Not for compiled code.

    Many states may be stacked along leading axes if all of them hold the same number of points.
    """
    if room(known) >= n:
        return known
    lead, (m, N) = known.gain.shape, known.mean.shape[-2:]
    used = sum(block.own.shape[-1] for block in known.blocks)
    size = used
    while size < n:
        size *= 2
    like = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape[len(lead) :]), known.blocks[-1].points)
    more = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (*lead, *leaf.shape)), _empty(like, m, N, used, size))
    return known._replace(blocks=(*known.blocks, more))


def as_if_given(known: Growing, n: int) -> Growing:
    """A state of the shape it has after n more points, without their numbers. Not for compiled code."""
    last = known.blocks[-1]
    return known._replace(blocks=(*known.blocks[:-1], last._replace(used=last.used + n)))


def whiten(kernel: Kernel, blocks: tuple[Block, ...], new: Point) -> list[Float[Array, "b n"]]:
    """B = L^-1 K(points, new), block by block: forward substitution."""
    B: list[Any] = []
    for block in blocks:
        live = (jnp.arange(len(block.own), dtype=jnp.int32) < block.used)[:, None]
        k = jnp.where(live, gram(kernel, block.points, new), 0.0)
        B.append(linalg.forward(block.own, k - block.before @ jnp.concatenate(B) if B else k))
    return B


class Rows(NamedTuple):
    """The rows that n new points add: [B^T, M] of L, with their z and W."""

    points: Point
    B: list[Float[Array, "b n"]]
    M: Float[Array, "n n"]
    z: Float[Array, "n m"]
    W: Float[Array, "n N"]
    gain: Float[Array, ""]


def rows(
    kernel: Kernel, lam: Float[Array, ""] | float, known: Growing, watched: Point, new: Point, c: Float[Array, "n m"]
) -> Rows:
    """The rows of n new points with costs c, O(n C^2):  M M^T = K(new, new) + lam I - B^T B.

    z and W are the residuals after the old rows are projected out: M^-1 (c - B^T z) and M^-1 (K(new, watched) - B^T W).
    """
    B = whiten(kernel, known.blocks, new)
    project = lambda old: sum(b.T @ rows for b, rows in zip(B, old, strict=True))
    M = jnp.linalg.cholesky(gram(kernel, new, new) + lam * jnp.eye(len(c)) - project(B))
    z = linalg.forward(M, c - project([block.z for block in known.blocks]))
    W = linalg.forward(M, gram(kernel, new, watched) - project([block.W for block in known.blocks]))
    return Rows(new, B, M, z, W, half_log_det(M) - len(c) / 2 * jnp.log(lam))


def put(known: Growing, more: Rows) -> Growing:
    """Write rows into the last block, which must have room for them: see `with_room`.

    Separate from `rows`, so that a caller can compile it alone and donate `known`: then it writes in place, while both
    together copy the block (three times slower with 4,096 points).
    """
    last = known.blocks[-1]
    at = lambda old, new: lax.dynamic_update_slice_in_dim(old, new, last.used, 0)
    fuller = Block(
        jax.tree.map(at, last.points, more.points),
        at(last.before, jnp.concatenate(more.B[:-1]).T) if len(more.B) > 1 else last.before,
        at(last.own, lax.dynamic_update_slice_in_dim(more.B[-1].T, more.M, last.used, 1)),
        at(last.z, more.z),
        at(last.W, more.W),
        last.used + len(more.z),
    )
    return Growing(
        (*known.blocks[:-1], fuller),
        known.mean + more.z.T @ more.W,
        known.var - (more.W**2).sum(0),
        known.gain + more.gain,
    )
