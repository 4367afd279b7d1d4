"""Can these features be afforded? The one place that decides, before any array is made.

A linear model with e features (of a state, if they are crossed with actions) holds, for each of its T estimators and B
blocks, Lambda, its inverse and one copy of work, e^2 numbers each; and e F numbers for each of C states. Where actions
have coordinates F is 1, and estimates of all actions in all states count beside them.
"""

from __future__ import annotations

from everystep.errors import EverystepError
from everystep.training.agent.encoders import Encoder, FeatureEncoder

MOST_BYTES = 2e9
STATES = 8192  # for which memory is counted where it has no limit
MATRICES = 3
ESTIMATES = 4  # values, costs, and their widths


def bytes_of(encoder: FeatureEncoder, estimators: int, states: int) -> float:
    """What a model on these features holds."""
    shape = encoder.shape
    matrices = MATRICES * estimators * shape.blocks * float(shape.e) ** 2
    estimates = ESTIMATES * shape.actions * states if shape.joint else 0
    return 8 * (matrices + estimators * (shape.e * shape.vectors * states + estimates))


def check_size(agent: str, value: Encoder, cost: Encoder | None, estimators: int, memory: int | None) -> None:
    """Refuse features whose matrices would not fit, with what they would take."""
    encoders = {"features": value} | ({} if cost is None or cost is value else {"cost_features": cost})
    linear = {name: each for name, each in encoders.items() if isinstance(each, FeatureEncoder)}
    needed = {name: bytes_of(each, estimators, memory or STATES) for name, each in linear.items()}
    if sum(needed.values()) <= MOST_BYTES:
        return
    name = max(needed, key=lambda each: needed[each])
    shape = linear[name].shape
    raise EverystepError(
        f"{name} of {agent} make {shape.e} numbers for each of {shape.actions} actions (d = {linear[name].d}); their "
        f"matrices would take {needed[name] / 1e9:.3g} GB, and a refreshed inverse {2 * shape.blocks * shape.e**3:.1g} "
        f"operations: ask for fewer, so that they take at most {MOST_BYTES / 1e9:g} GB."
    )
