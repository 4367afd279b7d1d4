"""What a command may import because of a folder: names that this user gave, and never a module inside the folder.

The folder of `everystep train` names an environment, a constraint and callbacks. To import them is to run
code, and a folder may come from anyone. Commands that only read (`report`, `summary`, ...) import none of them.
`evaluate` and `resume` ask `check`: a name that would import a module must be given on the command line, or the
request must carry the signature of this user, or the user trusts the folder with --trust. Even then `nothing_from`
refuses modules that lie in the folder. docs/folders.md describes it for users.

    signature = HMAC-SHA256(key, request as canonical JSON)

The key is 32 random bytes in one file of the user's state folder, which no other user may read. Checksums show damage;
they are no signature, because everybody can compute them.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from everystep.errors import EverystepError, shown

VARIABLE = "EVERYSTEP_STATE"  # another folder for the key
KEY, KEY_BYTES = "key", 32
FLAGS_OF_KEY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
PURPOSE = "everystep training request"
FLAGS = {"env": "--env", "constraint": "--constraint", "on_episode": "--on-episode", "on_plan": "--on-plan"}


# --- signatures -------------------------------------------------------------------------------------------------------
def sign(request: Mapping[str, Any]) -> str | None:
    """The signature of a request by this user; None where no key can be kept."""
    key = _key()
    return None if key is None else _hmac(key, request)


def is_signed(request: Mapping[str, Any], signature: object) -> bool:
    """Whether this user signed a request."""
    if not isinstance(signature, str) or not signature.isascii():
        return False
    key = _key(make=False)
    return key is not None and hmac.compare_digest(_hmac(key, request), signature)


def _hmac(key: bytes, request: Mapping[str, Any]) -> str:
    content = json.dumps([PURPOSE, request], sort_keys=True, separators=(",", ":"))
    return hmac.new(key, content.encode(), hashlib.sha256).hexdigest()


def state_folder() -> Path:
    """The folder of the key."""
    if given := os.environ.get(VARIABLE):
        return Path(given)
    home = Path(os.path.expanduser("~"))
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "everystep"
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "everystep"
    given = os.environ.get("XDG_STATE_HOME", "")
    return (Path(given) if os.path.isabs(given) else home / ".local" / "state") / "everystep"


def _key(make: bool = True) -> bytes | None:
    """The key, made if it is missing; None if it cannot be kept, or others could have read or written it."""
    try:
        folder = state_folder()
        if not folder.is_absolute():
            return None
        if make:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _make_key(folder)
        return _read_key(folder)
    except OSError:  # no home, or one that cannot be written
        return None


def _make_key(folder: Path) -> None:
    """Write a new key if there is none, or an empty file of a process that was killed; only one process writes it."""
    with suppress(FileNotFoundError):
        if _read_key(folder) is not None:
            return
    if not _is_mine(folder.lstat(), stat.S_ISDIR, 0o022):
        return
    opened = os.open(folder / KEY, os.O_RDWR | os.O_CREAT | FLAGS_OF_KEY, 0o600)
    with os.fdopen(opened, "rb+", buffering=0) as file:
        _wait_for_others(opened)
        if _is_mine(os.fstat(opened), stat.S_ISREG, 0o077) and not file.read(1):
            file.write(os.urandom(KEY_BYTES))
            os.fsync(opened)


def _wait_for_others(opened: int) -> None:
    """Lock an open file until it is closed, where there are such locks."""
    with suppress(ImportError):
        import fcntl

        fcntl.flock(opened, fcntl.LOCK_EX)


def _read_key(folder: Path) -> bytes | None:
    if not _is_mine(folder.lstat(), stat.S_ISDIR, 0o022):
        return None
    opened = os.open(folder / KEY, os.O_RDONLY | FLAGS_OF_KEY)
    with os.fdopen(opened, "rb") as file:
        if not _is_mine(os.fstat(opened), stat.S_ISREG, 0o077):
            return None
        content = file.read(KEY_BYTES + 1)
    return content if len(content) == KEY_BYTES else None


def _is_mine(found: os.stat_result, kind: Callable[[int], bool], forbidden: int) -> bool:
    """Whether something is of this kind, belongs to this user, and gives others none of the `forbidden` rights."""
    if not kind(found.st_mode):
        return False
    return not hasattr(os, "geteuid") or (found.st_uid == os.geteuid() and not found.st_mode & forbidden)


# --- names ------------------------------------------------------------------------------------------------------------
def module_of(name: str | None) -> str | None:
    """The module that `module:name` or the id `module:Id-v0` imports; None for an id without a module."""
    module, colon, _ = (name or "").partition(":")
    return module if colon else None


def check(folder: Path, recorded: Mapping[str, str | None], given: Mapping[str, str | None], trusted: bool) -> None:
    """Raise unless the names that a folder records may be imported. All commands decide it here.

    `recorded` are names by field; `given` are those of this command line; `trusted`: the request is signed by this
    user, or --trust was given.
    """
    asked = {
        field: name
        for field, name in recorded.items()
        if name is not None and module_of(name) is not None and given.get(field) != name
    }
    if trusted or not asked:
        return
    modules = sorted({str(module_of(name)) for name in asked.values()})
    again = " ".join(f"{FLAGS[field]} {shown(name)}" for field, name in asked.items())
    raise EverystepError(
        f"'{folder}' names the module{'' if len(modules) == 1 else 's'} {shown(', '.join(modules))}, which would be "
        f"imported, and was not begun by this user; if you trust it add --trust, or give the names: {again}."
    )


# --- where modules lie ------------------------------------------------------------------------------------------------
_closed: list[Path] = []  # folders from which nothing is imported now


@contextmanager
def nothing_from(folder: Path) -> Iterator[None]:
    """Refuse to import modules inside a folder, also if a trusted module imports them."""
    finder, closed = _Refusing(), Path(os.path.abspath(folder))
    _closed.append(closed)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        _closed.remove(closed)


def is_closed(place: str | os.PathLike[str]) -> bool:
    """Whether a path lies in a folder from which nothing is imported."""
    paths = {Path(os.path.abspath(place)), Path(os.path.realpath(place))} if _closed else set()
    return any(_is_same(above, folder) for path in paths for above in (path, *path.parents) for folder in _closed)


def _is_same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


class InsideError(ImportError):
    """A module that lies in a folder from which nothing is imported."""


class _Refusing:
    """The first finder of modules: it finds them as the others do, and refuses those in a closed folder."""

    def __init__(self) -> None:
        self._looking = threading.local()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        busy: set[str] = self._looking.__dict__.setdefault("names", set())
        if name in busy:  # another finder asks all finders
            return None
        busy.add(name)
        try:
            others = (finder.find_spec(name, path, target) for finder in list(sys.meta_path) if finder is not self)
            spec: ModuleSpec | None = next(filter(None, others), None)
        finally:
            busy.discard(name)
        if spec is None:
            return None
        places = [spec.origin] if spec.has_location and spec.origin else []
        places += list(spec.submodule_search_locations or ())
        if any(is_closed(place) for place in places):
            raise InsideError(
                f"the module {shown(name)} lies in the folder of the training, from which nothing is imported",
                name=name,
            )
        return spec
