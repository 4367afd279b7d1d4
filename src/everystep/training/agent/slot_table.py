"""The states that a plan computes values at: which slot each observed next state has, and how their number is bounded.

A state that is met again keeps its slot. Where states never recur there would be a slot for every transition; with a
limit, states that are close to each other share one. The limit is kept by two rules, with a distance delta that only
grows (leader clustering, as in the doubling algorithm of Charikar, Chekuri, Feder and Motwani, 1997):

    a new state within delta of a state with a slot shares that slot
    when the slots run out, delta becomes the median distance of a state to its nearest, and states within it merge

What is lost by merging, and what is not, is in `models/linear.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from everystep.training.agent.models.protocols import NO_SLOT

Encode = Callable[[np.ndarray], np.ndarray]  # observations to features (n, e), in which distances are measured
PROJECTED = 32  # coordinates in which distances are measured
ROWS = 1024  # of a distance matrix that are computed at once


class Slots:
    """One list of states: their slots, and the observation of each slot."""

    def __init__(self, by_action: bool) -> None:
        self.by_action = by_action
        self.number: dict[bytes, int] = {}
        self.first_of_state: dict[bytes, int] = {}  # whichever action led there
        self.observations: list[np.ndarray] = []
        self.actions: list[int] = []

    def __len__(self) -> int:
        return len(self.observations)

    def find(self, observation: np.ndarray, a: int) -> int | None:
        return self.number.get(self._key(observation, a))

    def add(self, observation: np.ndarray, a: int) -> int:
        slot = len(self)
        self.number[self._key(observation, a)] = slot
        self.first_of_state.setdefault(observation.tobytes(), slot)
        self.observations.append(observation)
        self.actions.append(a)
        return slot

    def _key(self, observation: np.ndarray, a: int) -> bytes:
        return observation.tobytes() + (a.to_bytes(4, "little") if self.by_action else b"")

    def chosen(self, keep: np.ndarray) -> Slots:
        """The same with some slots, counted again."""
        new = Slots(self.by_action)
        for i in keep:
            new.add(self.observations[i], self.actions[i])
        return new


class SlotTable:
    """The slot of each state arrived at, by the step it is met at.

    steps       1, or one list of slots for each step of an episode
    by_action   with crossed features a slot belongs to a state and the action that led there: `LinearValueState.by`
    most        the most slots of the one list; None: as many as there are different states
    """

    def __init__(self, steps: int, by_action: bool, most: int | None = None) -> None:
        self.lists = [Slots(by_action) for _ in range(steps)]
        self.most = most
        self.merges = 0
        self.delta: float | None = None  # None: nothing was merged
        self._points = np.empty((0, PROJECTED))  # of the slots, once states are merged

    @property
    def stepped(self) -> bool:
        """Whether each step has its own slots."""
        return len(self.lists) > 1

    @property
    def used(self) -> int:
        return max(map(len, self.lists))

    @property
    def observations(self) -> list[list[np.ndarray]]:
        """The observation of each slot, by step."""
        return [each.observations for each in self.lists]

    def assign(
        self, steps: np.ndarray, observations: np.ndarray, actions: np.ndarray, kept: np.ndarray, shared: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The slot (n,) of each state met at its step, and whether the slot is its own or shared with a state nearby.

        States that are not `kept` have no slot; `shared` is the slot nearby, or -1, as `nearby` finds it.
        """
        slots, own = np.full(len(steps), NO_SLOT, np.int32), np.ones(len(steps), bool)
        for i in np.flatnonzero(kept):
            known = self.lists[int(steps[i]) if self.stepped else 0]
            a, slot = int(actions[i]), known.find(observations[i], int(actions[i]))
            if slot is None and shared[i] >= 0:
                slot, own[i] = int(shared[i]), False
            slots[i] = known.add(observations[i], a) if slot is None else slot
        return slots, own

    def has_room(self, shared: np.ndarray) -> bool:
        """Whether states fit that share these slots nearby (n,), or need one of their own (-1)."""
        return self.most is None or self.used + int((shared < 0).sum()) <= self.most

    def merge(self, encode: Encode) -> tuple[np.ndarray, np.ndarray]:
        """Merge states that are close: the slots that stay (n,), and for each slot so far (used,) the one it is now."""
        slots = self.lists[0]
        self._measure_new(encode)
        group = np.array(slots.actions) if slots.by_action else np.zeros(len(slots), int)
        apart = np.concatenate([_nearest(self._points[group == a], itself=True)[1] for a in np.unique(group)])
        self.delta = max(self.delta or 0.0, float(np.median(apart)))
        leader = np.arange(len(slots))
        for a in np.unique(group):
            members = np.flatnonzero(group == a)
            leader[members] = members[_leaders(self._points[members], self.delta)]
        keep = np.unique(leader)
        self.merges += 1
        self.lists[0], self._points = slots.chosen(keep), self._points[keep]
        return keep, np.searchsorted(keep, leader)

    def look_up(self, actions: np.ndarray) -> PlannedActions:
        """The planned actions (H, C) of all states with a slot now."""
        return PlannedActions(self, actions, [len(each) for each in self.lists], self.merges)

    def nearby(self, observations: np.ndarray, actions: np.ndarray, encode: Encode) -> np.ndarray:
        """The nearest slot within delta (n,), of the same action if slots have one; -1 if there is none."""
        shared = np.full(len(observations), -1)
        if self.delta is None:
            return shared
        self._measure_new(encode)
        slots, at = self.lists[0], _projected(encode(observations))
        group, wanted = (np.array(each) * slots.by_action for each in (slots.actions, actions))
        for a in np.unique(wanted):
            members, rows = np.flatnonzero(group == a), np.flatnonzero(wanted == a)
            if len(members):
                which, distance = _nearest(self._points[members], at[rows])
                shared[rows] = np.where(distance <= self.delta, members[which], -1)
        return shared

    def _measure_new(self, encode: Encode) -> None:
        """Points of the slots that have none yet."""
        new = self.lists[0].observations[len(self._points) :]
        if new:
            self._points = np.concatenate([self._points, _projected(encode(np.stack(new)))])


