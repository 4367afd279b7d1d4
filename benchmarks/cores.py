"""How the local engine uses the cores of this machine: one, two, ... of them, in threads, and one process per core.

Every core gets the same work: 8 seeds x 1,000 episodes of LSVI-AE on the paper's lake (or another problem), after
compiling. If cores are fully used, the time stays that of one core. Threads share one process, as
`everystep run` does; processes are what `--engine ray` starts. Child processes are
restricted to the number of cores that is measured.

    python benchmarks/cores.py [--problem frozen-lake] [--episodes 1000] [--seeds 8]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time


def work(args: argparse.Namespace) -> None:
    """In a child: the seconds of all seeds, on the cores it was given."""
    os.sched_setaffinity(0, set(args.cores))
    import jax

    from everystep import problems
    from everystep.experiments import experiment
    from everystep.experiments.engines import local

    jax.config.update("jax_platforms", "cpu")
    seeds = list(range(args.seeds * len(args.cores)))
    prepared = experiment.prepare(problems.load(args.problem), ["lsvi-ae"], args.episodes, seeds)
    with jax.enable_x64(True):
        pairs = prepared.pairs
        local.measure(pairs, local.seed_batches(pairs, seeds, args.episodes)[0], 0)
        print("ready", flush=True)
        sys.stdin.readline()
        began = time.perf_counter()
        local.run(pairs, seeds, args.episodes, lambda n: None)
        print(time.perf_counter() - began, flush=True)


def timed(args: argparse.Namespace, groups: list[list[int]]) -> float:
    """One child on each group of cores, all beginning at once: seconds until the last is done."""
    same = ["--problem", args.problem, "--episodes", str(args.episodes), "--seeds", str(args.seeds)]
    children = [
        subprocess.Popen(
            [sys.executable, __file__, *same, "--cores", *map(str, cores)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for cores in groups
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n", "a child could not start"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    return max(float(child.communicate()[0]) for child in children)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", default="frozen-lake")
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=8, help="a core")
    parser.add_argument("--cores", type=int, nargs="+", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.cores:
        return work(args)
    usable = sorted(os.sched_getaffinity(0))
    one = timed(args, [usable[:1]])
    print(f"{args.problem}: {args.seeds} seeds x {args.episodes:,} episodes a core; on one core {one:.2f} s")
    print("| cores | threads, s | speed-up | processes, s | speed-up |\n|---|---|---|---|---|")
    n = 2
    while n <= len(usable):
        threads, processes = timed(args, [usable[:n]]), timed(args, [[core] for core in usable[:n]])
        print(
            f"| {n} | {threads:.2f} | {n * one / threads:.2f} | {processes:.2f} | {n * one / processes:.2f} |",
            flush=True,
        )
        n *= 2


if __name__ == "__main__":
    main()
