"""What the timed comparisons share: one core, interleaved repeats, a table of verdicts, and the peer's interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

PEER_PYTHON = Path(__file__).parent.parent / ".venv-peers" / "bin" / "python"
Row = tuple[str, str, str, str]  # what, measured, target, verdict


def pin() -> int | None:
    """Confine this process, all its threads and those to come (XLA's pool among them) to one core, and say which."""
    if not hasattr(os, "sched_setaffinity"):
        print("This system cannot pin a process to a core: the figures below are noisier.")
        return None
    core = max(os.sched_getaffinity(0))
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), {core})
    return core


def threads_elsewhere() -> int:
    """How many threads of this process may run on more than one core; 0 after `pin`."""
    if not hasattr(os, "sched_getaffinity"):
        return 0
    return sum(len(os.sched_getaffinity(int(thread))) > 1 for thread in os.listdir("/proc/self/task"))


def seconds(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def best_of(repeats: int, calls: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """The shortest time of each call; the calls take turns, so that a busy moment of the machine hits all of them."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            times[name].append(seconds(call))
    return {name: min(each) for name, each in times.items()}


def at_least(what: str, measured: float, target: float, show: str = ",.2f") -> Row:
    return what, format(measured, show), ">= " + format(target, show), "ok" if measured >= target else "MISSED"


def at_most(what: str, measured: float, target: float, unit: str = "", show: str = ",.2f") -> Row:
    verdict = "ok" if measured <= target else "MISSED"
    return what, format(measured, show) + unit, "<= " + format(target, show) + unit, verdict


def table(title: str, rows: list[Row]) -> None:
    """Print rows of verdicts in columns."""
    rows = [(title, "measured", "target", ""), *rows]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    print()
    for what, measured, target, verdict in rows:
        print(f"{what:<{widths[0]}}  {measured:>{widths[1]}}  {target:>{widths[2]}}  {verdict}".rstrip())


def peer(python: Path, phi: np.ndarray, problem: Any, episodes: int, at: tuple[int, ...]) -> dict[str, Any] | None:
    """Time rlberry-scool's LSVI-UCB on a stationary problem with features phi (S, A, d), in its own interpreter.

    None, after one line that says why, when that interpreter is not there.
    """
    if not python.is_file():
        print(f"Skipped the peer: there is no {os.path.relpath(python)}; `make .venv-peers/installed` makes it.")
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        start = int(problem.start[0])
        np.savez(path, P=problem.dense_P[0], r=problem.r[0], phi=phi, start=start, horizon=problem.horizon)
        command = [str(python), str(Path(__file__).with_name("peer_lsvi.py")), str(path)]
        command += ["--episodes", str(episodes), "--at", *map(str, at)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def describe_peer(found: dict[str, Any]) -> str:
    """One line on how the peer's total came about: measured where, extrapolated to what."""
    last, K = found["episode"][-1], found["episodes"]
    return (
        f"rlberry-scool {found['version']}, LSVIUCBAgent: measured at episodes {found['episode']}, where the last took "
        f"{found['seconds'][-1]:.2f} s;\nEXTRAPOLATED from {last} to {K} episodes: an episode k takes "
        f"{found['constant']:.3f} + {found['slope']:.5f} k s (worst misfit {found['misfit']:.0%}), "
        f"{found['total']:,.0f} s in total"
    )
