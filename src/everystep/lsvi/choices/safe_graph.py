"""The choice of LSVI-NEW: the best action inside a subgraph that is certified safe up to the end of the episode.

Before values are planned, backward over h from X_{H+1} = all states:

    a is admitted at (h, x) iff (1) the upper end of every cost in the support S_h(x, a) is <= 0, or a is in the seed,
                            and (2) S_h(x, a) lies inside X_{h+1}
    X_h = {x : some action is admitted}

The seed is known: for some states, an action that is safe and leads to such states only. So it is always admitted, and
nothing else is until cost estimates are trusted (`costs/triples.py`).

The optimal policy may need safe actions that are not certified yet. A bonus covers what such a policy may be worth
beyond Q, with doubt_h(x, a) = max_{x' in S_h(x, a)} ||perp phi(x, a, x')||:

    bonus_h(x, a) = e2_h doubt_h(x, a) + e3_h beyond_h(x, a) + e4 doubt_1(x, a)
    beyond_h(x, a) = the largest doubt_h'(x', a') over what is admitted at steps h' > h and reachable from (x, a)

Readings of the paper: e3 covers what is reachable from (x, a), and e4 uses the doubt of step 1 at (x, a).
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, UInt32

from everystep.lsvi.choices.ties import best
from everystep.lsvi.costs.triples import TripleEstimate
from everystep.lsvi.protocols import CostEstimate
from everystep.mdp.world import at_step


class Admitted(NamedTuple):
    """Which actions are admitted at every step, and the bonus on their values."""

    actions: Bool[Array, "T A S"]
    bonus: Float[Array, "T A S"]


class Bonuses(NamedTuple):
    """e2_h and e3_h of every step, and e4."""

    here: Float[Array, " H"]
    beyond: Float[Array, " H"]
    start: Float[Array, ""]


class SafeGraph(NamedTuple):
    """a = argmax of Q over the admitted actions; the fallback where there are none, in states that are never reached.

    seed holds the known safe actions (none in states outside the seed), fallback one action for every state.
    """

    successors: Int[Array, "J S"] | None
    support: Bool[Array, "T A J S"]
    seed: Bool[Array, "A S"]
    fallback: Bool[Array, "A S"]
    bonuses: Bonuses

    @property
    def reacts(self) -> bool:
        return False

    def belief(self, ghat: Float[Array, "T m A S"], cost: CostEstimate) -> Admitted:
        """The closure, backward. `ghat` is the upper end of the cost interval, and at most 0 in the seed."""
        assert isinstance(cost, TripleEstimate)
        certified = jnp.where(cost.trusted, (ghat <= 0).all(1), self.seed[None])
        e = self.bonuses
        H, S = len(e.here), ghat.shape[-1]

        def backward(after: tuple[Array, Array], h: Array) -> tuple[tuple[Array, Array], Admitted]:
            safe, doubt_after = after
            support, doubt = at_step(self.support, h), at_step(cost.doubt, h)
            admitted = at_step(certified, h) & (self._at_successors(safe) | ~support).all(1)
            beyond = jnp.where(support, self._at_successors(doubt_after), 0).max(1)
            bonus = e.here[h] * doubt + e.beyond[h] * beyond + e.start * cost.doubt[0]
            within = jnp.where(admitted, jnp.maximum(doubt, beyond), 0).max(0)
            return (admitted.any(0), within), Admitted(admitted, bonus)

        nothing_after = (jnp.ones(S, bool), jnp.zeros(S))
        return lax.scan(backward, nothing_after, jnp.arange(H), reverse=True)[1]

    def value_bonus(self, belief: Admitted) -> Float[Array, "H A S"]:
        return belief.bonus

    def _at_successors(self, states: Array) -> Array:
        """One number per state, at the successors of each state: (1, J, S)."""
        if self.successors is not None:
            return states[self.successors][None]
        return jnp.broadcast_to(states[:, None], (len(states), len(states)))[None]

    def __call__(
        self, Q: Float[Array, "A *S"], belief: Admitted, price: Float[Array, " m"], tie: UInt32[Array, "*S"]
    ) -> Bool[Array, "A *S"]:
        admitted = belief.actions
        allowed = jnp.where(admitted.any(0)[None], admitted, self.fallback)
        return best(jnp.where(allowed, Q, -jnp.inf), tie)
