"""The response time of the command line: `everystep --help`, and `everystep reproduce` including its figures.

What is compared. Wall time and memory with targets for a machine with two cores. These are the only absolute figures
among the benchmarks.

How. The command of this interpreter's environment runs in a separate process, on all cores: --help ten times, of which
the median counts, and reproduce once, into a temporary folder. Memory is the peak resident size that the system reports
for that process.

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

import common

COMMAND = Path(sys.executable).with_name("everystep")


def run(*arguments: str) -> tuple[float, float]:
    """Wall seconds and peak resident memory in GB of one call; what it prints is kept for when it fails."""
    with tempfile.TemporaryFile() as printed:
        began = time.perf_counter()
        process = subprocess.Popen([COMMAND, *arguments], stdout=printed, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            printed.seek(0)
            text = printed.read().decode(errors="replace")
            sys.exit(f"everystep {' '.join(arguments)} ended with {process.returncode}:\n{text}")
    unit = 1 if sys.platform == "darwin" else 1024  # what ru_maxrss counts in
    return wall, usage.ru_maxrss * unit / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--skip-reproduce", action="store_true", help="time --help only")
    args = parser.parse_args()
    if not COMMAND.is_file():
        sys.exit("There is no command everystep beside this interpreter: install the package into it first.")

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    run("--help")  # the first call reads everything from the disk, and writes byte code
    rows = [common.at_most("--help, median of 10", statistics.median(run("--help")[0] for _ in range(10)), 0.5, " s")]
    if not args.skip_reproduce:
        with tempfile.TemporaryDirectory() as folder:
            wall, memory = run("reproduce", "--out", str(Path(folder) / "paper"))
        rows.append(common.at_most("reproduce, wall", wall, 60, " s", ".1f"))
        rows.append(common.at_most("reproduce, peak memory", memory, 2, " GB"))
    common.table(f"everystep on {cores} cores", rows)


if __name__ == "__main__":
    main()
