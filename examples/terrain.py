"""Smooth costs: a Gaussian process that fits them against one-hot costs with valid widths, on several terrains.

    python examples/terrain.py [--seeds 32] [--terrains 10,11,12,13,14,15,16,17] [--out out/terrain]

Both are LSVI-AE with the same value model (beta = 0.5, chosen on terrains 0 to 3). Without noise and with sigma = 0.1.
"""

import argparse
import json
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import everystep as es
from everystep import figures, stats, tables
from everystep.cli import bar

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--seeds", type=int, default=32)
parser.add_argument("--episodes", type=int, default=600)
parser.add_argument("--terrains", default="10,11,12,13,14,15,16,17")
parser.add_argument("--out", default="out/terrain")
options = parser.parse_args()

BETA = 0.5
ONE_HOT, GP = "one-hot, coordinate widths", "Gaussian process"
agents = [es.agents.lsvi_ae(beta=BETA, radius_cost="coordinate"), es.agents.lsvi_ae(beta=BETA, cost="gp")]
chosen = [int(seed) for seed in options.terrains.split(",")]
sigmas = (0.0, 0.1)

rows, curves = [], {}
with bar(len(agents) * options.seeds * options.episodes * len(chosen) * len(sigmas)) as advanced:
    for sigma in sigmas:
        for seed in chosen:
            problem = es.problems.terrain(seed=seed, sigma=sigma)
            result = es.run(problem, agents, options.episodes, options.seeds, progress=advanced)
            result.save(Path(options.out) / f"terrain-{seed}-sigma-{sigma:g}")
            for name, (label, curve) in zip((ONE_HOT, GP), result.curves.items(), strict=True):
                curves.setdefault((sigma, name), []).append(curve)
                rows.append({"terrain": seed, "sigma": sigma, "costs": name} | result.summary["agents"][label])
                rows[-1]["optimum"] = result.summary["problem"]["optimal_value"]

shown = [
    [f"terrain {row['terrain']}, sigma {row['sigma']:g}: {row['costs']}", f"{row['optimum']:.3f}"]
    + [tables.number(row[column]["mean"]) for column in tables.COLUMNS]
    for row in rows
]
print(tables.aligned([["", "optimum", *(column.replace("_", " ") for column in tables.COLUMNS)], *shown]))
for sigma in sigmas:
    of = lambda name, column, sigma=sigma: np.mean(
        [row[column]["mean"] for row in rows if row["sigma"] == sigma and row["costs"] == name]
    )
    print(
        f"\nsigma {sigma:g}, mean over terrains: violation {of(ONE_HOT, 'total_violation'):.1f} one-hot, "
        f"{of(GP, 'total_violation'):.1f} GP ({of(ONE_HOT, 'total_violation') / of(GP, 'total_violation'):.1f} times "
        f"less); final value {of(ONE_HOT, 'final_value'):.3f} one-hot, {of(GP, 'final_value'):.3f} GP"
    )
(Path(options.out) / "terrain.json").write_text(json.dumps(rows, indent=2) + "\n")

with mpl.rc_context(figures.STYLE):
    figure = Figure(figsize=(9.6, 3.9), layout="constrained")
    for axes, sigma in zip(figure.subplots(1, 2), sigmas, strict=True):
        for name, colour, dash in ((ONE_HOT, "#D55E00", (0, (5, 2))), (GP, "#0072B2", "-")):
            harm = np.cumsum(np.mean([curve["violation"] for curve in curves[sigma, name]], 0), -1)
            interval = stats.mean_over_seeds(harm, np.random.default_rng(0))
            episode = np.arange(1, harm.shape[1] + 1)
            axes.plot(episode, interval.mean, color=colour, linestyle=dash, label=name)
            axes.fill_between(episode, interval.low, interval.high, color=colour, alpha=0.22, linewidth=0)
        noise = "costs seen exactly" if sigma == 0 else f"costs seen with noise {sigma:g}"
        axes.set(title=f"Cumulative hard violation, {noise}", xlabel="episode", ylabel="mean over terrains and seeds")
        axes.set_xlim(0, options.episodes)
        figures.from_zero(axes)
        axes.legend(frameon=False)
    paths = figures.save(figure, Path(options.out) / "terrain")
print(f"\nWritten to {options.out}; drawn: {paths[0]}")
