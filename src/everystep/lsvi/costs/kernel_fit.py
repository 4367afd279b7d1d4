"""Fitting a kernel to the observed costs: its parameters and the noise, by marginal likelihood.

    log p(c) = -1/2 c^T (K + lam I)^-1 c - 1/2 log det(K + lam I) - n/2 log 2 pi

Observations at the same point enter through their number n_i, mean and squares only, which is exact and makes the time
independent of the number of episodes: with S = K + diag(lam / n_i) over the visited points and c_i their mean costs,

    -2 log p = c^T S^-1 c + log det S + sum_i [(n_i - 1) log lam + log n_i] + R / lam + n log 2 pi

where R is the sum of squares within points. Gradients come from JAX, steps from SciPy's L-BFGS-B, in logarithms. A fit
uses the data twice, so intervals made with it carry no probability; nor does k(y, y) <= 1 hold.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from everystep.kernels import Kernel, gram
from everystep.lsvi.costs.gp import GridState, Tally
from everystep.lsvi.regression import gp_posterior, linalg

LENGTHS, WEIGHTS, SHARES, NOISE = (1e-2, 1e3), (1e-6, 1e3), (1e-6, 1.0), (1e-6, 1e2)


class Fit(NamedTuple):
    """A fitted kernel and noise variance, and the log-likelihood of the observations under them."""

    kernel: Kernel
    lam: float
    log_likelihood: float


def log_likelihood(kernel: Kernel, lam: Any, named: Any, tally: Tally) -> Float[Array, ""]:
    """Of all observations of one cost model: over its constraints, and its steps if it has one estimator for each."""
    K = gram(kernel, named, named)

    def of_estimator(visits: Array, total: Array, squares: Array) -> Array:
        seen = visits > 0
        n = jnp.maximum(visits, 1)
        mean = total / n[None]  # (m, N), 0 at points not visited
        S = jnp.where(seen[:, None] & seen[None], K, 0) + jnp.diag(jnp.where(seen, lam / n, 1))
        L = jnp.linalg.cholesky(S)
        white = linalg.forward(L, mean.T)  # (N, m)
        within = squares - (visits[None] * mean**2).sum(1)
        repeats = jnp.where(seen, (visits - 1) * jnp.log(lam) + jnp.log(n), 0).sum()
        both = 2 * gp_posterior.half_log_det(L) + repeats + visits.sum() * jnp.log(2 * jnp.pi)
        return -0.5 * ((white**2).sum() + within.sum() / lam + len(total) * both)

    return jax.vmap(of_estimator)(*tally).sum()


def _surprise(logs: tuple[Kernel, Any], named: Any, tally: Tally) -> Float[Array, ""]:
    """-log p as a function of the logarithms of the kernel's parameters and of lam."""
    kernel, lam = jax.tree.map(jnp.exp, logs)
    return -log_likelihood(kernel, lam, named, tally)


_loss = jax.jit(jax.value_and_grad(_surprise))


def fit(kernel: Kernel, lam: float, named: Any, tally: Tally) -> Fit:
    """The kernel parameters and the noise variance that make the observations most likely, starting from these.

    Parameters that start at 0 (`alike` of a categorical kernel) stay at 0.
    """
    start, structure = jax.tree_util.tree_flatten_with_path((kernel, lam))
    moving = [i for i, (_, value) in enumerate(start) if value > 0]
    bounds = [_bounds(start[i][0]) for i in moving]
    leaves = [float(value) for _, value in start]

    def logs(numbers: np.ndarray) -> Any:
        filled = [np.log(max(value, 1e-300)) for value in leaves]
        for i, number in zip(moving, numbers, strict=True):
            filled[i] = number
        return jax.tree.unflatten(structure, filled)

    def loss(numbers: np.ndarray) -> tuple[float, np.ndarray]:
        value, slopes = _loss(logs(numbers), named, tally)
        slope = np.array(jax.tree.leaves(slopes))[moving]
        fine = np.isfinite(value) and np.isfinite(slope).all()
        return (float(value), slope) if fine else (1e25, np.zeros(len(moving)))

    first = [float(np.clip(np.log(leaves[i]), *bound)) for i, bound in zip(moving, bounds, strict=True)]
    from scipy.optimize import minimize  # imported late: a third of the import time of the engine, and few runs fit

    best = minimize(loss, first, jac=True, method="L-BFGS-B", bounds=bounds)
    fitted, noise = jax.tree.map(lambda number: float(np.exp(number)) if number > -600 else 0.0, logs(best.x))
    return Fit(fitted, noise, -float(best.fun))


def _bounds(path: Any) -> tuple[float, float]:
    """The range of a parameter, by its name; the last leaf, lam, has none."""
    name = getattr(path[-1], "name", None)
    low, high = {"length": LENGTHS, "weight": WEIGHTS, None: NOISE}.get(name, SHARES)
    return float(np.log(low)), float(np.log(high))


@jax.jit
def refitted(kernel: Kernel, lam: Any, named: Any, tally: Tally) -> GridState:
    """The state after the same observations under another kernel and noise."""
    K = gram(kernel, named, named)

    def of_estimator(visits: Array, total: Array) -> gp_posterior.Posterior:
        seen = visits > 0
        n = jnp.maximum(visits, 1)
        C = jnp.where(seen[:, None], K, 0)  # (N, N), rows of visited points
        L = jnp.linalg.cholesky(jnp.where(seen[None], C, 0) + jnp.diag(jnp.where(seen, lam / n, 1)))
        U, white = linalg.forward(L, C), linalg.forward(L, (total / n[None]).T)
        gain = gp_posterior.half_log_det(L) - 0.5 * jnp.where(seen, jnp.log(lam / n), 0).sum()
        return gp_posterior.Posterior(white.T @ U, K - U.T @ U, gain)

    return GridState(jax.vmap(of_estimator)(tally.visits, tally.total), jnp.asarray(lam), tally)
