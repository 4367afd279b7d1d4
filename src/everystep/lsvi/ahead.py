"""Looking ahead: what an agent does about limits that one decision cannot keep.

Algorithm 1 prices the estimated cost of this step alone, which is right if every state has a safe action. With
momentum, delay or stock there are states from which harm can no longer be avoided, and the agent must learn not to get
there. One more quantity is carried backward through the plan, the harm-to-go C, and regressed like V:

    Ghat_h(x, a) = clip( sum_i w_i [ghat_{h,i}(x, a)]_+ + [Phat_h C_{h+1}](x, a), 0, cap )      the harm a leads to
    a_x = argmax_a {Q_h(x, a) - Z_h [Ghat_h(x, a) - min_b Ghat_h(x, b) - tolerance]_+}            in place of eq. (11)
    C_h(x) = min_a Ghat_h(x, a)        `least`: the harm that cannot be avoided any more
          or Ghat_h(x, a_x)            `plan`:  the harm of the plan itself

where Phat C = <Lambda_h^-1 sum_tau phi_tau C(x'_tau), phi> - beta_C ||phi||_{Lambda_h^-1}. The difference in the
choice is the avoidable harm: an ordinary cost of this step, zero for some action in every state. If every state has an
action with ghat <= 0, C is 0 and the choice is that of LSVI-AE. docs/look-ahead.md has the mathematics.

An agent looks ahead if it has one of these parts (`Agent.ahead`); `protocols.LookAhead` is the contract.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from everystep.lsvi import rowwise
from everystep.lsvi.protocols import Fit, Policy, State, ValueModel
from everystep.lsvi.radii import Radius, Scalar
from everystep.mdp.world import AnyArray


def weighted_harm(weights: AnyArray, cost: AnyArray) -> AnyArray:
    """sum_i w_i [cost_i]_+ over the first axis: the harm of a step."""
    return sum(weights[i] * jnp.maximum(cost[i], 0) for i in range(len(cost)))


class HarmToGo(NamedTuple):
    """The expected harm from a state on; of arrays in NumPy for a plan that is evaluated at observations.

    of_plan    C is the harm of the plan itself, else the least harm
    events     costs are learnt as the harm that was observed, max(cost, 0), else as they are: E[g_+] instead of [E g]_+
    tolerance  avoidable harm up to this is not priced
    weights    (m,): the harm of a step is sum_i w_i [g_i]_+
    cap        the highest harm-to-go
    radius     beta_C, the width by which Phat C is lowered; None for 0
    optimism   1: Phat C is lowered by its width, 0: it is the estimate itself
    p          what certificates ahead spend on transitions (`ahead_bounds.py`); no decision depends on it
    """

    of_plan: Bool[Array, ""] | bool
    events: Bool[Array, ""] | bool
    tolerance: Scalar
    weights: AnyArray
    cap: Scalar
    radius: Radius | None = None
    p: Scalar = 0.05
    optimism: Scalar = 1.0

    def learnt(self, cost: AnyArray) -> AnyArray:
        """What the cost model learns from an observed cost."""
        return jnp.where(self.events, jnp.maximum(cost, 0), cost)

    def harm(self, cost: AnyArray) -> AnyArray:
        return weighted_harm(self.weights, cost)

    def width(self, values: ValueModel[State, Fit], state: State, k: Int[Array, ""]) -> Float[Array, "T A S"] | None:
        return None if self.radius is None else self.radius.width(values.squared_norms(state, None), k)

    def after(
        self,
        values: ValueModel[State, Fit],
        fit: Fit,
        h: Int[Array, ""],
        C_next: Float[Array, " S"],
        width: Float[Array, "A S"] | None,
    ) -> Float[Array, "A S"]:
        """[Phat_h C_{h+1}](x, a): the harm after this step."""
        mean = values.expect(fit, h, C_next)
        return mean if width is None else mean - self.optimism * width

    def led_to(self, ghat: AnyArray, after: AnyArray) -> AnyArray:
        """Ghat, from the estimated costs (m, A, *S) of this step and the harm after it (A, *S)."""
        if isinstance(after, np.ndarray):  # of a plan evaluated at observations
            return (np.tensordot(self.weights, np.maximum(ghat, 0), 1) + after).clip(0, self.cap)
        total = lambda after, *ghat: (self.harm(ghat) + after).clip(0, self.cap)
        return rowwise.map_rows(total, after, *ghat)

    def avoidable(self, G: AnyArray) -> AnyArray:
        """[Ghat - min_b Ghat - tolerance]_+ as the estimated costs (1, A, *S) that the choice prices."""
        if isinstance(G, np.ndarray):
            return np.maximum(G - G.min(0) - self.tolerance, 0)[None]
        least = rowwise.lowest(G) + self.tolerance
        return rowwise.alone(rowwise.map_rows(lambda row: jnp.maximum(row - least, 0), G))

    def carried(self, G: AnyArray, pi: AnyArray) -> AnyArray:
        """C_h, from Ghat and the choice at every state."""
        return jnp.where(self.of_plan, rowwise.under(pi, G), rowwise.lowest(G))


class Marked(NamedTuple):
    """The potentially unsafe states of SUCBVI: C is 1 where every action is estimated unsafe or was seen to lead on.

    Ghat_h(x, a) = sum_i w_i [ghat_i(x, a)]_+ + 1{a state y with N(x, a, y) > 0 is marked at h + 1}
    C_h(x) = 1{min_a Ghat_h(x, a) > 0}
    """

    weights: AnyArray

    def learnt(self, cost: AnyArray) -> AnyArray:
        return cost

    def harm(self, cost: AnyArray) -> AnyArray:
        return weighted_harm(self.weights, cost)

    def width(self, values: ValueModel[State, Fit], state: State, k: Int[Array, ""]) -> None:
        return None

    def after(
        self,
        values: ValueModel[State, Fit],
        fit: Fit,
        h: Int[Array, ""],
        C_next: Float[Array, " S"],
        width: Float[Array, "A S"] | None,
    ) -> Float[Array, "A S"]:
        """Whether a marked state was seen to follow: the mean of marks over what followed is positive."""
        return (values.expect(fit, h, C_next) > 0).astype(C_next.dtype)

    def led_to(self, ghat: AnyArray, after: AnyArray) -> AnyArray:
        return rowwise.map_rows(lambda after, *ghat: self.harm(ghat) + after, after, *ghat)

    def avoidable(self, G: AnyArray) -> AnyArray:
        """The excess over the least Ghat: zero for the allowed actions, or the least harmful if none is allowed."""
        least = rowwise.lowest(G)
        return rowwise.map_rows(lambda row: row - least, G)[None]

    def carried(self, G: Float[Array, "A S"], pi: Policy) -> Float[Array, " S"]:
        return (rowwise.lowest(G) > 0).astype(G.dtype)
