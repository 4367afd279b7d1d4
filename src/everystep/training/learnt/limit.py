"""The limit itself, called on imagined steps: a constraint that is a function of observations need not be learnt.

A constraint `g(obs, action, obs_next, info)` is called with an empty info on transitions that were seen. Where it
returns what was observed, for all of them, it is called on imagined steps too. A constraint that depends on anything
else (the info, the environment, the number of its calls) returns something else there, or fails; then it is learnt.
"""

from __future__ import annotations

import contextlib

import numpy as np

from everystep.environments.play.action_sets import Candidates
from everystep.environments.play.constraints import Constraint
from everystep.features.spaces import Space

CLOSE = 1e-6  # of the largest |g|: observations may be of 32-bit numbers
COMPARED = 200  # of the newest transitions


class Limit:
    """A constraint, to be called on observations in rows, which are given to it as the environment gives them."""

    def __init__(self, constraint: Constraint, space: Space, actions: Candidates) -> None:
        self.constraint, self.shape, self.kind = constraint, space.shape or (), space.dtype
        self.actions = [actions.action(which) for which in range(actions.count)]

    def __call__(self, x: np.ndarray, y: np.ndarray, a: np.ndarray) -> np.ndarray | None:
        """(n, m): for observations x (n, o) before and y (n, o) after actions a (n,); None if it fails for any."""
        before, after = (each.astype(self.kind).reshape(len(each), *self.shape) for each in (x, y))
        with contextlib.suppress(Exception, SystemExit):
            given = zip(before, a.tolist(), after, strict=True)
            g = np.asarray([self.constraint(obs, self.actions[i], then, {}) for obs, i, then in given], np.float64)
            if np.isfinite(g).all():
                return g.reshape(len(x), -1)
        return None

    def agrees(self, x: np.ndarray, y: np.ndarray, a: np.ndarray, g: np.ndarray) -> bool:
        """Whether it returns the constraints g (n, m) that were observed, for the newest transitions."""
        found, g, largest = self(*(each[-COMPARED:] for each in (x, y, a))), g[-COMPARED:], float(np.abs(g).max())
        return found is not None and found.shape == g.shape and bool((np.abs(found - g) <= CLOSE * largest).all())


def limit_of(constraint: Constraint | None, space: Space, actions: Candidates) -> Limit | None:
    """None where the environment reports its constraints, or observations are not one array of measurements."""
    one_array = hasattr(space, "low") and space.shape is not None
    return Limit(constraint, space, actions) if constraint is not None and one_array else None
