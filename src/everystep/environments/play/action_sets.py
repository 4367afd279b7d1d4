"""The candidates that an agent chooses among where the action space is not Discrete: `es.actions`.

    es.actions.grid(5)              5 points along each coordinate of a Box, ends included; or (5, 3) points
    es.actions.sobol(64, seed=0)    64 points spread evenly over a Box (a scrambled Sobol sequence)
    es.actions.listed([[-1.0], [0.0], [1.0]])

    learner.actions.values          the candidates (A, ...), as the environment takes them
    learner.actions.nearest(a)      the number of the nearest candidate, for logged data

An agent works with the number of a candidate; environments, constraint functions and users see the action itself.
Without `actions=` a Box has grid(5) while that is at most 125 candidates, else sobol(64); MultiDiscrete and MultiBinary
are enumerated, the last coordinate fastest, up to 1,024 actions.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, SupportsIndex

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from everystep.errors import LARGEST, EverystepError, check_type, quoted, seed_number, shown, whole_number
from everystep.features import spaces, syntax
from everystep.features.spaces import UNBOUNDED, Space

__all__ = ["ActionSet", "Candidates", "grid", "listed", "sobol"]

MOST_ACTIONS = 10_000  # of a Discrete space: plans hold arrays with an entry for each pair of actions
MOST_CANDIDATES = 4096
MOST_ENUMERATED = 1024  # without actions=
POINTS, MOST_ON_GRID, SPREAD = 5, 125, 64  # grid(5) while it has at most 125 candidates, else sobol(64)


# --- what a user asks for ---------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ActionSet:
    """The candidates that a user asks for. `candidates` makes them for a space.

    >>> str(es.actions.grid(5)), str(es.actions.sobol(64, seed=1))
    ('grid(5)', 'sobol(64, 1)')
    """

    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        plain = lambda value: f"array{value.shape}" if isinstance(value, np.ndarray) else str(value)
        return f"{self.kind}({', '.join(map(plain, self.settings.values()))})"


def grid(points: int | Sequence[int] = POINTS) -> ActionSet:
    """`points` along each coordinate of a Box (a number, or one for each), ends included; one point is the middle.

    >>> learner = es.Learner("Pendulum-v1", actions=es.actions.grid(3))
    >>> learner.actions.values.tolist()
    [[-2.0], [0.0], [2.0]]
    """
    given = spaces.as_floats(points)
    if given is None or given.ndim > 1 or not given.size:
        raise EverystepError(f"points of grid are {quoted(points)}; give a number, or one for each coordinate.")
    counts = tuple(whole_number("points of grid", each) for each in np.atleast_1d(np.asarray(points)).tolist())
    return ActionSet("grid", {"points": counts if given.ndim else counts[0]})


def sobol(count: int = SPREAD, seed: int = 0) -> ActionSet:
    """`count` points spread evenly over a Box, by a scrambled Sobol sequence; powers of two are the most even.

    >>> learner = es.Learner("Pendulum-v1", actions=es.actions.sobol(16, seed=0))
    >>> len(learner.actions)
    16
    """
    count = whole_number("count of sobol", count)
    if count > MOST_CANDIDATES:
        raise EverystepError(f"count of sobol is {count}; give at most {MOST_CANDIDATES}.")
    return ActionSet("sobol", {"count": count, "seed": seed_number("seed of sobol", seed)})


def listed(actions: ArrayLike) -> ActionSet:
    """These actions: (A, k), or (A,) where an action is one number, or (A, ...) in the shape of the space.

    >>> learner = es.Learner("Pendulum-v1", actions=es.actions.listed([-2.0, 0.0, 0.5]))
    >>> learner.actions.action(2).tolist()
    [0.5]
    """
    array = spaces.as_floats(actions)
    if array is None or array.ndim == 0:
        raise EverystepError(f"actions of listed are {quoted(actions)}; give an array of numbers, one action per row.")
    if not array.size:
        raise EverystepError(f"actions of listed have shape {array.shape}; give at least one action.")
    if not np.isfinite(array).all():
        raise EverystepError(f"actions of listed hold {array[~np.isfinite(array)][0]}; give finite numbers.")
    return ActionSet("listed", {"actions": array})


NAMED: dict[str, Callable[..., ActionSet]] = {"grid": grid, "sobol": sobol, "listed": listed}
HOW = "write grid(5), grid([5, 3]), sobol(64), or listed([[-1, 0], [1, 0.5]])"


def read(text: object) -> ActionSet:
    """A set of actions from its text, as on a command line; it is parsed, never evaluated."""
    return syntax.called(text, "actions", NAMED, HOW)


# --- for a space ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Candidates:
    """The actions of an environment, by number from 0.

    count, first   A; of a Discrete space the number of its first action, else 0
    values         the actions (A, ...) as the environment takes them; None for a Discrete space
    low, high (k,) the bounds of their coordinates
    about          how the candidates were chosen, if not by the user

    >>> candidates = es.Learner("Pendulum-v1", actions=es.actions.grid(5)).actions
    >>> candidates.action(4).tolist(), candidates.several([0, 1]).tolist()
    ([2.0], [[-2.0], [-1.0]])
    >>> candidates.points[:, 0].tolist()
    [-1.0, -0.5, 0.0, 0.5, 1.0]
    >>> candidates.number_of([0.9]), candidates.nearest([[-2.0], [0.2]]).tolist()
    (3, [0, 2])
    >>> again = es.actions.Candidates.from_arrays(candidates.arrays())
    >>> candidates.check_same(again, "the policy")
    >>> candidates.remark
    """

    count: int
    first: int = 0
    values: np.ndarray | None = None
    low: Float[np.ndarray, " k"] = field(default_factory=lambda: np.zeros(0))
    high: Float[np.ndarray, " k"] = field(default_factory=lambda: np.zeros(0))
    about: str | None = None

    def __len__(self) -> int:
        return self.count

    @property
    def points(self) -> Float[np.ndarray, "A k"] | None:
        """Their coordinates in the scale [-1, 1]; None for a Discrete space."""
        return None if self.values is None else self._scaled(self.values.reshape(self.count, -1))

    @property
    def remark(self) -> str | None:
        return (
            None if self.about is None else f"the agent chooses among {self.count} actions, {self.about}: see actions"
        )

    def action(self, number: SupportsIndex) -> int | np.ndarray:
        """An action as the environment takes it, from its number."""
        return int(number) + self.first if self.values is None else np.array(self.values[number])

    def several(self, numbers: np.ndarray) -> np.ndarray:
        """The same for several, in an array."""
        return numbers + self.first if self.values is None else self.values[numbers]

    def number_of(self, action: object) -> int:
        """The number of one action; of the nearest candidate where there are candidates."""
        if self.values is None:
            number = action.item() if isinstance(action, np.ndarray) and action.size == 1 else action
            return whole_number("action", number, self.first, self.first + self.count - 1) - self.first
        return int(self.nearest(np.asarray(spaces.as_floats(action))[None])[0])

    def nearest(self, actions: ArrayLike) -> np.ndarray:
        """The number of the nearest candidate (n,) for each of n actions, in the scale of their bounds."""
        if self.values is None:
            raise EverystepError("actions of a Discrete space are numbers already; subtract the first of them.")
        rows, k = spaces.as_floats(actions), len(self.low)
        if rows is None or not np.isfinite(rows).all() or rows.ndim == 0 or rows.size != len(rows) * k:
            raise EverystepError(f"actions are {shown(actions)}; give finite numbers, (n, {k}).")
        points, numbers = self.points, np.empty(len(rows), np.int64)
        assert points is not None
        scaled = self._scaled(rows.reshape(len(rows), k))
        for i, each in enumerate(scaled):
            numbers[i] = ((points - each) ** 2).sum(1).argmin()
        return numbers

    def _scaled(self, rows: np.ndarray) -> np.ndarray:
        span = self.high - self.low
        middle = (self.low + self.high) / 2
        scale = np.where(span > 0, 2 / np.where(span > 0, span, 1), 0)
        return np.asarray(np.clip((rows - middle) * scale, -1, 1))

    def arrays(self) -> dict[str, np.ndarray]:
        """What a file must hold, by name; empty for a Discrete space."""
        if self.values is None:
            return {}
        return {"actions": self.values, "actions_low": self.low, "actions_high": self.high}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Candidates:
        """The inverse; raises what the arrays lack."""
        values, low, high = (np.asarray(arrays[name]) for name in ("actions", "actions_low", "actions_high"))
        if not values.ndim or not len(values) or values.size != len(values) * len(low) or low.shape != high.shape:
            raise ValueError("shapes of actions")
        return cls(len(values), 0, values, low, high)

    def check_same(self, other: Candidates, who: str) -> None:
        """Raise unless `other`, of an environment, has the same actions."""
        if self.values is None and other.values is None:
            if (other.count, other.first) != (self.count, self.first):
                raise EverystepError(
                    f"env has {other.count} actions from {other.first}, and {who} {self.count} from {self.first}; "
                    "give the environment that it was trained in."
                )
        elif (
            self.values is None
            or other.values is None
            or self.values.dtype != other.values.dtype
            or not np.array_equal(self.values, other.values)
        ):
            raise EverystepError(f"env has other actions than {who}; give the environment that it was trained in.")


def candidates(space: Space, given: ActionSet | Candidates | None = None) -> Candidates:
    """The candidates of a space, as given or by default; raises an error with a remedy if they do not fit."""
    if isinstance(given, Candidates):
        return _known(space, given)
    if given is not None:
        check_type("actions", given, ActionSet, "es.actions.grid(5), es.actions.sobol(64) or es.actions.listed(...)")
    if hasattr(space, "spaces"):
        raise EverystepError(
            f"the action space is {shown(space)}; agents choose among a list of arrays: wrap the environment so that "
            "its actions are one Box or one MultiDiscrete."
        )
    if hasattr(space, "nvec") or (hasattr(space, "n") and getattr(space, "shape", ()) != ()):
        return _enumerated(space, given)
    if hasattr(space, "low") and hasattr(space, "high"):
        return _in_box(space, given)
    if hasattr(space, "n"):
        if given is not None:
            raise EverystepError(
                f"actions is {given}, but the action space is {shown(space)}, whose actions are a list already; leave "
                "actions out."
            )
        count = whole_number("n of the action space", space.n)
        if count > MOST_ACTIONS:
            raise EverystepError(f"the action space has {count} actions; give at most {MOST_ACTIONS}.")
        return Candidates(count, whole_number("start of the action space", getattr(space, "start", 0), -LARGEST))
    raise EverystepError(
        f"the action space is {shown(space)}; agents choose among a finite number: make it Discrete, MultiDiscrete, "
        "MultiBinary or a Box."
    )


def for_a_batch(space: Space, given: ActionSet | Candidates | None) -> Candidates:
    """The actions whose numbers a batch holds. Those of a Box are given by the user, as in training."""
    found = candidates(space, given)
    if found.first:
        raise EverystepError(
            f"the action space is {shown(space)}; wrap the environment so that its actions start at 0."
        )
    if given is None and hasattr(space, "low"):
        raise EverystepError(
            f"the action space is {shown(space)}, and a batch has numbers of actions; give actions=es.actions.grid(5), "
            "or what the agent chooses among."
        )
    return found


def _known(space: Space, given: Candidates) -> Candidates:
    """Candidates that were made for a space like this one, such as those of a policy."""
    if given.values is None:
        own = candidates(space)
        given.check_same(own, "the policy")
        return own
    low, high = _bounds(space)
    if (
        given.values.shape[1:] != low.shape
        or given.values.dtype != space.dtype
        or not ((given.values >= low) & (given.values <= high)).all()
    ):
        raise EverystepError(
            f"the action space is {shown(space)}, which does not hold the actions of the policy; give the environment "
            "that it was trained in."
        )
    return given


def _bounds(space: Space) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest action, in the shape of the space; infinite where there are no bounds."""
    low = high = np.empty(0)
    try:
        shape = tuple(space.shape or ())
        if hasattr(space, "nvec"):
            low = np.zeros(shape) + np.asarray(getattr(space, "start", 0))
            high = low + np.asarray(space.nvec) - 1
        elif hasattr(space, "n"):
            low, high = np.zeros(shape), np.ones(shape)
        elif hasattr(space, "low") and hasattr(space, "high"):
            low, high = (np.broadcast_to(np.asarray(each, np.float64), shape) for each in (space.low, space.high))
        valid = low.shape == high.shape == shape and bool((low <= high).all()) and low.size > 0
        valid = valid and np.dtype(space.dtype).kind in "biuf"
    except Exception:  # a space that only resembles one of gymnasium's
        valid = False
    if not valid:
        raise EverystepError(f"the action space is {shown(space)}, without valid bounds; wrap the environment.")
    return np.where(low < -UNBOUNDED, -np.inf, low), np.where(high > UNBOUNDED, np.inf, high)


