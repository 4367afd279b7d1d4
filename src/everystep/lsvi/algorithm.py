"""The algorithm: least-squares value iteration with swappable parts, beside Algorithm 1 of the paper.

    Z_h^1 = 1
    for episode k = 1..K:
        for h = H..1:                                                                        plan
            Lambda_h = sum_tau phi_tau phi_tau^T + lam I
            w_h = Lambda_h^-1 sum_tau phi_tau [r_tau + V_{h+1}(x'_tau)]
            Q_h = min{<w_h, phi> + beta ||phi||_{Lambda_h^-1}, H}
            a_x = argmax_a {Q_h(x, a) - Z_h [ghat_h(x, a)]_+}                                eq. (11)
            V_h(x) = Q_h(x, a_x)                 the price is never inside V
        for h = 1..H: take a_{x_h}, observe x_{h+1} and the cost                             act
        update ghat;  Z_h^{k+1} = max{Z_h^k + [g_h]_+, eta_k}                                learn, eq. (13)

Symbols: Q, V, P keep their letters; Z is `price`, ghat is `ghat`, phi and Lambda live inside the models, eta is the
floor of the penalty. Four parts are swapped to make every agent: see `agents.py`.

Departures from the paper: estimators may be shared over steps (a stationary problem has one truth, not H of them);
Q is clipped at `cap` (default H); the choice may be a distribution; ties break at random. Printed, ghat is updated
inside the loop over steps; here after the episode, or inside it by agents that react. With `switch` plans are rare: a
plan is kept, with the Q, ghat and Z it was made from, until enough was learnt (`due`).

This module imports no concrete part: it knows only what a value model, a cost model, a penalty and a choice do.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, UInt32

from everystep.lsvi import rowwise
from everystep.mdp.world import AnyArray, Sizes, at_step


class Agent(NamedTuple):
    """A composition of parts; every hyper-parameter is a leaf.

    optimism: +1 trusts the lower end of each cost interval (the paper's aggressive exploration), 0 its middle, -1 the
    upper end. known_safe: actions told to be safe, whatever the estimate says. switch: by which factor det(Lambda_h)
    must have grown at some h before a new plan is made; None plans every episode.
    """

    values: Any
    costs: Any
    penalty: Any
    choice: Any
    optimism: Float[Array, ""]
    known_safe: Bool[Array, "A S"] | None = None
    switch: Float[Array, ""] | None = None

    def ghat(self, mean: AnyArray, width: AnyArray) -> AnyArray:
        return mean - self.optimism * width


class State(NamedTuple):
    """What an agent carries from episode to episode; `k` is the number of the coming one, from 1."""

    values: Any
    costs: Any
    price: Float[Array, "m H"]
    k: Int[Array, ""]


class Plan(NamedTuple):
    """The policy of one episode: a distribution over actions at every (h, x), booleans when it is one-hot.

    An agent that reacts within the episode also keeps the Q it was made from; one-hot policies say their actions.
    V_next is V_{h+1} at every state, kept for value models that learn from it.
    """

    policy: Bool[Array, "H A S"] | Float[Array, "H A S"]
    Q: Float[Array, "H A S"] | None = None
    actions: Int[Array, "H S"] | None = None
    V_next: Float[Array, "H S"] | None = None


class PlanInfo(NamedTuple):
    """What the plan believed: V_h, for diagnosis. V_1 at the start is the optimistic value of the episode."""

    V: Float[Array, "H S"]


def init(agent: Agent, sizes: Sizes, share_values: bool, share_costs: bool) -> State:
    """The state before the first episode. Shared estimators have a step axis of 1 instead of H."""
    H = sizes.horizon
    return State(
        agent.values.init(sizes, 1 if share_values else H),
        agent.costs.init(sizes, 1 if share_costs else H),
        agent.penalty.init(sizes.constraints, H),
        jnp.asarray(1, jnp.int32),
    )


def believed(agent: Agent, costs: Any, k: Int[Array, ""]) -> Any:
    """What the choice goes by, at all steps: ghat, or what else it makes of the cost estimate.

    ghat = mean - optimism * width, and at most 0 where an action is known to be safe.
    """
    cost = agent.costs.estimate(costs, k)
    ghat = agent.ghat(cost.mean, cost.width)
    if agent.known_safe is not None:
        ghat = jnp.where(agent.known_safe[None, None], jnp.minimum(ghat, 0), ghat)
    return agent.choice.belief(ghat, cost)


def fitted(agent: Agent, state: State) -> tuple[Any, Any]:
    """What a plan is made from: the value model's fit, and what the choice goes by."""
    fit = agent.values.fit(state.values, state.k)
    belief = believed(agent, state.costs, state.k)
    if hasattr(belief, "bonus"):  # values that safe actions may yet show
        fit = fit._replace(bonus=belief.bonus)
    return fit, belief


def plan(agent: Agent, state: State, ties: UInt32[Array, "H S"]) -> tuple[Plan, PlanInfo]:
    """The backward pass over h: everything decided before the episode starts."""
    H, S = ties.shape
    fit, belief = fitted(agent, state)
    here = lambda h: jax.tree.map(lambda leaf: at_step(leaf, h), belief)
    A = jax.eval_shape(agent.values.estimate, fit, jnp.int32(0), jnp.zeros(S)).shape[0]
    names = np.arange(A, dtype=np.int32)

    # V and the action are kept as one complex number: a step with one result is one pass that computes Q once, where
    # one with two results is two passes that both do (31 us an episode of the lake became 26).
    def backward(made: Array, h: Array) -> tuple[Array, tuple[Array | None, Array | None]]:
        Q = agent.values.estimate(fit, h, made[h + 1].real)  # lines 5 to 7
        pi = agent.choice(Q, here(h), state.price[:, h], ties[h])  # eq. (11)
        V, a = rowwise.under(pi, Q), rowwise.under(pi, names.astype(float))  # line 9
        made = lax.dynamic_update_index_in_dim(made, lax.complex(V, a), h, 0)
        return made, (None if pi.dtype == bool else pi, Q if agent.choice.reacts else None)

    steps = jnp.arange(H, dtype=jnp.int32)
    made, (mixed, Q) = lax.scan(backward, jnp.zeros((H + 1, S), complex), steps, reverse=True)
    info = PlanInfo(made[:H].real)
    V_next = made[1:].real if getattr(agent.values, "learns_from_plans", False) else None
    if mixed is not None:
        return Plan(mixed, Q, V_next=V_next), info
    actions = made[:H].imag.astype(jnp.int32)
    return Plan(actions[:, None] == names[None, :, None], Q, actions, V_next), info


def due(agent: Agent, log_det: Float[Array, " T"], when_planned: Float[Array, " T"]) -> Bool[Array, ""]:
    """Whether to plan again: some h has det(Lambda_h) >= switch * det(Lambda_h at the last plan).

    The rule of rare switching, as in LSVI-UCB++ (He, Zhao, Zhou and Gu, ICML 2023), there with the factor 2.
    """
    assert agent.switch is not None
    return (log_det >= when_planned + jnp.log(agent.switch)).any()


def react(
    agent: Agent, state: State, plan: Plan, costs: Any, h: Int[Array, ""], x: Int[Array, ""], tie: UInt32[Array, ""]
) -> Bool[Array, " A"] | Float[Array, " A"]:
    """The choice at (h, x) made again with costs seen until now: eq. (11) with the newest ghat, Q and Z as planned."""
    assert plan.Q is not None
    ghat = at_step(believed(agent, costs, state.k), h)
    return agent.choice(plan.Q[h, :, x], ghat[:, :, x], state.price[:, h], tie)


def act(policy: AnyArray, u: AnyArray) -> AnyArray:
    """The action at one (h, x): drawn from its distribution (A,) by a uniform u, which a one-hot one ignores.

    For NumPy and JAX arrays alike: the compiled driver and the stepping one share it.
    """
    return (u >= policy.astype(u.dtype).cumsum()[:-1]).sum(dtype=np.int32)


def learn(agent: Agent, state: State, episode: Any, costs: Any = None) -> State:
    """One update per episode: both estimators, then the price. `costs` is the cost model's state if it is done."""
    return State(
        agent.values.update(state.values, episode),
        agent.costs.update(state.costs, episode) if costs is None else costs,
        agent.penalty.update(state.price, episode.cost.T, state.k),  # eq. (13)
        state.k + 1,
    )
