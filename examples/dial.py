"""Optimism about costs, from aggressive to conservative: regret against violations for `optimism` from 1 to -1.

    python examples/dial.py [--seeds 32] [--out out/examples/dial]

On the lake (one-hot costs) and on a terrain (a Gaussian process), with no safe action known and with one known in each
state. +1 uses the lower end of each cost interval, as the paper does; -1 the upper end.
"""

import argparse
import json
from pathlib import Path

import numpy as np

import everystep as es
from everystep.cli.shared import progress_bar
from everystep.experiments import figures, statistics, tables
from everystep.reports import certificate_figures

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--seeds", type=int, default=32)
parser.add_argument("--episodes", type=int, default=1000)
parser.add_argument("--out", default="out/examples/dial")
options = parser.parse_args()

OPTIMISMS = (1.0, 0.75, 0.5, 0.25, 0.0, -0.25, -0.5, -0.75, -1.0)
KNOWN = {"no safe action known": "none", "one known in each state": "safest"}
PROBLEMS = {
    "Lake, one-hot costs": (es.problems.frozen_lake(), {}),
    "Terrain, Gaussian process": (es.problems.terrain(seed=20, sigma=0.1), {"cost": "gp", "beta": 0.07, "lam": 0.01}),
}

panels, rows = {}, []
with progress_bar(len(PROBLEMS) * len(KNOWN) * len(OPTIMISMS) * options.seeds * options.episodes) as advanced:
    for name, (problem, settings) in PROBLEMS.items():
        agents = [
            es.agents.lsvi_ae(optimism=optimism, known_safe=known, **settings)
            for known in KNOWN.values()
            for optimism in OPTIMISMS
        ]
        result = es.run(problem, agents, options.episodes, options.seeds, progress=advanced)
        result.save(Path(options.out) / problem.name, figures=False)
        curves = iter(result.columns.values())
        panels[name] = {}
        for known in KNOWN:
            points = []
            for optimism in OPTIMISMS:
                curve = next(curves)
                total = lambda column, curve=curve: statistics.mean_over_seeds(
                    curve[column].sum(-1), np.random.default_rng(0)
                )
                points.append((optimism, total("violation"), total("regret")))
                rows.append([f"{name}, {known}", f"{optimism:+g}", *(tables.number(x.mean) for x in points[-1][1:])])
            panels[name][known] = points

print(tables.aligned([["", "optimism", "total violations", "cumulative regret"], *rows]))
(Path(options.out) / "dial.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
paths = figures.save(certificate_figures.tradeoff(panels), Path(options.out) / "dial")
print(f"\nWritten to {options.out}; drawn: {paths[0]}")