def _enumerated(space: Space, given: ActionSet | None) -> Candidates:
    low, high = _bounds(space)
    if given is not None:
        if given.kind != "listed":
            raise EverystepError(
                f"actions is {given}, which is for a Box, and the action space is {shown(space)}; give "
                "es.actions.listed(...), or leave actions out."
            )
        return _listed(space, given.settings["actions"], low, high)
    count = math.prod(int(each) for each in np.ravel(high - low + 1))
    if count > MOST_ENUMERATED:
        raise EverystepError(
            f"the action space is {shown(space)}, with {count:.4g} actions, and at most {MOST_ENUMERATED} are "
            "enumerated; give actions=es.actions.listed(...) with some of them."
        )
    every = [range(int(a), int(b) + 1) for a, b in zip(np.ravel(low), np.ravel(high), strict=True)]
    values = np.array(list(product(*every))).reshape(count, *low.shape).astype(space.dtype)
    return Candidates(count, 0, values, np.ravel(low), np.ravel(high), "all of its space")


def _in_box(space: Space, given: ActionSet | None) -> Candidates:
    low, high = _bounds(space)
    if given is not None and given.kind == "listed":
        return _listed(space, given.settings["actions"], low, high)
    about = None
    if given is None:
        given = grid(POINTS) if POINTS**low.size <= MOST_ON_GRID else sobol(SPREAD)
        about = str(given) if given.kind == "grid" else f"sobol({SPREAD})"
    if not (np.isfinite(low) & np.isfinite(high)).all():
        raise EverystepError(
            f"the action space is {shown(space)}, without finite bounds; wrap it in "
            "gymnasium.wrappers.RescaleAction or TransformAction, or give actions=es.actions.listed(...)."
        )
    a, b = np.ravel(low), np.ravel(high)
    units = _grid(given.settings["points"], len(a)) if given.kind == "grid" else _sobol(len(a), **given.settings)
    rows = a + units * (b - a)
    whole = np.dtype(space.dtype).kind in "biu"
    values = (np.round(rows) if whole else rows).reshape(-1, *low.shape).astype(space.dtype)
    values = np.clip(values, low, high).astype(space.dtype)  # rounding may leave the Box
    values = _each_once(values)
    return Candidates(len(values), 0, values, a, b, about)


