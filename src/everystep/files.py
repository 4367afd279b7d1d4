"""Reading and writing files. Every file is written whole or not at all, and flushed before it is relied on.

A file is written under a temporary name in the same folder, flushed to the disk and renamed; then its folder is
flushed, so that the new name survives a power failure. No other module renames or moves anything: `_rename` is the one
place where a finished path appears. A folder is locked by a lock on the folder itself, which ends with its process.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sys
import uuid
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from everystep.errors import EverystepError

PARTIAL = ".partial"  # ending of the temporary names


class Seal(NamedTuple):
    """The size and the checksum that identify the content of a file."""

    size: int
    sha256: str


# --- into place -------------------------------------------------------------------------------------------------------
def write(path: Path, content: Callable[[BinaryIO], Any]) -> Seal:
    """Write a file whole; `content` receives the open file. On an error the previous file stays."""
    partial = _temporary(path.parent)
    try:
        with partial.open("wb") as file:
            content(file)
            file.flush()
            os.fsync(file.fileno())
        sealed = seal(partial)
        _rename(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
    return sealed


def write_text(path: Path, text: str) -> Seal:
    """`write` for a text."""
    return write(path, lambda file: file.write(text.encode()))


def write_json(path: Path, content: Any) -> Seal:
    """`write` for content that JSON can hold."""
    return write_text(path, json.dumps(content, indent=2) + "\n")


@contextmanager
def replacing(folder: Path, last: str = "") -> Iterator[Path]:
    """`filling`, where an error of the operating system becomes a sentence."""
    try:
        with filling(folder, last) as partial:
            yield partial
    except OSError as error:
        raise cannot_write(folder, error) from None


@contextmanager
def filling(folder: Path, last: str = "") -> Iterator[Path]:
    """Yield a temporary folder to fill; its files are then moved into `folder`. On an error nothing of it is left.

    A folder that does not exist appears at once. Into one that exists the files are moved one by one, each whole, the
    one named `last` at the end; other files in it stay.
    """
    partial = _temporary_for(folder)
    try:
        partial.mkdir()
        yield partial
        target = folder.resolve()
        if target.exists():
            move_files(partial, target, last)
        else:
            make_folder(target.parent)
            move_folder(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def check_writable(folder: Path) -> None:
    """Raise if `replacing` could not fill this folder."""
    try:
        probe = _temporary_for(folder)
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        raise cannot_write(folder, error) from None


def move_files(source: Path, target: Path, last: str = "") -> None:
    """Move every file below `source` to the same place below `target`, the one named `last` after all others."""
    files = sorted(path for path in source.rglob("*") if path.is_file())
    sync_all(files)
    folders = {target}
    for path in sorted(files, key=lambda path: path.name == last):
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        _rename(path, place)
        folders.add(place.parent)
    sync_all(folders)


def move_folder(source: Path, target: Path) -> None:
    """Move a folder to a place where there is none."""
    sync_all([*source.rglob("*"), source])
    _rename(source, target)
    sync_folder(target.parent)


def remove_folder(folder: Path) -> None:
    """Remove a folder so that no part of it is ever seen under its name."""
    leaving = _temporary(folder.parent)
    _rename(folder, leaving)
    sync_folder(folder.parent)
    shutil.rmtree(leaving, ignore_errors=True)


def sweep(folder: Path) -> None:
    """Remove the temporary files and folders that a killed process left in `folder`."""
    for path in folder.glob(f".everystep-*{PARTIAL}"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """Create a folder and those above it, and flush their names."""
    _refuse_file(folder)
    new = [path for path in (folder.resolve(), *folder.resolve().parents) if not os.path.exists(path)]
    try:
        folder.resolve().mkdir(parents=True, exist_ok=True)
    except OSError:
        for path in new:
            with contextlib.suppress(OSError):
                path.rmdir()
        raise
    for path in new:
        sync_folder(path.parent)


def cannot_write(folder: Path, error: OSError) -> EverystepError:
    """The error for a folder that the operating system does not let us write."""
    return EverystepError(
        f"out '{folder}' cannot be written ({error.strerror or error}); choose a folder you may write to."
    )


def name_from(path: Path) -> str:
    """The name of a file without its ending, as text even if the locale cannot decode it."""
    return os.fsencode(path.stem).decode("utf-8", "replace")


def exists(path: Path) -> bool:
    """Whether there is something at a path; an OSError if the system cannot tell (`Path.exists` would return False)."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _refuse_file(folder: Path) -> None:
    if exists(folder) and not folder.is_dir():
        raise EverystepError(f"out '{folder}' is a file; choose a folder.")


def _temporary(folder: Path) -> Path:
    return folder / f".everystep-{uuid.uuid4().hex[:12]}{PARTIAL}"


def _temporary_for(folder: Path) -> Path:
    """A temporary name inside `folder` if it exists, otherwise in the nearest folder above it that does."""
    folder = folder.resolve()
    _refuse_file(folder)
    return _temporary(next(path for path in (folder, *folder.parents) if exists(path)))


def _rename(source: Path, target: Path) -> None:
    """Put a finished file or folder in its place: the only rename of the package."""
    os.replace(source, target)


# --- on the disk ------------------------------------------------------------------------------------------------------
def seal(path: Path) -> Seal:
    """The seal of a file."""
    with path.open("rb") as file:
        return Seal(os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest())


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder; does nothing where folders cannot be opened."""
    with contextlib.suppress(PermissionError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def sync_all(paths: Iterable[Path]) -> None:
    """Flush files and folders that other code has written."""
    for path in paths:
        if path.is_dir():
            sync_folder(path)
        else:
            with path.open("rb+") as file:
                os.fsync(file.fileno())


# --- one process per folder -------------------------------------------------------------------------------------------
@contextmanager
def held(folder: Path, pid_file: Path) -> Iterator[None]:
    """Lock a folder for this process. A second process is refused with the number of the first if it is known.

    `pid_file` holds that number; the holder writes it with `sign`.
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
                f"out '{folder}' is in use by another process{_holder(pid_file)}; wait for it, or stop it first."
            ) from None
        except OSError as error:
            print(
                f"note: '{folder}' cannot be locked here ({error.strerror}); make sure only one process uses it.",
                file=sys.stderr,
            )
        yield
    finally:
        os.close(opened)


def sign(pid_file: Path) -> None:
    """Write the number of this process, which holds the folder."""
    pid_file.write_text(f"{os.getpid()}\n", encoding="ascii")


def _holder(pid_file: Path) -> str:
    try:
        return f" (pid {int(pid_file.read_text(encoding='ascii'))})"
    except (OSError, ValueError):
        return ""


# --- arrays without pickle --------------------------------------------------------------------------------------------
def read_npz(path: str | Path, wanted: Callable[[str], bool]) -> dict[str, np.ndarray]:
    """The arrays whose names are wanted; others are not read."""
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
    """Write arrays under their names, one at a time: not all need be in memory. Equal arrays give equal bytes."""
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, array in arrays:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
