"""float32 compared with float64: LSVI-AE, LSVI and LSVI-Primal on the paper's lake, means over many seeds.

The two precisions have different draws, so statistics are compared: the total violations of a seed, and the mean value
of the last 100 episodes, each with the standard error over seeds.

    python benchmarks/precision.py [--seeds 4096] [--episodes 1000]        # for a GPU; on a CPU take fewer seeds
"""

from __future__ import annotations

import argparse

import jax
import numpy as np

from everystep.agents import Recipe
from everystep.agents.settings import PRECISIONS
from everystep.experiments.engines import gpu
from everystep.experiments.reductions import FINAL
from everystep.problems import frozen_lake


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=4096)
    parser.add_argument("--episodes", type=int, default=1000)
    args = parser.parse_args()
    lake, seeds = frozen_lake(), np.arange(args.seeds)
    print(f"{jax.devices()[0].device_kind}: {args.seeds:,} seeds x {args.episodes:,} episodes")
    for name in ("lsvi-ae", "lsvi", "lsvi-primal"):
        for precision in PRECISIONS:
            sums = gpu.run(lake, Recipe(name, {"precision": precision}), seeds, args.episodes)
            harm = np.asarray(sums.by_seed.violation, np.float64).sum(-1)
            value = np.asarray(sums.by_episode.value, np.float64)[-FINAL:].mean() / args.seeds
            error = harm.std() / np.sqrt(args.seeds)
            print(f"{name:12} {precision}: violation {harm.mean():8.1f} +- {error:.1f}, final value {value:.3f}")


if __name__ == "__main__":
    main()
