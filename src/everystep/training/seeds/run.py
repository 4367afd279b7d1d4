"""A training for several seeds in one folder, as `everystep train` runs it.

    DIR/training.json    the request: environment, constraint, features, agent, settings, seeds, how long; signed
    DIR/seed-N/          the training of one seed (see training_folder.py)
    DIR/evaluation.json  the last evaluation of the policies (see training_evaluation.py)

The signature tells commands whether this user named what the request would import (see trust.py).

Seeds are divided among processes; a single process trains in a thread. Neither receives signals, so that a training
stops between two episodes, writes a checkpoint, and can be resumed with the same bits. A process ends when the process
that started it ends.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from multiprocessing import connection, resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from everystep import files
from everystep.environments.play import trust
from everystep.errors import UNLIKE, EverystepError, raised
from everystep.experiments.folder import run_folder
from everystep.experiments.folder.run_folder import TRAINING, TRAINING_REQUEST
from everystep.files import forms
from everystep.runtime import program_cache
from everystep.runtime.signals import PausedError
from everystep.training import callbacks
from everystep.training.folder import training_folder
from everystep.training.seeds import filmstrip
from everystep.training.seeds.request import TrainingRequest, close

if TYPE_CHECKING:
    from everystep.experiments.engines.ray import Cluster

FORMAT = 2
FORM = {
    "kind": lambda content: content == TRAINING,
    "format": lambda content: content == FORMAT,
    "request": dict,
    "signature": forms.Maybe(str),
}
AGAIN = "train into another folder."
THREAD = "everystep-run-training"  # the command does not wait for threads with this beginning when it was stopped
OFTEN = 0.2  # seconds between messages
WAIT = 0.2  # between looks at whether the command was stopped
STOPPING = 5.0  # seconds that a training has to end its episode and to write a checkpoint
SIGNALS = (signal.SIGINT, signal.SIGTERM)
SAFE_PATH = "PYTHONSAFEPATH"  # without it a new process of Python imports modules of the current folder first
UNSIGNED = (
    "'{key}' cannot be made, or is no key that only you can read, so `everystep resume` will need --trust; remove it, "
    "or set {variable} to a folder of yours"
)

Send = Callable[["Message"], None]  # raises PausedError when the training should stop


class Message(NamedTuple):
    """A report of a seed, by `kind`: its progress, that it is finished, stopped or failed and why, or a note."""

    seed: int
    kind: str = "progress"
    episodes: int = 0
    steps: int = 0
    violation: float = 0.0
    words: tuple[str, ...] = ()


def folder_of(out: Path, seed: int) -> Path:
    return out / f"seed-{seed}"


# --- the request of a folder ------------------------------------------------------------------------------------------
class Begun(NamedTuple):
    """The request of a folder, and whether this user signed it."""

    request: TrainingRequest
    signed: bool


def read_begun(out: Path) -> Begun:
    """What `begin` wrote into a folder."""
    path = out / TRAINING_REQUEST
    content = forms.read(path, FORM, AGAIN, ever=True)
    try:
        request = TrainingRequest.from_json(content["request"])
    except UNLIKE:
        raise EverystepError(f"'{path}' holds no request of this version; restore it, or {AGAIN}") from None
    return Begun(request, trust.is_signed(request.to_json(), content["signature"]))


def begin(out: Path, request: TrainingRequest) -> bool:
    """Write the request into an empty folder, or a larger one into a folder that holds this training, which is held.

    Returns whether it is signed.
    """
    files.check_writable(out)
    if (out / TRAINING_REQUEST).is_file():
        before = read_begun(out)
        request.check_continues(before.request, out)
        if before == (request, True):
            return True
    elif any(not each.name.endswith((files.PARTIAL, files.RECORD)) for each in out.iterdir()):
        raise EverystepError(f"out '{out}' holds other files; choose an empty or a new folder.")
    content = request.to_json()
    signature = trust.sign(content)
    with files.replacing(out) as partial:
        about = {"kind": TRAINING, "format": FORMAT, "request": content, "signature": signature}
        files.write_json(partial / TRAINING_REQUEST, about)
    return signature is not None


def unfinished(request: TrainingRequest, out: Path) -> list[int]:
    """The seeds of a request that are not finished, by the rows that they have."""
    return [seed for seed in request.seeds if not _is_over(request, folder_of(out, seed))]


def _is_over(request: TrainingRequest, folder: Path) -> bool:
    if run_folder.is_unfinished(folder) or not (folder / "spec.json").is_file():
        return False
    try:
        lengths, spec = training_folder.rows(folder, ["length"])["length"], run_folder.read_json(folder / "spec.json")
        return training_folder.is_over(spec, request.schedule, len(lengths), int(lengths.sum()))
    except EverystepError:
        return False  # which training reports


# --- all seeds --------------------------------------------------------------------------------------------------------
class Means(NamedTuple):
    """By which a training is computed: processes, whether programs are kept, a folder of logs, a cluster of Ray."""

    jobs: int = 1
    cache: bool = True
    logs: Path | None = None
    cluster: Cluster | None = None


def train(request: TrainingRequest, out: Path, means: Means, report: Callable[[Message], None]) -> None:
    """Train all seeds of a request, from wherever each of them stopped.

    `report` receives what the seeds report, in this thread. If it raises KeyboardInterrupt, or Ctrl-C does, the seeds
    stop after their episodes. An error of one seed does not stop the others.
    """
    new = not out.exists()
    with _held(out):
        try:
            signed = begin(out, request)
            if not signed and any(map(trust.module_of, request.names.values())):
                words = UNSIGNED.format(key=trust.state_folder() / trust.KEY, variable=trust.VARIABLE)
                report(Message(request.seeds[0], "note", words=(words,)))
            failures = _train(request, out, means, report)
            if failures:
                raise EverystepError(" ".join(failures))
        except BaseException:
            _remove_empty(out, request.seeds, new)
            raise


def _train(request: TrainingRequest, out: Path, means: Means, report: Callable[[Message], None]) -> list[str]:
    """The failures of all seeds, in sentences."""
    if means.cluster is not None:
        from everystep.training.seeds import ray as training_ray

        return training_ray.train(request, out, means.cluster, report)
    failures, stopped, left = [], False, set(request.seeds)
    alone = min(means.jobs, len(request.seeds)) == 1
    with ExitStack() as stack:
        messages = stack.enter_context(
            _in_a_thread(request, out, means.logs) if alone else _in_processes(request, out, means)
        )
        for message in messages:
            if message is None:
                continue
            if message.kind != "progress":
                left.discard(message.seed)
            if message.kind == "failed":
                where = f"seed {message.seed}: " if len(request.seeds) > 1 else ""
                failures.append(f"{where}{message.words[0]}")
            stopped = stopped or message.kind == "stopped"
            report(message)
    if stopped:
        raise KeyboardInterrupt
    return failures + [f"seed {seed}: its worker died; rerun the command to resume." for seed in left]


@contextmanager
def _held(out: Path) -> Iterator[None]:
    """Lock a folder, which is made if missing; no module is imported from it while it is locked."""
    try:
        files.refuse_temporary_name(out)
        files.make_folder(out)
        with files.held(out, out / run_folder.WORK / "pid"), trust.nothing_from(out):
            yield
    except OSError as error:
        raise files.cannot_write(out, error) from None


def _remove_empty(out: Path, seeds: Sequence[int], new: bool) -> None:
    """Remove folders of seeds that hold nothing yet, and the folder of all if it is new and has no seed left."""
    for seed in seeds:
        folder = folder_of(out, seed)
        work = folder / run_folder.WORK
        if folder.is_dir() and not any(work.glob("checkpoint-*")) and not (folder / "spec.json").is_file():
            with suppress(OSError, EverystepError):
                if work.is_dir():
                    files.remove_folder(work)
                files.sweep(folder)
                folder.rmdir()
    if new and out.is_dir() and not any(folder_of(out, seed).exists() for seed in seeds):
        with suppress(OSError):
            (out / TRAINING_REQUEST).unlink(missing_ok=True)
            if all(each.name == files.RECORD for each in out.iterdir()):
                (out / files.RECORD).unlink(missing_ok=True)
                out.rmdir()


# --- in a thread ------------------------------------------------------------------------------------------------------
@contextmanager
def _in_a_thread(request: TrainingRequest, out: Path, logs: Path | None) -> Iterator[Iterator[Message | None]]:
    """Messages of all seeds, trained one after another in a thread; None at intervals, so that the caller can stop."""
    arrived: queue.SimpleQueue[Message] = queue.SimpleQueue()
    stop = threading.Event()

    def send(message: Message) -> None:
        arrived.put(message)
        if stop.is_set():
            raise PausedError

    thread = threading.Thread(target=_work, args=(request, out, request.seeds, send, logs), name=THREAD, daemon=True)

    def messages() -> Iterator[Message | None]:
        while True:
            alive = thread.is_alive()
            try:
                yield arrived.get(timeout=WAIT)
            except queue.Empty:
                if not alive:
                    return
                yield None

    thread.start()
    try:
        yield messages()
    finally:
        stop.set()
        thread.join(STOPPING)


# --- in processes -----------------------------------------------------------------------------------------------------
@contextmanager
def _in_processes(request: TrainingRequest, out: Path, means: Means) -> Iterator[Iterator[Message | None]]:
    """Messages of all seeds, trained in processes; None at intervals, so that the caller can stop."""
    jobs = min(means.jobs, len(request.seeds))
    context = multiprocessing.get_context("spawn")
    processes, ends, before = [], [], os.environ.get(SAFE_PATH)
    try:
        for i in range(jobs):
            ours, theirs = context.Pipe(duplex=False)
            arguments = (request.to_json(), out, request.seeds[i::jobs], means, before, theirs)
            processes.append(context.Process(target=_in_a_process, args=arguments, daemon=True))
            ends.append(ours)
            with _starting():
                processes[-1].start()
            theirs.close()
        yield _received(ends, {end: set(request.seeds[i::jobs]) for i, end in enumerate(ends)})
    finally:
        for end in ends:
            end.close()  # which stops a process at its next message
        until = time.monotonic() + STOPPING
        for process in processes:
            process.join(max(until - time.monotonic(), 0.0))
            if process.is_alive():
                process.kill()
                process.join()


def _received(ends: Sequence[Any], unfinished: dict[Any, set[int]]) -> Iterator[Message | None]:
    waiting = list(ends)
    while waiting:
        ready = connection.wait(waiting, WAIT)
        if not ready:
            yield None
        for end in list[Any](ready):
            try:
                message = Message(*end.recv())
            except (EOFError, OSError):
                waiting.remove(end)
                for seed in sorted(unfinished[end]):
                    yield Message(seed, "failed", words=("the worker died; rerun the command to resume.",))
                continue
            if message.kind != "progress":
                unfinished[end].discard(message.seed)
            yield message


@contextmanager
def _starting() -> Iterator[None]:
    """Start processes in a block: without the current folder on their path, and with signals blocked, which arrive
    while they import modules; `_in_a_process` ignores them."""
    before, can_block = os.environ.get(SAFE_PATH), hasattr(signal, "pthread_sigmask")
    _set_variable(SAFE_PATH, "1")
    if can_block:
        resource_tracker.ensure_running()  # a process of multiprocessing, whose start unblocks them
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        if can_block:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _set_variable(SAFE_PATH, before)


def _set_variable(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _in_a_process(
    request: dict[str, Any], out: Path, seeds: Sequence[int], means: Means, safe_path: str | None, end: Connection
) -> None:
    """The work of a process, which ends when the process that started it ends.

    `safe_path` is the value of `SAFE_PATH` for processes that the environment starts.
    """
    _set_variable(SAFE_PATH, safe_path)
    for number in SIGNALS:  # Ctrl-C reaches all processes of a terminal
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=lambda: (connection.wait([parent.sentinel]), os._exit(1)), daemon=True).start()
    if means.cache:
        program_cache.enable()

    def send(message: Message) -> None:
        try:
            end.send(tuple(message))
        except OSError:  # the other end was closed
            raise PausedError from None

    with suppress(KeyboardInterrupt), trust.nothing_from(out):
        _work(TrainingRequest.from_json(request), out, seeds, send, means.logs)


# --- one seed after another -------------------------------------------------------------------------------------------
def _work(request: TrainingRequest, out: Path, seeds: Sequence[int], send: Send, logs: Path | None) -> None:
    for seed in seeds:
        try:
            with suppress(KeyboardInterrupt):
                train_seed(request, folder_of(out, seed), seed, send, None if logs is None else folder_of(logs, seed))
                continue
            _report(send, Message(seed, "stopped"))
            return
        except BaseException as error:  # of the environment, or a defect here: the other seeds continue
            _report(send, Message(seed, "failed", words=(in_a_sentence(error),)))


def in_a_sentence(error: BaseException) -> str:
    """What went wrong with a seed."""
    return str(error) if isinstance(error, EverystepError) else "{}: {}.".format(*raised(error))


def _report(send: Send, message: Message) -> None:
    with suppress(KeyboardInterrupt):
        send(message)


def train_seed(request: TrainingRequest, folder: Path, seed: int, send: Send, log: Path | None = None) -> None:
    """Train one seed in its folder, from where it stopped."""
    writer = None if log is None else callbacks.tensorboard(log)
    learner = request.learner(seed, writer)
    last = time.monotonic()

    def progress(episodes: int) -> None:
        nonlocal last
        if time.monotonic() - last >= OFTEN:
            last = time.monotonic()
            send(_so_far())

    def _so_far(kind: str = "progress", words: tuple[str, ...] = ()) -> Message:
        return Message(seed, kind, learner.number - 1, *learner.so_far, words)

    try:
        pictures = partial(filmstrip.record, request, seed) if seed == request.seeds[0] else None
        result = training_folder.train(learner, folder, request.schedule, None, progress, pictures)
        if run_folder.is_unfinished(folder):
            raise KeyboardInterrupt
        send(_so_far("finished", result.remarks))
    finally:
        close(learner.stage.env)
        if writer is not None:
            writer.close()
