"""Runs inputs, each in a process of its own, and says what was wrong with each.

The process is forked from this one, which has imported everything and started nothing: it costs milliseconds, it may
crash, hang or eat memory, and what it leaves behind (files, processes) is its own. An input must end with status 0 or
2, an error must be one sentence on standard error, and no input may be silent for more than `SILENCE` seconds or take
more than `MEMORY` bytes. Three inputs of four see a terminal on standard error, which must never be silent for longer;
to the others, which see a pipe, progress is reported more rarely after the first word. Where more processes want to run
than there are cores, silence may last longer in proportion, and what was silent is tried once more, alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import os
import re
import resource
import selectors
import shutil
import signal
import stat
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from fuzz.cases import SUITES, Case, draw

SILENCE = 5.0  # seconds without a byte on standard output or standard error
PATIENCE = 15.0  # seconds after which an input that makes progress is stopped, as with Ctrl-C
STOPPING = 10.0  # seconds it has for that
MEMORY = 4 * 2**30  # bytes of resident memory
LONGEST = 1000  # characters of an error
LARGEST = 2 * 2**30  # bytes of a file
LINGERING = 1.0  # seconds that processes may outlive the one that started them
POLL = 0.05
STREAMS = ("out", "err", "case")
PARTIAL = re.compile(r"\.everystep-[^/]*\.partial(/|$)")
QUIET = re.compile(  # lines on standard error that are not errors: notes, bars, and what a server says
    r"(\x1b\[A)*"  # a bar moves up
    r"(note: |everystep: (stopped|stopping)|Open http|.*http://|Press Ctrl|(\x1b\[A|\s)*$|.*\d+%\|.*/\d)"
)


class Verdict(NamedTuple):
    """What became of an input."""

    suite: str
    number: int
    kind: str
    shown: str
    status: int
    seconds: float
    silence: float
    memory: int
    complaints: tuple[str, ...]
    said: str

    @property
    def timed(self) -> bool:
        """Whether all that is wrong with it depends on how busy the machine was."""
        return bool(self.complaints) and all(complaint.startswith("silent") for complaint in self.complaints)

    @property
    def signature(self) -> str:
        """What failures with one cause have in common, roughly."""
        place = re.findall(r'File ".*?/(everystep/[^"]*?)", line (\d+)', self.said)
        lines = [line for line in self.said.strip().splitlines() if line.strip()]
        stuck = self.complaints[:1] and not self.complaints[0].startswith("a traceback")
        at = place[0 if stuck else -1] if place else ("", "")  # stacks of a stuck process begin with the innermost call
        error = lines[-1].split(":")[0] if lines and place and not stuck else ""
        where = ":".join(at) if place else ""
        complaint = re.sub(r"[\d.]+", "#", self.complaints[0])[:60] if self.complaints else ""
        return " ".join(part for part in (complaint, error, where) if part)


@dataclass
class Running:
    """A process at work on an input."""

    suite: str
    number: int
    pid: int
    box: Path
    began: float
    heard: float
    pipes: dict[int, str]
    bytes: dict[str, bytearray] = field(
        default_factory=lambda: {"out": bytearray(), "err": bytearray(), "case": bytearray()}
    )
    silence: float = 0.0
    memory: int = 0
    stopped: float | None = None
    killed: str = ""
    ended: tuple[int, Any] | None = None

    @property
    def spoke(self) -> bool:
        return bool(self.bytes["out"] or self.bytes["err"])

    def case(self) -> dict[str, Any]:
        try:
            return dict(json.loads(self.bytes["case"] or b"{}"))
        except ValueError:
            return {}


class Harness:
    """Runs inputs of one seed, up to `jobs` at a time, in boxes (folders) below `place`."""

    def __init__(self, seed: int, place: Path, *, jobs: int = 1, quick: bool = False, keep: bool = False) -> None:
        self.seed, self.place, self.jobs, self.quick, self.keep = seed, place, jobs, quick, keep
        self.templates = place / "templates"
        self.cache = place / "cache"
        self.cache.mkdir(parents=True, exist_ok=True)
        self.selector = selectors.DefaultSelector()
        self.running: list[Running] = []

    def run(self, inputs: Iterable[tuple[str, int]], tell: Callable[[Verdict], None]) -> None:
        """Run inputs (suite, number); `tell` hears each verdict as it is reached."""
        again: list[tuple[str, int]] = []

        def hear(verdict: Verdict) -> None:
            if verdict.timed:
                again.append((verdict.suite, verdict.number))
            else:
                tell(verdict)

        self._all(iter(inputs), self.jobs, hear)
        self._all(iter(again), 1, tell)

    def _all(self, inputs: Any, jobs: int, tell: Callable[[Verdict], None]) -> None:
        more = True
        try:
            while more or self.running:
                while more and len(self.running) < jobs:
                    following = next(inputs, None)
                    if following is None:
                        more = False
                    else:
                        self.running.append(self._start(*following))
                self._listen()
                for each in list(self.running):
                    self._watch(each)
                    if each.ended is not None and not each.pipes:
                        self.running.remove(each)
                        tell(self._judge(each))
        finally:
            for each in self.running:
                _kill(each.pid)
                os.waitpid(each.pid, 0)
            self.running.clear()

    # --- a process ------------------------------------------------------------------------------------------------
    def _start(self, suite: str, number: int) -> Running:
        box = self.place / f"{suite}-{number}"
        shutil.rmtree(box, ignore_errors=True)
        for name in ("cwd", "home", "tmp"):
            (box / name).mkdir(parents=True)
        pipes = {name: os.openpty() if name == "err" and on_a_terminal(number) else os.pipe() for name in STREAMS}
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            _become(self, suite, number, box, {name: ends[1] for name, ends in pipes.items()})
        now = time.monotonic()
        running = Running(suite, number, pid, box, now, now, {})
        for name, (reading, writing) in pipes.items():
            os.close(writing)
            os.set_blocking(reading, False)
            running.pipes[reading] = name
            self.selector.register(reading, selectors.EVENT_READ, running)
        return running

    def _listen(self) -> None:
        for key, _ in self.selector.select(POLL):
            running: Running = key.data
            try:
                data = os.read(key.fd, 2**16)
            except BlockingIOError:
                continue
            except OSError:  # the end of a terminal
                data = b""
            name = running.pipes[key.fd]
            now = time.monotonic()
            if not data:
                self._close(running, key.fd)
                continue
            if name == "case":
                running.began = running.heard = now  # making the input took time, too
            else:
                running.silence = max(running.silence, now - running.heard)
                running.heard = now
            if len(running.bytes[name]) < 2**22:
                running.bytes[name] += data

    def _close(self, running: Running, pipe: int) -> None:
        self.selector.unregister(pipe)
        os.close(pipe)
        del running.pipes[pipe]

    def _watch(self, running: Running) -> None:
        """End what takes too long or too much, and notice what has ended."""
        now = time.monotonic()
        if running.ended is None:
            found, status, usage = os.wait4(running.pid, os.WNOHANG)
            if found:
                running.ended = os.waitstatus_to_exitcode(status), usage
                running.silence = max(running.silence, now - running.heard)
                running.heard = now
                return
            running.memory = max(running.memory, _resident(running.pid))
            case = running.case() if running.bytes["case"].endswith(b"\n") else {}
            if running.memory > _most(case):
                self._end(running, "memory")
            elif running.stopped is not None:
                if now - running.stopped > STOPPING:
                    self._end(running, "does not stop")
            elif case.get("serves"):
                if running.bytes["out"] and now - running.heard > 0.5:
                    running.stopped = now
                    os.kill(running.pid, signal.SIGINT)
            elif now - running.heard > patience() and _must_speak(running, case):
                self._end(running, "silent")
            elif now - running.began > PATIENCE:
                running.stopped = now
                os.killpg(running.pid, signal.SIGINT)
        elif now - running.heard > LINGERING:  # a process that is left holds the pipes open
            for pipe in list(running.pipes):
                self._close(running, pipe)
            running.killed = running.killed or "processes"

    def _end(self, running: Running, reason: str) -> None:
        if not running.killed:
            running.killed = reason
            running.silence = max(running.silence, time.monotonic() - running.heard)
            os.kill(running.pid, signal.SIGUSR1)  # where it is (see `_become`)
            time.sleep(0.2)
            _kill(running.pid)

    # --- its verdict ----------------------------------------------------------------------------------------------
    def _judge(self, running: Running) -> Verdict:
        assert running.ended is not None
        status, usage = running.ended
        memory = max(running.memory, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024))
        case = running.case()
        said = {name: bytes(content).decode("utf-8", "backslashreplace") for name, content in running.bytes.items()}
        complaints = []
        if not case:
            complaints.append("the input could not be made")
        if running.killed == "silent":
            complaints.append(f"silent for {running.silence:.1f} s")
        if running.killed == "does not stop":
            complaints.append(f"does not stop within {STOPPING:g} s of Ctrl-C")
        if memory > _most(case):
            complaints.append(f"took {memory / 2**30:.1f} GB")
        if _left_processes(running.pid) or running.killed == "processes":
            complaints.append("processes are left")
            _kill(running.pid)
        if not running.killed:
            complaints += _wrong_words(status, said["out"], said["err"], case, stopped=running.stopped is not None)
        complaints += _left_files(case, running.box / "cwd", status)
        complaints += [f"{path} is left in {name}" for name in ("tmp", "home") for path in snapshot(running.box / name)]
        where = running.box / "stacks.txt"
        stacks = where.read_text(encoding="utf-8", errors="replace") if where.exists() and running.killed else ""
        if not self.keep:
            _remove(running.box)
        return Verdict(
            running.suite, running.number, SUITES[running.suite].kind_of(self.seed, running.number),
            case.get("shown", ""), status, time.monotonic() - running.began, running.silence, memory,
            tuple(complaints), said["out"][-4000:] + said["err"][-8000:] + stacks,
        )  # fmt: skip


def on_a_terminal(number: int) -> bool:
    """Whether the input with this number sees a terminal on standard error."""
    return number % 4 != 0


def _must_speak(running: Running, case: dict[str, Any]) -> bool:
    """Whether silence is a fault: always on a terminal, at first in a log, and never where nobody can hear."""
    return not case.get("mute") and (on_a_terminal(running.number) or not running.spoke)


def _most(case: dict[str, Any]) -> int:
    """Bytes of memory that an input may take."""
    return min(MEMORY, case.get("memory") or MEMORY)


def patience() -> float:
    """Seconds of silence that are allowed now."""
    return SILENCE * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def _wrong_words(status: int, out: str, err: str, case: dict[str, Any], stopped: bool) -> list[str]:
    """What is wrong with the status and with what was said."""
    complaints = []
    if "Traceback (most recent call last)" in err + out:
        complaints.append("a traceback")
    allowed = (0, 2, *case.get("statuses", ()), *((130, 143) if stopped else ()))
    if status not in allowed:
        complaints.append(f"status {status}" if status >= 0 else f"ended by {signal.Signals(-status).name}")
    lines = [line for line in re.split(r"[\r\n]+", err) if line]
    errors = [line for line in lines if line.startswith("everystep") and not QUIET.match(line)]
    others = [line for line in lines if not line.startswith("everystep") and not QUIET.match(line)]
    if status == 2 and not complaints:
        if len(errors) != (0 if case.get("mute") else 1):
            complaints.append(f"{len(errors)} errors for status 2")
        elif errors and len(errors[0]) > LONGEST:
            complaints.append(f"an error of {len(errors[0])} characters")
        elif errors and not re.search(r"[.?!)`]$", errors[0]):
            complaints.append("an error that is not a sentence")
    if status == 0 and errors:
        complaints.append("an error with status 0")
    if others and not complaints and not case.get("any_words"):
        complaints.append(f"unexpected words: {others[0][:200]}")
    return complaints


def _left_files(case: dict[str, Any], cwd: Path, status: int) -> list[str]:
    """Files that an input made, changed or removed although it should not have."""
    before, after = {name: tuple(each) for name, each in case.get("before", {}).items()}, snapshot(cwd)
    allowed = [*case.get("kept", ()), *(case.get("written", ()) if status != 2 else ())]
    inside = lambda name: any(name == each or name.startswith(f"{each}/") or each == "." for each in allowed)
    complaints = [f"{name} is left" for name in after if name not in before and PARTIAL.search(name)]
    complaints += [f"{name} was made" for name in after if name not in before and not inside(name)]
    complaints += [f"{name} was removed" for name in before if name not in after and not inside(name)]
    complaints += [
        f"{name} was changed" for name in after if name in before and before[name] != after[name] and not inside(name)
    ]
    return complaints[:5]


def snapshot(folder: Path) -> dict[str, tuple[int, ...]]:
    """Everything below a folder: its kind, and for files their size and time of change."""
    found = {}
    for root, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = os.path.join(root, name)
            with contextlib.suppress(OSError):
                entry = os.lstat(path)
                kind = stat.S_IFMT(entry.st_mode)
                files = (entry.st_size, entry.st_mtime_ns) if stat.S_ISREG(kind) else ()
                found[os.path.relpath(path, folder).encode("utf-8", "backslashreplace").decode()] = (kind, *files)
    return found


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _left_processes(group: int) -> bool:
    """Whether others of its group outlive a process by more than a moment, as that of `multiprocessing` needs."""
    until = time.monotonic() + LINGERING
    while _is_alive(group):
        if time.monotonic() > until:
            return True
        time.sleep(0.02)
    return False


def _is_alive(group: int) -> bool:
    """Whether a process of a group is left; one that has ended may wait for ever for somebody to notice."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, its_group = path.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[:3]
            if int(its_group) == group and state not in "ZX":
                return True
    return not Path("/proc/self/stat").exists()