def _grid(points: int | Sequence[int], k: int) -> np.ndarray:
    counts = (points,) * k if isinstance(points, int) else points
    if len(counts) != k:
        raise EverystepError(f"points of grid have {len(counts)} numbers for {k} coordinates; give one, or {k}.")
    if (count := math.prod(counts)) > MOST_CANDIDATES:
        raise EverystepError(
            f"grid({points}) makes {count:.4g} actions of {k} coordinates, more than {MOST_CANDIDATES}; give fewer "
            f"points, or es.actions.sobol({SPREAD})."
        )
    along = [np.linspace(0, 1, n) if n > 1 else np.full(1, 0.5) for n in counts]
    return np.stack(np.meshgrid(*along, indexing="ij"), -1).reshape(-1, k)


def _sobol(k: int, count: int, seed: int) -> np.ndarray:
    from scipy.stats import qmc

    if k > qmc.Sobol.MAXDIM:
        raise EverystepError(f"the action space has {k} coordinates; give actions=es.actions.listed(...).")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a number other than a power of two is less even
        return np.asarray(qmc.Sobol(k, seed=np.random.default_rng(seed)).random(count))


def _listed(space: Space, rows: np.ndarray, low: np.ndarray, high: np.ndarray) -> Candidates:
    """Given actions, checked."""
    k, shape = low.size, low.shape
    rows = rows[:, None] if rows.ndim == 1 and k == 1 else rows
    if rows.shape[1:] not in ((k,), shape):
        raise EverystepError(
            f"actions of listed have shape {rows.shape}, and an action has {k} coordinates; give (A, {k})."
        )
    if len(rows) > MOST_CANDIDATES:
        raise EverystepError(f"actions of listed are {len(rows)}; give at most {MOST_CANDIDATES}.")
    rows = rows.reshape(len(rows), *shape)
    whole = np.dtype(space.dtype).kind in "biu"
    wrong = (rows < low) | (rows > high) | ((rows != np.round(rows)) & whole)
    if wrong.any():
        at = tuple(np.argwhere(wrong)[0])
        raise EverystepError(
            f"action {at[0]} of listed holds {rows[at]:g}, which is not in the action space {shown(space)}; give "
            "actions inside."
        )
    values = rows.astype(space.dtype)
    if len(_each_once(values)) < len(values):
        raise EverystepError("actions of listed are not all different; give each action once.")
    ends = rows.reshape(len(rows), -1)
    low, high = np.ravel(low), np.ravel(high)
    finite = np.isfinite(low) & np.isfinite(high)
    return Candidates(len(values), 0, values, np.where(finite, low, ends.min(0)), np.where(finite, high, ends.max(0)))


def _each_once(values: np.ndarray) -> np.ndarray:
    """The different ones, in their order."""
    _, first = np.unique(values.reshape(len(values), -1), axis=0, return_index=True)
    return values[np.sort(first)]
