"""Choices that use certified actions only: the safe set, and the safe mixture of actions.

Both use the upper ends of the cost intervals (`optimism` = -1) and require a known safe action in every state. Prices
have no effect. The conventions are those of `basic.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, UInt32

from everystep.lsvi import rowwise
from everystep.lsvi.choices import cone_program
from everystep.lsvi.choices.ties import best
from everystep.lsvi.costs.known_safe import SafeEstimate
from everystep.lsvi.protocols import CostEstimate


class SafeSet(NamedTuple):
    """a = argmax Q(x, a) over {a : upper end of g_i(x, a) <= 0 for every i}, the choice of SLUCB-QVI.

    The set always contains a0(x), whose cost is known: its interval has width 0.
    """

    @property
    def reacts(self) -> bool:
        return False

    def belief(self, ghat: Float[Array, "T m A S"], cost: CostEstimate) -> Float[Array, "T m A S"]:
        return ghat

    def value_bonus(self, belief: Array) -> None:
        return None

    def __call__(
        self, Q: Float[Array, "A *S"], ghat: Float[Array, "m A *S"], price: Float[Array, " m"], tie: UInt32[Array, "*S"]
    ) -> Bool[Array, "A *S"]:
        return best(admitted(Q, ghat), tie)


class MixtureBelief(NamedTuple):
    """Mean costs, and U (or its diagonal), which gives the width of a mixture; at all steps or at one."""

    mean: Float[Array, "*T m A S"]
    U: Float[Array, "*T d A S"] | Float[Array, "*T A S"]


class SafeMixture(NamedTuple):
    """theta = argmax <Q(x), theta> over distributions whose expected cost is certified safe, the choice of RSLUCB-QVI:

    <mean_i, theta> + ||E_theta[phi]||_{A_x^+} beta <= 0 for every i. Solved by `cone_program.py`. Where the best single
    action is certified safe itself, that action is taken.
    """

    safe: Bool[Array, "A S"]  # a0, one-hot

    @property
    def reacts(self) -> bool:
        return False

    def belief(self, ghat: Float[Array, "T m A S"], cost: CostEstimate) -> MixtureBelief:
        assert isinstance(cost, SafeEstimate)
        return MixtureBelief(cost.mean, cost.width[:, 0] if cost.U is None else cost.U)

    def value_bonus(self, belief: MixtureBelief) -> None:
        return None

    def __call__(
        self, Q: Float[Array, "A S"], belief: MixtureBelief, price: Float[Array, " m"], tie: UInt32[Array, " S"]
    ) -> Float[Array, "A S"]:
        mean, U = belief
        width = U if U.ndim == 2 else jnp.sqrt((U**2).sum(0))
        single = best(admitted(Q, mean + width[None]), tie)
        suffices = rowwise.under(single, Q) >= rowwise.highest(Q)
        return jnp.where(suffices[None], single.astype(Q.dtype), cone_program.best(Q, mean, U, self.safe, ~suffices))


def admitted(Q: Float[Array, "A *S"], upper: Float[Array, "m A *S"]) -> Float[Array, "A *S"]:
    """Q where every constraint holds at the upper end, else -inf."""
    return jnp.where((upper <= 0).all(0), Q, -jnp.inf)
