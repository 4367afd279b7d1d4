"""Least-squares value iteration with swappable parts: Algorithm 1 of the paper, line by line.

    Z_h^1 = 1
    for episode k = 1..K:
        for h = H..1:                                                                        plan
            Lambda_h = sum_tau phi_tau phi_tau^T + lam I                                     line 5
            w_h = Lambda_h^-1 sum_tau phi_tau [r_tau + V_{h+1}(x'_tau)]                      line 6
            Q_h = min{<w_h, phi> + beta ||phi||_{Lambda_h^-1}, H}                            line 7
            a_x = argmax_a {Q_h(x, a) - Z_h [ghat_h(x, a)]_+}                                eq. (11)
            V_h(x) = Q_h(x, a_x)                 the price is never part of V                line 9
        for h = 1..H: take a_{x_h}, observe x_{h+1} and the cost                             act
        update ghat;  Z_h^{k+1} = max{Z_h^k + [g_h]_+, eta_k}                                learn, eq. (13)

Symbols: Q, V and P keep their letters; Z is `price`, ghat is `ghat`, phi and Lambda are inside the models, eta is the
floor of the penalty. Every agent is this algorithm with four parts: see `protocols.py` for their contracts and
`agents/` for the compositions.

Departures from the paper: estimators may be shared over steps (all steps of a stationary problem have the same g);
Q is clipped at `cap` (default H), and below at 0 where it is a regression on features; the choice may be a
distribution; ties are broken at random. The paper updates ghat inside the loop over steps; here it is updated after the
episode, or inside it by agents that react. With `switch`, plans are rare: a plan is kept, with the Q, ghat and Z it was
made from, until enough new data has come in (`due`).
With `ahead` the choice goes by the harm that a decision leads to, which is carried backward beside V: see `ahead.py`.

This module imports no concrete part.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, UInt32

from everystep.lsvi import protocols, rowwise
from everystep.lsvi.episode import Episode
from everystep.lsvi.protocols import Pytree
from everystep.mdp.world import AnyArray, Sizes, at_step


class Agent(NamedTuple):
    """A composition of four parts; every hyper-parameter is a leaf of the pytree.

    optimism    +1 uses the lower end of each cost interval (the paper's aggressive exploration), 0 its middle, -1 the
                upper end
    known_safe  actions that are known to be safe, whatever their estimate is
    switch      the factor by which det(Lambda_h) must grow at some h before a new plan is made; None plans in every
                episode
    ahead       how the harm-to-go is estimated, for agents that look ahead (`ahead.py`)
    violation_price  rewards are learnt less this times the violation of the step; None: the two are not mixed
    """

    values: protocols.ValueModel[Pytree, Pytree]
    costs: protocols.CostModel[Pytree]
    penalty: protocols.Penalty
    choice: protocols.Choice[Pytree]
    optimism: Float[Array, ""] | float
    known_safe: Bool[Array, "A S"] | np.ndarray | None = None
    switch: Float[Array, ""] | float | None = None
    ahead: protocols.LookAhead | None = None
    violation_price: Float[Array, ""] | float | None = None

    def learnt(self, reward: AnyArray, cost: AnyArray) -> tuple[AnyArray, AnyArray]:
        """What the models learn from an observed reward and costs (m,); for NumPy and JAX arrays."""
        if self.violation_price is not None:
            reward = reward - self.violation_price * cost.clip(min=0).sum(-1)
        return reward, cost if self.ahead is None else self.ahead.learnt(cost)

    def priced(self, cost: Float[Array, "m *H"]) -> Float[Array, "prices *H"]:
        """The observed costs that raise the prices: those of each constraint, or their harm in one."""
        return cost if self.ahead is None else self.ahead.harm(cost)[None]

    def prices(self, constraints: int) -> int:
        """The number of prices: one for each constraint, or one for all."""
        return constraints if self.ahead is None else 1

    def ghat(self, mean: AnyArray, width: AnyArray) -> AnyArray:
        return mean - self.optimism * width


class State(NamedTuple):
    """What an agent carries from episode to episode; `k` is the number of the next episode, from 1."""

    values: Pytree
    costs: Pytree
    price: Float[Array, "m H"]
    k: Int[Array, ""]


class Plan(NamedTuple):
    """The policy of one episode: a distribution over actions at every (h, x), booleans if it is one-hot.

    actions  the action at every (h, x), if the policy is one-hot
    Q        kept for an agent that reacts within the episode
    after    the harm after each (h, x, a), kept for an agent that reacts and looks ahead
    V_next   V_{h+1} at every state, kept for value models that learn from it
    """

    policy: Bool[Array, "H A S"] | Float[Array, "H A S"]
    Q: Float[Array, "H A S"] | None = None
    actions: Int[Array, "H S"] | None = None
    V_next: Float[Array, "H S"] | None = None
    after: Float[Array, "H A S"] | None = None


class PlanInfo(NamedTuple):
    """The optimistic values of a plan, V_h at every state, and its harm-to-go C_h if the agent looks ahead."""

    V: Float[Array, "H S"]
    C: Float[Array, "H S"] | None = None


def finite_models(
    agent: Agent,
) -> tuple[protocols.FiniteValueModel[Pytree, Pytree], protocols.FiniteCostModel[Pytree]]:
    """The two models of an agent on a finite problem."""
    assert isinstance(agent.values, protocols.FiniteValueModel)
    assert isinstance(agent.costs, protocols.FiniteCostModel)
    return agent.values, agent.costs


def init(agent: Agent, sizes: Sizes, share_values: bool, share_costs: bool) -> State:
    """The state before the first episode. Shared estimators have a step axis of length 1 instead of H."""
    H, (values, costs) = sizes.horizon, finite_models(agent)
    return State(
        values.init(sizes, 1 if share_values else H),
        costs.init(sizes, 1 if share_costs else H),
        agent.penalty.init(agent.prices(sizes.constraints), H),
        jnp.asarray(1, jnp.int32),
    )


def cost_belief(agent: Agent, costs: Pytree, k: Int[Array, ""]) -> Pytree:
    """What the choice uses of the cost estimate, at all steps: for most choices ghat.

    ghat = mean - optimism * width, and at most 0 where an action is known to be safe.
    """
    cost = agent.costs.estimate(costs, k)
    ghat = agent.ghat(cost.mean, cost.width)
    if agent.known_safe is not None:
        ghat = jnp.where(agent.known_safe[None, None], jnp.minimum(ghat, 0), ghat)
    return agent.choice.belief(ghat, cost)


def fit_models(agent: Agent, state: State) -> tuple[Pytree, Pytree]:
    """The inputs of a plan: the fit of the value model, and the belief about costs."""
    belief = cost_belief(agent, state.costs, state.k)
    return agent.values.fit(state.values, state.k, agent.choice.value_bonus(belief)), belief


def plan(agent: Agent, state: State, ties: UInt32[Array, "H S"]) -> tuple[Plan, PlanInfo]:
    """The backward pass over h: everything decided before the episode starts."""
    H, S = ties.shape
    fit, belief = fit_models(agent, state)
    belief_at = lambda h: jax.tree.map(lambda leaf: at_step(leaf, h), belief)
    A = jax.eval_shape(agent.values.estimate, fit, jnp.int32(0), jnp.zeros(S)).shape[0]
    action = np.arange(A, dtype=np.int32)
    ahead, reacts = agent.ahead, agent.choice.reacts
    width = None if ahead is None else ahead.width(agent.values, state.values, state.k)

    def backward(carry: tuple[Array, Array | None], h: Array) -> tuple[tuple[Array, Array | None], tuple[Any, ...]]:
        planned, C = carry
        V_next, _ = rowwise.unpack(planned[h + 1])
        Q = agent.values.estimate(fit, h, V_next)  # lines 5 to 7
        estimated, after = belief_at(h), None
        if ahead is not None and C is not None:
            after = ahead.after(agent.values, fit, h, C, None if width is None else at_step(width, h))
            G = ahead.led_to(estimated, after)
            estimated = ahead.avoidable(G)
        pi = agent.choice(Q, estimated, state.price[:, h], ties[h])  # eq. (11)
        V, a = rowwise.under(pi, Q), rowwise.under(pi, action.astype(float))  # line 9
        C = None if ahead is None else ahead.carried(G, pi)
        planned = lax.dynamic_update_index_in_dim(planned, rowwise.pack(V, a), h, 0)
        kept = (None if pi.dtype == bool else pi, Q if reacts else None, after if reacts else None, C)
        return (planned, C), kept

    steps = jnp.arange(H, dtype=jnp.int32)
    nothing = (jnp.zeros((H + 1, S), complex), None if ahead is None else jnp.zeros(S))
    (planned, _), (mixed, Q, after, C) = lax.scan(backward, nothing, steps, reverse=True)
    V, actions = rowwise.unpack(planned)
    info = PlanInfo(V[:H], C)
    V_next = V[1:] if agent.values.learns_from_plans else None
    if mixed is not None:
        return Plan(mixed, Q, V_next=V_next, after=after), info
    actions = actions[:H].astype(jnp.int32)
    return Plan(actions[:, None] == action[None, :, None], Q, actions, V_next, after), info


def due(agent: Agent, log_det: Float[Array, " T"], when_planned: Float[Array, " T"]) -> Bool[Array, ""]:
    """Whether to plan again: some h has det(Lambda_h) >= switch * det(Lambda_h at the last plan).

    The rule of rare switching in LSVI-UCB++ (He, Zhao, Zhou and Gu, ICML 2023), where the factor is 2.
    """
    assert agent.switch is not None
    return (log_det >= when_planned + jnp.log(agent.switch)).any()


def react(
    agent: Agent,
    state: State,
    plan: Plan,
    costs: Pytree,
    h: Int[Array, ""],
    x: Int[Array, ""],
    tie: UInt32[Array, ""],
) -> protocols.Policy:
    """The choice at (h, x) made again: eq. (11) with the newest ghat, and Q and Z as planned."""
    assert plan.Q is not None
    estimated = at_step(cost_belief(agent, costs, state.k), h)[:, :, x]
    if agent.ahead is not None:
        assert plan.after is not None
        estimated = agent.ahead.avoidable(agent.ahead.led_to(estimated, plan.after[h, :, x]))
    return agent.choice(plan.Q[h, :, x], estimated, state.price[:, h], tie)


def act(policy: AnyArray, u: AnyArray) -> AnyArray:
    """The action at one (h, x), drawn from its distribution (A,) by a uniform u, which a one-hot policy ignores.

    For NumPy and JAX arrays.
    """
    return (u >= policy.astype(u.dtype).cumsum()[:-1]).sum(dtype=np.int32)


def learn(agent: Agent, state: State, episode: Episode, costs: Pytree | None = None) -> State:
    """The update after an episode as it was observed: both estimators, then the price.

    `costs` is the state of the cost model if the agent has updated it during the episode.
    """
    reward, cost = agent.learnt(episode.reward, episode.cost)
    learnt = episode._replace(reward=reward, cost=cost)
    value_model, cost_model = finite_models(agent)
    return State(
        value_model.update(state.values, learnt),
        cost_model.update(state.costs, learnt) if costs is None else costs,
        agent.penalty.update(state.price, agent.priced(episode.cost.T), state.k),  # eq. (13)
        state.k + 1,
    )
