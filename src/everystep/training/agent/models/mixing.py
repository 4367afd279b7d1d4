"""How features of (x, a) follow from those of the state, where actions have coordinates (`features.maps.Joint`).

    phi_i(x, a) = factor_i(a) psi_i(x) + cross_i(a) psi_{other_i}(x)

so that a state keeps one vector psi(x), whatever the number of actions, and

    <w, phi(x, a)> = <w_a, psi(x)>       w_a = factor(a) w + (cross(a) w)[other]      because other is its own inverse
    ||phi(x, a)||^2_{Lambda^-1}          by one action after another: O(A N e^2) time, O(N e) memory
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jax import lax
from jaxtyping import Array, Float

from everystep.features.maps import Joint
from everystep.mdp.world import AnyArray

MOST_NUMBERS = 2**21  # of features that are made at once while acting


class Mixing(NamedTuple):
    """The fields of `Joint` that depend on actions; NumPy or JAX arrays."""

    other: AnyArray  # (e,)
    factor: AnyArray  # (A, e)
    cross: AnyArray  # (A, e)

    @classmethod
    def of(cls, phi: Joint) -> Mixing:
        return cls(phi.other, phi.factor, phi.cross)

    def weights(self, w: AnyArray) -> AnyArray:
        """w_a (..., A, e) for every action, of w (..., 1, e)."""
        factor, cross = (each.reshape(*(1,) * (w.ndim - 2), *each.shape) for each in (self.factor, self.cross))
        return factor * w + (cross * w)[..., self.other]

    def of_action(self, psi: AnyArray, a: int) -> AnyArray:
        """phi(x, a) (e, N) of one action."""
        return self.factor[a][:, None] * psi + self.cross[a][:, None] * psi[self.other]

    def each_action(
        self, one: Callable[[Float[Array, "e N"]], Float[Array, " N"]], psi: Float[Array, "e N"]
    ) -> Float[Array, "A N"]:
        """`one` of phi(x, a) for one action after another."""
        swapped = psi[self.other]
        return lax.map(lambda own: one(own[0][:, None] * psi + own[1][:, None] * swapped), (self.factor, self.cross))

    def predict(self, w: np.ndarray, inverse: np.ndarray | None, psi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """<w, phi> (*B, A, n) and squared norms (A, n), of features of states (e, n) as NumPy arrays.

        Without an inverse the norms are 0.
        """
        (A, e), n = self.factor.shape, psi.shape[1]
        flat = w.reshape(-1, e)
        mean, norm2 = np.empty((len(flat), A, n)), np.zeros((A, n))
        at_once = max(1, MOST_NUMBERS // (A * e))
        for first in range(0, n, at_once):
            rows = psi[:, first : first + at_once].T
            phi = self.factor[:, None] * rows + self.cross[:, None] * rows[:, self.other]  # (A, rows, e)
            mean[..., first : first + at_once] = np.moveaxis(phi @ flat.T, -1, 0)
            if inverse is not None:
                by_row = phi.reshape(-1, e)
                found = ((by_row @ inverse) * by_row).sum(1)
                norm2[:, first : first + at_once] = found.reshape(A, -1)
        return mean.reshape(*w.shape[:-2], A, n), np.maximum(norm2, 0)
