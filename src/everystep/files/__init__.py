"""Reading and writing files. Every file is written whole or not at all, and flushed before it is relied on.

A file is written under a temporary name in the same folder, flushed to the disk and renamed; then its folder is
flushed, so that the new name survives a power failure. No other module renames or moves anything: `_rename` is the one
place where a finished path appears. A folder is locked by a lock on the folder itself, which ends with its process.

What is written for a user never replaces anything but a file that this software wrote: `check_place` decides. What it
wrote is recorded beside it, in `.everystep.sha256`: checksums in the format of the tool `sha256sum`. The same list
tells a reader whether a file was altered since. `contents.py` reads what files hold.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import stat
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from everystep.errors import EverystepError, true_or_false
from everystep.files.contents import DEEPEST as DEEPEST
from everystep.files.contents import NpzFile as NpzFile
from everystep.files.contents import check_parquet as check_parquet
from everystep.files.contents import check_regular as check_regular
from everystep.files.contents import did_not_fit as did_not_fit
from everystep.files.contents import read_json as read_json
from everystep.files.contents import read_npz as read_npz
from everystep.files.contents import read_parquet as read_parquet
from everystep.files.contents import write_npz as write_npz

TEMPORARY, PARTIAL = ".everystep-", ".partial"  # beginning and ending of the temporary names
RECORD = ".everystep.sha256"  # in every folder that holds output: the checksums of what this software wrote there
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}


class Seal(NamedTuple):
    """The size and the checksum that identify the content of a file."""

    size: int
    sha256: str


# --- into place -------------------------------------------------------------------------------------------------------
def write(path: Path, content: Callable[[BinaryIO], object]) -> Seal:
    """Write a file whole, in a folder that this software is filling; `content` receives the open file.

    On an error the previous file stays. A file for a user is written by `write_output`.
    """
    with _written(path, content) as (partial, sealed):
        _rename(partial, path)
    sync_folder(path.parent)
    return sealed


def write_text(path: Path, text: str) -> Seal:
    """`write` for a text."""
    return write(path, lambda file: file.write(text.encode()))


def write_json(path: Path, content: object) -> Seal:
    """`write` for content that JSON can hold."""
    return write_text(path, json.dumps(content, indent=2) + "\n")


def write_output(path: Path, content: Callable[[BinaryIO], object], force: bool = False) -> None:
    """`write` for a file that a user named, where `check_place` allows it."""
    check_place(path, true_or_false("force", force))
    with _written(path, content) as (partial, sealed), _recorded({path.parent: {path.name: sealed.sha256}}, [partial]):
        check_place(path, force)
        _rename(partial, path)
    sync_folder(path.parent)


@contextmanager
def _written(path: Path, content: Callable[[BinaryIO], object]) -> Iterator[tuple[Path, Seal]]:
    """A temporary file with this content beside `path`, flushed; on an error nothing of it is left."""
    partial = _temporary(path.parent)
    try:
        with partial.open("wb") as file:
            content(file)
            file.flush()
            os.fsync(file.fileno())
        yield partial, seal(partial)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


@contextmanager
def replacing(folder: Path, last: str = "", force: bool = False) -> Iterator[Path]:
    """`filling`, which reports an error of the operating system in a sentence."""
    with writing(folder), filling(folder, last, true_or_false("force", force)) as partial:
        yield partial


@contextmanager
def filling(folder: Path, last: str = "", force: bool = False) -> Iterator[Path]:
    """Yield a temporary folder to fill; its files are then moved into `folder`. On an error nothing of it is left.

    A folder that does not exist appears at once. Into one that exists the files are moved one by one, each whole, the
    one named `last` at the end; other files in it stay. No file is moved if `check_place` refuses one of them.
    """
    partial = _temporary_for(folder)
    try:
        partial.mkdir()
        yield partial
        target = real(folder)
        if exists(target):
            move_files(partial, target, last, force)
        else:
            make_folder(target.parent)
            move_folder(partial, target)
    finally:
        _remove(partial)


def check_writable(folder: Path) -> None:
    """Raise if `replacing` could not fill this folder."""
    with writing(folder):
        probe = _temporary_for(folder)
        try:
            probe.mkdir()
        finally:
            _remove(probe)


def move_files(source: Path, target: Path, last: str = "", force: bool = False) -> None:
    """Move every file below `source` to the same place below `target`, the one named `last` after all others."""
    files = sorted(path for path in source.rglob("*") if path.is_file() and path.name != RECORD)
    places = {path: target / path.relative_to(source) for path in files}
    check_places(target, [path.relative_to(source) for path in files], force)
    sync_all(files)
    checksums: dict[Path, dict[str, str]] = {}
    for path, place in places.items():
        checksums.setdefault(place.parent, {})[place.name] = seal(path).sha256
    with _recorded(checksums, files):
        for path in sorted(files, key=lambda path: path.name == last):
            _rename(path, places[path])
    sync_all({target, *(place.parent for place in places.values())})


def move_folder(source: Path, target: Path) -> None:
    """Move a folder to a place where there is none."""
    for folder in (source, *sorted(path for path in source.rglob("*") if path.is_dir())):
        files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != RECORD)
        with _recorded({folder: {path.name: seal(path).sha256 for path in files}}, files):
            pass
    sync_all([*source.rglob("*"), source])
    _rename(source, target)
    sync_folder(target.parent)


def remove_folder(folder: Path) -> None:
    """Remove a folder so that a partly removed one never has its name."""
    leaving = _temporary(folder.parent)
    try:
        _rename(folder, leaving)
        sync_folder(folder.parent)
    finally:
        _remove(leaving)


def _remove(folder: Path) -> None:
    """Remove a temporary folder, if it is there, even if the user interrupts it."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def sweep(folder: Path) -> None:
    """Remove the temporary files and folders that a killed process left in `folder`."""
    for path in folder.glob(f"{TEMPORARY}*{PARTIAL}"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """Create a folder and those above it, and flush their names."""
    _refuse_file(folder)
    target = real(folder)
    new = [path for path in (target, *target.parents) if not os.path.exists(path)]
    try:
        target.mkdir(parents=True, exist_ok=True)
        os.stat(folder)  # fails for nowhere/../place, which is no path to the folder that was made
    except OSError:
        for path in new:
            with contextlib.suppress(OSError):
                path.rmdir()
        raise
    for path in new:
        sync_folder(path.parent)


def real(path: Path) -> Path:
    """The absolute path without symbolic links. Where they form a loop it stays, and its use is an OSError."""
    return Path(os.path.realpath(path))


def absolute(path: Path) -> Path:
    """The path from the root: an environment may change the current folder. Where that is gone, the path as it is."""
    try:
        return path.absolute()
    except OSError:
        return path


def cannot_write(folder: Path, error: OSError) -> EverystepError:
    """The error for a folder that cannot be written."""
    return EverystepError(
        f"out '{folder}' cannot be written ({error.strerror or error}); choose a folder you may write to."
    )


@contextmanager
def writing(place: Path) -> Iterator[None]:
    """Report an error of the operating system in a block that writes to `place` in a sentence."""
    try:
        yield
    except OSError as error:
        raise cannot_write(place, error) from None


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


def refuse_temporary_name(path: Path) -> None:
    """Raise if a name is one of temporary files, which are removed as leftovers of killed processes."""
    if path.name.startswith(TEMPORARY) and path.name.endswith(PARTIAL):
        raise EverystepError(f"out '{path}' has a name for temporary files; choose another name.")


def _refuse_file(folder: Path) -> None:
    if exists(folder) and not folder.is_dir():
        raise EverystepError(f"out '{folder}' is a file; choose a folder.")


def _temporary(folder: Path) -> Path:
    return folder / f"{TEMPORARY}{uuid.uuid4().hex[:12]}{PARTIAL}"


def _temporary_for(folder: Path) -> Path:
    """A temporary name inside `folder` if it exists, otherwise in the nearest folder above it that does."""
    refuse_temporary_name(folder)
    folder = real(folder)
    _refuse_file(folder)
    return _temporary(next(path for path in (folder, *folder.parents) if exists(path)))


def _rename(source: Path, target: Path) -> None:
    """Put a finished file or folder in its place: the only rename of the package."""
    os.replace(source, target)


# --- what this software wrote -----------------------------------------------------------------------------------------
def check_place(path: Path, force: bool = False) -> None:
    """Raise unless a file may be written to `path`: every writer asks here.

    Allowed are a free name, and a regular file that this software wrote and that is unchanged. `force` also allows any
    other regular file. A folder, a symbolic link, a device, a pipe or a socket is never replaced.
    """
    refuse_temporary_name(path)
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise
        return
    if not stat.S_ISREG(mode):
        kind = KINDS.get(stat.S_IFMT(mode), "no regular file")
        raise EverystepError(f"out '{path}' is {kind}, which is never replaced; choose another name.")
    if not force and not _is_ours(path):
        raise EverystepError(
            f"out '{path}' exists and was not written by everystep, or was changed since; choose another name, or "
            "replace it with --force (in Python: force=True)."
        )


def check_places(folder: Path, names: Iterable[str | Path], force: bool = False) -> None:
    """`check_place` for files below a folder, none of them behind a symbolic link."""
    for name in map(Path, names):
        for above in reversed(name.parents):
            inner = folder / above
            if above != Path() and (inner.is_symlink() or (os.path.lexists(inner) and not inner.is_dir())):
                kind = KINDS.get(stat.S_IFMT(os.lstat(inner).st_mode), "a file")
                raise EverystepError(f"out '{inner}' is {kind}, not a folder; move it away, or choose another folder.")
        if (folder / name).parent.is_dir():
            check_place(folder / name, force)


def recorded(folder: Path) -> dict[str, list[str]]:
    """The checksums that a folder's record lists for each name, the newest last; lines that are none are ignored."""
    path = folder / RECORD
    found: dict[str, list[str]] = {}
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return {}
        lines = path.read_bytes().split(b"\n")
    except OSError:
        return {}
    for line in lines:
        if match := re.fullmatch(rb"(\\?)([0-9a-f]{64})  (.+)", line):
            name = re.sub(rb"\\(.)", lambda c: b"\n" if c[1] == b"n" else c[1], match[3]) if match[1] else match[3]
            found.setdefault(os.fsdecode(name), []).append(match[2].decode())
    return found


@contextmanager
def _recorded(checksums: Mapping[Path, Mapping[str, str]], sources: Sequence[Path]) -> Iterator[None]:
    """Add checksums to the records of folders, made if they are missing, and then move files there from `sources`.

    A checksum is recorded before its file is in place: a file without one could not be replaced. Every folder is
    checked before any is changed, and after an error all are restored, unless a file is in place already.
    """
    lines = {}
    for folder, new in sorted(checksums.items()):
        known = recorded(folder)
        lines[folder] = b"".join(_line(*each) for each in new.items() if known.get(each[0], [""])[-1] != each[1])
        _check_record(folder, lines[folder])
    undo = ExitStack()
    try:
        for folder, added in lines.items():
            for missing in reversed([each for each in (folder, *folder.parents) if not exists(each)]):
                missing.mkdir()
                undo.callback(_remove_empty, missing)
            if added:
                _append(folder / RECORD, added, undo)
        yield
    except BaseException:
        if all(map(os.path.lexists, sources)):
            undo.close()
        raise


def _check_record(folder: Path, added: bytes) -> None:
    """Raise if files cannot be written into a folder, or lines added to its record."""
    path, there = folder / RECORD, next(each for each in (folder, *folder.parents) if exists(each))
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(there))
    if not added or not os.path.lexists(path):
        return
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise EverystepError(f"'{path}' is not a regular file, so what is written cannot be recorded; move it away.")
    os.close(os.open(path, os.O_RDWR | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)))


