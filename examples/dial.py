"""The dial from aggressive to conservative: regret against violation as `optimism` turns from 1 to -1.

    python examples/dial.py [--seeds 32] [--out out/examples/dial]

On the lake (one-hot costs) and on a terrain (a Gaussian process), with no safe action known and with one known in each
state. +1 trusts the lower end of each cost interval, as the paper does; -1 the upper end.
"""

import argparse
import json
from pathlib import Path

import numpy as np

import everystep as es
from everystep import cost_figures, figures, stats, tables
from everystep.cli import bar

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--seeds", type=int, default=32)
parser.add_argument("--episodes", type=int, default=1000)
parser.add_argument("--out", default="out/examples/dial")
options = parser.parse_args()

TURNS = (1.0, 0.75, 0.5, 0.25, 0.0, -0.25, -0.5, -0.75, -1.0)
KNOWN = {"no safe action known": "none", "one known in each state": "safest"}
PROBLEMS = {
    "Lake, one-hot costs": (es.problems.frozen_lake(), {}),
    "Terrain, Gaussian process": (es.problems.terrain(seed=20, sigma=0.1), {"cost": "gp", "beta": 0.4}),
}

panels, rows = {}, []
with bar(len(PROBLEMS) * len(KNOWN) * len(TURNS) * options.seeds * options.episodes) as advanced:
    for name, (problem, settings) in PROBLEMS.items():
        agents = [
            es.agents.lsvi_ae(optimism=turn, known_safe=known, **settings) for known in KNOWN.values() for turn in TURNS
        ]
        result = es.run(problem, agents, options.episodes, options.seeds, progress=advanced)
        result.save(Path(options.out) / problem.name, figures=False)
        curves = iter(result.curves.values())
        panels[name] = {}
        for known in KNOWN:
            points = []
            for turn in TURNS:
                curve = next(curves)
                total = lambda column, curve=curve: stats.mean_over_seeds(
                    curve[column].sum(-1), np.random.default_rng(0)
                )
                points.append((turn, total("violation"), total("regret")))
                rows.append([f"{name}, {known}", f"{turn:+g}", *(tables.number(x.mean) for x in points[-1][1:])])
            panels[name][known] = points

print(tables.aligned([["", "optimism", "total violation", "total regret"], *rows]))
(Path(options.out) / "dial.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
paths = figures.save(cost_figures.tradeoff(panels), Path(options.out) / "dial")
print(f"\nWritten to {options.out}; drawn: {paths[0]}")
