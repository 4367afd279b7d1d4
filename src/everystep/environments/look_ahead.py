"""Is the horizon of a plan long enough? What an agent that looks ahead can say about it after training.

A plan that looks j steps ahead sees the harm of j steps. Momentum, delay or stock make harm unavoidable some steps
before it happens; a plan must look further ahead than that. If the last half of its horizon still adds much harm to
what the first half sees, the next half might as well.
"""

from __future__ import annotations

import numpy as np

from everystep.environments.acting import ActingPlan

MOST_OBSERVATIONS = 1000
ADDED = 1.25  # the harm seen by the whole horizon, relative to half of it, above which a longer one is advised
LITTLE = 1e-3  # mean harm ahead below which nothing is said


def harm_ahead(plan: ActingPlan, observations: np.ndarray, steps: int) -> np.ndarray:
    """(n,): the harm that the plan expects within the next `steps` steps, at each observation."""
    assert plan.ahead is not None
    h = plan.price.shape[1] - steps
    found = plan.estimates(h, observations)
    estimated = found.mean - plan.optimism * found.width
    G = plan.ahead.led_to(estimated, found.after - plan.ahead.optimism * found.after_width)
    chosen = plan.choose(h, observations, np.random.default_rng(0))
    return np.take_along_axis(G, chosen[None], 0)[0]


def horizon_remark(plan: ActingPlan, observations: np.ndarray) -> str | None:
    """Advice to look further ahead, if the second half of the horizon still finds much harm that the first does not."""
    H = plan.price.shape[1]
    if plan.ahead is None or H < 4 or not len(observations):
        return None
    some = observations[:: max(len(observations) // MOST_OBSERVATIONS, 1)]
    half, whole = (float(harm_ahead(plan, some, steps).mean()) for steps in (H // 2, H))
    if whole <= LITTLE or whole <= ADDED * half:
        return None
    return (
        f"looking {H} steps ahead finds {whole:.2g} harm where {H // 2} steps find {half:.2g}: "
        f"a longer horizon may find more; try horizon={2 * H}"
    )
