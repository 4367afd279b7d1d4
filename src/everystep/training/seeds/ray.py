"""The seeds of a training on a Ray cluster: a worker trains a seed for some seconds and returns its files.

No folder is shared between machines: the files of a seed are sent with it, and the newest checkpoint is written here
after every turn. If a worker is lost, only its turn is repeated. The modules of the environment and of the constraint
must be importable on every machine; those in the current folder are found if the folder exists there, too.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from everystep import files
from everystep.environments.play import trust
from everystep.errors import EverystepError
from everystep.experiments.experiment import versions
from everystep.experiments.folder.run_folder import WORK
from everystep.files import store
from everystep.runtime.signals import PausedError
from everystep.training.folder import training_folder
from everystep.training.seeds import run as training_seeds
from everystep.training.seeds.request import TrainingRequest
from everystep.training.seeds.run import Message, folder_of, in_a_sentence

if TYPE_CHECKING:
    from everystep.experiments.engines.ray import Cluster

Packed = dict[str, bytes]  # the files of a folder by their path in it


class Shared(NamedTuple):
    """What every worker receives."""

    request: dict[str, Any]
    folder: str  # the current one, for modules in it
    out: str  # the folder of the training, from which nothing is imported
    versions: dict[str, str]


class Turn(NamedTuple):
    """The progress of a seed, and its files."""

    message: Message
    files: Packed


def train(request: TrainingRequest, out: Path, cluster: Cluster, report: Callable[[Message], None]) -> list[str]:
    """Train what is left of a request. The failures, in sentences."""
    from everystep.experiments.engines.ray import Tasks

    failures: list[str] = []

    def take(seed: int, turn: Turn) -> bool:
        message = turn.message
        try:
            _install(folder_of(out, seed), turn.files)
        except OSError as error:
            raise files.cannot_write(out, error) from None
        if message.kind == "failed":
            failures.append(f"seed {seed}: {message.words[0]}")
        report(message)
        return message.kind != "progress"

    left = training_seeds.unfinished(request, out)
    stands = lambda seed: _packed(folder_of(out, seed)) or None
    shared = Shared(request.to_json(), os.getcwd(), os.path.abspath(out), versions())
    lost = cluster.spread(Tasks(_work, shared, left, stands, take, lambda seed: f"seed {seed}"))
    return failures + [f"seed {seed}: {reason}." for seed, reason in sorted(lost.items())]


def _work(shared: Shared, seed: int, before: Packed | None, seconds: float) -> Turn:
    """On a worker: train a seed for some seconds, from its last checkpoint."""
    if versions() != shared.versions:
        raise EverystepError(f"a machine has versions {versions()}, and this one {shared.versions}; install the same.")
    if os.path.isdir(shared.folder):
        os.chdir(shared.folder)
    until, latest = time.monotonic() + seconds, Message(seed)

    def send(message: Message) -> None:
        nonlocal latest
        latest = message
        if message.kind == "progress" and time.monotonic() > until:
            raise PausedError

    with tempfile.TemporaryDirectory(prefix="everystep-") as place, trust.nothing_from(Path(shared.out)):
        folder = folder_of(Path(place), seed)
        _unpack(before or {}, folder)
        try:
            training_seeds.train_seed(TrainingRequest.from_json(shared.request), folder, seed, send)
        except KeyboardInterrupt:
            pass
        except (EverystepError, SystemExit) as error:  # the latter would end the worker
            latest = latest._replace(kind="failed", words=(in_a_sentence(error),))
        return Turn(latest, _packed(folder))


def _packed(folder: Path) -> Packed:
    """The files of a training's folder: all of a finished one, and the newest checkpoint of an unfinished one."""
    found = [path for path in folder.rglob("*") if path.is_file() and path.name != "pid"]
    work = folder / WORK
    newest = next(iter(store.saved(work)), None)
    packed = {path.relative_to(folder): path for path in found}
    older = lambda parts: parts[0] == WORK and parts[1].startswith("checkpoint-") and work / parts[1] != newest
    return {name.as_posix(): path.read_bytes() for name, path in packed.items() if not older(name.parts)}


def _unpack(packed: Packed, folder: Path) -> None:
    for name, content in packed.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def _install(folder: Path, packed: Packed) -> None:
    """Bring a folder to the state of the packed one; it stays valid if this process is killed meanwhile."""
    own = {name: content for name, content in packed.items() if Path(name).name != files.RECORD}
    if not own:
        return
    files.make_folder(folder)
    files.sweep(folder)
    work = folder / WORK
    begun = {name.removeprefix(f"{WORK}/"): each for name, each in own.items() if name.startswith(f"{WORK}/")}
    if not (work / "spec.json").is_file():
        with files.filling(work) as partial:
            spec = begun.get("spec.json") or own["spec.json"]  # of a training that was finished in its first turn
            (partial / "spec.json").write_bytes(spec)
    if not begun:
        training_folder.finish(folder, lambda finished: _unpack(own, finished))
        return
    saved = {name.partition("/")[2]: each for name, each in begun.items() if name.startswith("checkpoint-")}
    if saved:
        store.add(work, lambda partial: _unpack(saved, partial))
