"""Media streaming: a buffer that must not run empty, and two servers that fill it."""

from __future__ import annotations

import numpy as np

from everystep.errors import EverystepError, real_number, whole_number
from everystep.mdp.cmdp import FiniteCMDP, Known, Noise
from everystep.problems.registry import Comparison, register
from everystep.runtime import memory

SLOW, FAST = 0, 1
DELIVERS = (0.5, 0.9)  # the probability that a server delivers a packet within a step
PLAYS = 0.7  # the probability that a packet is played within a step, if there is one
PAYS = (1.0, 0.2)  # the saving with each server


@register("streaming", gym_id="everystep/Streaming-v0", compared=Comparison(episodes=2000, ablation=True))
def streaming(horizon: int = 4, levels: int = 6, limit: float = 0.2) -> FiniteCMDP:
    """A media buffer filled by a slow, cheap server or a fast one: it must rarely run empty.

    States      packets in the buffer, 0 to levels - 1.
    Actions     slow or fast: the server that is asked for the next packet.
    Transitions a packet arrives with probability 0.5 (slow) or 0.9 (fast), and one is played with probability 0.7 if
                there was one; a packet that does not fit is lost.
    Reward      1 for slow, 0.2 for fast: the saving.
    Constraint  c = P(the buffer is empty after the step), g = c - limit. Slow is unsafe with one packet or none.
    Observed    whether the buffer was empty, minus the limit.
    Start       one packet.
    Known       the threshold `limit`, and fast as the safe action at every level.
    Optimum     1.6223336 under the constraint, 4 without it, 0.8 with the fast server alone.
    Origin      streaming is a common example of constrained MDPs; the numbers were chosen for this library.

    >>> buffer = es.problems.streaming()
    >>> buffer.sizes, round(es.planner.solve(buffer).value, 4)
    (Sizes(states=6, actions=2, successors=3, horizon=4, constraints=1), 1.6223)
    """
    horizon, S = whole_number("horizon", horizon), whole_number("levels", levels, at_least=3)
    limit = real_number("limit", limit, 0, 1)
    memory.check_problem(lambda levels: memory.of_table(levels, 2), levels=S)
    P = np.zeros((S, 2, S))
    for x in range(S):
        for a, delivers in enumerate(DELIVERS):
            plays = PLAYS if x > 0 else 0.0
            for arrives, played in np.ndindex(2, 2):
                chance = (delivers if arrives else 1 - delivers) * (plays if played else 1 - plays)
                P[x, a, min(x + arrives - played, S - 1)] += chance
    empty = np.broadcast_to(np.arange(S) == 0, P.shape).astype(float)
    risk = P[:, :, 0]
    if limit <= risk[:, FAST].max():
        raise EverystepError(
            f"limit is {limit:g}; the fast server risks {risk[:, FAST].max():.4g}: give more than that."
        )
    return FiniteCMDP(
        P,
        np.tile(PAYS, (S, 1)),
        risk - limit,
        start=1,
        horizon=horizon,
        noise=Noise(cost_on_arrival=empty - limit),
        name="streaming",
        state_names=tuple(f"{x} packets" for x in range(S)),
        action_names=("slow", "fast"),
        known=Known(limit, np.full(S, FAST)),
    )
