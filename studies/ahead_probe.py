"""The steps of the proofs of docs/look-ahead.md, measured inside a run of `lsvi-ahead`.

Before each episode the probe compares the agent's estimates with the truth of a known problem; a claim holds if its
margin is at least -SLACK, which allows for rounding:

    led_to, harm_to_go    Ghat_h <= G*_h at all (h, x, a), and C_h <= C*_h at all (h, x)
    value                 V_h(x) >= V*_h(x) at viable (h, x); `value_elsewhere` at the others, where nothing is claimed
    choice                Ghat_h(x, a_x) <= min_b Ghat_h(x, b) + tolerance + cap / Z_h at all (h, x)
    error                 c_h + P_h C_{h+1} - Ghat_h <= e_h at all (h, x, a), for one-hot features
    certified             Glow_h <= G*_h <= Gup_h at all (h, x, a)

and along the episode the four terms of

    sum_h c_h(x_h, a_h) <= C_1(x_1) + sum_h e_h(x_h, a_h) + sum_h (tolerance + cap / Z_h) + sum_h drift_h
    drift_h = C_{h+1}(x_{h+1}) - [P_h C_{h+1}](x_h, a_h),     e_h = sum_i w_i 2 width_i + width_C + uniform
    uniform = B (lam + sqrt(n (J log 2 + L) / 2)) / (n + lam),    L = log(T S A n (n + 1) / p)

where `uniform` bounds (P - Phat) C for all C in [0, B] at once: it is largest for B times the indicator of a set, and
Hoeffding's bound holds for all 2^J sets of the J states that can follow. T is the number of estimators.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from everystep.lsvi import ahead_bounds, algorithm, rowwise
from everystep.lsvi.ahead import HarmToGo
from everystep.lsvi.algorithm import Agent, Plan, State
from everystep.lsvi.episode import Episode
from everystep.lsvi.values.counts import Counts
from everystep.mdp import certificates, planner
from everystep.mdp.cmdp import FiniteCMDP
from everystep.mdp.world import World, at_step, expected

SLACK = 1e-9


class Margins(NamedTuple):
    """The smallest margin of each claim before an episode, and the terms of the sum along it."""

    led_to: Float[Array, ""]
    harm_to_go: Float[Array, ""]
    value: Float[Array, ""]
    value_elsewhere: Float[Array, ""]
    choice: Float[Array, ""]
    error: Float[Array, ""]
    certified_low: Float[Array, ""]
    certified_up: Float[Array, ""]
    safe_ahead: Int[Array, ""]  # actions labelled at the agent's tolerance
    unsafe_ahead: Int[Array, ""]
    harm: Float[Array, ""]
    least: Float[Array, ""]  # C_1(x_1), as estimated
    errors: Float[Array, ""]
    permitted: Float[Array, ""]  # sum_h tolerance + cap / Z_h
    drift: Float[Array, ""]


class AheadProbe(NamedTuple):
    """The truth about a problem in the units of an agent: c, G* (H, A, S), C*, V*, viable (H, S), and B (H,)."""

    c: Float[Array, "H A S"]
    G: Float[Array, "H A S"]
    C: Float[Array, "H S"]
    V: Float[Array, "H S"]
    counted: Bool[Array, " S"]
    p: Float[Array, ""]

    @classmethod
    def of(cls, problem: FiniteCMDP, events: bool = False, p: float = 0.05) -> AheadProbe:
        """`events`: harm is E max(g, 0) instead of max(E g, 0)."""
        unit = 1.0 if problem.scale is None else float(np.max(problem.scale))
        G = certificates.led_to(problem, events) / unit
        c = np.broadcast_to(certificates.violation_of_step(problem, events), G.shape) / unit
        C, seen = G.min(1), problem.in_units
        V = np.zeros((problem.horizon + 1, problem.states))
        for h in reversed(range(problem.horizon)):
            Q = planner.action_values(seen.world, h, V[h + 1])
            V[h] = np.where(G[h] <= C[h] * (1 + planner.ROUNDING), Q, -np.inf).max(0)
        return cls(c, G, C, V[:-1], ~problem.exempt, np.float64(p))  # type: ignore[arg-type]

    def __call__(
        self, agent: Agent, world: World, before: State, after: State, plan: Plan, episode: Episode
    ) -> Margins:
        ahead, values = agent.ahead, agent.values
        assert isinstance(ahead, HarmToGo)
        assert isinstance(values, Counts)
        H = len(self.c)
        steps = jnp.arange(H, dtype=jnp.int32)
        counts = lambda shape: jnp.broadcast_to(self.counted, shape)
        smallest = lambda margin: jnp.where(counts(margin.shape), margin, jnp.inf).min()
        visited = lambda table: table[steps, episode.a, episode.x]

        now = estimates(agent, before, plan)
        least = now.G.min(1)
        permitted = ahead.tolerance + values.cap / before.price[0]  # (H,)
        chosen = (plan.policy.astype(now.G.dtype) * now.G).sum(1)
        C_next = jnp.concatenate([now.C[1:], jnp.zeros_like(now.C[:1])])
        follows = jax.vmap(lambda h, C: expected(at_step(world.P, h), world.successors, C))(steps, C_next)
        error = self._errors(agent, before, world)
        certified = ahead_bounds.bounds(agent, before, self.counted)
        label = certificates.labels_ahead(*certified, ahead.tolerance)
        viable = self.C == 0
        C_seen = C_next[steps, episode.x_next]
        return Margins(
            led_to=smallest(self.G - now.G),
            harm_to_go=smallest(self.C - now.C),
            value=smallest(jnp.where(viable, now.V - self.V, jnp.inf)),
            value_elsewhere=smallest(jnp.where(viable, jnp.inf, now.V - self.V)),
            choice=smallest(least + permitted[:, None] - chosen),
            error=smallest(error - (self.c + follows - now.G)),
            certified_low=smallest(self.G - certified.lower),
            certified_up=smallest(certified.upper - self.G),
            safe_ahead=(label == certificates.SAFE).sum(),
            unsafe_ahead=(label == certificates.UNSAFE).sum(),
            harm=visited(self.c).sum(),
            least=now.C[0, episode.x[0]],
            errors=visited(error).sum(),
            permitted=permitted.sum(),
            drift=(C_seen - visited(follows)).sum(),
        )

    def _errors(self, agent: Agent, state: State, world: World) -> Float[Array, "H A S"]:
        """e_h(x, a)."""
        ahead, values = agent.ahead, agent.values
        assert isinstance(ahead, HarmToGo)
        assert isinstance(values, Counts)
        norm2 = values.squared_norms(state.values)  # (T, A, S)
        n = jnp.maximum(1 / norm2 - values.lam, 0)
        J = world.r.shape[-1] if world.successors is None else world.successors.shape[-2]
        log_union = J * jnp.log(2) + jnp.log(norm2.size * jnp.maximum(n * (n + 1), 1) / self.p)
        uniform = ahead.cap * (values.lam + jnp.sqrt(n * log_union / 2)) * norm2
        width = ahead.width(values, state.values, state.k)
        cost = agent.costs.estimate(state.costs, state.k)
        of_costs = 2 * (ahead.weights[None, :, None, None] * cost.width).sum(1)
        return jnp.broadcast_to(of_costs + uniform + (0 if width is None else width), self.c.shape)


class Estimates(NamedTuple):
    """What a plan was made from: Q and Ghat of every action, V and C of every state."""

    Q: Float[Array, "H A S"]
    G: Float[Array, "H A S"]
    V: Float[Array, "H S"]
    C: Float[Array, "H S"]


def estimates(agent: Agent, state: State, plan: Plan) -> Estimates:
    """Q_h, Ghat_h, V_h and C_h of a plan: the same backward pass, along the actions that the plan chose."""
    H, _, S = plan.policy.shape
    ahead = agent.ahead
    assert ahead is not None
    fit, belief = algorithm.fit_models(agent, state)
    width = ahead.width(agent.values, state.values, state.k)

    def backward(carry: tuple[Array, Array], h: Array) -> tuple[tuple[Array, Array], Estimates]:
        V_next, C_next = carry
        Q = agent.values.estimate(fit, h, V_next)
        after = ahead.after(agent.values, fit, h, C_next, None if width is None else at_step(width, h))
        G = ahead.led_to(at_step(belief, h), after)
        V, C = rowwise.under(plan.policy[h], Q), ahead.carried(G, plan.policy[h])
        return (V, C), Estimates(Q, G, V, C)

    return lax.scan(backward, (jnp.zeros(S), jnp.zeros(S)), jnp.arange(H, dtype=jnp.int32), reverse=True)[1]
