"""Gaussian-process cost models: costs in the space of a kernel, the second of the paper's two estimates.

    ghat_h^k(y) = mean_h^k(y) - beta_h^k sigma_h^k(y),    y = (x, a)

with the posterior of `regression/gp_posterior.py`; `protocols.CostModel` is the contract. Departures from the paper:
constraints that share a kernel share one covariance; the radius uses the realised information gain, never a maximum
over all sets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from everystep import kernels
from everystep.errors import EverystepError
from everystep.kernels import Kernel, Point
from everystep.lsvi import radii
from everystep.lsvi.costs.estimate import CostEstimate
from everystep.lsvi.costs.lemmas import Capacity
from everystep.lsvi.costs.spec import CostContext, CostSpec, norm_in_kernel
from everystep.lsvi.episode import Episode
from everystep.lsvi.radii import GPRadius, Scalar, factor_of_norm
from everystep.lsvi.regression import gp_posterior
from everystep.lsvi.regression.kernel_points import Points, check_kernel
from everystep.lsvi.regression.linalg import by_estimator, for_each, repeat
from everystep.mdp.cmdp import FiniteCMDP
from everystep.mdp.world import Sizes


class GridGP(NamedTuple):
    """On finitely many points: the posterior over all of them, updated exactly in the same time in every episode.

    gram (N, N) is the kernel at the N distinct points, point (A, S) the index of the point of each (x, a).
    """

    radius: GPRadius
    lam: Scalar
    gram: Float[Array, "N N"]
    point: Int[Array, "A S"]

    def init(self, sizes: Sizes, steps: int) -> gp_posterior.Posterior:
        return repeat(gp_posterior.prior(self.gram, sizes.constraints), steps)

    def update(self, state: gp_posterior.Posterior, episode: Episode) -> gp_posterior.Posterior:
        steps = len(state.gain)
        i, c = by_estimator(steps, self.point[episode.a, episode.x]), by_estimator(steps, episode.cost)
        return for_each(lambda posterior, i, c: gp_posterior.condition(posterior, i, c, self.lam), state, i, c)

    def estimate(self, state: gp_posterior.Posterior, k: Int[Array, ""]) -> CostEstimate:
        width = self.radius.width(self.variance(state), k, state.gain[:, None, None])
        return CostEstimate(state.mean[:, :, self.point], width[:, None])

    def variance(self, state: gp_posterior.Posterior) -> Float[Array, "T A S"]:
        """The posterior variance at all (x, a)."""
        return jnp.maximum(jnp.diagonal(state.cov, axis1=1, axis2=2), 0)[:, self.point]

    # --- for the lemmas (see lemmas.py) ------------------------------------------------------------------------------
    def squared_norms(self, state: gp_posterior.Posterior) -> Float[Array, "T A S"]:
        return self.variance(state) / self.lam

    def information_gain(self, state: gp_posterior.Posterior) -> Float[Array, " T"]:
        return state.gain

    def radius_at(self, k: Int[Array, ""], gain: Float[Array, "*T"]) -> Float[Array, "*T"]:
        return factor_of_norm(self.radius, k, gain, gain)

    def capacity(self, sizes: Sizes) -> Capacity:
        gram = np.asarray(self.gram)
        return Capacity(None, np.linalg.eigvalsh(gram), float(gram.diagonal().max()))


class GrowingGP(NamedTuple):
    """On the points seen so far: O(n^2) per episode after n observations, whatever the number of states.

    `points` are those of all (x, a), (A, S, d) or named; the state must have room: see `with_room`.
    """

    radius: GPRadius
    lam: Scalar
    kernel: Kernel
    points: Point

    def init(self, sizes: Sizes, steps: int) -> gp_posterior.Growing:
        return repeat(gp_posterior.nothing_yet(self.kernel, _flat(self.points), sizes.constraints), steps)

    def update(self, state: gp_posterior.Growing, episode: Episode) -> gp_posterior.Growing:
        steps = len(state.gain)
        seen = jax.tree.map(lambda leaf: by_estimator(steps, leaf[episode.a, episode.x]), self.points)
        watched = _flat(self.points)

        def updated(known: gp_posterior.Growing, new: Point, c: Array) -> gp_posterior.Growing:
            return gp_posterior.put(known, gp_posterior.rows(self.kernel, self.lam, known, watched, new, c))

        return for_each(updated, state, seen, by_estimator(steps, episode.cost))

    def estimate(self, state: gp_posterior.Growing, k: Int[Array, ""]) -> CostEstimate:
        shape = jax.tree.leaves(self.points)[0].shape[:2]
        width = self.radius.width(self.variance(state), k, state.gain[:, None, None])
        return CostEstimate(state.mean.reshape(*state.mean.shape[:2], *shape), width[:, None])

    def variance(self, state: gp_posterior.Growing) -> Float[Array, "T A S"]:
        """The posterior variance at all (x, a)."""
        shape = jax.tree.leaves(self.points)[0].shape[:2]
        return jnp.maximum(state.var, 0).reshape(-1, *shape)

    # --- for the lemmas (see lemmas.py) ------------------------------------------------------------------------------
    def squared_norms(self, state: gp_posterior.Growing) -> Float[Array, "T A S"]:
        return self.variance(state) / self.lam

    def information_gain(self, state: gp_posterior.Growing) -> Float[Array, " T"]:
        return state.gain

    def radius_at(self, k: Int[Array, ""], gain: Float[Array, "*T"]) -> Float[Array, "*T"]:
        return factor_of_norm(self.radius, k, gain, gain)

    def capacity(self, sizes: Sizes) -> Capacity:
        return Capacity(None)

    def with_room(self, state: gp_posterior.Growing, episodes: int, horizon: int) -> gp_posterior.Growing:
        return gp_posterior.with_room(state, _observations(state, episodes, horizon))

    def as_if_seen(self, state: gp_posterior.Growing, episodes: int, horizon: int) -> gp_posterior.Growing:
        return gp_posterior.as_if_given(state, _observations(state, episodes, horizon))


def _observations(state: gp_posterior.Growing, episodes: int, horizon: int) -> int:
    """The observations of one estimator in `episodes` episodes: all steps if it is shared, else one per episode."""
    return episodes * (horizon if state.gain.shape[-1] == 1 else 1)


def _flat(points: Point) -> Point:
    """(A, S, d) to (A * S, d)."""
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), points)


POINTS = ("grid", "growing")
# The default width in standard deviations, and the least noise variance assumed.
BETA_GP, LAM_GP = 2.0, 0.01


@dataclass(frozen=True)
class GP(CostSpec):
    """`cost=gp(...)`: a Gaussian process with a kernel (None: the kernel that the problem suggests).

    points  grid keeps the posterior at all (x, a); growing keeps the points seen, for very large state spaces
    """

    kernel: Kernel | None = None
    points: str = "grid"

    def __str__(self) -> str:
        words = [str(self.kernel)] if self.kernel is not None else []
        words += [f"points={self.points}"] if self.points != "grid" else []
        return f"gp({', '.join(words)})" if words else "gp"

    def decided(self, problem: FiniteCMDP, phi: np.ndarray | None, where: str) -> GP:
        kernel = _suggested(problem, where) if self.kernel is None else self.kernel
        check_kernel(problem, where, kernel)
        return GP(kernel, self.points)

    def default_beta(self, context: CostContext) -> float:
        return BETA_GP

    def default_lam(self, context: CostContext) -> float:
        """The noise variance."""
        return max(context.sigma**2, LAM_GP) if context.radius == "tuned" else self._paper_lam(context)

    def _paper_lam(self, context: CostContext) -> float:
        """lam = 1 + 2 / T, T all observations of one estimator."""
        return 1 + 2 / (context.episodes * (context.problem.horizon if context.shared else 1))

    def model(self, context: CostContext) -> GridGP | GrowingGP:
        assert self.kernel is not None
        radius: GPRadius = radii.Tuned(context.beta)
        if context.radius == "paper":
            log_union = math.log(2 * context.estimators / context.p)
            radius = radii.PaperGP(context.beta, context.bound, context.sigma, log_union)
        points = Points.of(context.problem, self.kernel)
        if self.points == "grid":
            return GridGP(radius, context.lam, jnp.asarray(points.gram), jnp.asarray(points.which))
        everywhere = {name: coordinates[points.which] for name, coordinates in points.named.items()}
        return GrowingGP(radius, context.lam, self.kernel, everywhere)

    def is_valid(self, context: CostContext) -> bool:
        """The printed radius assumes lam as printed, and a norm of at most `bound`."""
        assert self.kernel is not None
        known = context.lam == self._paper_lam(context)
        return known and norm_in_kernel(context, self.kernel) <= context.bound * (1 + 1e-6)

    def remarks(self, context: CostContext) -> tuple[str, ...]:
        assert self.kernel is not None
        remarks = []
        if kernels.looks_at(self.kernel) & {"landing", "move", kernels.ALL}:
            remarks.append(
                f"the cost kernel {self.kernel} tells {context.agent} where each action aims; one-hot costs do not."
            )
        if context.radius == "paper" and (norm := norm_in_kernel(context, self.kernel)) > context.bound * (1 + 1e-6):
            remarks.append(
                f"g has a norm of {norm:.4g} in the kernel {self.kernel}, above the bound {context.bound:g}: the "
                f"intervals of {context.agent} carry no probability; set bound to at least that."
            )
        return tuple(remarks)


def _suggested(problem: FiniteCMDP, where: str) -> Kernel:
    if problem.kernel is None:
        raise EverystepError(f"{where}, but the problem '{problem.name}' suggests no kernel; give one.")
    try:
        return kernels.read(problem.kernel)
    except ValueError as error:
        raise EverystepError(f"problem '{problem.name}': its kernel is '{problem.kernel}'; {error}.") from None