@dataclass(frozen=True)
class PlannedActions:
    """The planned action (H, C) of every state that had a slot when the plan was made, and None for other states.

    Once states were merged it is None for all of them: their slots are counted again.
    """

    table: SlotTable
    actions: np.ndarray
    used: list[int]
    merges: int

    def fields(self) -> dict[str, object]:
        """Everything but the table."""
        return {"actions": self.actions, "used": self.used, "merges": self.merges}

    def __call__(self, h: int, observation: np.ndarray) -> int | None:
        t = h if self.table.stepped else 0
        slot = self.table.lists[t].first_of_state.get(observation.tobytes())
        known = slot is not None and slot < self.used[t] and self.merges == self.table.merges
        return int(self.actions[h, slot]) if known else None


def _projected(psi: np.ndarray) -> np.ndarray:
    """(n, p): features in fewer coordinates, which keeps distances (Johnson and Lindenstrauss)."""
    e = psi.shape[1]
    if e <= PROJECTED:
        return np.pad(psi, [(0, 0), (0, PROJECTED - e)])
    return psi @ np.random.default_rng(0).normal(0, PROJECTED**-0.5, (e, PROJECTED))


def _nearest(points: np.ndarray, at: np.ndarray | None = None, itself: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """For each row of `at` the nearest of `points` and its distance; with `itself`, of the points to each other."""
    at = points if at is None else at
    which, distance = np.zeros(len(at), int), np.zeros(len(at))
    size = (points**2).sum(1)
    for first in range(0, len(at), ROWS):
        rows = at[first : first + ROWS]
        squared = size - 2 * rows @ points.T
        if itself:
            squared[np.arange(len(rows)), np.arange(first, first + len(rows))] = np.inf
        best = squared.argmin(1)
        which[first : first + len(rows)] = best
        distance[first : first + len(rows)] = np.sqrt(
            np.maximum(squared[np.arange(len(rows)), best] + (rows**2).sum(1), 0)
        )
    return which, distance


def _leaders(points: np.ndarray, delta: float) -> np.ndarray:
    """For each point the nearest leader: a point is a leader if no leader before it is within delta."""
    covered = np.zeros(len(points), bool)
    leaders: list[int] = []
    for first in range(0, len(points), ROWS):
        rows = points[first : first + ROWS]
        here = covered[first : first + ROWS]  # a view
        if leaders:
            here |= _nearest(points[leaders], rows)[1] <= delta
        size = (rows**2).sum(1)
        close = size[:, None] + size - 2 * rows @ rows.T <= delta**2
        for i in range(len(rows)):
            if not here[i]:
                leaders.append(first + i)
                here |= close[i]
    return np.asarray(np.array(leaders)[_nearest(points[leaders], points)[0]])
