"""Penalties: the price Z_h on estimated violations, and how it grows. Prices are (m, H), episodes k count from 1."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from everystep.lsvi.radii import Scalar

Price = Float[Array, "*mH"]  # (m, H), or the price of one step


class Floor(NamedTuple):
    """eta_k = scale * k ** power: k as printed is (1, 1), sqrt k is (1, 1/2), a constant c is (c, 0)."""

    scale: Scalar
    power: Scalar

    @classmethod
    def from_setting(cls, floor: float | str) -> Floor:
        """k, sqrt, or a number."""
        return cls(1.0, 1.0) if floor == "k" else cls(1.0, 0.5) if floor == "sqrt" else cls(float(floor), 0.0)

    def __call__(self, k: Int[Array, ""]) -> Float[Array, ""]:
        return self.scale * k.astype(jnp.result_type(float)) ** self.power


class Rectified(NamedTuple):
    """The rectified penalty with a floor: violations are priced, safety earns no credit.

    Z_h^1 = 1,   Z_h^{k+1} = max{Z_h^k + [g_h(x_h^k, a_h^k)]_+, eta_k}                       (eq. 13 of the paper)

    Symbols: Z is `price`, g is the observed cost, eta_k is `floor(k)`.
    Departures from the paper: none. In this order of updates Z^k >= k - 1, where the proof states Z^k >= k.
    """

    floor: Floor

    def init(self, constraints: int, horizon: int) -> Price:
        return jnp.ones((constraints, horizon))

    def update(self, price: Price, observed: Price, k: Int[Array, ""]) -> Price:
        return jnp.maximum(price + jnp.maximum(observed, 0), self.floor(k))  # eq. (13)


class VirtualQueue(NamedTuple):
    """The dual variable of primal-dual methods: safe steps cancel unsafe ones.

    Z_h^1 = 0,   Z_h^{k+1} = max{Z_h^k + g_h(x_h^k, a_h^k), 0}                               (eq. 14 of the paper)

    Departures from the paper: it does not state Z^1; 0 is the natural choice.
    """

    def init(self, constraints: int, horizon: int) -> Price:
        return jnp.zeros((constraints, horizon))

    def update(self, price: Price, observed: Price, k: Int[Array, ""]) -> Price:
        return jnp.maximum(price + observed, 0)  # eq. (14)


class Fixed(NamedTuple):
    """The same price in every episode."""

    price: Scalar

    def init(self, constraints: int, horizon: int) -> Price:
        return jnp.broadcast_to(jnp.asarray(self.price, float), (constraints, horizon))

    def update(self, price: Price, observed: Price, k: Int[Array, ""]) -> Price:
        return price


class NoPenalty(NamedTuple):
    """No price on violations."""

    def init(self, constraints: int, horizon: int) -> Price:
        return jnp.zeros((constraints, horizon))

    def update(self, price: Price, observed: Price, k: Int[Array, ""]) -> Price:
        return price
