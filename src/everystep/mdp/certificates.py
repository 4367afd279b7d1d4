"""Certificates: the actions that cost intervals label safe or unsafe, and how often the labels are false.

    safe     upper bound <= 0 for every constraint        unsafe   lower bound > 0 for some        unknown   neither

With valid radii (`paper`, `coordinate`) all intervals hold simultaneously with probability 1 - p, and so all labels are
true at all times. With `tuned` radii labels are a heuristic without a p. For NumPy and JAX arrays.

Agents that look ahead also bound the harm that an action leads to, G*_h(x, a) (`lsvi/ahead_bounds.py`):

    safe ahead     upper bound <= tolerance       unsafe ahead    lower bound > tolerance       unknown   neither

An action is *unsafe ahead* if it makes more harm unavoidable than the tolerance, now or later. These labels are true at
all times with probability 1 - 2 p. With a tolerance of 0, before the last step, an action is safe ahead only if every
state that may be entered next has such an action: what was never seen to follow may still follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from everystep.mdp.cmdp import FiniteCMDP
from everystep.mdp.world import AnyArray, at_step, expected

SAFE, UNKNOWN, UNSAFE = 1, 0, -1
ROUNDING = 1e-9  # of exact harm


class LabelCounts(NamedTuple):
    """The number of (h, x, a) labelled safe and unsafe, and the number of these labels that are false."""

    safe: AnyArray
    unsafe: AnyArray
    false: AnyArray


def labels(lower: AnyArray, upper: AnyArray) -> AnyArray:
    """(..., T, m, A, S) bounds to (..., T, A, S) labels."""
    safe, unsafe = (upper <= 0).all(-3), (lower > 0).any(-3)
    return safe.astype(np.int8) - unsafe.astype(np.int8)


def labels_ahead(lower: AnyArray, upper: AnyArray, tolerance: AnyArray = 0.0) -> AnyArray:
    """Bounds (..., H, A, S) on the harm that an action leads to, as labels of the same shape."""
    return (upper <= tolerance).astype(np.int8) - (lower > tolerance).astype(np.int8)


def count_labels(label: AnyArray, g: AnyArray, counted: AnyArray) -> LabelCounts:
    """The labels compared with the true g (T, m, A, S), over the states that are `counted` (S,); keeps leading axes.

    A label of an estimator that is shared over steps holds for every step: it counts once, and is false if it is false
    at any step.
    """
    safe_step = (g <= 0).all(-3)
    if label.shape[-3] == 1:
        always, ever = safe_step.all(0, keepdims=True), safe_step.any(0, keepdims=True)
    else:
        always = ever = safe_step
    total: Callable[[AnyArray], AnyArray] = lambda mask: (mask & counted).sum((-3, -2, -1), dtype=np.int32)
    safe, unsafe = label == SAFE, label == UNSAFE
    return LabelCounts(total(safe), total(unsafe), total((safe & ~always) | (unsafe & ever)))


def count_labels_ahead(label: AnyArray, G: AnyArray, counted: AnyArray, tolerance: AnyArray = 0.0) -> LabelCounts:
    """Labels ahead (..., H, A, S) compared with the harm G (H, A, S) that actions lead to, where `counted` (S,)."""
    total: Callable[[AnyArray], AnyArray] = lambda mask: (mask & counted).sum((-3, -2, -1), dtype=np.int32)
    return LabelCounts(total(label == SAFE), total(label == UNSAFE), total(false_ahead(label, G, tolerance)))


def false_ahead(label: AnyArray, G: AnyArray, tolerance: AnyArray = 0.0) -> AnyArray:
    """Which labels ahead are false. Harm of 0 is exact; other harm may be off by ROUNDING, which falsifies no label."""
    certainly_safe = tolerance - (ROUNDING if tolerance > 0 else 0) >= G
    return ((label == SAFE) & (tolerance + ROUNDING < G)) | ((label == UNSAFE) & certainly_safe)


def summary(
    problem: FiniteCMDP,
    agents: Sequence[Mapping[str, Any]],
    bounds: Mapping[str, np.ndarray],
    tolerance: float | None = None,
) -> dict[str, dict[str, Any]]:
    """For each agent of a run's spec: mean numbers of labels over seeds, and the number of seeds with a false label.

    `bounds` holds <agent>_lower and <agent>_upper, (seeds, T, m, S, A), and of agents that look ahead
    <agent>_ahead_lower and <agent>_ahead_upper, (seeds, H, S, A). `p` bounds the probability that any label of a
    seed is false; None means that labels are a heuristic. `tolerance` replaces that of the agents for labels ahead.
    """
    summaries = {}
    for agent in agents:
        name = agent["label"]
        if f"{name}_lower" not in bounds:
            continue
        found = _means(problem, final_counts(problem, name, bounds), bounds[f"{name}_lower"].shape[1])
        safe_set = found["safe"] * problem.actions / found["actions"]  # mean number labelled safe at one (h, x)
        summaries[name] = {"p": agent["confidence"], **found, "safe_set": safe_set}
        if "ahead" in agent and f"{name}_ahead_lower" in bounds:
            summaries[name]["ahead"] = summary_ahead(problem, agent, bounds, tolerance)
    return summaries


def summary_ahead(
    problem: FiniteCMDP, agent: Mapping[str, Any], bounds: Mapping[str, np.ndarray], tolerance: float | None = None
) -> dict[str, Any]:
    """The same for labels ahead, at a tolerance in the units of g (None: that of the agent)."""
    tolerance = float(agent["ahead"]["tolerance"] if tolerance is None else tolerance)
    lower, upper = (bounds[f"{agent['label']}_ahead_{end}"].swapaxes(-1, -2) for end in ("lower", "upper"))
    label = labels_ahead(lower, upper, tolerance)
    counts = count_labels_ahead(label, led_to(problem, agent["ahead"]["events"]), ~problem.exempt, tolerance)
    return {"p": agent["ahead"]["p"], "tolerance": tolerance, **_means(problem, counts, problem.horizon)}


def _means(problem: FiniteCMDP, counts: LabelCounts, steps: int) -> dict[str, Any]:
    """Means over seeds of counts (seeds,) over as many steps, and the number of seeds with a false label."""
    actions = steps * int((~problem.exempt).sum()) * problem.actions
    safe, unsafe = float(np.mean(counts.safe)), float(np.mean(counts.unsafe))
    return {
        "actions": actions,
        "safe": safe,
        "unsafe": unsafe,
        "unknown": actions - safe - unsafe,
        "false": float(np.mean(counts.false)),
        "seeds_with_a_false_label": int((counts.false > 0).sum()),
    }


def final_counts(problem: FiniteCMDP, agent: str, bounds: Mapping[str, np.ndarray]) -> LabelCounts:
    """The counts of each seed at the end of its run."""
    label = labels(*(bounds[f"{agent}_{end}"].swapaxes(-1, -2) for end in ("lower", "upper")))
    return count_labels(label, problem.world.g, ~problem.exempt)


# --- what labels ahead are compared with ---------------------------------------------------------------------------
def violation_of_step(problem: FiniteCMDP, events: bool = False) -> np.ndarray:
    """c (T, A, S), in the units of g: sum_i max(E g_i, 0), or with `events` sum_i E max(g_i, 0) of observed costs."""
    world = problem.world
    if not events or (world.cost_seen is None and world.cost_sigma is None):
        return np.asarray(world.g.clip(min=0).sum(1))
    seen = world.g[:, :, :, None] if world.cost_seen is None else world.cost_seen  # (T, m, A, J or 1, S)
    sigma = np.zeros(problem.constraints) if world.cost_sigma is None else np.asarray(world.cost_sigma)
    harm = _mean_above_zero(seen, sigma[:, None, None, None]).sum(1)
    return harm[:, :, 0] if world.cost_seen is None else np.asarray((np.asarray(world.P) * harm).sum(2))


def _mean_above_zero(mean: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    """E max(X, 0) of a normal X: mean Phi(z) + sigma phi(z), z = mean / sigma."""
    from scipy.special import ndtr

    z = mean / np.where(sigma > 0, sigma, 1)
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    return np.asarray(np.where(sigma > 0, mean * ndtr(z) + sigma * density, np.maximum(mean, 0)))


def led_to(problem: FiniteCMDP, events: bool = False) -> np.ndarray:
    """G* (H, A, S), in the units of g: the harm that each action makes unavoidable. It is 0 at exempt states."""
    c, world = violation_of_step(problem, events), problem.world
    G = np.zeros((problem.horizon, problem.actions, problem.states))
    C = np.zeros(problem.states)
    for h in reversed(range(problem.horizon)):
        G[h] = np.where(problem.exempt, 0, at_step(c, h) + expected(at_step(world.P, h), world.successors, C))
        C = G[h].min(0)
    return G
