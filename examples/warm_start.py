"""A warm start from logged data: LSVI-AE on FrozenLake, without a log and after reading one.

    python examples/warm_start.py [--seeds 4] [--out out/examples/warm-start]

The lake, constraint and features of `lake_holes.py`. The logs come from a random policy, which falls into holes; these
violations are not the agent's. The agent learns from a log before its first episode as if it had played the
episodes itself, including the price, so it avoids the logged holes from the start.
"""

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np
from contest import Recorder, in_parallel
from lake_holes import CONTEST, holes, make
from matplotlib.figure import Figure

import everystep as es
from everystep.experiments import figures, statistics, tables

LOGGED, EPISODES = (0, 30, 300), 200
TITLES = {0: "no log", **{n: f"log of {n} episodes" for n in LOGGED[1:]}}


def outcome(job):
    """Violations and return of every episode after a log of `logged` episodes, and the falls in the log."""
    logged, seed = job
    recorder, falls = Recorder(CONTEST), 0.0
    learner = es.Learner(
        recorder, es.agents.lsvi_ae(**CONTEST.settings), constraint=holes, seed=seed, **CONTEST.learner
    )
    if logged:
        log = es.logged.from_env(make(), None, episodes=logged, seed=1000 + seed, constraint=holes)
        learner.learn(log)
        falls = log.violation
    learner.train(EPISODES)
    return np.diff(np.cumsum([0.0, *recorder.violations])[recorder.ends]), recorder.returns(), falls


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--out", default="out/examples/warm-start")
    options = parser.parse_args()
    jobs = [(logged, seed) for logged in LOGGED for seed in range(options.seeds)]
    outcomes = dict(zip(jobs, in_parallel(outcome, jobs), strict=True))
    violations, returns, falls = (
        {n: np.array([outcomes[n, seed][i] for seed in range(options.seeds)]) for n in LOGGED} for i in range(3)
    )
    rows = [
        [TITLES[n], *map(tables.number, (falls[n].mean(), violations[n].sum(1).mean(), returns[n][:, -50:].mean()))]
        for n in LOGGED
    ]
    print(tables.aligned([["", "falls in the log", "own violations", "return in the last 50 episodes"], *rows]))
    with mpl.rc_context(figures.STYLE):
        figure = Figure(figsize=(9.6, 3.9), layout="constrained")
        left, right = figure.subplots(1, 2)
        figures.bands(left, {TITLES[n]: np.cumsum(violations[n], 1) for n in LOGGED})
        figures.bands(right, {TITLES[n]: statistics.moving_average(returns[n], 50) for n in LOGGED})
        left.set(title="The agent's own violations", xlabel="episode", ylabel="cumulative violations")
        right.set(title="Return", xlabel="episode", ylabel="mean of the last 50 episodes")
        for axes in (left, right):
            figures.from_zero(axes)
            figures.name_ends(axes)
    paths = figures.save(figure, Path(options.out) / "warm-start")
    print(f"\nWritten to {options.out}; drawn: {paths[0]}")


if __name__ == "__main__":
    main()
