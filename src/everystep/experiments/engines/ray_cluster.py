"""Ray clusters on this machine: a private one for a single run, and those that are running already.

By default Ray keeps the address of a machine's cluster, its sockets and its logs in one folder, /tmp/ray, and a token
in the home directory. A private cluster uses none of these: it has a folder and a token of its own, writes no address
file, and ends no processes but those it started. So it neither needs nor disturbs any other cluster.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from everystep.errors import EverystepError

if TYPE_CHECKING:
    from psutil import Process

PREFIX = "es-ray-"  # of the folders of private clusters, which `--address auto` does not join
LONGEST = 36  # bytes in the path of such a folder: sockets below it need up to 70 more, of the 107 a system allows
PATIENCE = 10.0  # seconds for processes to end by themselves
REMEDY = "start one with `ray start --head`, or leave --address out to use this machine alone."


@contextmanager
def private_folder() -> Iterator[Path]:
    """An empty folder for a cluster, removed at the end.

    It is in TMPDIR, or in /tmp if that path is too long for sockets or has a blank in it.
    """
    place = tempfile.gettempdir()
    if (len(os.fsencode(place)) + len(PREFIX) + 9 > LONGEST or " " in place) and Path("/tmp").is_dir():
        place = "/tmp"
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
    try:
        yield folder
    finally:
        until = time.monotonic() + PATIENCE
        while folder.exists() and time.monotonic() < until:  # a process that is about to end may still write a log
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def private(ray: ModuleType, **settings: object) -> Iterator[None]:
    """Connected to a cluster of this machine's own cores, which exists no longer than that."""
    with private_folder() as folder, _environment(ray, RAY_AUTH_TOKEN=secrets.token_hex(32)):
        try:
            ray.init("local", _temp_dir=str(folder), include_dashboard=False, **settings)
            yield
        finally:
            started = processes_of(folder)
            ray.shutdown()
            end(started)


@contextmanager
def joined(ray: ModuleType, address: str, **settings: object) -> Iterator[None]:
    """Connected to a running cluster. If this machine is part of it, with the user's token for Ray, if there is one."""
    tokens = address in running() and "RAY_AUTH_MODE" not in os.environ and _has_token(ray)
    with _environment(ray, **({"RAY_AUTH_MODE": "token"} if tokens else {})):
        try:
            ray.init(address, **settings)
            yield
        finally:
            ray.shutdown()


def current() -> str:
    """The address of the cluster this machine is part of, as `ray start` has recorded it here."""
    if (address := os.environ.get("RAY_ADDRESS", "auto")) not in ("", "auto", "local"):
        return address
    addresses = running()
    for file in address_files():
        if file.is_file() and (address := file.read_text(encoding="utf-8").strip()) in addresses:
            return address
    if not addresses:
        raise EverystepError(f"address is 'auto', but no Ray cluster runs on this machine; {REMEDY}")
    if len(addresses) > 1:
        raise EverystepError(
            f"address is 'auto', but {len(addresses)} Ray clusters run on this machine; "
            f"choose one with --address, of {', '.join(sorted(addresses))}."
        )
    return addresses.pop()


def address_files() -> list[Path]:
    """Where `ray start` may have recorded an address: its folder depends on the environment it was started in."""
    places = [os.environ.get("RAY_TMPDIR"), os.environ.get("TMPDIR"), "/tmp"]
    return [Path(place) / "ray" / "ray_current_cluster" for place in places if place]


def running() -> set[str]:
    """The addresses of the clusters this machine is part of, private ones left out.

    Each has a process called raylet here. One whose socket is out of sight (it runs in a container) cannot be joined.
    """
    import psutil

    addresses = set()
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or [""]
        if Path(words[0]).stem != "raylet":
            continue
        flags = dict(word[2:].split("=", 1) for word in words if word.startswith("--") and "=" in word)
        socket = Path(flags.get("raylet_socket_name", ""))
        ours = any(part.startswith(PREFIX) for part in socket.parts)
        if "gcs-address" in flags and socket.exists() and not ours:
            addresses.add(flags["gcs-address"])
    return addresses


def processes_of(folder: Path) -> list[Process]:
    """The processes this one has started for a cluster in a folder, and theirs."""
    import psutil

    found: list[Process] = []
    for child in psutil.Process().children():
        try:
            if str(folder) in " ".join(child.cmdline()):
                found += [child, *child.children(recursive=True)]
        except psutil.Error:  # it has ended
            continue
    return found


def end(processes: list[Process]) -> list[Process]:
    """Wait until these processes have ended; kill those that do not, and return them."""
    import psutil

    _, left = psutil.wait_procs(processes, PATIENCE)
    for process in left:
        try:
            process.kill()
        except psutil.Error:  # it has ended
            continue
    psutil.wait_procs(left, PATIENCE)
    return list(left)


@contextmanager
def _environment(ray: ModuleType, **values: str) -> Iterator[None]:
    """Settings of Ray for a while; what Ray itself writes into the environment in that time is undone as well."""
    before = _settings()
    os.environ.update(values)
    _read_again(ray)
    try:
        yield
    finally:
        for name in _settings():
            del os.environ[name]
        os.environ.update(before)
        _read_again(ray)


def _settings() -> dict[str, str]:
    """The variables of the environment that belong to Ray; it sets the debugger's as well."""
    return {name: os.environ[name] for name in os.environ if name.startswith("RAY_") or name == "PYTHONBREAKPOINT"}


def _read_again(ray: ModuleType) -> None:
    """Ray reads its mode of authentication and its token once. Versions before these have nothing to read."""
    if (tokens := getattr(ray._raylet, "AuthenticationTokenLoader", None)) is not None:
        ray._raylet.Config.initialize("")
        tokens.instance().reset_cache()


def _has_token(ray: ModuleType) -> bool:
    tokens = getattr(ray._raylet, "AuthenticationTokenLoader", None)
    return tokens is not None and bool(tokens.instance().has_token(ignore_auth_mode=True))
