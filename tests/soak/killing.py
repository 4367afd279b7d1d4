"""Killing the run of killed.py at random moments, resuming it, and comparing what it wrote. Not a test.

Used by test_kill.py, for a few kills in every test session, and by run_soak.py, for hundreds.
"""

import multiprocessing
import os
import select
import shutil
import signal
import time
import uuid
from pathlib import Path
from typing import NamedTuple

import numpy as np
from soak import killed

from everystep import files as durable
from everystep.experiments.folder import run_folder

INSIDE = {"w": "a write", "r": "a rename", "f": "a flush", "p": "filling the folder", "d": "removing .work"}
FINISHED = {
    ".everystep.sha256",
    "episodes.parquet",
    "summary.json",
    "spec.json",
    "visits.npz",
    "problem.npz",
    "certificates.npz",
}
CHAIN = 10  # kills on the way of one run, at most


class Child:
    """A process with the run of killed.py on a folder, and the letters it has sent so far.

    It is forked from one that has imported everything, or, when it starts `afresh`, has imported nothing yet.
    """

    def __init__(self, out, cache, *, afresh=False, largest=None):
        own = multiprocessing.get_context("spawn" if afresh else "forkserver")
        self.reading, writing = own.Pipe(duplex=False)
        self.errors = cache / f"{uuid.uuid4()}.txt"
        self.process = own.Process(target=killed.run, args=(out, writing, self.errors, cache, largest))
        self.process.start()
        writing.close()
        self.letters = ""

    def listen(self, seconds):
        """Wait so long for more letters; False when there are none to come."""
        if select.select([self.reading], [], [], max(seconds, 0))[0]:
            heard = os.read(self.reading.fileno(), 1 if seconds else 4096).decode()
            self.letters += heard
            return bool(heard)
        return True

    def kill(self):
        """SIGKILL; what it was doing then, or None if it had ended."""
        self.process.kill()
        if (code := self._ended()) != -signal.SIGKILL:
            assert code == 0
            return None
        open_ones = [small for small in INSIDE if self.letters.count(small) > self.letters.count(small.upper())]
        return open_ones or ["e" if "S" in self.letters else "s"]

    def finish(self, code=0):
        ended = self._ended()
        said = self.errors.read_text(encoding="utf-8")
        assert ended == code, said
        return said

    def _ended(self):
        while self.listen(60):
            pass
        self.process.join()
        self.reading.close()
        return self.process.exitcode


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class Undisturbed(NamedTuple):
    """A run that nobody killed: its files, how many letters it sent, and how many seconds it took."""

    files: dict[str, bytes]
    letters: int
    life: float


def undisturbed(place: Path, cache: Path) -> Undisturbed:
    """Run once to compile, once more to measure."""
    out = place / "run"
    Child(out, cache).finish()
    shutil.rmtree(out)
    began, child = time.monotonic(), Child(out, cache, afresh=True)
    child.finish()
    assert {path.name for path in out.iterdir()} == FINISHED
    return Undisturbed(contents(out), len(child.letters), time.monotonic() - began)


class Kills(NamedTuple):
    """What was killed: for each kill the letters of what it was doing, the runs finished, and those that differed."""

    fell: list[list[str]]
    finished: int
    damaged: int
    different: list[str]

    def __str__(self) -> str:
        counted = ", ".join(f"{sum(letter in each for each in self.fell)} in {name}" for letter, name in INSIDE.items())
        early = sum(each == ["s"] for each in self.fell)
        harmed = f", {self.damaged} checkpoints damaged" if self.damaged else ""
        alike = f"{len(self.different)} DIFFERENT" if self.different else "all alike"
        return (
            f"{len(self.fell)} kills: {early} while starting, {counted}{harmed}; {self.finished} runs finished, {alike}"
        )


def kill_often(
    kills: int, place: Path, whole: Undisturbed, cache: Path, rng: np.random.Generator, damage: float = 0.0
) -> Kills:
    """Kill a run again and again, let it finish, and compare; then the next run, until there were enough kills.

    With probability `damage` a file of the last checkpoint is cut, altered or lost after a kill.
    """
    fell: list[list[str]] = []
    finished, chain, damaged, different = 0, 0, 0, []
    out = place / "run-0"
    while len(fell) < kills or chain:
        was_at = None
        if len(fell) < kills:
            child = Child(out, cache, afresh=len(fell) % 4 == 0)
            _wait_for_a_moment(child, len(fell), whole, rng)
            was_at = child.kill()
            fell += [] if was_at is None else [was_at]
            chain += 1
            if was_at is not None and rng.random() < damage:
                damaged += _damage(out, rng)
        if was_at is None or chain == CHAIN:  # several kills on the way of one run, then it may finish
            if not (out / "spec.json").is_file() or run_folder.is_unfinished(out):
                Child(out, cache).finish()
            durable.sweep(out)  # as the command does that finds a finished run
            found = contents(out)
            different += [] if found == whole.files else [_difference(out.name, found, whole.files)]
            shutil.rmtree(out)
            finished, chain, out = finished + 1, 0, place / f"run-{finished + 1}"
    return Kills(fell, finished, damaged, different)


def _wait_for_a_moment(child: Child, kill: int, whole: Undisturbed, rng: np.random.Generator) -> None:
    if kill % 4 == 0:  # any moment, also while it imports
        until = time.monotonic() + rng.uniform(0, whole.life if kill % 8 else whole.life / 3)
        while time.monotonic() < until and child.listen(until - time.monotonic()):
            pass
        return
    # when it begins or ends to write, flush or rename something, or a little later: early, anywhere, or late
    after, most = {1: ("S", 40), 2: ("S", 0.8 * whole.letters), 3: ("p", 30)}[kill % 4]
    while after not in child.letters and child.listen(60):
        pass
    wanted = len(child.letters) + rng.integers(0, most)
    while len(child.letters) < wanted and child.listen(60):
        pass
    time.sleep(rng.uniform(0, 0.003))


def _damage(out: Path, rng: np.random.Generator) -> bool:
    """Harm one file of the last checkpoint, if there is another one before it."""
    if len(list((out / ".work").glob("checkpoint-*"))) < 2:
        return False
    kind = str(rng.choice(["carry", "part", "checkpoint"]))
    found = sorted((out / ".work").glob(f"{kind}-*"))
    if not found:
        return False
    data, how = found[-1].read_bytes(), int(rng.integers(3))
    if how == 0:
        found[-1].unlink()
    elif how == 1:
        found[-1].write_bytes(data[: int(rng.integers(len(data)))])
    else:
        at = int(rng.integers(len(data)))
        found[-1].write_bytes(data[:at] + bytes([data[at] ^ 1 << int(rng.integers(8))]) + data[at + 1 :])
    return True


def _difference(name: str, found: dict[str, bytes], wanted: dict[str, bytes]) -> str:
    differing = [each for each in sorted(found.keys() | wanted.keys()) if found.get(each) != wanted.get(each)]
    return f"{name} differs in {', '.join(differing)}"
