"""All linear algebra: a regularised Gram matrix, stored as its inverse and updated by one batch of features at a time.

    Lambda = lam I + sum_tau phi_tau phi_tau^T,      ||phi||^2_{Lambda^-1} = phi^T Lambda^-1 phi

With the rows of X (n, d) added, Woodbury gives Lambda^-1 <- Lambda^-1 - U^T U with U = L^-1 X Lambda^-1 and
L L^T = I + X Lambda^-1 X^T, so squared norms fall by |U phi|^2: O(n d) for each watched feature instead of O(d^2); and
det(Lambda) grows by det(L)^2.

Estimators are stacked along a leading axis T: 1 when one is shared over all steps, H when each step has its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from everystep.lsvi.protocols import Pytree


class Watched(NamedTuple):
    """Squared norms of all phi(x, a) are kept up to date, O(A S d) for each row added: for plans in every episode."""


class OnDemand(NamedTuple):
    """Squared norms are computed when needed, O(A S d^2), and adding a row takes O(d^2): for plans that are rare."""


WATCHED = Watched()


class Gram(NamedTuple):
    """The inverse of one regularised Gram matrix; the squared norms of the features if they are watched; log det."""

    inverse: Float[Array, "d d"]
    norm2: Float[Array, "A S"] | None
    log_det: Float[Array, ""]  # of Lambda / lam


def fresh(phi: Float[Array, "A S d"], lam: Float[Array, ""] | float, norms: Watched | OnDemand = WATCHED) -> Gram:
    """Lambda = lam I."""
    norm2 = (phi**2).sum(-1) / lam if isinstance(norms, Watched) else None
    return Gram(jnp.eye(phi.shape[-1], dtype=phi.dtype) / lam, norm2, jnp.zeros((), phi.dtype))


def unwatched(d: int, lam: Float[Array, ""] | float) -> Gram:
    """Lambda = lam I without watched features: norms are `quadratic` forms in its inverse."""
    return Gram(jnp.eye(d) / lam, None, jnp.zeros(()))


def with_rows(
    inverse: Float[Array, "d d"], X: Float[Array, "n d"]
) -> tuple[Float[Array, "d d"], Float[Array, "n d"], Float[Array, ""]]:
    """The inverse of Lambda + X^T X, with U and the logarithm of the factor by which det(Lambda) grows."""
    XL = X @ inverse
    L = jnp.linalg.cholesky(jnp.eye(len(X), dtype=X.dtype) + XL @ X.T)
    U = forward(L, XL)
    return inverse - U.T @ U, U, 2 * jnp.log(jnp.diagonal(L)).sum()


def add(gram: Gram, phi: Float[Array, "A S d"] | None, X: Float[Array, "n d"]) -> Gram:
    """Lambda <- Lambda + X^T X."""
    inverse, U, grown = with_rows(gram.inverse, X)
    norm2 = None if gram.norm2 is None or phi is None else jnp.maximum(gram.norm2 - ((phi @ U.T) ** 2).sum(-1), 0)
    return Gram(inverse, norm2, gram.log_det + grown)


def squared_norms(gram: Gram, phi: Float[Array, "A S d"]) -> Float[Array, "A S"]:
    """||phi(x, a)||^2 in Lambda^-1: the watched norms, or computed."""
    return gram.norm2 if gram.norm2 is not None else jnp.maximum(((phi @ gram.inverse) * phi).sum(-1), 0)


def quadratic(inverse: Float[Array, "d d"], phi: Float[Array, "A d N"]) -> Float[Array, "A N"]:
    """phi^T Lambda^-1 phi of features with states last."""
    return jnp.maximum((phi * jnp.tensordot(inverse, phi, ((1,), (1,))).swapaxes(0, 1)).sum(1), 0)


def forward(L: Float[Array, "n n"], B: Float[Array, "n k"]) -> Float[Array, "n k"]:
    """L^-1 B for a lower triangular L.

    Written as B^T (L^T)^-1, because LAPACK expects columns and a row-major L is a column-major L^T: otherwise XLA
    copies L first, which takes six times as long as the solve (n = 4096, k = 16).
    """
    return jax.lax.linalg.triangular_solve(L.T, B.T, left_side=False, lower=False).T


# --- one estimator for each step --------------------------------------------------------------------------------------
def for_each(function: Callable[..., Pytree], *stacked: Pytree) -> Pytree:
    """`function` of every estimator, one after another.

    Not side by side: two programs that factor batches of matrices at the same time deadlock in XLA's thread pool on a
    CPU (jaxlib 0.10), and an engine runs as many programs as there are cores.
    """
    return jax.lax.map(lambda row: function(*row), stacked)


def repeat(tree: Pytree, steps: int) -> Pytree:
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (steps, *leaf.shape)), tree)


def by_estimator(steps: int, array: Array) -> Array:
    """The rows of an episode by estimator: (H, ...) to (T, H / T, ...)."""
    return array.reshape(steps, -1, *array.shape[1:])
