"""What an unfinished run has on the disk: the rows so far, and the state of every unit that is under way.

    .work/part-000007.npz      rows of the chunks finished since the checkpoint before, final states of finished units
    .work/checkpoint-000007/   list.json: the parts with their sizes and checksums; carry.npz: the states of units

A work unit is one agent on a batch of seeds (work_units.py). The last two checkpoints are kept (files/store.py). One
that is cut or altered is recognised by its record and reported, and the one before it is used. A damaged part costs the
units in it, which start again. Arrays are stored as they are, never as text and never pickled.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from everystep import files
from everystep.errors import UNLIKE, EverystepError
from everystep.experiments.engines.local import BatchState, FinalState
from everystep.files import Seal, read_npz, store, write_npz
from everystep.files.store import DamagedError, Store
from everystep.lsvi.loop import Carry

OPEN = 8  # parts at a time
REQUEST_FILES = ("spec.json", "request.json", "problem.npz")  # what is run
LIST, CARRY = "list.json", "carry.npz"


class Listed(NamedTuple):
    """list.json: what the checkpoint must agree with, its parts, and the units in them that started again."""

    context: dict[str, object]
    parts: dict[str, Seal]
    ignored: list[str]


class WorkUnit(NamedTuple):
    """One agent on a batch of seeds: the position of the agent, and that of the first seed among all seeds."""

    agent: int
    first: int

    def __str__(self) -> str:
        return f"{self.agent}.{self.first}"

    @classmethod
    def parse(cls, text: str) -> WorkUnit:
        return cls(*map(int, text.split(".")))


class StoredUnits:
    """The rows and final states of work units in the parts of a checkpoint: where each is, and its arrays."""

    def __init__(self, work: Path):
        self._work = work
        self._part_of: dict[str, str] = {}  # by member
        self._members: dict[str, dict[str, None]] = {}  # by unit
        self.ignored: set[str] = set()  # part/unit, of units that started again
        self._archives = _Archives()

    def add(self, part: str, members: Iterable[str]) -> None:
        """Members of a part, without those that are ignored."""
        for member in members:
            unit = member.partition("/")[0]
            if f"{part}/{unit}" not in self.ignored:
                self._part_of[member] = part
                self._members.setdefault(unit, {})[member] = None

    def add_part(self, part: str) -> None:
        """All members of a part on the disk."""
        with files.NpzFile(self._work / part) as file:
            self.add(part, file.names)

    def ignore(self, unit: WorkUnit) -> None:
        """Forget a unit; its members in the present parts are never read again."""
        for member in self._members.pop(str(unit), {}):
            self.ignored.add(f"{self._part_of.pop(member)}/{unit}")

    def units(self) -> list[WorkUnit]:
        """The units with any rows, in order."""
        return sorted(map(WorkUnit.parse, self._members))

    def finished(self, unit: WorkUnit) -> bool:
        return f"{unit}/visits_end" in self._part_of

    def spans(self, unit: WorkUnit) -> list[tuple[int, int]]:
        """The episodes of each stored chunk: after how many it begins and ends, in order."""
        return sorted(span for member in self._members.get(str(unit), ()) if (span := _span(member)))

    def done(self, unit: WorkUnit) -> int:
        """The number of stored episodes of a unit."""
        return max((until for _, until in self.spans(unit)), default=0)

    def rows(self, unit: WorkUnit) -> np.ndarray:
        """The rows of a unit so far: (seeds, episodes), with the columns as fields."""
        return np.concatenate([self._read(f"{unit}/rows-{start}-{until}") for start, until in self.spans(unit)], 1)

    def final_array(self, unit: WorkUnit, name: str) -> np.ndarray:
        """One of the arrays of a finished unit, by its name in `FinalState`."""
        return self._read(f"{unit}/{name}")

    def close(self) -> None:
        self._archives.close()

    def _read(self, member: str) -> np.ndarray:
        return self._archives.read(self._work / self._part_of[member], member)


def look(work: Path) -> StoredUnits:
    """What the last readable checkpoint of a run holds, while another process may be working on the run.

    Raises a ValueError if one of its parts is damaged. Nothing is removed, and no carry is read.
    """
    stored = StoredUnits(work)
    if listed := store.newest(store.saved(work), _read_list):
        stored.ignored = set(listed.ignored)
        for name, seal in listed.parts.items():
            if fault := _fault(work / name, seal):
                raise ValueError(f"{name} {fault}")
            stored.add_part(name)
    return stored


def check_request(work: Path) -> None:
    """Raise unless what is run is what was begun, by the record that was written with it."""
    for name in REQUEST_FILES:
        if fault := files.altered(work, name):
            raise EverystepError(
                f"'{work / name}' {fault}, after the run was begun; restore it, or remove the folder of the run to "
                "start again."
            )


class Ledger:
    """The checkpoints of a run that this process works on; several threads may write to it.

    `context` is what a checkpoint must agree with.
    """

    def __init__(self, work: Path, context: Mapping[str, object]) -> None:
        self._work, self._context = work, dict(context)
        self._state, self._writing = threading.Lock(), threading.Lock()
        self._store, self.stored = Store(work), StoredUnits(work)
        self._pending: dict[str, np.ndarray] = {}  # members of the next part
        self._under_way: dict[WorkUnit, BatchState] = {}
        self._found: dict[WorkUnit, dict[str, np.ndarray]] = {}  # carries of an earlier process
        self._sealed: dict[str, Seal] = {}  # parts of the last checkpoint
        store.newest(store.saved(work), self._load)
        self._sweep()

    def done(self, unit: WorkUnit) -> int:
        """How many episodes of a unit are safe on the disk."""
        with self._state:
            return self.stored.done(unit)

    def restore(self, unit: WorkUnit, shaped: Callable[[int], Carry]) -> BatchState | None:
        """The state in which a unit was left, by this process or an earlier one; None if it has to start."""
        found = self._found.get(unit)
        if found is None:
            return self._under_way.get(unit)
        done = int(found["done"])
        leaves, structure = jax.tree_util.tree_flatten_with_path(shaped(done))
        carry = []
        for path, leaf in leaves:
            kept = found.get(f"carry{jax.tree_util.keystr(path)}")
            if kept is None or kept.shape != leaf.shape or kept.dtype != leaf.dtype:
                raise EverystepError(
                    f"'{self._work}' holds a state of another shape at {jax.tree_util.keystr(path)}; "
                    "remove this folder to start again."
                )
            carry.append(jnp.asarray(kept))
        restored = BatchState(done, jax.tree.unflatten(structure, carry), found["visits_early"])
        with self._state:
            del self._found[unit]
            self._under_way[unit] = restored
        return restored

    def advance(
        self, unit: WorkUnit, rows: np.ndarray, start: int, state: BatchState, final: FinalState | None = None
    ) -> None:
        """Add a chunk of a unit: its rows (seeds, episodes), and its state after it, or its final state."""
        members = {f"{unit}/rows-{start}-{state.done}": rows}
        if final is not None:
            members |= {f"{unit}/{name}": array for name, array in final._asdict().items()}
        with self._state:
            self._pending |= members
            self._under_way.pop(unit, None)
            if final is None:
                self._under_way[unit] = state

    def commit_if_due(self) -> None:
        """Write a checkpoint if the last one is old enough and no other thread is writing one."""
        if self._store.is_due() and self._writing.acquire(blocking=False):
            try:
                self._commit()
            finally:
                self._writing.release()

    def commit(self) -> None:
        """Write a checkpoint of everything that is done."""
        with self._writing:
            self._commit()

    def close(self) -> None:
        self.stored.close()

    def _commit(self) -> None:
        with self._state:
            pending, under_way, untouched = dict(self._pending), dict(self._under_way), dict(self._found)
        if not pending:
            return
        part = f"part-{store.next_number(self._work):06}.npz"
        carries = chain(
            (item for unit, state in under_way.items() for item in _state_as_arrays(unit, state)),
            ((f"{unit}/{key}", array) for unit, found in untouched.items() for key, array in found.items()),
        )
        sealed = dict(self._sealed)

        def fill(checkpoint: Path) -> None:
            sealed[part] = files.write(self._work / part, lambda file: write_npz(file, pending.items()))
            write_npz(checkpoint / CARRY, carries)
            files.write_json(checkpoint / LIST, Listed(self._context, sealed, sorted(self.stored.ignored))._asdict())

        self._store.add(fill)
        with self._state:
            for member in pending:
                del self._pending[member]
            self._sealed = sealed
            self.stored.add(part, pending)
        self._sweep()

    # --- the checkpoint of an earlier process -------------------------------------------------------------------------
    def _load(self, checkpoint: Path) -> None:
        """Take over a checkpoint; raise a `DamagedError` if the one before it has to be used."""
        listed = _read_list(checkpoint)
        self._check_context(listed.context)
        if fault := files.altered(checkpoint, CARRY):
            raise DamagedError(f"{CARRY} {fault}.")
        faults = {name: fault for name, seal in listed.parts.items() if (fault := _fault(self._work / name, seal))}
        newest = checkpoint.name.replace(store.BEGINNING, "part-") + ".npz"
        if newest in faults:
            raise DamagedError(f"{newest} {faults[newest]}.")
        found: dict[WorkUnit, dict[str, np.ndarray]] = {}
        try:
            for member, array in read_npz(checkpoint / CARRY, lambda name: True).items():
                unit, _, key = member.partition("/")
                found.setdefault(WorkUnit.parse(unit), {})[key] = array
            _ = [(int(each["done"]), each["visits_early"]) for each in found.values()]
        except UNLIKE:
            raise DamagedError(f"{CARRY} does not hold the states of units.") from None
        self._sealed = {name: seal for name, seal in listed.parts.items() if name not in faults}
        self.stored.ignored = set(listed.ignored)
        for name in self._sealed:
            self.stored.add_part(name)
        self._found = found
        for name, fault in faults.items():
            print(f"note: '{self._work / name}' {fault}; its episodes are run again.", file=sys.stderr)
        self._forget_broken_units()

    def _check_context(self, before: Mapping[str, object]) -> None:
        """Raise if the run was begun with other versions or on another device."""
        if differing := [key for key, value in self._context.items() if before.get(key) != value]:
            raise EverystepError(
                f"'{self._work}' was begun with other {' and '.join(differing)} "
                f"({', '.join(str(before.get(key)) for key in differing)}); continue with those, or remove it."
            )

    def _forget_broken_units(self) -> None:
        """Units whose rows have a gap, or stop before their state does, start again."""
        for unit in {*self.stored.units(), *self._found}:
            reached, complete = 0, True
            for start, until in self.stored.spans(unit):
                complete, reached = complete and start == reached, until
            carried = int(self._found[unit]["done"]) if unit in self._found else None
            fits = carried == reached if carried is not None else self.stored.finished(unit)
            if not (complete and fits):
                self._found.pop(unit, None)
                self.stored.ignore(unit)

    def _sweep(self) -> None:
        """Remove the parts that belong to no checkpoint that is kept."""
        files.sweep(self._work)
        for path in self._work.glob("part-*.npz"):
            if path.name not in self._sealed:
                path.unlink(missing_ok=True)


def _read_list(checkpoint: Path) -> Listed:
    if fault := files.altered(checkpoint, LIST):
        raise DamagedError(f"{LIST} {fault}.")
    try:
        found = files.read_json(checkpoint / LIST)
        parts = {name: Seal(*seal) for name, seal in found["parts"].items()}
        return Listed(dict(found["context"]), parts, [str(each) for each in found["ignored"]])
    except (OSError, *UNLIKE):
        raise DamagedError(f"{LIST} cannot be read.") from None


def _fault(path: Path, written: Seal) -> str | None:
    """What is wrong with a part; None if it is the one that was written."""
    try:
        return None if files.seal(path) == written else "was altered"
    except OSError:
        return "is missing"


class _Archives:
    """The parts read last, kept open: finding a member of one takes as long as reading it."""

    def __init__(self) -> None:
        self._open: dict[Path, files.NpzFile] = {}

    def read(self, path: Path, member: str) -> np.ndarray:
        archive = self._open.pop(path, None) or files.NpzFile(path)
        self._open[path] = archive  # the last one used is at the end
        if len(self._open) > OPEN:
            self._open.pop(next(iter(self._open))).close()
        return archive.read(member)

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()


# --- states as arrays -------------------------------------------------------------------------------------------------
def _span(member: str) -> tuple[int, int] | None:
    found = re.search(r"/rows-(\d+)-(\d+)$", member)
    return (int(found[1]), int(found[2])) if found else None


def _state_as_arrays(unit: WorkUnit, state: BatchState) -> Iterator[tuple[str, np.ndarray]]:
    yield f"{unit}/done", np.asarray(state.done)
    yield f"{unit}/visits_early", state.visits_early
    for path, leaf in jax.tree_util.tree_flatten_with_path(state.carry)[0]:
        yield f"{unit}/carry{jax.tree_util.keystr(path)}", np.asarray(leaf)
