"""Does one low reward squeeze all others? Rewards are scaled to [0, 1] by their range, so a penalty of -100 in rewards
of 1 leaves them a hundredth of it, and values cannot tell good from bad before much has been played.

    others   all rewards but the lowest tenth, and 0, which an ended episode earns
    outlier  a reward that lies below the others by more than ten times their range
"""

from __future__ import annotations

import numpy as np

from everystep.training.diagnosis.finding import Finding

LOWEST = 0.1  # the share of steps that outliers may have
RANGES = 10


def outlier_finding(rewards: np.ndarray) -> Finding | None:
    """Advice, if the lowest of the rewards is an outlier."""
    if not len(rewards):
        return None
    least, typical = rewards.min(), np.quantile(rewards, LOWEST, method="lower")
    low, high = min(typical, 0.0), max(rewards.max(), 0.0)
    if low == high or least >= low - RANGES * (high - low):
        return None
    share = (high - low) / (high - least)
    return Finding(
        "rewards",
        f"a reward of {least:g} squeezes the others, from {low:g} to {high:g}, into {share:.1g} of [0, 1]",
        "leave what it punishes to the constraint, or give reward_range",
        {"least": float(least), "low": float(low), "high": float(high)},
    )