def _kill(group: int) -> None:
    """End a process and those that it started; they are a group, because it began one."""
    for end in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            end(group, signal.SIGKILL)


def _remove(box: Path) -> None:
    for root, folders, _ in os.walk(box):
        for name in folders:
            with contextlib.suppress(OSError):
                if not os.path.islink(path := os.path.join(root, name)):
                    os.chmod(path, 0o700)
    shutil.rmtree(box, ignore_errors=True)


# --- inside the process -----------------------------------------------------------------------------------------------
def _become(harness: Harness, suite: str, number: int, box: Path, pipes: dict[str, int]) -> None:
    """Make the input, tell what it is, and run it. Never returns."""
    code = 70
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(pipes["out"], 1)
        os.dup2(pipes["err"], 2)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
        faulthandler.register(signal.SIGUSR1, open(box / "stacks.txt", "w", encoding="utf-8"), all_threads=True)  # noqa: SIM115
        os.environ |= {"HOME": str(box / "home"), "TMPDIR": str(box / "tmp")}
        os.chdir(box / "cwd")
        case = draw(suite, harness.seed, number, box / "cwd", harness.templates, harness.quick)
        about = {
            "shown": case.shown or " ".join(map(repr, case.words)), "before": snapshot(box / "cwd"),
            "written": list(case.written), "kept": list(case.kept), "serves": case.serves,
            "statuses": list(case.statuses), "any_words": case.any_words, "mute": case.mute,
            "memory": case.memory,
        }  # fmt: skip
        with open(pipes["case"], "wb") as told:
            told.write(json.dumps(about).encode() + b"\n")
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST, LARGEST))
        _without_privileges()
        code = _run(case)
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 0 if left.code is None else 1
    except BaseException:
        code = 1
        sys.excepthook(*sys.exc_info())
    finally:
        _leave(code)


