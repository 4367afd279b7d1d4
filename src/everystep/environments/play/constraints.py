"""The constraints of one step of an environment: signed numbers g, each safe iff g <= 0.

The user gives them as `constraint(obs, action, obs_next, info)`, which returns one number or several; or the
environment does, as `info["constraint"]`. Where there is only a non-negative `info["cost"]`, as in other libraries, it
is used as g: safe where it is 0, unsafe above.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from everystep.environments.protocols import Info
from everystep.errors import LARGEST_MEASUREMENT, EverystepError, is_masked, shown, user_code

# What to do about a constraint that features do not fit; the same advice everywhere.
REWRITE = (
    "if it is clipped, divide it instead; if it is the max or the abs of several numbers, return these as several "
    "constraints"
)

MOST_CONSTRAINTS = 100  # the compiled plan is unrolled over them

# Observations and actions are those of the environment, of any type.
Constraint = Callable[[Any, Any, Any, Info], ArrayLike]


def check(constraint: object) -> None:
    """Raise unless `constraint` is a function, or None."""
    if constraint is not None and not callable(constraint):
        raise EverystepError(
            f"constraint is {shown(constraint)}; give a function of (obs, action, obs_next, info), "
            "or none where info has 'constraint' or 'cost'."
        )


def observed(constraint: Constraint | None, obs: object, action: object, obs_next: object, info: Info) -> np.ndarray:
    """The constraints (m,) observed on one step: by the function if there is one, else from `info`."""
    if constraint is None:
        return from_info(info)
    check(constraint)
    failed = lambda name, words: (
        f"the constraint function raised {name} ({words}) at observation {shown(obs)}, action {action}; make it return "
        "a number there."
    )
    with user_code(failed):
        given = constraint(obs, action, obs_next, info)
    words = lambda: f"the constraint function returned {shown(given)} at observation {shown(obs)}, action {action}"
    return signed(given, words)


def unsafe_by_info(info: Info) -> bool | None:
    """Whether a step was unsafe by what the environment reports; None if it does not report its constraints."""
    try:
        return bool((from_info(info) > 0).any())
    except (EverystepError, TypeError):  # nothing, or nothing that can be read
        return None


def from_info(info: Info) -> np.ndarray:
    """The constraints (m,) that an environment reports."""
    for key in ("constraint", "cost"):
        if key in info:
            return signed(info[key], lambda: f"info['{key}'] is {shown(info[key])}")  # noqa: B023
    names = shown(", ".join(map(str, info))) or "nothing"
    raise EverystepError(
        f"info has neither 'constraint' nor 'cost' (it has {names}); "
        "give constraint=, a function of (obs, action, obs_next, info)."
    )


def signed(value: ArrayLike, words: Callable[[], str]) -> np.ndarray:
    """`value` as (m,) finite numbers; `words` returns the start of the error message, which names the source."""
    if is_masked(value):
        raise EverystepError(f"{words()}, of which a part is masked; give finite numbers, safe iff <= 0.")
    try:
        g = np.atleast_1d(np.asarray(value))
    except Exception:  # lists of different lengths, or an object that fails while it is read
        g = np.empty((0, 0))
    if g.ndim != 1 or not g.size or g.dtype.kind not in "biuf" or not np.isfinite(g).all():
        raise EverystepError(f"{words()}; give one finite number or several, safe iff <= 0.")
    if len(g) > MOST_CONSTRAINTS:
        raise EverystepError(
            f"{words()}, {len(g)} constraints; give at most {MOST_CONSTRAINTS}, such as the largest of each group."
        )
    g = g.astype(np.float64)
    if (np.abs(g) > LARGEST_MEASUREMENT).any():
        raise EverystepError(f"{words()}; scale it, so that it stays below {LARGEST_MEASUREMENT:g}.")
    return g


def violation(g: np.ndarray) -> float:
    """sum_i max(g_i, 0), which other libraries call cost."""
    return float(np.maximum(g, 0.0).sum())
