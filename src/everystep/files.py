"""Files that survive: written whole or not at all, on the disk before anybody is told, and one process at a time.

A file is written beside its place, flushed to the disk and renamed; its folder is flushed, too, so that the new name
survives a loss of power. A folder is held by a lock on the folder itself, which ends with the process that holds it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from everystep.errors import EverystepError

PARTIAL = ".partial"


class Seal(NamedTuple):
    """What a file must be to be the one that was written."""

    size: int
    sha256: str


def write(path: Path, content: Callable[[BinaryIO], Any]) -> Seal:
    """Put a file in its place, whole; `content` writes it. On an error the file that was there before stays."""
    partial = path.with_name(path.name + PARTIAL)
    try:
        with partial.open("wb") as file:
            content(file)
            file.flush()
            os.fsync(file.fileno())
        told = seal(partial)
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
    return told


def seal(path: Path) -> Seal:
    """The size and the checksum of a file."""
    with path.open("rb") as file:
        return Seal(os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest())


def sync_folder(folder: Path) -> None:
    """The names in a folder, on the disk; nothing where folders cannot be opened."""
    with contextlib.suppress(PermissionError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def sync_all(paths: Iterable[Path]) -> None:
    """Files and folders that others have written, on the disk."""
    for path in paths:
        if path.is_dir():
            sync_folder(path)
        else:
            with path.open("rb+") as file:
                os.fsync(file.fileno())


@contextmanager
def held(folder: Path, pid_file: Path) -> Iterator[None]:
    """This process alone works on a folder; a second one is refused, with the number of the first if it is known.

    `pid_file` is where the holder's number is read; the holder writes it with `sign`.
    """
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        yield
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EverystepError(
                f"out '{folder}' is being worked on by another process{_who(pid_file)}; wait for it, or stop it first."
            ) from None
        except OSError as error:
            print(
                f"note: '{folder}' cannot be locked here ({error.strerror}); see that one process works on it.",
                file=sys.stderr,
            )
        yield
    finally:
        os.close(opened)


def sign(pid_file: Path) -> None:
    """Say which process holds the folder."""
    pid_file.write_text(f"{os.getpid()}\n", encoding="ascii")


def _who(pid_file: Path) -> str:
    try:
        return f" (pid {int(pid_file.read_text(encoding='ascii'))})"
    except (OSError, ValueError):
        return ""


def read_npz(path: str | Path, wanted: Callable[[str], bool]) -> dict[str, np.ndarray]:
    """The arrays whose names are wanted; others are not touched."""
    broken = EverystepError("it cannot be read as .npz. Write it with numpy.savez.")
    if not zipfile.is_zipfile(path):  # numpy takes any other file for a pickle
        raise broken
    try:
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            return {name: file[name] for name in file.files if wanted(name)}
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise broken from None
        raise EverystepError("it holds Python objects, which are never unpickled. Save plain number arrays.") from None
    except (OSError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error):
        raise broken from None


def write_npz(file: str | Path | BinaryIO, arrays: Iterable[tuple[str, np.ndarray]], compressed: bool = False) -> None:
    """Arrays under their names, one after another: they need not be in memory together. The same arrays, same bytes."""
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, array in arrays:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