def _run(case: Case) -> int:
    if case.call is None:
        from everystep.cli.main import main

        sys.argv = ["everystep", *case.words]
        return main()  # as the program itself
    from everystep.errors import EverystepError

    try:
        case.call()
    except EverystepError as error:
        print(f"everystep: {error}", file=sys.stderr)
        return 2
    except case.own:
        return 0
    except TypeError as error:
        if error.__traceback__ is None or not _in_library(error.__traceback__):
            return 0  # Python itself refuses such arguments
        raise
    return 0


def _in_library(traceback: Any) -> bool:
    """Whether an error was raised inside the library, and not where one of its functions was called."""
    while traceback is not None:
        code = traceback.tb_frame.f_code
        passes_on = code.co_qualname == "patiently.<locals>.made"  # which calls the function with the same arguments
        if f"{os.sep}everystep{os.sep}" in code.co_filename and not passes_on:
            return True
        traceback = traceback.tb_next
    return False


def _leave(code: int) -> None:
    """End as Python would: wait for threads, do what was registered for the end, and flush."""
    import atexit
    import threading

    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
    except BaseException:
        code = code or 1
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def _without_privileges() -> None:
    """Give up what root may do beyond other users, so that permissions of files hold (where there is such a call)."""
    if sys.platform == "linux" and os.geteuid() == 0:
        header = (ctypes.c_uint32 * 2)(0x20080522, 0)
        ctypes.CDLL(None).capset(header, (ctypes.c_uint32 * 6)())


