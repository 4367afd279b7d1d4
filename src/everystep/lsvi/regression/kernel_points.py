"""The points at which a kernel sees a problem: the distinct ones among all (x, a), and the norm of costs on them."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import jax
import numpy as np

from everystep import kernels
from everystep.errors import EverystepError
from everystep.kernels import Kernel
from everystep.mdp.cmdp import FiniteCMDP
from everystep.runtime import memory

ROUNDING = 1e-13  # eigenvalues of a Gram matrix below this fraction of the largest are rounding


class Points(NamedTuple):
    """N distinct points: named (N, d), `which` (A, S) is the point of each (x, a), and the kernel of all pairs (N, N).

    N is below the number of (x, a) where several look alike: a kernel on landing cells sees 100 points on a lake with
    400 state-action pairs.
    """

    named: dict[str, np.ndarray]
    which: np.ndarray
    gram: np.ndarray

    @classmethod
    def of(cls, problem: FiniteCMDP, kernel: Kernel) -> Points:
        try:
            return _cached(problem, kernel)
        except TypeError:  # a kernel whose parameters cannot be hashed
            return _points(problem, kernel)

    def norm(self, g: np.ndarray) -> float:
        """The largest norm of the costs g (..., S, A) in the space of the kernel; inf where they are not in it.

        ||g||^2 = g^T K^+ g over the points; a lower bound of the norm of any function that agrees with g there.
        """
        eigenvalues, Q = np.linalg.eigh(self.gram)
        floor = ROUNDING * max(eigenvalues[-1], 1e-300)
        largest = 0.0
        for cost in g.reshape(-1, *g.shape[-2:]):
            values = np.zeros(len(self.gram))
            values[self.which] = cost.T
            if np.abs(values[self.which] - cost.T).max() > 1e-9:
                return math.inf  # two actions look the same and cost differently
            along = Q.T @ values
            outside = eigenvalues < floor
            if np.abs(Q[:, outside] @ along[outside]).max(initial=0) > 1e-6:
                return math.inf
            largest = max(largest, float(np.sqrt((along**2 / np.maximum(eigenvalues, floor)).sum())))
        return largest


def check_kernel(problem: FiniteCMDP, where: str, kernel: Kernel) -> None:
    """Refuse a kernel that does not apply to this problem, or that is not positive semi-definite on its points."""
    for word in sorted(kernels.looks_at(kernel) - {*problem.points, kernels.ALL}, key=str):
        fault = "has no on=" if word is None else f"is on '{word}', which the problem does not have"
        raise EverystepError(f"{where}: a kernel {fault}; choose on= from {', '.join(problem.points)}.")
    for part in kernels.parts_of(kernel):
        if isinstance(part, kernels.Difference):
            if part.on is not None and problem.points[part.on].shape[-1] % 2:
                raise EverystepError(f"{where}: difference is on '{part.on}', which has no two halves; use on=move.")
            if kernels.looks_at(part.field) - {None, kernels.ALL}:
                raise EverystepError(f"{where}: a kernel inside difference uses the on= of difference; omit its own.")
    kernels.check_gram(Points.of(problem, kernel).gram, kernel)


def _points(problem: FiniteCMDP, kernel: Kernel) -> Points:
    all_named = problem.points
    looked_at = kernels.looks_at(kernel)
    names = sorted(all_named if kernels.ALL in looked_at else (name for name in looked_at if name is not None))
    if not names:  # a constant is the same everywhere
        names = ["action"]
    stacked = np.concatenate([all_named[name].swapaxes(0, 1) for name in names], -1)  # (A, S, d)
    A, S, d = stacked.shape
    distinct, which = np.unique(stacked.reshape(-1, d), axis=0, return_inverse=True)
    number = "the number of points that the kernel tells apart"
    memory.check("their covariance", {number: len(distinct)}, lambda **points: 40.0 * points[number] ** 2, {})
    ends = np.cumsum([all_named[name].shape[-1] for name in names])[:-1]
    named = dict(zip(names, np.split(distinct, ends, axis=1), strict=True))
    with jax.enable_x64(True):
        gram = np.asarray(_gram(kernel, named))
    return Points(named, which.reshape(A, S).astype(np.int32), gram)


_cached = lru_cache(maxsize=8)(_points)
_gram = jax.jit(lambda kernel, named: kernels.gram(kernel, named, named))
