"""A cost model as users specify it (`cost=` of an agent), before it is made for a problem.

A specification decides its default widths, makes the model, and knows when its intervals are valid. To add a cost
model, write a `CostSpec` and register it (`everystep.agents.register_cost_model`): see docs/extending.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from everystep.errors import EverystepError
from everystep.kernels import Kernel
from everystep.lsvi import radii
from everystep.lsvi.protocols import FiniteCostModel, Pytree
from everystep.lsvi.regression.kernel_points import Points
from everystep.mdp.cmdp import FiniteCMDP

# Chosen by `benchmarks/sweep.py` over the lake and generated maps, on seeds that no report uses: docs/sweep.md.
BETA_COST, LAM_COST = 0.3, 0.1


class CostContext(NamedTuple):
    """Everything that the intervals of one cost model depend on, on one problem.

    radius        tuned, paper or coordinate
    beta, lam     the settings beta_cost and lam_cost; None until they are decided
    sigma         the noise of observed costs, as assumed; true_sigma is the problem's
    truth         the true costs, (m, T, S, A): used to judge validity, never to learn from
    shared        whether one estimator serves all steps
    rarely_asked  whether estimates are needed for plans only, and plans are rare
    """

    agent: str
    problem: FiniteCMDP
    episodes: int
    phi: np.ndarray | None
    radius: str
    sigma: float
    true_sigma: float
    bound: float
    p: float
    truth: np.ndarray
    shared: bool
    rarely_asked: bool
    beta: float = math.nan
    lam: float = math.nan

    @property
    def pairs(self) -> int:
        """The number of (x, a)."""
        return self.problem.states * self.problem.actions

    @property
    def observations_per_episode(self) -> float:
        """How many observations an episode adds to one estimator."""
        return float(self.problem.horizon) if self.shared else 1.0

    @property
    def estimators(self) -> float:
        """How many estimators there are, over constraints and steps."""
        return float(self.problem.constraints) * (1 if self.shared else self.problem.horizon)


@dataclass(frozen=True)
class CostSpec:
    """The contract of a specification, with the defaults of models that are linear in features or counts."""

    @property
    def kernel(self) -> Kernel | None:
        """The kernel of a Gaussian process."""
        return None

    @property
    def one_hot(self) -> bool:
        """Whether it learns every (x, a) separately."""
        return False

    def decided(self, problem: FiniteCMDP, phi: np.ndarray | None, where: str) -> CostSpec:
        """The specification with everything decided that depends on the problem; raises what does not fit."""
        return self

    def default_beta(self, context: CostContext) -> float:
        """`beta_cost` for tuned widths.

        With a width below two standard deviations of the noise, an unlucky start rules out a safe action permanently.
        """
        return max(BETA_COST, 2 * context.sigma)

    def default_lam(self, context: CostContext) -> float:
        """`lam_cost`: a ridge."""
        return {"tuned": LAM_COST, "coordinate": 0.5, "paper": 1.0}[context.radius]

    def model(self, context: CostContext) -> FiniteCostModel[Pytree]:
        """The cost model itself, as JAX arrays; requires 64-bit numbers to be enabled."""
        raise NotImplementedError(f"{type(self).__name__} makes no model")

    def is_valid(self, context: CostContext) -> bool:
        """Whether the intervals hold with probability 1 - p, given that beta >= 1 and sigma is not too small."""
        return False

    def remarks(self, context: CostContext) -> tuple[str, ...]:
        """What a reader of the results should know."""
        return ()


def ridge_radius(context: CostContext, d: float) -> radii.Radius:
    """The radius of a ridge regression with d features."""
    if context.radius == "paper":
        numbers = (context.beta, d, context.lam, context.observations_per_episode, context.estimators, context.p)
        return radii.PaperCost(*numbers)
    if context.radius == "coordinate":
        problem = context.problem
        union = 2 * float(problem.constraints) * float(context.pairs) * float(problem.horizon) * float(context.episodes)
        log_union = math.log(union / context.p)
        return radii.CoordinateCost(context.beta, context.lam, context.bound, context.sigma, log_union)
    return radii.Tuned(context.beta)


def norm_in_kernel(context: CostContext, kernel: Kernel) -> float:
    """The norm of the true costs in the space of a kernel."""
    return Points.of(context.problem, kernel).norm(context.truth)


def no_features(where: str, problem: FiniteCMDP) -> EverystepError:
    return EverystepError(f"{where}, but the problem '{problem.name}' has no features; give some, or counts.")
