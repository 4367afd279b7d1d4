"""Random linear CMDPs: how fast regret and violations grow, with 10 features for 1000 states.

    python examples/linear.py [--seeds 16] [--instances 4] [--margins 0.1,0] [--out out/examples/linear]

LSVI-AE beside unconstrained LSVI, with beta = 0.5 and lam = 0.01: beta / sqrt(lam) is then the cap, H = 5 in units of
the range of rewards, so that an untried action has the highest possible value. `value lost` is the sum over episodes
of max(V* - V, 0): an episode that earns more than the safe optimum does not compensate another. It is at least the
regret, which may be negative. Exponents are slopes of log(sum up to k) on log k over the last nine tenths of the
episodes, with 95 % bootstrap intervals over seeds. With margin 0 some actions are unsafe by a tiny amount, which is
detected late.
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
parser.add_argument("--seeds", type=int, default=16)
parser.add_argument("--episodes", type=int, default=5000)
parser.add_argument("--instances", type=int, default=4)
parser.add_argument("--margins", default="0.1,0")
parser.add_argument("--out", default="out/examples/linear")
options = parser.parse_args()
margins = [float(margin) for margin in options.margins.split(",")]
AGENTS = [es.agents.lsvi_ae(beta=0.5, lam=0.01).called("lsvi-ae"), es.agents.lsvi(beta=0.5, lam=0.01).called("lsvi")]


def exponent(curves: np.ndarray) -> statistics.Exponent:
    return statistics.growth_exponent(curves, np.random.default_rng(0))


rows, drawn = [], None
with progress_bar(len(margins) * options.instances * len(AGENTS) * options.seeds * options.episodes) as advanced:
    for margin in margins:
        for seed in range(options.instances):
            problem = es.problems.linear(seed=seed, margin=margin)
            result = es.run(problem, AGENTS, options.episodes, options.seeds, progress=advanced)
            if drawn is None:
                result.save(Path(options.out) / "run", figures=False)
                drawn = result
            for label, curves in result.columns.items():
                lost, violation = curves["regret"].clip(min=0), curves["violation"]
                late = violation[:, -(options.episodes // 10) :].sum() / violation.sum()
                shown = lambda e: (
                    "none" if np.isnan(e.value) else "{:.2f} [{:.2f}, {:.2f}]".format(*np.round(e, 2) + 0.0)
                )
                rows.append([
                    f"margin {margin:g}, instance {seed}, {label}",
                    *(tables.number(each.sum(-1).mean()) for each in (curves["regret"], lost, violation)),
                    *(shown(exponent(each)) for each in (lost, violation)),
                    f"{late:.1%}",
                ])  # fmt: skip

head = ["", "regret", "value lost", "violations", "exponent, value lost", "exponent, violations", "in the last tenth"]
print(tables.aligned([head, *rows]))
(Path(options.out) / "growth.json").write_text(json.dumps([head, *rows], indent=2) + "\n", encoding="utf-8")

with mpl.rc_context(figures.STYLE):
    figure = Figure(figsize=(9.6, 3.9), layout="constrained")
    columns = {"violation": "Cumulative violations", "regret": "Value lost against the safe optimum"}
    for axes, (column, title) in zip(figure.subplots(1, 2), columns.items(), strict=True):
        # LSVI loses no value: it earns more than the safe optimum.
        shown = drawn.columns if column == "violation" else {"lsvi-ae": drawn.columns["lsvi-ae"]}
        figures.bands(axes, {label: np.cumsum(each[column].clip(min=0), -1) for label, each in shown.items()})
        axes.set(xscale="log", yscale="log", title=title, xlabel="episode", xlim=(1, options.episodes))
        k = np.geomspace(options.episodes / 10, options.episodes, 2)
        end = float(shown["lsvi-ae"][column].clip(min=0).sum(-1).mean())
        axes.plot(k, 2 * end * np.sqrt(k / options.episodes), color=figures.FAINT, linewidth=0.8, label="sqrt(k)")
        figures.name_ends(axes)
    paths = figures.save(figure, Path(options.out) / "linear")
print(f"\nWritten to {options.out}; drawn: {paths[0]}")