def _append(path: Path, lines: bytes, undo: ExitStack) -> None:
    """Add lines to a record; `undo` removes them again."""
    before = os.lstat(path) if os.path.lexists(path) else None
    opened = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    with os.fdopen(opened, "rb+", buffering=0) as file:
        file.seek(max(os.fstat(opened).st_size - 1, 0))
        cut_off = file.read(1) not in (b"", b"\n")  # a line that a power failure cut off
        lines = (b"\n" if cut_off else b"") + lines
        undo.callback(_take_away, path, before, len(lines))
        if file.write(lines) != len(lines):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(opened)


def _take_away(path: Path, before: os.stat_result | None, added: int) -> None:
    """Restore a record, unless another process has added to it."""
    with contextlib.suppress(OSError):
        size = 0 if before is None else before.st_size
        if path.stat().st_size > size + added:
            return
        if before is None:
            path.unlink()
        else:
            os.truncate(path, size)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def _line(name: str, sha256: str) -> bytes:
    """A line of sha256sum, which escapes names with a backslash or a line feed."""
    raw = os.fsencode(name)
    escaped = raw.replace(b"\\", b"\\\\").replace(b"\n", b"\\n")
    return (b"\\" if escaped != raw else b"") + sha256.encode() + b"  " + escaped + b"\n"


def _is_ours(path: Path) -> bool:
    """Whether a regular file is one that this software wrote under this name, unchanged."""
    ours = recorded(path.parent).get(path.name)
    return ours is not None and seal(path).sha256 in ours


def altered(folder: Path, name: str, ever: bool = False) -> str | None:
    """What is wrong with a file that the record of its folder lists; None if it is the one that was written.

    With `ever` it may be one that was written there before: a process that is killed leaves the record of a file that
    is not yet in place.
    """
    written = recorded(folder).get(name)
    if written is None:
        return "is not in the list of what was written"
    try:
        known = written if ever else written[-1:]
        return None if seal(folder / name).sha256 in known else "was altered since it was written"
    except OSError:
        return "cannot be read"


def check_unaltered(path: Path, otherwise: str, ever: bool = False) -> Path:
    """The path of a file that is the one that was written (see `altered`); raise if it is not."""
    if fault := altered(path.parent, path.name, ever):
        raise EverystepError(f"'{path}' {fault}; restore it, or {otherwise}")
    return path


# --- on the disk ------------------------------------------------------------------------------------------------------
def seal(path: Path) -> Seal:
    """The seal of a file; an OSError if it is no regular file, such as a device that could be read for ever."""
    check_regular(path)
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
