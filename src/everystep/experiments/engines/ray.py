"""The Ray engine: jobs spread over the machines of a cluster. Lost work is repeated, failures are reported by name.

It knows nothing of agents: a job is any hashable value, and `work` is a function that continues one for a while on some
worker. Jobs are sent in handfuls of about a second, so that small ones spend little time on transfer. Ray pickles
functions, arguments and results between its own processes; none of that reaches a run folder.
"""

from __future__ import annotations

import logging
import os
import shlex
import socket
import sys
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any, Generic, NamedTuple, TypeVar

from everystep.errors import EverystepError
from everystep.experiments.engines import ray_cluster

HANDFUL = 1.0  # seconds of work in one task, where jobs are small: Ray spends milliseconds on each
TASKS = 200  # that a driver sends in a second, at most: on more workers than that handfuls are larger
TURN = 30.0  # seconds after which a long job reports its state: that much is lost with its worker
TRIES = 3  # of a job that fails
LOSSES = 10  # of workers during one job, before the job is taken for the cause
HOPELESS = 10  # this many jobs failed and none succeeded: the jobs are not the cause
J = TypeVar("J")  # a job
S = TypeVar("S")  # where it stands
R = TypeVar("R")  # its result
Work = Callable[[Any, J, S | None, float], R]


class Failed(NamedTuple):
    """The error of a job, as text."""

    reason: str


class Handful(NamedTuple):
    """What came of the jobs of a task that were begun, in their order, and how many seconds each took."""

    results: list[Any]
    seconds: list[float]


class Tasks(NamedTuple, Generic[J, S, R]):
    """Jobs, and how to deal with them.

    work:   continues a job on a worker: (shared, job, its state, seconds) -> result
    shared: what every job needs; it is sent to a machine once
    jobs:   in the order they should be begun
    stands: the state of a job, None at its beginning
    take:   called in this process with each result of a job; returns whether the job is finished
    named:  the name of a job in messages
    """

    work: Work[J, S, R]
    shared: object
    jobs: Sequence[J]
    stands: Callable[[J], S | None]
    take: Callable[[J, R], bool]
    named: Callable[[J], str]


class Cluster(NamedTuple):
    """A cluster this process is connected to."""

    ray: ModuleType

    def slots(self) -> int:
        """How many jobs it can run at a time; machines may come and go."""
        return max(1, int(self.ray.cluster_resources().get("CPU", 1)))

    def spread(self, tasks: Tasks[J, S, R]) -> dict[J, str]:
        """Do all jobs. Those that failed every time, and why; the others are finished."""
        return _Spreading(self, tasks).run()


@contextmanager
def connected(address: str | None = None) -> Iterator[Cluster]:
    """A cluster by its address, `auto` for the one this machine is part of, None for a private one of its own cores.

    If this process is connected already, that connection is used, and kept.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage statistics are sent
    try:
        import ray
    except ImportError:
        raise EverystepError(
            "--engine ray needs the package ray; install it with `pip install 'everystep[ray]'`."
        ) from None
    if ray.is_initialized():
        yield Cluster(ray)
        return
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "auto":
        address = ray_cluster.current()
    with ExitStack() as connection:
        try:
            with forking():
                if address is None:
                    connection.enter_context(ray_cluster.private(ray, **quiet))
                else:
                    _answers(address)
                    connection.enter_context(ray_cluster.joined(ray, address, **quiet))
        except (OSError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
            reason = str(error).strip().split("\n")[0].rstrip(".")
            raise EverystepError(
                f"no Ray cluster answers at address '{address}' ({reason}); {ray_cluster.REMEDY}"
                if address
                else f"Ray cannot be started on this machine ({reason}); use the engine local."
            ) from None
        yield Cluster(ray)


@contextmanager
def forking() -> Iterator[None]:
    """Without JAX's warning that forks may deadlock: Ray starts other programs, and they begin at once."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
        yield


