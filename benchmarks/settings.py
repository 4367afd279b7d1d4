"""The gain of running the settings of a grid in one batch on a GPU, where the kernel for counts does not apply.

LSVI-AE with linear values and costs on a random linear CMDP (d = 10, S = 1000, A = 5, H = 5), 16 values of beta x 32
seeds: all in one call, and one setting after another. Both are timed in one run, after compilation, and compared.

    python benchmarks/settings.py [--settings 16] [--seeds 32] [--episodes 500]
"""

from __future__ import annotations

import argparse
import time
from unittest import mock

import jax
import numpy as np

from everystep import agents
from everystep.experiments import experiment
from everystep.experiments.engines import local
from everystep.problems import linear


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--settings", type=int, default=16)
    parser.add_argument("--seeds", type=int, default=32)
    parser.add_argument("--episodes", type=int, default=500)
    args = parser.parse_args()
    seeds = list(range(args.seeds))
    recipes = [agents.lsvi_ae(beta=float(beta)) for beta in np.linspace(0.1, 1.0, args.settings).round(3)]
    pairs = experiment.prepare(linear(), recipes, args.episodes, seeds).pairs

    def timed() -> tuple[float, list[local.Trace]]:
        local.run(pairs, seeds, args.episodes, lambda n: None)
        began = time.perf_counter()
        traces = local.run(pairs, seeds, args.episodes, lambda n: None)
        return time.perf_counter() - began, traces

    with jax.enable_x64(True):
        beside, traces = timed()
        with mock.patch.object(local, "groups", lambda pairs: [(i,) for i in range(len(pairs))]):
            one_by_one, alone = timed()
    off = max(float(np.abs(a.metrics.value - b.metrics.value).max()) for a, b in zip(traces, alone, strict=True))
    print(f"{jax.devices()[0].device_kind}: {args.settings} settings x {args.seeds} seeds x {args.episodes} episodes")
    print(f"one after another {one_by_one:.2f} s, side by side {beside:.2f} s: {one_by_one / beside:.1f} times faster")
    print(f"values differ by {off:.1e} at most")


if __name__ == "__main__":
    main()
