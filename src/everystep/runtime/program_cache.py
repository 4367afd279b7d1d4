"""Compiled programs, kept between commands: the second run of an agent on problems of the same size compiles nothing.

    ~/.cache/everystep/<versions and processor>/<key>     SHA-256 of the entry, and the entry that JAX wrote

JAX decides what an entry is for: its key covers the program, the options of the compiler and the kind of device, and
its entries hold no pickles. The name of the folder adds the versions of JAX and of this package and the features of the
processor, because machines may share a home. An entry is machine code, so a folder is used only if it belongs to the
user and no other user may write there. A damaged entry is removed and compiled again; JAX's own cache writes entries in
place, verifies them only as far as its compression does, and never replaces one. No error here stops a run, and results
are the same with and without the cache.
"""

from __future__ import annotations

import hashlib
import os
import platform
import stat
import sys
import warnings
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import jax

from everystep import __version__, files

VARIABLE = "EVERYSTEP_CACHE"  # another folder, or `off`
MOST = 256 * 2**20  # bytes of all entries; those used longest ago are removed
LEAST_SECONDS = 0.05  # of a compilation that is worth an entry
SEAL = hashlib.sha256().digest_size


class ProgramCache:
    """The entries of one folder, as JAX asks for them (`get`, `put`); errors of the file system count as missing."""

    def __init__(self, folder: Path):
        self.folder = self._path = folder  # JAX reports `_path`

    def get(self, key: str) -> bytes | None:
        path = self.folder / key
        try:
            content = path.read_bytes()
        except OSError:
            return None
        seal, entry = content[:SEAL], content[SEAL:]
        whole = hashlib.sha256(entry).digest() == seal
        with suppress(OSError):
            os.utime(path) if whole else path.unlink()  # used last now
        return entry if whole else None

    def put(self, key: str, value: bytes) -> None:
        with suppress(OSError):
            files.write(self.folder / key, lambda file: file.write(hashlib.sha256(value).digest() + value))


def enable() -> Path | None:
    """Keep compiled programs from now on; returns their folder, or None where there is no place for them."""
    disable()
    # A damaged entry, ours or of the user's own cache, is a program to compile again: nothing that a reader must know.
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache entry")
    if os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return None  # the user's own, which JAX uses by itself
    try:
        from jax._src import compilation_cache  # JAX has no public way to a cache that verifies what it reads

        folder = _private_folder()
        if folder is None:
            return None
        _trim(folder.parent)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", LEAST_SECONDS)
        compilation_cache._cache = ProgramCache(folder)  # type: ignore[assignment]
        compilation_cache._cache_initialized = True
    except Exception:  # of a file system, or of another version of JAX
        return None
    return folder


def disable() -> None:
    """Keep no programs; those of `enable` stay where they are."""
    with suppress(Exception):
        from jax._src import compilation_cache

        if isinstance(compilation_cache._cache, ProgramCache):
            compilation_cache.reset_cache()


# --- the folder -------------------------------------------------------------------------------------------------------
def _private_folder() -> Path | None:
    """The folder for these versions on this processor, made if it is missing; None if others could write to it."""
    chosen = os.environ.get(VARIABLE, "")
    if chosen.lower() in ("off", "none", "0"):
        return None
    top = Path(chosen) if chosen else _cache_home() / "everystep"
    if not top.is_absolute():
        return None
    existing = next(folder for folder in (top, *top.parents) if folder.is_dir())
    if not _is_mine(existing):  # as after sudo, which keeps the home of the user
        return None
    for folder in (top, top / _name()):
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700, parents=folder == top)
        if not _is_private(folder):
            return None
    return top / _name()


def _cache_home() -> Path:
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")


def _is_mine(folder: Path) -> bool:
    return not hasattr(os, "geteuid") or folder.stat().st_uid == os.geteuid()


def _is_private(folder: Path) -> bool:
    """Whether a folder is one, not a link to one, belongs to this user and is closed to all others."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        return False
    return not hasattr(os, "geteuid") or (found.st_uid == os.geteuid() and not found.st_mode & 0o077)


def _name() -> str:
    """What a compiled program depends on beside its key."""
    versions = "-".join(f"{name}-{metadata.version(name)}" for name in ("jax", "jaxlib"))
    return f"everystep-{__version__}-{versions}-{platform.machine()}-{_processor()}"


def _processor(about: Path = Path("/proc/cpuinfo")) -> str:
    """A hash of the model and the features of the processor."""
    fields = ("model name", "flags", "Features", "CPU implementer", "CPU part", "isa")
    try:
        lines = about.read_text(encoding="utf-8", errors="replace").split("\n\n", 1)[0].splitlines()
        parts = sorted(line for line in lines if line.split(":")[0].strip() in fields)
    except OSError:
        parts = [platform.processor(), platform.version()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _trim(top: Path) -> None:
    """Remove the entries used longest ago, of all versions and processors, until the rest fits."""
    entries, total = [], 0
    for path in top.glob("*/*"):
        with suppress(OSError):
            found = path.stat()
            entries.append((found.st_mtime, found.st_size, path))
    for _, size, path in sorted(entries, reverse=True):
        total += size
        if total > MOST:
            with suppress(OSError):
                path.unlink()
