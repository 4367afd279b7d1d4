"""The response time of the command line: `everystep --help`, a small run, and `everystep reproduce` with its figures.

What is compared. Wall time and memory with targets for a machine with two cores. These are the only absolute figures
among the benchmarks.

How. The command of this interpreter's environment runs in a separate process, on all cores: --help ten times, of which
the median counts; a run of two seeds and 200 episodes on the lake, with figures, once with an empty cache of compiled
programs and five times with what the first has left there, of which the median counts, for one agent and for three; and
reproduce once, into a temporary folder. Byte code is kept between calls, as for an installed package. Memory is the
peak resident size that the system reports for that process. CPU seconds (user and system) are printed as well: on a
busy machine they say more than wall time.

    python benchmarks/command.py [--skip-reproduce]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import common

COMMAND = [sys.executable, "-m", "everystep.cli"]


class Cost(NamedTuple):
    """Wall seconds, CPU seconds (user and system) and peak resident memory in GB of one call."""

    wall: float
    cpu: float
    memory: float


def run(*arguments: str, cache: str = "off") -> Cost:
    """One call, with compiled programs kept in `cache`; what it prints is kept for when it fails."""
    with tempfile.TemporaryFile() as printed:
        began = time.perf_counter()
        environment = os.environ | {"EVERYSTEP_CACHE": cache}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed command has its byte code
        process = subprocess.Popen([*COMMAND, *arguments], stdout=printed, stderr=subprocess.STDOUT, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            printed.seek(0)
            text = printed.read().decode(errors="replace")
            sys.exit(f"everystep {' '.join(arguments)} ended with {process.returncode}:\n{text}")
    unit = 1 if sys.platform == "darwin" else 1024  # what ru_maxrss counts in
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit / 1e9)


def first_results(agents: str, target: float) -> list[common.Row]:
    """A small run with an empty cache and with a filled one."""
    options = ["--problem", "frozen-lake", "--agents", agents, "--seeds", "2", "--episodes", "200"]
    with tempfile.TemporaryDirectory() as folder:
        outs = [str(Path(folder) / f"out-{i}") for i in range(6)]
        first, *later = [run("run", *options, "--out", out, cache=str(Path(folder) / "cache")) for out in outs]
        same = all(_content(out) == _content(outs[0]) for out in outs)
    median = lambda field: statistics.median(getattr(cost, field) for cost in later)
    count = agents.count(",") + 1
    name = f"run, {count} agent{'s' if count > 1 else ''}, 2 seeds, 200 episodes"
    print(f"{name}: CPU seconds {first.cpu:.2f} the first time, {median('cpu'):.2f} later")
    return [
        (f"{name}, first time", f"{first.wall:.2f} s", "", ""),
        common.at_most(f"{name}, later (median of 5)", median("wall"), target, " s"),
        (f"{name}, the same files", str(same), "True", "ok" if same else "MISSED"),
    ]


def _content(folder: str) -> dict[str, bytes]:
    found = (path for path in Path(folder).rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--skip-reproduce", action="store_true", help="time --help and the small runs only")
    args = parser.parse_args()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    run("--help")  # the first call reads everything from the disk, and writes byte code
    rows = [common.at_most("--help, median of 10", statistics.median(run("--help").wall for _ in range(10)), 0.5, " s")]
    rows += first_results("lsvi-ae", 3.5) + first_results("lsvi-ae,lsvi,lsvi-primal", 6)
    if not args.skip_reproduce:
        with tempfile.TemporaryDirectory() as folder:
            cost = run("reproduce", "--out", str(Path(folder) / "paper"))
        rows.append(common.at_most("reproduce, wall, nothing compiled before", cost.wall, 60, " s", ".1f"))
        rows.append(common.at_most("reproduce, peak memory", cost.memory, 2, " GB"))
    common.table(f"everystep on {cores} cores", rows)


if __name__ == "__main__":
    main()
