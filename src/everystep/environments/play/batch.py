"""A batch of transitions: arrays with one row per step, checked; and how one is collected step by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from everystep.environments.play.constraints import MOST_CONSTRAINTS, violation
from everystep.errors import LARGEST, LARGEST_MEASUREMENT, EverystepError, is_masked, shown, whole_number


@dataclass(frozen=True, eq=False)
class Batch:
    """n transitions; those of an episode are consecutive.

    observations       (n, ...)  float64, or int64 for states that are numbers
    actions            (n,)      int64
    rewards            (n,)      float64
    costs              (n, m)    float64, signed constraints as observed, safe iff <= 0
    next_observations  (n, ...)  like observations
    terminated         (n,)      whether the episode ended here; a truncated episode did not
    steps              (n,)      int64, the step h within the episode, counted from 0
    episode            (n,)      int64, the number of the episode

    `Batch.of` makes one and checks the arrays.

    >>> batch = es.Batch.of(
    ...     observations=[0, 1, 0], actions=[1, 0, 1], rewards=[0.0, 1.0, 0.0],
    ...     costs=[[-1.0], [0.5], [0.25]], next_observations=[1, 2, 1],
    ...     terminated=[False, True, False], episode=[1, 1, 2],
    ... )
    >>> len(batch), batch.constraints, batch.violation
    (3, 1, 0.75)
    >>> [batch.rewards[rows].sum().item() for rows in batch.episodes()]
    [1.0, 0.0]
    >>> batch.rows(slice(0, 2)).steps.tolist()
    [0, 1]
    """

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    costs: np.ndarray
    next_observations: np.ndarray
    terminated: np.ndarray
    steps: np.ndarray
    episode: np.ndarray

    @classmethod
    def of(
        cls,
        *,
        observations: ArrayLike,
        actions: ArrayLike,
        rewards: ArrayLike,
        costs: ArrayLike,
        next_observations: ArrayLike,
        terminated: ArrayLike,
        steps: ArrayLike | None = None,
        episode: ArrayLike | None = None,
        action_count: int | None = None,
    ) -> Batch:
        """A batch from array-like columns, checked.

        Either `steps` or `episode` may be left out: an episode begins where steps do not increase, and steps count the
        rows within an episode. With `action_count` = A, actions must be below A.
        """
        action_count = None if action_count is None else whole_number("action_count", action_count)
        before, after = (
            _observations("observations", observations),
            _observations("next_observations", next_observations),
        )
        n = len(before)
        if after.shape != before.shape:
            raise EverystepError(
                f"next_observations have shape {after.shape}, observations {before.shape}; give equal shapes."
            )
        if after.dtype != before.dtype:  # integers in one of them only: both are measurements
            before, after = before.astype(np.float64), after.astype(np.float64)
        cost = _numbers("costs", costs)
        cost = cost[:, None] if cost.ndim == 1 else cost
        if cost.ndim != 2 or not cost.shape[1]:
            raise EverystepError(f"costs have shape {cost.shape}; give ({n},), or ({n}, m) for m constraints.")
        if cost.shape[1] > MOST_CONSTRAINTS:
            raise EverystepError(f"costs have shape {cost.shape}; give at most {MOST_CONSTRAINTS} constraints.")
        columns = {
            "actions": _whole("actions", actions),
            "rewards": _numbers("rewards", rewards),
            "costs": cost,
            "terminated": _booleans("terminated", terminated),
            **_counted(n, steps, episode),
        }
        for name, column in columns.items():
            if len(column) != n or (column.ndim != 1 and name != "costs"):
                raise EverystepError(f"{name} have shape {column.shape}; give one for each of the {n} observations.")
        a = columns["actions"]
        if (bad := a < 0 if action_count is None else (a < 0) | (a >= action_count)).any():
            known = "0" if action_count is None else f"0 to {action_count - 1}"
            raise EverystepError(f"action is {a[bad][0]} in row {_row(bad)}; actions are numbered from {known}.")
        batch = cls(observations=before, next_observations=after, **columns)
        batch._check_episodes()
        return batch

    def __len__(self) -> int:
        return len(self.rewards)

    def rows(self, which: slice | ArrayLike) -> Batch:
        """The rows of a slice or an index."""
        try:
            return Batch(*(getattr(self, each.name)[which] for each in fields(self)))
        except Exception:
            raise EverystepError(
                f"which is {shown(which)}; give a slice or an index of the {len(self)} rows of the batch."
            ) from None

    @property
    def constraints(self) -> int:
        return int(self.costs.shape[1])

    @property
    def violation(self) -> float:
        """The total observed violation: the sum over steps and constraints of max(cost, 0)."""
        return violation(self.costs)

    def episodes(self) -> Iterator[slice]:
        """The rows of each episode."""
        begins = np.flatnonzero(np.diff(self.episode, prepend=np.nan) != 0)
        for first, last in zip(begins, [*begins[1:], len(self)], strict=True):
            yield slice(int(first), int(last))

    def _check_episodes(self) -> None:
        same = self.episode[1:] == self.episode[:-1]
        begins = self.episode[np.flatnonzero(np.diff(self.episode, prepend=np.nan) != 0)]
        names, times = np.unique(begins, return_counts=True)
        if (times > 1).any():
            raise EverystepError(
                f"episode {names[times > 1][0]} is in {times.max()} places; sort the rows by episode and step."
            )
        if (bad := same & (np.diff(self.steps) <= 0)).any():
            row = int(bad.argmax())
            raise EverystepError(
                f"step {self.steps[row + 1]} follows step {self.steps[row]} in episode {self.episode[row]}; "
                "sort the rows by episode and step."
            )
        if (bad := same & self.terminated[:-1]).any():
            row = int(bad.argmax())
            raise EverystepError(
                f"episode {self.episode[row]} continues after it terminated at step {self.steps[row]}; "
                "give the rows after it another episode number."
            )


class BatchBuilder:
    """Collects transitions one at a time. Every row is checked before it is added, so that earlier rows stay complete.

    A row is added by one append, so that an interrupt leaves no half row. `over` tells whether the episode has ended.
    """

    def __init__(self) -> None:
        self.over = False
        self._rows: list[tuple[Any, ...]] = []  # the fields of a Batch, and the true mean of the constraints

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rewards(self) -> list[float]:
        return [row[2] for row in self._rows]

    @property
    def mean_costs(self) -> list[np.ndarray]:
        """The true means of the constraints, where the environment reports them, else as observed."""
        return [row[-1] for row in self._rows]

    def add(
        self,
        *,
        observation: np.ndarray,
        action: int,
        reward: float,
        cost: np.ndarray,
        next_observation: np.ndarray,
        terminated: bool,
        step: int,
        episode: int,
        mean_cost: np.ndarray | None = None,
    ) -> None:
        """Add one transition."""
        if not np.isfinite(reward):
            raise EverystepError(f"the reward is {reward}; it must be a finite number.")
        if abs(reward) > LARGEST_MEASUREMENT:
            raise EverystepError(f"the reward is {reward:g}; scale it, so that it stays below {LARGEST_MEASUREMENT:g}.")
        for each in (observation, next_observation):
            check_observation(each)
        expected = self._rows[0][0].shape if len(self) else observation.shape
        for each in (observation, next_observation):
            if each.shape != expected:
                raise EverystepError(
                    f"an observation has shape {each.shape} after {expected}; give the same shape at every step."
                )
        if len(self) and (before := len(self._rows[0][3])) != len(cost):
            raise EverystepError(
                f"there are {len(cost)} constraints, and {before} before; give the same number at every step."
            )
        row = (observation, action, reward, cost, next_observation, terminated, step, episode)
        self._rows.append((*row, cost if mean_cost is None else mean_cost))

    def batch(self, action_count: int) -> Batch:
        """All transitions collected so far."""
        if not len(self):
            raise EverystepError("there are no steps; give at least one episode.")
        names = [field.name for field in fields(Batch)]
        columns: dict[str, Any] = dict(zip(names, map(list, zip(*self._rows, strict=True)), strict=False))
        return Batch.of(**columns, action_count=action_count)


def check_observation(observation: np.ndarray) -> None:
    """Raise what is wrong with the numbers of one observation."""
    if observation.dtype.kind not in "biuf" or is_masked(observation) or not np.isfinite(observation).all():
        raise EverystepError(f"an observation is {shown(observation)}; give finite numbers, or arrays of them.")
    if (
        observation.dtype.kind == "f"
        and observation.itemsize >= 8
        and (np.abs(observation) > LARGEST_MEASUREMENT).any()
    ):
        raise EverystepError(
            f"an observation is {shown(observation)}; scale it, so that it stays below {LARGEST_MEASUREMENT:g}."
        )


def _array(name: str, value: ArrayLike, kinds: str) -> np.ndarray:
    try:
        array = np.asarray(value)
    except Exception:  # rows of different lengths, or an object that fails while it is read
        array = np.array(None)
    if array.dtype.kind not in kinds or array.ndim == 0:
        raise EverystepError(f"{name} are not an array of numbers; give one with a row for each step.")
    if is_masked(value):
        raise EverystepError(f"{name} have masked entries; every entry must be a finite number.")
    return array


def _numbers(name: str, value: ArrayLike) -> np.ndarray:
    array = _array(name, value, "biuf").astype(np.float64)
    if not (finite := np.isfinite(array)).all():
        row = int(np.argwhere(~finite)[0][0])
        raise EverystepError(f"{name} are {array[~finite][0]} in row {row}; every entry must be finite.")
    return array


def _observations(name: str, value: ArrayLike) -> np.ndarray:
    array = _array(name, value, "biuf")
    if not array.size:
        raise EverystepError(f"{name} have shape {array.shape}; give at least one step.")
    return array.astype(np.int64) if array.dtype.kind in "biu" and array.ndim == 1 else _numbers(name, array)


def _whole(name: str, value: ArrayLike) -> np.ndarray:
    array = _numbers(name, value)
    if (bad := (array != np.floor(array)) | (np.abs(array) > LARGEST)).any():
        wanted = "" if (array[bad][0] != np.floor(array[bad][0])) else f" of at most {LARGEST}"
        raise EverystepError(f"{name} are {array[bad][0]} in row {_row(bad)}; give whole numbers{wanted}.")
    return array.astype(np.int64)


def _booleans(name: str, value: ArrayLike) -> np.ndarray:
    array = _array(name, value, "biuf")
    if (bad := (array != 0) & (array != 1)).any():
        raise EverystepError(f"{name} are {array[bad][0]} in row {_row(bad)}; give true or false, 1 or 0.")
    return array.astype(bool)


def _counted(n: int, steps: ArrayLike | None, episode: ArrayLike | None) -> dict[str, np.ndarray]:
    """steps and episode; a missing one is derived from the other."""
    if steps is None and episode is None:
        raise EverystepError(
            "there are neither steps nor episode; give one of them, to show which rows belong together."
        )
    h = None if steps is None else _whole("steps", steps)
    if h is not None and (bad := h < 0).any():
        raise EverystepError(f"steps are {h[bad][0]} in row {_row(bad)}; count them from 0.")
    k = None if episode is None else _whole("episode", episode)
    if h is not None:
        return {"steps": h, "episode": np.cumsum(np.diff(h, prepend=np.inf) <= 0) - 1 if k is None else k}
    assert k is not None
    row = np.arange(len(k))
    begins = np.diff(k, prepend=np.nan) != 0
    return {"steps": row - np.maximum.accumulate(np.where(begins, row, 0)), "episode": k}


def _row(bad: np.ndarray) -> int:
    return int(np.argwhere(bad)[0][0])
