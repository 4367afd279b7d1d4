"""How far ahead must a plan look? One rule, applied before training (`check_constraint.py`) and after it (here).

Momentum, delay or stock make a violation unavoidable some steps before it happens. An agent must decide before that, so
a plan must look further ahead than this distance d, and some way past it to see that what it does instead is safe:

    horizon = 2 d + MARGIN,   at most the length of an episode

Before training d is measured in copies of the environment. After training it is estimated from the cost model: let
C_j(x) be the least violation within the next j steps, by the best action in each of them (mode `least`). The distance
is above H / 2 at an observation where the whole horizon shows a violation that no action avoids, and half of it hardly
any,

    C_{H/2}(x) <= FIRST_SEEN C_H(x)

The violation that the plan itself expects is not used: a plan that violates the constraint occasionally expects twice
as much in twice the time, however far it looks.
"""

from __future__ import annotations

import numpy as np

from everystep.training.agent.contract import TrainingAgent, TrainingPlan
from everystep.training.diagnosis.finding import Finding

MARGIN = 5  # steps past the distance
MOST_OBSERVATIONS = 1000
ADDED = 1.25  # the violation seen by the whole horizon, relative to half of it, below which nothing more is computed
LITTLE = 1e-3  # mean violation ahead below which nothing is reported
FIRST_SEEN = 0.25
SHARE = 0.2  # of the unavoidable violation that only the second half of the horizon shows


def horizon_for(distance: int, length: int | None) -> int:
    """The steps to look ahead if a violation is avoidable up to `distance` steps before nothing avoids it."""
    wanted = 2 * distance + MARGIN
    return wanted if length is None else min(wanted, length)


def harm_ahead(plan: TrainingPlan, observations: np.ndarray, steps: int) -> np.ndarray:
    """(n,): the violation that the plan expects within the next `steps` steps, at each observation."""
    h = plan.horizon - steps
    G = _led_to(plan, observations, h)
    chosen = plan.choose(h, observations, np.random.default_rng(0))
    return np.asarray(np.take_along_axis(G, chosen[None], 0)[0])


def _led_to(plan: TrainingPlan, observations: np.ndarray, h: int) -> np.ndarray:
    """(A, n): the violation that each action leads to."""
    assert plan.ahead is not None
    found = plan.estimates(h, observations)
    estimated = found.mean - plan.optimism * found.width
    return np.asarray(plan.ahead.led_to(estimated, found.after_harm(float(plan.ahead.optimism))))


def horizon_finding(agent: TrainingAgent, plan: TrainingPlan, length: int) -> Finding | None:
    """Advice to look further ahead, if violations are unavoidable further ahead than half of the horizon shows."""
    H, observations = plan.horizon, agent.observations
    if plan.ahead is None or H < 4 or length <= H or not len(observations):
        return None
    some = observations[:: max(len(observations) // MOST_OBSERVATIONS, 1)]
    half, whole = (float(harm_ahead(plan, some, steps).mean()) for steps in (H // 2, H))
    if whole <= LITTLE or whole <= ADDED * half:
        return None
    least = agent.plan_of_least_harm()
    if least is None:
        return None
    half_least, whole_least = (_led_to(least, some, H - steps).min(0) for steps in (H // 2, H))
    late = np.where(half_least <= FIRST_SEEN * whole_least, whole_least, 0.0).sum()
    if whole_least.mean() <= LITTLE or late <= SHARE * whole_least.sum():
        return None
    share, longer = float(late / whole_least.sum()), horizon_for(H, length)
    return Finding(
        "horizon",
        f"{share:.0%} of the violation that no action avoids within {H} steps shows more than {H // 2} steps ahead, so "
        f"that {H} steps may be too few",
        f"set horizon={longer}",
        {"horizon": H, "share": share, "advised": longer},
    )
