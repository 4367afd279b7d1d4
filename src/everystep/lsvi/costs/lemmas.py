"""What the paper's lemmas on sum e need from a cost model: norms, information gain, radius, capacity.

The lemmas cover the cost models that are a `LemmaModel`. Only `everystep theory` uses these members.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Array, Float, Int

from everystep.lsvi.protocols import CostModel, Pytree
from everystep.lsvi.radii import Scalar
from everystep.mdp.world import Sizes


class Capacity(NamedTuple):
    """What limits the information that one estimator can gain: its dimension, or the spectrum of its kernel."""

    dimension: float | None  # None for a Gaussian process
    eigenvalues: np.ndarray | None = None  # of the kernel at all points; None where the points are not listed
    largest: float = 1.0  # the largest k(y, y)


@runtime_checkable
class LemmaModel(Protocol):
    """A regression to which Lemma err-linear or Lemma err-ga applies."""

    @property
    def lam(self) -> Scalar:
        """The ridge, or the noise variance of a Gaussian process."""

    def squared_norms(self, state: Pytree) -> Float[Array, "T A S"]:
        """||phi||^2_{Lambda^-1} at all (x, a); the posterior variance over lam of a Gaussian process."""

    def information_gain(self, state: Pytree) -> Float[Array, " T"]:
        """1/2 log det(Lambda / lam) of each estimator: the realised information gain."""

    def radius_at(self, k: Int[Array, ""], gain: Float[Array, "*T"]) -> Float[Array, "*T"]:
        """The ratio of width to norm in episode k after `gain`; NaN if the width is not proportional to the norm."""

    def capacity(self, sizes: Sizes) -> Capacity:
        """The limits on the information of one estimator on a problem of these sizes."""


def covered(model: CostModel[Pytree], state: Pytree = None) -> tuple[tuple[LemmaModel, Pytree], ...]:
    """The regressions that the lemmas cover, with their states: the model itself, one for each constraint, or none."""
    if isinstance(model, LemmaModel):
        return ((model, state),)
    models: tuple[CostModel[Pytree], ...] = getattr(model, "models", ())
    states = state if state is not None else [None] * len(models)
    return tuple(pair for each, own in zip(models, states, strict=bool(models)) for pair in covered(each, own))
