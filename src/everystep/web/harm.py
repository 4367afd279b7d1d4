"""The harm-to-go on pages, for problems with states that have no safe action (`lsvi/ahead.py`, docs/look-ahead.md).

    exact      G*_h(x, a), the least expected violation from step h on after action a; C*_h(x) = min_a G*_h(x, a), and
               a state is viable at h if C*_h(x) = 0
    estimated  Ghat_h(x, a) and C_h(x) of an agent that looks ahead, from which its next plan is made

Pages derive C, and viability, from G. Steps with equal G* are sent once (many steps before the end of an episode are
equal), and only the positive entries of Ghat, because an agent expects harm only where it has observed some.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from everystep.lsvi import algorithm
from everystep.lsvi.ahead import HarmToGo
from everystep.lsvi.algorithm import Agent, PlanInfo, State
from everystep.mdp import certificates
from everystep.mdp.cmdp import FiniteCMDP
from everystep.mdp.world import at_step
from everystep.web.assets import as_base64

MOST = 4_000_000  # (h, x, a) of a problem whose harm-to-go is computed for a page
MOST_SENT = 500_000  # numbers of G* in a page, equal steps counted once
POSITIVE = 0.02  # the share of positive Ghat for which the frames of a report are planned


class Belief(NamedTuple):
    """The positive Ghat_h(x, a) of an agent, with their places `at` in (H, S, A); C_h is that of the plan, or least."""

    at: np.ndarray
    value: np.ndarray
    of_plan: bool

    def dense(self, problem: FiniteCMDP) -> np.ndarray:
        """(H, S, A)."""
        G = np.zeros(problem.horizon * problem.states * problem.actions)
        G[self.at] = self.value
        return G.reshape(problem.horizon, problem.states, problem.actions)

    def of_states(self, problem: FiniteCMDP, policy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """C_h(x), and Ghat_h(x, a) of the action of the plan (H, S): (H, S) each."""
        G = self.dense(problem)
        one = policy < problem.actions  # else a distribution
        action = np.where(one, policy, 0).astype(np.int64)
        chosen = np.where(one, np.take_along_axis(G, action[..., None], -1)[..., 0], G.min(-1))
        return (chosen if self.of_plan else G.min(-1)), chosen

    def to_json(self) -> dict[str, Any]:
        return {"at": as_base64(self.at, "<u4"), "value": as_base64(self.value), "of_plan": self.of_plan}


def is_shown(problem: FiniteCMDP) -> bool:
    """Whether pages show harm-to-go: where a state has no safe action, unless the problem is too large."""
    return problem.dead_ends is not None and problem.horizon * problem.states * problem.actions <= MOST


def too_large(problem: FiniteCMDP) -> str:
    """The remark of a page that leaves harm-to-go out."""
    return f"harm-to-go is not shown, because {problem.states:,} states and {problem.horizon:,} steps are too many."


def exact(problem: FiniteCMDP) -> np.ndarray:
    """G*_h(x, a), (H, S, A)."""
    return certificates.led_to(problem).swapaxes(-1, -2)


def sent(G: np.ndarray) -> dict[str, Any] | None:
    """G*, equal steps once: `steps` says which of the tables (S, A) in `value` a step has. None if it is too large."""
    tables, steps = np.unique(G.astype(np.float32).reshape(len(G), -1), axis=0, return_inverse=True)
    if tables.size > MOST_SENT:
        return None
    return {"steps": steps.reshape(-1).tolist(), "value": as_base64(tables)}


def traced_belief(agent: Agent, state: State, info: PlanInfo) -> Float[Array, "H S A"] | None:
    """Ghat_h(x, a) of the plan with this info; None for an agent that estimates no harm-to-go."""
    ahead, C = agent.ahead, info.C
    if not isinstance(ahead, HarmToGo) or C is None:
        return None
    fit, belief = algorithm.fit_models(agent, state)
    width = ahead.width(agent.values, state.values, state.k)

    def of_step(h: Array, C_next: Array) -> Array:
        after = ahead.after(agent.values, fit, h, C_next, None if width is None else at_step(width, h))
        G: Array = ahead.led_to(jax.tree.map(lambda leaf: at_step(leaf, h), belief), after)
        return G.T

    H = len(C)
    C_after = jnp.concatenate([C[1:], jnp.zeros_like(C[:1])])
    G: Array = jax.lax.map(lambda step: of_step(*step), (jnp.arange(H, dtype=jnp.int32), C_after))
    return G


def belief_of(agent: Agent, G: np.ndarray | None, problem: FiniteCMDP) -> Belief | None:
    """The belief in the units of g, from Ghat in those of the agent."""
    if G is None:
        return None
    assert isinstance(agent.ahead, HarmToGo)
    unit = 1.0 if problem.scale is None else float(np.max(problem.scale))  # as for certificates ahead
    flat = np.asarray(G).reshape(-1) * unit
    at = np.flatnonzero(flat > 0)
    return Belief(at.astype(np.uint32), flat[at].astype(np.float32), bool(agent.ahead.of_plan))
