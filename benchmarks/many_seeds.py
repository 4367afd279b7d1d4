"""Many seeds by the command: the three agents of the paper on its lake, with few and with many seeds, on all cores.

What is compared. The wall time of many seeds with a target for two cores, and their peak memory with that of few seeds:
a run holds its active work units, not all seeds.

How. `everystep run` in a separate process, without a GPU, into a temporary folder: once for each number of seeds.

    python benchmarks/many_seeds.py [--seeds 32 1000] [--episodes 1000]
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import command
import common

AGENTS = "lsvi-ae,lsvi,lsvi-primal"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs=2, default=[32, 1000], metavar=("FEW", "MANY"))
    parser.add_argument("--episodes", type=int, default=1000)
    args = parser.parse_args()
    os.environ["JAX_PLATFORMS"] = "cpu"
    wall, memory = {}, {}
    for seeds in args.seeds:
        with tempfile.TemporaryDirectory() as folder:
            asked = {"problem": "frozen-lake", "agents": AGENTS, "seeds": seeds, "episodes": args.episodes}
            flags = [word for key, value in asked.items() for word in (f"--{key}", str(value))]
            wall[seeds], memory[seeds] = command.run("run", *flags, "--out", str(Path(folder) / "run"))
        print(f"{seeds:,} seeds: {wall[seeds]:.1f} s, {1000 * memory[seeds]:.0f} MB", flush=True)
    few, many = args.seeds
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    rows = [
        common.at_most(f"{many:,} seeds of three agents", wall[many], 180, " s", ".0f"),
        common.at_most(f"most memory, {many:,} seeds / {few:,}", memory[many] / memory[few], 1.5),
    ]
    common.table(f"everystep run on {cores} cores", rows)


if __name__ == "__main__":
    main()
