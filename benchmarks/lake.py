"""How fast LSVI-AE runs on the paper's lake, compared with a hand-written loop and with a published implementation.

What is compared. (a) everystep's compiled scan with `yardstick.py`, the same work as one Numba function: one seed and
32 seeds of 1000 episodes. (b) everystep with LSVIUCBAgent of rlberry-scool, LSVI-UCB on the same lake with the same
one-hot features (d = 400); that agent records no costs and no metrics, so everystep does more work.

How. Everything on one core, XLA's threads as well; compilation is timed separately; each side makes its own random
draws within the timed part; the sides alternate and the best of the repeats counts. Before anything is timed the
yardstick must reproduce everystep's episodes from everystep's draws. The peer's cost grows with the episode's number: a
few episodes are measured and the rest is extrapolated, and the output reports it.

The figures are ratios within one run, because absolute times depend on the machine.

    python benchmarks/lake.py [--peer-python PYTHON] [--repeats 5]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import common
import jax
import numpy as np
import yardstick

from everystep.agents import lsvi_ae
from everystep.experiments.engines import gpu, local
from everystep.experiments.engines.local import BATCH
from everystep.lsvi import loop
from everystep.problems import frozen_lake

EPISODES = 1000


class Everystep:
    """The compiled scan, called as the local engine calls it: batches of seeds, chunks of episodes."""

    def __init__(self, problem: Any, episodes: int) -> None:
        self.episodes = episodes
        self.pair = local.AgentOnProblem(problem, lsvi_ae().resolve(problem, episodes).build())
        self.job = self.pair.job()

    def run(self, seeds: int) -> None:
        for first in range(0, seeds, BATCH):
            self.batch(np.arange(first, min(first + BATCH, seeds), dtype=np.uint32), self.episodes)

    def batch(self, seeds: np.ndarray, episodes: int) -> None:
        carry = self.pair.start_seeds(len(seeds))
        for done in range(0, max(episodes, 1), loop.CHUNK):
            count = np.int32(min(loop.CHUNK, episodes - done))
            carry, metrics = gpu.scan_seeds(self.job, carry, seeds, count, loop.CHUNK)
            jax.tree.map(np.asarray, (metrics, carry.visits))

    def compile(self, seeds: int) -> None:
        self.batch(np.arange(min(seeds, BATCH), dtype=np.uint32), 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer-python", type=Path, default=common.PEER_PYTHON, help="one with rlberry-scool")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    common.pin()
    problem = frozen_lake()
    with jax.enable_x64(True):
        measure(problem, args.peer_python, args.repeats)


def measure(problem: Any, peer_python: Path, repeats: int) -> None:
    mine = Everystep(problem, EPISODES)
    settings = lsvi_ae().resolve(problem, EPISODES)
    knobs = yardstick.Knobs(*(float(settings[name]) for name in yardstick.Knobs._fields))
    tables = yardstick.lake(problem)

    compiling = common.seconds(lambda: yardstick.run_seeds(tables, knobs, 1, 1))
    yardstick.run_seeds(tables, knobs, 1, 1, yardstick.run_any)
    difference = yardstick.check(problem, knobs)
    print(f"The yardstick repeats 3 seeds x 500 episodes of everystep; the largest difference is {difference:.0e}.")
    print(f"Compiling: yardstick {compiling:.1f} s", end="")
    rows, one_seed = [], 0.0
    for seeds in (1, 32):
        print(f"; everystep for {seeds} x {EPISODES} {common.seconds(lambda n=seeds: mine.compile(n)):.1f} s", end="")
        calls = {
            "everystep": lambda n=seeds: mine.run(n),
            "for this lake": lambda n=seeds: yardstick.run_seeds(tables, knobs, n, EPISODES),
            "for any lake": lambda n=seeds: yardstick.run_seeds(tables, knobs, n, EPISODES, yardstick.run_any),
        }
        # A single seed is over in a blink: more turns, so that its best is as steady as that of 32.
        best = common.best_of(repeats * (8 if seeds == 1 else 1), calls)
        speed = {name: seeds * EPISODES / time for name, time in best.items()}
        for lakes in ("for any lake", "for this lake"):
            speeds = f"{speed['everystep']:,.0f} / {speed[lakes]:,.0f} episodes/s"
            what = f"{seeds} x {EPISODES}: everystep / loop compiled {lakes} ({speeds})"
            rows.append(common.at_least(what, speed["everystep"] / speed[lakes], 0.8))
        one_seed = one_seed or best["everystep"]
    print(".")
    if strays := common.threads_elsewhere():
        print(f"Careful: {strays} threads were not confined to one core.")

    one_hot = np.eye(problem.states * problem.actions).reshape(problem.states, problem.actions, -1)
    found = common.peer(peer_python, one_hot, problem, EPISODES, at=(5, 10, 20, 40, 80))
    if found:
        print(common.describe_peer(found) + f"; everystep {one_seed:.3f} s.")
        rows.append(
            common.at_least("1 x 1000: LSVIUCBAgent's time / everystep's", found["total"] / one_seed, 10_000, ",.0f")
        )
    common.table("the paper's lake, one core", rows)


if __name__ == "__main__":
    main()
