"""One episode as the agent observed it: what every model learns from."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int


class Episode(NamedTuple):
    """x_h, a_h, the index of the successor reached (`slot`), x_{h+1}, and the observed reward and costs, for h = 1..H.

    V_next is V_{h+1} of the plan in force, for value models that regress on it.
    """

    x: Int[Array, " H"]
    a: Int[Array, " H"]
    slot: Int[Array, " H"]
    x_next: Int[Array, " H"]
    reward: Float[Array, " H"]
    cost: Float[Array, "H m"]
    V_next: Float[Array, "H S"] | None = None


def step_index(table: Float[Array, "T ..."], episode: Episode) -> Int[Array, " H"]:
    """Which estimator each step of the episode belongs to: its own, or the shared one."""
    H = episode.x.shape[0]
    return jnp.zeros(H, jnp.int32) if table.shape[0] == 1 else jnp.arange(H, dtype=jnp.int32)
