"""What an unfinished run has on the disk: parts, carries, and a list that seals them.

    .work/part-000007.npz        rows of the chunks finished since the previous list, and final states of finished units
    .work/carry-000007.npz       the state of every unit that is under way
    .work/checkpoint-000007.json the files of this checkpoint, each with its size and checksum

A work unit is one agent on a batch of seeds (see work_units.py). A checkpoint counts from the moment its list is in
place: a list is put there when everything it names is on the disk. The last two are kept. A checkpoint that is cut or
altered is recognised by its checksums and reported, and the one before it is used. A damaged part costs the units in
it, which start again. Arrays are stored as they are, never as text and never pickled.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from everystep import files
from everystep.errors import EverystepError
from everystep.experiments.engines.local import BatchState, FinalState
from everystep.files import Seal, read_npz, write_npz
from everystep.lsvi.loop import Carry

EVERY = 3.0  # seconds between checkpoints, at least
COST = 20  # and at least this many times the time it takes to write one: a run spends at most a twentieth on them
KEPT = 2  # checkpoints: one of them may turn out to be damaged
OPEN = 8  # parts at a time
REQUEST_FILES = ("spec.json", "request.json", "problem.npz")  # what is run; checkpoints hold their checksums


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
    for listed in _readable_lists(work):
        stored.ignored = set(listed["ignored"])
        for name, seal in listed["files"].items():
            if name.startswith("part-"):
                if fault := _fault(work / name, Seal(*seal)):
                    raise ValueError(f"{name} {fault}")
                stored.add_part(name)
        break
    return stored


def check_request(work: Path) -> None:
    """Raise if what is run was altered since the run was begun, by the record that was written with it.

    A run that was begun before there were records has its checkpoints, which hold the same checksums. Without either it
    is unknown what was begun, and nothing is lost by starting again.
    """
    known = files.recorded(work)
    if not any(name in known for name in REQUEST_FILES):
        if not any(work.glob("checkpoint-*.json")):
            raise EverystepError(
                f"'{work}' holds no record of the run that was begun, and no checkpoint; "
                "remove the folder of the run to start again."
            )
        return
    for name in REQUEST_FILES:
        if files.altered(work, name):
            raise _altered_request(work, name)


def _altered_request(work: Path, name: str) -> EverystepError:
    return EverystepError(
        f"'{work / name}' was altered after the run was begun; "
        "restore it, or remove the folder of the run to start again."
    )


class Ledger:
    """The checkpoints of a run that this process works on; several threads may write to it.

    `context` is what a checkpoint must agree with.
    """

    def __init__(self, work: Path, context: Mapping[str, Any], now: Callable[[], float] = time.monotonic):
        self._work, self._context, self._now = work, dict(context), now
        self._state, self._writing = threading.Lock(), threading.Lock()
        self.stored = StoredUnits(work)
        self._pending: dict[str, np.ndarray] = {}  # members of the next part
        self._under_way: dict[WorkUnit, BatchState] = {}
        self._found: dict[WorkUnit, dict[str, np.ndarray]] = {}  # carries of an earlier process
        self._sealed: dict[str, Seal] = {}  # parts of the last checkpoint
        self._number, self._last, self._interval = 0, now(), EVERY
        for listed in _readable_lists(work, self._load):
            self._number = listed["number"]
            break
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
        if self._now() - self._last >= self._interval and self._writing.acquire(blocking=False):
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
        began = self._now()
        with self._state:
            pending, under_way, untouched = dict(self._pending), dict(self._under_way), dict(self._found)
        if not pending:
            return
        number = self._number + 1
        part, carry = f"part-{number:06}.npz", f"carry-{number:06}.npz"
        sealed = self._sealed | {part: files.write(self._work / part, lambda file: write_npz(file, pending.items()))}
        carries = chain(
            (item for unit, state in under_way.items() for item in _state_as_arrays(unit, state)),
            ((f"{unit}/{key}", array) for unit, found in untouched.items() for key, array in found.items()),
        )
        both = {carry: files.write(self._work / carry, lambda file: write_npz(file, carries))}
        ignored = sorted(self.stored.ignored)
        listed = {"number": number, "context": self._context, "files": sealed | both, "ignored": ignored}
        text = json.dumps(listed | {"checksum": _checksum(listed)}, indent=1) + "\n"
        files.write_text(self._work / f"checkpoint-{number:06}.json", text)
        with self._state:
            for member in pending:
                del self._pending[member]
            self._number, self._sealed = number, sealed
            self.stored.add(part, pending)
        self._sweep()
        self._last = self._now()
        self._interval = max(EVERY, COST * (self._last - began))

    # --- the checkpoint of an earlier process -------------------------------------------------------------------------
    def _load(self, listed: Mapping[str, Any]) -> None:
        """Take over a checkpoint; raise `_DamagedError` if the one before it has to be used."""
        self._check_context(listed["context"])
        seals = {name: Seal(*seal) for name, seal in listed["files"].items()}
        carry = next(name for name in seals if name.startswith("carry-"))
        if fault := _fault(self._work / carry, seals.pop(carry)):
            raise _DamagedError(f"{carry} {fault}")
        damaged = {name: fault for name, seal in seals.items() if (fault := _fault(self._work / name, seal))}
        newest = f"part-{listed['number']:06}.npz"
        if newest in damaged:
            raise _DamagedError(f"{newest} {damaged[newest]}")
        self._sealed = {name: seal for name, seal in seals.items() if name not in damaged}
        self.stored.ignored = set(listed["ignored"])
        for name in self._sealed:
            self.stored.add_part(name)
        for member, array in read_npz(self._work / carry, lambda name: True).items():
            unit, _, key = member.partition("/")
            self._found.setdefault(WorkUnit.parse(unit), {})[key] = array
        for name, fault in damaged.items():
            print(f"note: '{self._work / name}' {fault}; its episodes are run again.", file=sys.stderr)
        self._forget_broken_units()

    def _check_context(self, before: Mapping[str, Any]) -> None:
        """Raise if the run was begun with other files, versions or another device."""
        differing = [key for key, value in self._context.items() if key in before and before[key] != value]
        if altered := [name for name in REQUEST_FILES if name in differing]:
            raise _altered_request(self._work, altered[0])
        if before != self._context:
            raise EverystepError(
                f"'{self._work}' was begun with other {' and '.join(differing)} "
                f"({', '.join(str(before[key]) for key in differing)}); continue with those, or remove it."
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
        """Remove what belongs to no checkpoint that is kept."""
        files.sweep(self._work)
        kept = range(self._number - KEPT + 1, self._number + 1)
        for path in self._work.iterdir():
            named = re.fullmatch(r"(part|carry|checkpoint)-(\d{6})\.(npz|json)", path.name)
            if named is None:
                continue
            kind, number = named[1], int(named[2])
            if path.name not in self._sealed if kind == "part" else number not in kept:
                path.unlink(missing_ok=True)


# --- lists and seals --------------------------------------------------------------------------------------------------
class _DamagedError(Exception):
    """A checkpoint differs from what was written."""


def _readable_lists(
    work: Path, check: Callable[[Mapping[str, Any]], None] = lambda listed: None
) -> Iterator[dict[str, Any]]:
    """The lists of checkpoints that can be read and pass `check`, the newest first; damaged ones are reported."""
    paths = sorted(work.glob("checkpoint-*.json"), reverse=True)
    for path in paths:
        try:
            listed = _read_list(path)
            check(listed)
        except _DamagedError as damaged:
            before = "the one before it is used" if path != paths[-1] else "there is none before it"
            print(f"note: checkpoint '{path}' is damaged ({damaged}); {before}.", file=sys.stderr)
        else:
            yield listed


def _read_list(path: Path) -> dict[str, Any]:
    try:
        listed = files.read_json(path)
        checksum = listed.pop("checksum")
        wrong = checksum != _checksum(listed)
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        raise _DamagedError("its list cannot be read") from None
    if wrong:
        raise _DamagedError("its list was altered")
    return dict(listed)


def _checksum(listed: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(listed, sort_keys=True).encode()).hexdigest()


def _fault(path: Path, written: Seal) -> str | None:
    """What is wrong with a file; None if it is the one that was written."""
    try:
        found = files.seal(path)
    except OSError:
        return "is missing"
    if found.size != written.size:
        return f"has {found.size} bytes instead of {written.size}"
    return None if found == written else "was altered"


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
