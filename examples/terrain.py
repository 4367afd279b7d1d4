"""Smooth costs: a Gaussian process compared with one-hot costs with valid widths, on several terrains.

    python examples/terrain.py [--seeds 32] [--terrains 20,21,22,23,24,25,26,27] [--out out/examples/terrain]

All are LSVI-AE with the same value model. One-hot costs have `coordinate` widths, valid for each (x, a); the Gaussian
process is tried with 2 and with 8 standard deviations. beta = 0.07, lam = 0.01 and these two were chosen on terrains
0 to 9, with other seeds. Costs are observed exactly (sigma = 0) and with noise (sigma = 0.1).
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

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--seeds", type=int, default=32)
parser.add_argument("--episodes", type=int, default=600)
parser.add_argument("--terrains", default="20,21,22,23,24,25,26,27")
parser.add_argument("--out", default="out/examples/terrain")
options = parser.parse_args()
out, chosen, sigmas = Path(options.out), [int(seed) for seed in options.terrains.split(",")], (0.0, 0.1)

WIDTHS = {"beta": 0.07, "lam": 0.01}
AGENTS = {
    "one-hot, valid widths": (es.agents.lsvi_ae(**WIDTHS, radius_cost="coordinate"), "#D55E00", (0, (5, 2))),
    "GP, 8 sd": (es.agents.lsvi_ae(**WIDTHS, cost="gp", beta_cost=8), "#56B4E9", "-."),
    "GP, 2 sd": (es.agents.lsvi_ae(**WIDTHS, cost="gp", beta_cost=2), "#0072B2", "-"),
}
COLUMNS = ("final_value", "final_violation", "total_violation")

rows, violations = [], {}
with progress_bar(len(AGENTS) * options.seeds * options.episodes * len(chosen) * len(sigmas)) as advanced:
    for sigma in sigmas:
        for seed in chosen:
            problem = es.problems.terrain(seed=seed, sigma=sigma)
            agents = [agent.called(name) for name, (agent, _, _) in AGENTS.items()]
            result = es.run(problem, agents, options.episodes, options.seeds, progress=advanced)
            result.save(out / f"terrain-{seed}-sigma-{sigma:g}", figures=False)
            for name, curves in result.columns.items():
                violations.setdefault((sigma, name), []).append(curves["violation"])
                means = {column: result.summary["agents"][name][column]["mean"] for column in COLUMNS}
                optimum = result.summary["problem"]["optimal_value"]
                rows.append({"terrain": seed, "sigma": sigma, "costs": name, "safe_optimum": optimum} | means)
(out / "terrain.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")

NUMBERS = ("safe_optimum", *COLUMNS)
line = lambda name, numbers: [name, *(f"{number:.3f}" for number in numbers)]
shown = []
for sigma in sigmas:
    for row in rows:
        if row["sigma"] == sigma:
            shown.append(line(f"{row['terrain']}, sigma {sigma:g}: {row['costs']}", [row[key] for key in NUMBERS]))
    for name in AGENTS:
        own = [row for row in rows if (row["sigma"], row["costs"]) == (sigma, name)]
        shown.append(line(f"mean, sigma {sigma:g}: {name}", [np.mean([row[key] for row in own]) for key in NUMBERS]))
print(tables.aligned([["terrain", *(key.replace("_", " ") for key in NUMBERS)], *shown]))

with mpl.rc_context(figures.STYLE):
    figure = Figure(figsize=(9.6, 3.9), layout="constrained")
    for axes, sigma in zip(figure.subplots(1, 2), sigmas, strict=True):
        for name, (_, colour, dash) in AGENTS.items():
            interval = statistics.mean_over_seeds(
                np.cumsum(np.mean(violations[sigma, name], 0), -1), np.random.default_rng(0), resamples=1000
            )
            episode = np.arange(1, len(interval.mean) + 1)
            axes.plot(episode, interval.mean, color=colour, linestyle=dash, label=name)
            axes.fill_between(episode, interval.low, interval.high, color=colour, alpha=0.22, linewidth=0)
        noise = "costs observed exactly" if sigma == 0 else f"costs observed with noise {sigma:g}"
        axes.set(title=f"Cumulative violations, {noise}", xlabel="episode", ylabel="mean over terrains and seeds")
        axes.set_xlim(0, options.episodes)
        figures.from_zero(axes)
        figures.name_ends(axes)
    paths = figures.save(figure, out / "terrain")
print(f"\nWritten to {out}; drawn: {paths[0]}")
