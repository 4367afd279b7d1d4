"""Optimism about costs, from aggressive to conservative: regret against violations for `optimism` from 1 to -1.

    python examples/dial.py [--seeds 32] [--out out/examples/dial]

On the lake (one-hot costs) and on a terrain (a Gaussian process), with no safe action known and with one known in each
state. +1 uses the lower end of each cost interval, as the paper does; -1 the upper end.
"""

import argparse
import json
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import everystep as es
from everystep.cli.shared import progress_bar
from everystep.experiments import figures, statistics, tables
from everystep.experiments.figures import FAINT, HALO, STYLE, from_zero

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


def tradeoff(panels):
    """Total regret against total violations, for an optimism of the cost estimate from 1 to -1.

    panels[problem][curve] is a list of (optimism, violation interval, regret interval).
    """
    colours = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(4.9 * len(panels), 4.2), layout="constrained")
        for axes, (name, curves) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
            for (curve, points), colour, marker in zip(curves.items(), colours, "os^D", strict=False):
                total = np.array([[v.mean, v.low, v.high] for _, v, _ in points])
                regret = np.array([[r.mean, r.low, r.high] for _, _, r in points])
                mean = total[:, 0], regret[:, 0]
                axes.errorbar(
                    total[:, 0], regret[:, 0], color=colour, marker=marker, markersize=5, label=curve, linewidth=1.4,
                    xerr=[total[:, 0] - total[:, 1], total[:, 2] - total[:, 0]], elinewidth=0.8,
                    yerr=[regret[:, 0] - regret[:, 1], regret[:, 2] - regret[:, 0]],
                )  # fmt: skip
                names = {1.0: "+1", 0.0: "0", -1.0: "-1"}
                marked = [
                    (names[optimism], x, y)
                    for (optimism, _, _), x, y in zip(points, *mean, strict=True)
                    if optimism in names
                ]
                for i, (sign, x, y) in enumerate(marked):
                    near = [other for other, u, v in marked[:i] if abs(u - x) < 2 and abs(v - y) < 100]
                    if not near:  # a point that hardly differs from another is not labelled again
                        axes.annotate(
                            f"optimism {sign}" if i == 0 else sign, (x, y), xytext=(5, 6), textcoords="offset points",
                            color=colour, fontsize=9, path_effects=HALO, ha="right" if i == 0 else "left",
                        )  # fmt: skip
            axes.set(title=name, xlabel="total violations", ylabel="total regret")
            from_zero(axes)
            axes.set_xlim(0)
            axes.legend(frameon=False, fontsize=9)
            axes.grid(color=FAINT, alpha=0.2)
        return figure


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
paths = figures.save(tradeoff(panels), Path(options.out) / "dial")
print(f"\nWritten to {options.out}; drawn: {paths[0]}")
