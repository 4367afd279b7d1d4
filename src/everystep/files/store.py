"""Checkpoints: numbered folders that appear whole, and JSON with arrays that carries its own checksums.

    .work/checkpoint-000007/   the last two are kept, because one may turn out to be damaged

A checkpoint is written when the last one is old enough: every `EVERY` seconds, or less often if writing is slow.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from everystep import files
from everystep.errors import UNLIKE, EverystepError, shown

EVERY = 3.0  # seconds between checkpoints, at least
COST = 20  # and at least this many times the time it takes to write one: at most a twentieth of the time
KEPT = 2
BEGINNING = "checkpoint-"
T = TypeVar("T")


class DamagedError(EverystepError):
    """What was saved is not what was written."""


# --- numbered checkpoints ---------------------------------------------------------------------------------------------
class Store:
    """The checkpoints of a run or of a training that this process works on."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._last, self._interval = time.monotonic(), EVERY

    def is_due(self) -> bool:
        return time.monotonic() - self._last >= self._interval

    def add(self, fill: Callable[[Path], None]) -> None:
        """Add a checkpoint, and set when the next one is due."""
        began = time.monotonic()
        add(self._work, fill)
        self._last = time.monotonic()
        self._interval = max(EVERY, COST * (self._last - began))


def add(work: Path, fill: Callable[[Path], None]) -> None:
    """Add a checkpoint that `fill` writes into a temporary folder, and remove those that are no longer needed."""
    with files.filling(work / f"{BEGINNING}{next_number(work):06}") as partial:
        fill(partial)
    for old in saved(work)[KEPT:]:
        files.remove_folder(old)


def next_number(work: Path) -> int:
    """The number of the next checkpoint."""
    return max((int(path.name.removeprefix(BEGINNING)) for path in saved(work)), default=0) + 1


def saved(work: Path) -> list[Path]:
    """The checkpoints in a folder, the newest first; some may be damaged."""
    return sorted(
        (path for path in work.glob(f"{BEGINNING}*") if path.name[len(BEGINNING) :].isdecimal()), reverse=True
    )


def newest(places: Iterable[Path], read: Callable[[Path], T]) -> T | None:
    """What `read` makes of the first of these checkpoints that is not damaged; notes name those that are."""
    places = list(places)
    for place in places:
        try:
            return read(place)
        except DamagedError as error:
            before = "there is none before it" if place == places[-1] else "the one before it is used"
            reason = str(error).partition(";")[0].rstrip(".")
            print(f"note: checkpoint '{place}' is damaged ({reason}); {before}.", file=sys.stderr)
    return None


# --- JSON with arrays -------------------------------------------------------------------------------------------------
def checksum(content: Mapping[str, Any]) -> str:
    """The checksum of content that JSON can hold."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def digest(arrays: Mapping[str, np.ndarray]) -> str:
    """A short checksum of named arrays."""
    sha = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        sha.update(f"{name} {array.dtype} {array.shape}".encode())
        sha.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return sha.hexdigest()[:16]


def write_sealed(path: Path, content: Mapping[str, Any], arrays: Mapping[str, np.ndarray], npz: str = "") -> None:
    """Write content as JSON, with its checksum, and its arrays beside it, under a name that the JSON holds.

    By default the arrays are named after what they hold: then the JSON, put in place last, decides which are read.
    """
    name = npz or f"arrays-{digest(arrays)}.npz"
    files.write_npz(path.parent / name, arrays.items(), compressed=bool(npz))
    whole = {**content, "arrays": {"name": name, "sha256": files.seal(path.parent / name).sha256}}
    files.write_json(path, whole | {"checksum": checksum(whole)})


def read_sealed(
    path: Path, kind: str, written_as: object, written_by: str, wanted: tuple[str, ...]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What `write_sealed` wrote: its content, and the arrays whose names begin as `wanted`.

    Raises a `DamagedError` if it is not what was written, or an error if its format is not `written_as`.
    """
    what, again = f"{kind} '{shown(path.parent)}'", f"give a folder that {written_by} wrote, with all its files."
    try:
        content = files.read_json(path)
        if content["format"] != written_as:
            raise EverystepError(
                f"{what} has format {shown(content['format'])}, and this version reads format {written_as}; load it "
                "with the version that wrote it."
            )
        place = path.parent / content["arrays"]["name"]
        whole = content.pop("checksum") == checksum(content) and place.parent == path.parent
        if not (whole and files.seal(place).sha256 == content["arrays"]["sha256"]):
            raise DamagedError(f"{what} has changed since it was saved (its checksum differs); restore it, or {again}")
        return content, files.read_npz(place, lambda name: name.startswith(wanted))
    except (OSError, *UNLIKE) as error:
        if isinstance(error, EverystepError) and not str(error).startswith("it "):
            raise
        raise DamagedError(f"{what} cannot be read; {again}") from None
