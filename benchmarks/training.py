"""Training on an environment whose states never recur: time by the number of steps, memory, plans, programs compiled.

    python benchmarks/training.py [--steps 100000] [--agent lsvi-ahead] [--memory 8192]
    python benchmarks/training.py --paired [--seeds 10] [--steps 20000] [--jobs 2]

CartPole with the pole within 8 degrees and the cart within 2 m (`ahead_environments.py`): 4 observations, 2 actions,
d = 200, plans of 60 steps, a plan for every episode.

The first form trains once and prints, at 1,000, 10,000, 50,000, 100,000 ... steps, the processor seconds per 1,000
steps since the line before, the memory of the process, and the plans and compiled programs so far. Its targets: flat
after 50,000 steps; 10^6 steps within an hour and 2 GB.

The second form trains with at most 8,192 states, with at most 2,048, and without a limit, on the same seeds, and prints
its standard error.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import jax
import numpy as np
from ahead_environments import ONE_THREAD, TASKS, CartPole

import everystep as es
from everystep import features
from everystep.training.arguments import MEMORY

LIMITS = (2 * MEMORY, MEMORY // 2, None)
AT = (1_000, 10_000, 50_000, *range(100_000, 1_000_001, 100_000))
FREQUENCIES = 50  # d = 2 actions x (cosine and sine) x 50
SHOWN = "{:>9} {:>14} {:>9} {:>8} {:>9} {:>10} {:>8}"


def learner(agent: str, memory: int | None, seed: int) -> es.Learner:
    task = TASKS["cartpole"]
    settings: dict[str, Any] = {**task.ours["shared"], **task.ours[agent]}
    horizon = settings.pop("horizon")
    for other in ("explored", "memory"):
        settings.pop(other, None)
    low, high = task.bounds(CartPole())
    return es.Learner(
        CartPole(),
        getattr(es.agents, agent.replace("-", "_"))(**settings),
        features=features.fourier(FREQUENCIES, low=low, high=high),
        horizon=horizon,
        memory=memory,
        seed=seed,
    )


def scaling(agent: str, memory: int | None, steps: int) -> None:
    compiled = [0]

    def count(name: str, seconds: float, **_: Any) -> None:
        compiled[0] += name == "/jax/core/compile/backend_compile_duration"

    jax.monitoring.register_event_duration_secs_listener(count)
    trained, done, last = learner(agent, memory, 0), 0, 0
    marks = [at for at in AT if at <= steps]
    print(SHOWN.format("steps", "CPU s / 1,000", "elapsed", "MB", "plans", "programs", "return"))
    began, cpu = time.perf_counter(), time.process_time()
    while marks:
        trained.play(1)
        done += int(trained.columns["length"][-1])
        if done < marks[0]:
            continue
        marks.pop(0)
        now, since = time.process_time(), done - last
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
        print(
            SHOWN.format(
                f"{done:,}", f"{1000 * (now - cpu) / since:.2f}", f"{time.perf_counter() - began:.0f} s",
                f"{peak:.0f}", trained.plans, compiled[0], f"{trained.columns['return'][-100:].mean():.0f}",
            ),
            flush=True,
        )  # fmt: skip
        cpu, last = time.process_time(), done


def harm_and_return(job: tuple[str, int | None, int, int]) -> tuple[float, float]:
    """The harm of a training, and the mean return of the episodes that end in the last 30 % of its steps."""
    agent, memory, seed, steps = job
    trained, done = learner(agent, memory, seed), 0
    while done < steps:
        trained.play(1)
        done += int(trained.columns["length"][-1])
    table = trained.columns
    late = table["length"].cumsum() > 0.7 * done
    return float(table["violation"].sum()), float(table["return"][late].mean())


def paired(agent: str, seeds: int, steps: int, jobs: int, limits: tuple[int | None, ...]) -> None:
    os.environ.update(ONE_THREAD)
    todo = [(agent, memory, seed, steps) for seed in range(seeds) for memory in limits]
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = np.array(list(pool.map(harm_and_return, todo))).reshape(seeds, len(limits), 2)
    print(f"{agent}, {steps:,} steps, {seeds} seeds: mean, and the mean difference from no limit (standard error)")
    for i, memory in enumerate(limits):
        mean, more = found[:, i].mean(0), found[:, i] - found[:, -1]
        error = more.std(0, ddof=1) / seeds**0.5 if seeds > 1 else np.full(2, np.nan)
        print(
            f"  memory {memory!s:>6}: harm {mean[0]:.1f}, {more[:, 0].mean():+.1f} ({error[0]:.1f}); "
            f"return {mean[1]:.0f}, {more[:, 1].mean():+.0f} ({error[1]:.0f})",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", default="lsvi-ahead", choices=["lsvi-ahead", "lsvi-ae", "lsvi"])
    parser.add_argument("--steps", type=int)
    parser.add_argument("--memory", type=int, default=MEMORY, help="0: no limit")
    parser.add_argument("--paired", action="store_true")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    if given.paired:
        paired(given.agent, given.seeds, given.steps or 20_000, given.jobs, LIMITS)
    else:
        scaling(given.agent, given.memory or None, given.steps or 100_000)


if __name__ == "__main__":
    main()