# --- all of them ------------------------------------------------------------------------------------------------------
@dataclass
class Tally:
    """Verdicts, counted by kind."""

    inputs: Counter[str] = field(default_factory=Counter)
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    failures: list[Verdict] = field(default_factory=list)
    seconds: Counter[str] = field(default_factory=Counter)
    slowest: dict[str, float] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)

    def add(self, verdict: Verdict) -> None:
        kind = f"{verdict.suite}/{verdict.kind}"
        self.inputs[kind] += 1
        self.statuses[kind, verdict.status] += 1
        self.seconds[kind] += verdict.seconds  # type: ignore[assignment]
        self.slowest[kind] = max(self.slowest.get(kind, 0.0), verdict.silence)
        self.memory[kind] = max(self.memory.get(kind, 0), verdict.memory)
        if verdict.complaints:
            self.failures.append(verdict)

    def table(self) -> str:
        names = ("number", "accepted", "refused", "failed", "seconds", "silence", "memory")
        head = f"{'inputs of':<24}" + "".join(
            f"{name:>{width}}" for name, width in zip(names, (8, 10, 9, 8, 9, 9, 9), strict=True)
        )
        failed = Counter(f"{each.suite}/{each.kind}" for each in self.failures)
        rows = [
            f"{kind:<24}{n:>8}{self.statuses[kind, 0]:>10}{self.statuses[kind, 2]:>9}{failed[kind]:>8}"
            f"{self.seconds[kind]:>9.0f}{self.slowest[kind]:>7.1f} s{self.memory[kind] / 2**20:>6.0f} MB"
            for kind, n in sorted(self.inputs.items())
        ]
        return "\n".join([head, *rows, f"{sum(self.inputs.values())} inputs, {len(self.failures)} failures"])
