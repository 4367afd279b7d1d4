"""Certificates: the actions that cost intervals label safe or unsafe, and how often the labels are false.

    safe     upper bound <= 0 for every constraint        unsafe   lower bound > 0 for some        unknown   neither

With valid radii (`paper`, `coordinate`) all intervals hold simultaneously with probability 1 - p, and so all labels are
true at all times. With `tuned` radii labels are a heuristic without a p. For NumPy and JAX arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from everystep.mdp.cmdp import FiniteCMDP
from everystep.mdp.world import AnyArray

SAFE, UNKNOWN, UNSAFE = 1, 0, -1


class LabelCounts(NamedTuple):
    """The number of (h, x, a) labelled safe and unsafe, and the number of these labels that are false."""

    safe: AnyArray
    unsafe: AnyArray
    false: AnyArray


def labels(lower: AnyArray, upper: AnyArray) -> AnyArray:
    """(..., T, m, A, S) bounds to (..., T, A, S) labels."""
    safe, unsafe = (upper <= 0).all(-3), (lower > 0).any(-3)
    return safe.astype(np.int8) - unsafe.astype(np.int8)


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
    total = lambda mask: (mask & counted).sum((-3, -2, -1), dtype=np.int32)
    safe, unsafe = label == SAFE, label == UNSAFE
    return LabelCounts(total(safe), total(unsafe), total((safe & ~always) | (unsafe & ever)))


def summary(
    problem: FiniteCMDP, agents: Sequence[Mapping[str, Any]], bounds: Mapping[str, np.ndarray]
) -> dict[str, dict[str, Any]]:
    """For each agent of a run's spec: mean numbers of labels over seeds, and the number of seeds with a false label.

    `bounds` holds <agent>_lower and <agent>_upper, (seeds, T, m, S, A). `p` bounds the probability that any label of a
    seed is false; None means that labels are a heuristic.
    """
    summaries = {}
    for agent in agents:
        name = agent["label"]
        if f"{name}_lower" not in bounds:
            continue
        counts = final_counts(problem, name, bounds)
        safe, unsafe = float(np.mean(counts.safe)), float(np.mean(counts.unsafe))
        actions = bounds[f"{name}_lower"].shape[1] * int((~problem.exempt).sum()) * problem.actions
        summaries[name] = {
            "p": agent["confidence"],
            "actions": actions,
            "safe": safe,
            "unsafe": unsafe,
            "unknown": actions - safe - unsafe,
            "safe_set": safe * problem.actions / actions,  # mean number of actions labelled safe at one (h, x)
            "false": float(np.mean(counts.false)),
            "seeds_with_a_false_label": int((counts.false > 0).sum()),
        }
    return summaries


def final_counts(problem: FiniteCMDP, agent: str, bounds: Mapping[str, np.ndarray]) -> LabelCounts:
    """The counts of each seed at the end of its run."""
    label = labels(*(bounds[f"{agent}_{end}"].swapaxes(-1, -2) for end in ("lower", "upper")))
    return count_labels(label, problem.world.g, ~problem.exempt)
