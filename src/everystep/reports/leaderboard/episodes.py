"""A row of results from the episodes of a training, for software that records episodes and not steps.

What happened inside an episode is not known, so `last_violation` is the end of the last episode with harm, and
`unsafe_steps`, if nobody counted them, all steps of the episodes with harm: both are upper bounds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from everystep.experiments import statistics
from everystep.reports.leaderboard import results_files

SHARES = 50  # equal parts of the training, for the curves


class Episodes(NamedTuple):
    """Returns, lengths and harm of episodes in their order; unsafe steps if they were counted."""

    returns: np.ndarray
    lengths: np.ndarray
    harm: np.ndarray
    unsafe_steps: np.ndarray | None = None


def row(
    system: str,
    problem: str,
    seed: int,
    training: Episodes,
    final: Episodes | None = None,
    *,
    kind: str = "rival",
    command: str = "",
    versions: Mapping[str, str] | None = None,
    seconds: float | None = None,
    about: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """One row; without `final` the episodes at the end of the training stand for the final policy."""
    results_files.check_name("system", system)
    results_files.check_name("problem", problem)
    ends = np.cumsum(training.lengths)
    steps, harmful = int(ends[-1]), training.harm > 0
    counted = training.unsafe_steps is not None
    unsafe = training.unsafe_steps if training.unsafe_steps is not None else training.lengths * harmful
    last = statistics.episodes_at_the_end(training.lengths)
    evaluated = Episodes(*(part[-last:] for part in training[:3])) if final is None else final
    cumulative = np.cumsum(training.harm)
    # A share of the training ends at step j steps / SHARES; episodes that ended by then count.
    ended = np.searchsorted(ends, steps * np.arange(1, SHARES + 1) / SHARES + 1e-9, side="right")
    curve = np.where(ended > 0, cumulative[np.maximum(ended, 1) - 1], 0.0)
    parts = np.split(training.returns, ended[:-1])
    settings = {
        "last_violation": "the end of the last episode with harm",
        "unsafe_steps": "counted" if counted else "all steps of the episodes with harm",
        "final": f"the end of the training (episodes: {last})" if final is None else "evaluation",
    }
    return {
        "system": system,
        "problem": problem,
        "seed": seed,
        "steps": steps,
        "harm": float(cumulative[-1]),
        "unsafe_steps": int(unsafe.sum()),
        "last_violation": int(ends[harmful][-1]) if harmful.any() else 0,
        "final_return": float(evaluated.returns.mean()),
        "final_harm": float(evaluated.harm.mean()),
        "final_episodes": len(evaluated.returns),
        "command": command,
        "versions": json.dumps(dict(versions or {})),
        "kind": kind,
        "settings": json.dumps({**(about or {}), **settings}),
        "seconds": seconds,
        "harm_curve": curve.tolist(),
        "return_curve": [float(part.mean()) if len(part) else np.nan for part in parts],
    }
