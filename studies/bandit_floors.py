"""Does the floor of the price matter? RPOL's sqrt(k) and LSVI-AE's k on RPOL's own continuum of arms.

    python studies/bandit_floors.py [--episodes 300] [--seeds 64] [--out out/bandit-floors]

Gaussian processes know the noise of the costs, and widths are two standard deviations. Floors: sqrt(k), k, and none.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

import everystep as es
from everystep.experiments import statistics

FLOORS = ("sqrt", "k", 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=64)
    parser.add_argument("--out", type=Path, default=Path("out/bandit-floors"))
    options = parser.parse_args()

    problem = es.problems.bandit_continuum()
    noise = problem.noise.cost_sigma**2
    widths = {"lam": noise, "beta": 2 * noise**0.5, "lam_cost": noise, "beta_cost": 2}
    agents = [es.agents.rpol(floor=floor, **widths).called(f"floor {floor}") for floor in FLOORS]
    result = es.run(problem, agents, options.episodes, options.seeds)
    rows = {}
    columns = "regret | total violations | violations, last 100 episodes | regret, last 100 episodes"
    print(f"| {options.episodes} episodes, {options.seeds} seeds | {columns} |")
    print("|---|---|---|---|---|")
    for label, curves in result.columns.items():
        totals = {
            "regret": curves["regret"].sum(1),
            "violation": curves["violation"].sum(1),
            "violation_in_the_last_100": curves["violation"][:, -100:].sum(1),
            "regret_in_the_last_100": curves["regret"][:, -100:].sum(1),
        }
        rows[label] = {
            name: [float(end) for end in statistics.mean_over_seeds(each, np.random.default_rng(0))]
            for name, each in totals.items()
        }
        cells = [f"{mean:.3g} [{low:.3g}, {high:.3g}]" for mean, low, high in rows[label].values()]
        print(f"| {label} | {' | '.join(cells)} |")
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "floors.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
