"""What an unfinished run has on disk, and how it gets there: parts, carries and a list that seals them.

    .work/part-000007.npz        rows of chunks that were finished since the list before, and endings of finished pieces
    .work/carry-000007.npz       the state of every piece that is under way
    .work/checkpoint-000007.json which files make up this checkpoint, each with its size and checksum

A piece (see pieces.py) is known by its cell and the place of its first seed. A checkpoint counts from the moment
its list is in place: a list is renamed into it when everything it names is on the disk. The last two are kept. One that
is cut or altered is noticed by its checksums, said, and the one before it used; a part that is damaged costs the
pieces in it, which start anew. Arrays are stored as they are, never as text and never pickled.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from everystep import files as durable
from everystep.errors import EverystepError
from everystep.experiments.engines.local import Ending, Fitted, Reached
from everystep.files import Seal, read_npz, write_npz
from everystep.lsvi.loop import Carry

EVERY = 3.0  # seconds between checkpoints, at least
COST = 20  # and so many times as long as writing one takes, so that a run spends at most a twentieth on them
KEPT = 2  # checkpoints: one of them may turn out to be damaged
OPEN = 8  # parts at a time
ASKED = ("spec.json", "request.json", "problem.npz")  # beside the checkpoints, which hold their sums: what is run
FITS = np.dtype([("seed", "u4"), ("after", "i8"), ("model", "i8"), ("noise", "f8"), ("log_likelihood", "f8")])


class Piece(NamedTuple):
    """One agent on a batch of seeds: the number of its cell, and the place of its first seed among all."""

    cell: int
    first: int

    def __str__(self) -> str:
        return f"{self.cell}.{self.first}"


class Ledger:
    """The checkpoints of one run; several threads may write to it.

    `context` is what a checkpoint must agree with; None is for somebody who only looks at the rows, while another
    process may be at work: nothing is checked or removed then, and no state is read.
    """

    def __init__(self, work: Path, context: Mapping[str, Any] | None, now: Callable[[], float] = time.monotonic):
        self._work, self._context, self._now = work, None if context is None else dict(context), now
        self._state, self._writing = threading.Lock(), threading.Lock()
        self._pending: dict[str, np.ndarray] = {}  # members of the next part
        self._under_way: dict[Piece, Reached] = {}
        self._found: dict[Piece, dict[str, np.ndarray]] = {}  # carries of an earlier process
        self._sealed: dict[str, Seal] = {}  # parts of the last checkpoint
        self._where: dict[str, str] = {}  # member to its part
        self._members: dict[str, dict[str, None]] = {}  # by piece
        self._ignored: set[str] = set()  # part/piece, of pieces that started anew
        self._archives = _Archives()
        self._number, self._last, self._interval = 0, now(), EVERY
        self._open()

    # --- what is there ------------------------------------------------------------------------------------------------
    def finished(self, piece: Piece) -> bool:
        return f"{piece}/visits_end" in self._where

    def pieces(self) -> list[Piece]:
        """Those of which anything is there, in order."""
        return sorted(Piece(*map(int, piece.split("."))) for piece in self._members)

    def done(self, piece: Piece) -> int:
        """How many episodes of a piece are safe on the disk."""
        with self._state:
            return max((until for _, until in self._spans(piece)), default=0)

    def since(self, piece: Piece, shaped: Callable[[int], Carry]) -> Reached | None:
        """Where a piece was left, in this process or an earlier one; None if it must start anew."""
        found = self._found.get(piece)
        if found is None:
            return self._under_way.get(piece)
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
        reached = Reached(done, jax.tree.unflatten(structure, carry), found["visits_early"], _fits(found))
        with self._state:
            del self._found[piece]
            self._under_way[piece] = reached
        return reached

    def rows(self, piece: Piece) -> np.ndarray:
        """The rows of a piece so far: (seeds, episodes), with the columns as fields."""
        spans = sorted(self._spans(piece))
        return np.concatenate([self._read(f"{piece}/rows-{start}-{until}") for start, until in spans], 1)

    def columns(self, piece: Piece) -> np.dtype[Any]:
        """The names and kinds of its columns."""
        start, until = min(self._spans(piece))
        return self._read(f"{piece}/rows-{start}-{until}").dtype

    def ending(self, piece: Piece, name: str) -> np.ndarray:
        """One of the arrays of a finished piece, by its name in `Ending`."""
        return self._read(f"{piece}/{name}")

    def fits(self, piece: Piece) -> tuple[Fitted, ...]:
        named = {name: f"{piece}/{name}" for name in ("fits", "fitted_kernels")}
        return _fits({name: self._read(member) for name, member in named.items() if member in self._where})

    def _spans(self, piece: Piece) -> list[tuple[int, int]]:
        return [span for member in self._members.get(str(piece), ()) if (span := _span(member))]

    def _read(self, member: str) -> np.ndarray:
        return self._archives.read(self._work / self._where[member], member)

    def close(self) -> None:
        self._archives.close()

    # --- what is added ------------------------------------------------------------------------------------------------
    def advance(
        self, piece: Piece, rows: np.ndarray, start: int, reached: Reached, ending: Ending | None = None
    ) -> None:
        """A chunk of a piece is done: its rows (seeds, episodes), and where it stands now, or how it ended."""
        kept = {f"{piece}/rows-{start}-{reached.done}": rows}
        if ending is not None:
            arrays = {name: array for name, array in ending._asdict().items() if name != "fits"}
            kept |= {f"{piece}/{name}": array for name, array in (arrays | _told(ending.fits)).items()}
        with self._state:
            self._pending |= kept
            self._under_way.pop(piece, None)
            if ending is None:
                self._under_way[piece] = reached

    def due(self) -> bool:
        return self._now() - self._last >= self._interval

    def commit_if_due(self) -> None:
        """Write a checkpoint if the last one is old enough and nobody is at it."""
        if self.due() and self._writing.acquire(blocking=False):
            try:
                self._commit()
            finally:
                self._writing.release()

    def commit(self) -> None:
        """Write a checkpoint of everything that is done."""
        with self._writing:
            self._commit()

    def _commit(self) -> None:
        began = self._now()
        with self._state:
            pending, under_way, untouched = dict(self._pending), dict(self._under_way), dict(self._found)
        if not pending:
            return
        number = self._number + 1
        name = lambda kind, ending: f"{kind}-{number:06}.{ending}"
        part, carry = name("part", "npz"), name("carry", "npz")
        sealed = self._sealed | {part: durable.write(self._work / part, lambda file: write_npz(file, pending.items()))}
        carries = (item for piece, each in under_way.items() for item in _carried(piece, each))
        kept = ((f"{p}/{key}", array) for p, found in untouched.items() for key, array in found.items())
        both = {carry: durable.write(self._work / carry, lambda file: write_npz(file, _chain(carries, kept)))}
        listed = {
            "number": number, "context": self._context, "files": sealed | both, "ignored": sorted(self._ignored),
        }  # fmt: skip
        text = json.dumps(listed | {"checksum": _checksum(listed)}, indent=1) + "\n"
        durable.write_text(self._work / name("checkpoint", "json"), text)
        with self._state:
            for member in pending:
                del self._pending[member]
            self._number, self._sealed = number, sealed
            self._place(part, pending)
        self._sweep(keep=range(number - KEPT + 1, number + 1))
        self._last = self._now()
        self._interval = max(EVERY, COST * (self._last - began))

    # --- what an earlier process left ----------------------------------------------------------------------------
    def _open(self) -> None:
        lists = sorted(self._work.glob("checkpoint-*.json"), reverse=True)
        for path in lists:
            try:
                self._load(path)
                break
            except _DamagedError as damaged:
                before = "the one before it is used" if path != lists[-1] else "there is none before it"
                print(f"note: checkpoint '{path}' is damaged ({damaged}); {before}.", file=sys.stderr)
        if self._context is not None:
            self._sweep(keep=range(self._number - KEPT + 1, self._number + 1))

    def _load(self, path: Path) -> None:
        listed = _listed(path)
        if self._context is None:
            self._ignored = set(listed["ignored"])
            for name in listed["files"]:
                if name.startswith("part-"):
                    self._place(name, _names(self._work / name))
            return
        if listed["context"] != self._context:
            before = listed["context"]
            differing = [key for key, value in self._context.items() if key in before and before[key] != value]
            if altered := [name for name in ASKED if name in differing]:
                raise EverystepError(
                    f"'{self._work / altered[0]}' was altered after the run was begun; "
                    "put it back as it was, or remove the folder of the run to start again."
                )
            raise EverystepError(
                f"'{self._work}' was begun with another {' and another '.join(differing)} "
                f"({', '.join(str(before[key]) for key in differing)}); go on with that, or remove it."
            )
        files = {name: Seal(*told) for name, told in listed["files"].items()}
        carry = next(name for name in files if name.startswith("carry-"))
        if fault := _fault(self._work / carry, files[carry]):
            raise _DamagedError(f"{carry} {fault}")
        parts = {name: told for name, told in files.items() if name != carry}
        damaged = {name: fault for name, told in parts.items() if (fault := _fault(self._work / name, told))}
        newest = f"part-{listed['number']:06}.npz"
        if newest in damaged:
            raise _DamagedError(f"{newest} {damaged[newest]}")
        self._number, self._sealed = listed["number"], {n: told for n, told in parts.items() if n not in damaged}
        self._ignored = set(listed["ignored"])
        for name in self._sealed:
            self._place(name, _names(self._work / name))
        for member, array in read_npz(self._work / carry, lambda name: True).items():
            piece, _, key = member.partition("/")
            self._found.setdefault(Piece(*map(int, piece.split("."))), {})[key] = array
        for name, fault in damaged.items():
            print(f"note: '{self._work / name}' {fault}; what was in it is run again.", file=sys.stderr)
        self._forget_broken_pieces()

    def _forget_broken_pieces(self) -> None:
        """Pieces whose rows have a gap, or stop before their state does, start anew."""
        known = {*self.pieces(), *self._found}
        for piece in known:
            reached, ends = 0, True
            for start, until in sorted(self._spans(piece)):
                ends, reached = ends and start == reached, until
            there = int(self._found[piece]["done"]) if piece in self._found else None
            if not ends or (there is not None and there != reached) or (there is None and not self.finished(piece)):
                self._found.pop(piece, None)
                for member in self._members.pop(str(piece), {}):
                    self._ignored.add(f"{self._where.pop(member)}/{piece}")

    def _place(self, part: str, members: Mapping[str, Any] | list[str]) -> None:
        for member in members:
            piece = member.partition("/")[0]
            if f"{part}/{piece}" not in self._ignored:
                self._where[member] = part
                self._members.setdefault(piece, {})[member] = None

    def _sweep(self, keep: range) -> None:
        """Remove what belongs to no checkpoint that is kept."""
        durable.sweep(self._work)
        for path in self._work.iterdir():
            named = re.fullmatch(r"(part|carry|checkpoint)-(\d{6})\.(npz|json)", path.name)
            if named is None:
                continue
            kind, number = named[1], int(named[2])
            if path.name not in self._sealed if kind == "part" else number not in keep:
                path.unlink(missing_ok=True)


class _DamagedError(Exception):
    """A checkpoint is not what was written."""


def _listed(path: Path) -> dict[str, Any]:
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))
        checksum = listed.pop("checksum")
        wrong = checksum != _checksum(listed)
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        raise _DamagedError("its list cannot be read") from None
    if wrong:
        raise _DamagedError("its list was altered")
    return dict(listed)


def _checksum(listed: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(listed, sort_keys=True).encode()).hexdigest()


def _fault(path: Path, told: Seal) -> str | None:
    try:
        found = durable.seal(path)
    except OSError:
        return "is missing"
    if found.size != told.size:
        return f"has {found.size} bytes instead of {told.size}"
    return None if found == told else "was altered"


def _names(path: Path) -> list[str]:
    with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
        return list(file.files)


class _Archives:
    """The parts read last, kept open: to find a member of one takes as long as to read it."""

    def __init__(self) -> None:
        self._open: dict[Path, Any] = {}

    def read(self, path: Path, member: str) -> np.ndarray:
        archive = self._open.pop(path, None) or np.load(path, allow_pickle=False)
        self._open[path] = archive  # the last one used is at the end
        if len(self._open) > OPEN:
            self._open.pop(next(iter(self._open))).close()
        array: np.ndarray = archive[member]
        return array

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()


def _span(member: str) -> tuple[int, int] | None:
    found = re.search(r"/rows-(\d+)-(\d+)$", member)
    return (int(found[1]), int(found[2])) if found else None


def _carried(piece: Piece, reached: Reached) -> Iterator[tuple[str, np.ndarray]]:
    yield f"{piece}/done", np.asarray(reached.done)
    yield f"{piece}/visits_early", reached.visits_early
    for name, array in _told(reached.fits).items():
        yield f"{piece}/{name}", array
    for path, leaf in jax.tree_util.tree_flatten_with_path(reached.carry)[0]:
        yield f"{piece}/carry{jax.tree_util.keystr(path)}", np.asarray(leaf)


def _chain(*parts: Iterator[tuple[str, np.ndarray]]) -> Iterator[tuple[str, np.ndarray]]:
    for part in parts:
        yield from part


def _told(fits: tuple[Fitted, ...]) -> dict[str, np.ndarray]:
    if not fits:
        return {}
    numbers = np.array([(f.seed, f.after, f.model, f.noise, f.log_likelihood) for f in fits], FITS)
    return {"fits": numbers, "fitted_kernels": np.array([f.kernel for f in fits])}


def _fits(arrays: Mapping[str, np.ndarray]) -> tuple[Fitted, ...]:
    if "fits" not in arrays:
        return ()
    return tuple(
        Fitted(
            int(f["seed"]), int(f["after"]), int(f["model"]), str(text), float(f["noise"]), float(f["log_likelihood"])
        )
        for f, text in zip(arrays["fits"], arrays["fitted_kernels"], strict=True)
    )