def _answers(address: str) -> None:
    """Nothing if something listens at host:port, else the error of the system: Ray would try for more than a minute."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


class _Spreading(Generic[J, S, R]):
    """One call of `Cluster.spread`: which jobs wait, and which are on their way."""

    def __init__(self, cluster: Cluster, tasks: Tasks[J, S, R]):
        self._ray, self._cluster, self._tasks = cluster.ray, cluster, tasks
        self._waiting = deque(tasks.jobs)
        self._alone = deque[J]()  # one in a task, to see whether it is at fault
        self._sent: dict[object, list[J]] = {}
        self._tries, self._losses, self._failed = Counter[J](), Counter[J](), dict[J, str]()
        self._quickest = float("inf")  # seconds of a job that went well

    def run(self) -> dict[J, str]:
        ray, tasks = self._ray, self._tasks
        handful = ray.remote(num_cpus=1, max_retries=0, runtime_env=_environment())(_handful)
        work, shared = ray.put(tasks.work), ray.put(tasks.shared)
        try:
            while self._waiting or self._alone or self._sent:
                slots = self._cluster.slots()
                seconds = HANDFUL * max(1.0, slots / TASKS)
                while len(self._sent) < 2 * slots and (jobs := self._next(slots, seconds)):
                    states = [(job, tasks.stands(job)) for job in jobs]
                    self._sent[handful.remote(work, shared, states, seconds)] = jobs
                sent = list(self._sent)
                ray.wait(sent, timeout=1.0)
                for reference in ray.wait(sent, num_returns=len(sent), timeout=0)[0]:
                    self._received(reference, self._sent.pop(reference))
                if len(self._failed) >= HOPELESS and self._quickest == float("inf"):
                    break
            return self._failed
        finally:
            for reference in self._sent:
                ray.cancel(reference)

    def _next(self, slots: int, seconds: float) -> list[J]:
        if self._alone:
            return [self._alone.popleft()]
        fair = -(-len(self._waiting) // (4 * slots))  # so that no worker is left with many jobs at the end
        quick = int(seconds / self._quickest) if self._quickest > 0 else fair
        return [self._waiting.popleft() for _ in range(min(len(self._waiting), max(1, min(fair, quick))))]

    def _received(self, reference: object, jobs: list[J]) -> None:
        errors = self._ray.exceptions
        try:
            done: Handful = self._ray.get(reference)
        except errors.RayTaskError as error:  # not one of the jobs, but what is around them: nothing could be run
            done = Handful([Failed(_reason(error.cause))] * len(jobs), [0.0] * len(jobs))
        except errors.RuntimeEnvSetupError as error:
            done = Handful([Failed(_reason(error))] * len(jobs), [0.0] * len(jobs))
        except errors.RayError as error:
            return self._lost(jobs, error)
        begun = len(done.results)
        self._waiting.extendleft(reversed(jobs[begun:]))
        for job, result, seconds in zip(jobs[:begun], done.results, done.seconds, strict=True):
            if isinstance(result, Failed):
                self._tries[job] += 1
                self._again(job, result.reason, self._tries[job] < TRIES)
                continue
            self._quickest = min(self._quickest, seconds)
            if not self._tasks.take(job, result):
                self._waiting.appendleft(job)

    def _lost(self, jobs: list[J], error: Exception) -> None:
        for job in jobs:
            self._losses[job] += 1
            self._again(job, f"its worker was lost: {_reason(error)}", self._losses[job] < LOSSES)

    def _again(self, job: J, reason: str, may: bool) -> None:
        what = "it is tried again" if may else "it is given up"
        print(f"note: {self._tasks.named(job)}: {reason}; {what}.", file=sys.stderr, flush=True)
        if may:
            self._alone.append(job)
        else:
            self._failed[job] = reason


def _environment() -> dict[str, object]:
    """Of workers: one core each, as Ray counts them, and the same compiler as here."""
    flags = {"XLA_FLAGS": os.environ["XLA_FLAGS"]} if "XLA_FLAGS" in os.environ else {}
    environment: dict[str, object] = {"env_vars": {"PJRT_NPROC": "1", "JAX_PLATFORMS": "cpu"} | flags}
    if (
        quoted := shlex.quote(sys.executable)
    ) != sys.executable:  # a path with a blank: Ray hands it to a shell as it is
        environment["py_executable"] = quoted
    return environment


def _reason(error: BaseException) -> str:
    """An error in one line: its first line that is not empty."""
    lines = [line.strip() for line in str(error).split("\n") if line.strip()]
    text = lines[0].rstrip(".") if lines else ""
    return text if isinstance(error, EverystepError) else f"{type(error).__name__}{f': {text}' if text else ''}"


def _handful(work: Work[J, S, R], shared: object, jobs: Sequence[tuple[J, S | None]], enough: float) -> Handful:
    """On a worker: the jobs of a task one after another, until they have taken enough seconds."""
    results: list[object] = []
    seconds: list[float] = []
    for job, state in jobs:
        if results and sum(seconds) >= enough:
            break
        began = time.monotonic()
        try:
            results.append(work(shared, job, state, TURN))
        except Exception as error:  # any error is reported to the caller of the job
            results.append(Failed(_reason(error)))
        seconds.append(time.monotonic() - began)
    return Handful(results, seconds)
