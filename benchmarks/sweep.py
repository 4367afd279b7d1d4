"""The sweep behind the default widths: beta and lam of the value model, beta_cost and lam_cost of the cost model.

    python benchmarks/sweep.py            writes docs/sweep.csv, docs/sweep.md and docs/figures/sweep.png

The paper's lake and six generated ones together, seeds from 10,000 on: no report uses a seed or, but for the first, a
map of this sweep. The rule for beta and lam: among the settings with which LSVI-AE ends at 97 % of the safe optimum
or more and at 0.01 violations per episode or fewer on every map, those whose regret (as a share of the safe optimum,
averaged over maps) is within 5 % of the smallest, which is what the seeds can distinguish; of these the most
optimistic about untried actions, the largest beta / sqrt(lam), with which the paper's lake is learnt as well as with
the widths of 0.2.0 (0.2 and 0.01 for rewards up to 6, so 1/30 and 0.01 here): its final value over 640 seeds is at most
a standard error of the difference lower. All agents use the same beta and lam. Costs on a lake are observed without
noise, so there the cost widths hardly matter; they are varied to show it, and the defaults are in the middle of the
flat region.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import everystep as es

DOCS = Path(__file__).resolve().parent.parent / "docs"
VALUES = {
    "beta": (0.02, 0.025, 0.03, 0.035, 0.04, 0.05, 0.1, 0.2),
    "lam": (0.002, 0.003, 0.005, 0.01, 0.03, 0.1, 0.3),
}
COSTS = {"beta_cost": (0.0, 0.1, 0.3, 0.6, 0.9), "lam_cost": (0.01, 0.1, 0.3)}
SHAPE = (len(VALUES["beta"]), len(VALUES["lam"]))
PAIRS = SHAPE[0] * SHAPE[1]
CHOSEN_COSTS = {"beta_cost": 0.3, "lam_cost": 0.1}
EPISODES = 1000
OF_0_2_0 = {"beta": 1 / 30, "lam": 0.01}
LAKE_SEEDS = 640


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=64)
    parser.add_argument("--maps", type=int, default=6)
    parser.add_argument("--jobs", type=int, default=2, help="settings measured at the same time")
    options = parser.parse_args()
    of_setting = partial(measure, options.maps, options.seeds)
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as workers:
        pairs = itertools.product(*VALUES.values())
        rows = list(workers.map(of_setting, [{"beta": beta, "lam": lam, **CHOSEN_COSTS} for beta, lam in pairs]))
        fit = candidates(rows)
        with_widths = [OF_0_2_0, *({"beta": row["beta"], "lam": row["lam"]} for row in fit)]
        ends = list(workers.map(lake_end, with_widths))
        best = next(row for row, end in zip(fit, ends[1:], strict=True) if as_good(end, ends[0]))
        chosen = {"beta": best["beta"], "lam": best["lam"]}
        pairs = itertools.product(*COSTS.values())
        rows += workers.map(of_setting, [{**chosen, "beta_cost": beta, "lam_cost": lam} for beta, lam in pairs])
    write(rows, best, options, list(zip(with_widths, ends, strict=True)))


def measure(maps: int, seeds: int, setting: dict[str, float]) -> dict[str, float]:
    """LSVI-AE on every map: the worst end of it, and the average regret and violation."""
    problems = [es.problems.frozen_lake(), *(es.problems.random_lake(10_000 + i) for i in range(maps))]
    ends, harms, regrets, totals = [], [], [], []
    for problem in problems:
        result = es.run(problem, es.agents.lsvi_ae(**setting), EPISODES, range(10_000, 10_000 + seeds))
        (numbers,) = result.summary["agents"].values()
        optimum = result.summary["problem"]["optimal_value"]
        ends.append(numbers["final_value"]["mean"] / optimum)
        harms.append(numbers["final_violation"]["mean"])
        regrets.append(numbers["total_regret"]["mean"] / optimum / EPISODES)
        totals.append(numbers["total_violation"]["mean"])
    row = {
        **setting,
        "worst_end": min(ends),
        "worst_final_violation": max(harms),
        "regret_share": float(np.mean(regrets)),
        "total_violation": float(np.mean(totals)),
        "lake_total_violation": totals[0],
    }
    print({key: round(value, 4) for key, value in row.items()}, file=sys.stderr, flush=True)
    return row


def candidates(rows: list[dict[str, float]]) -> list[dict[str, float]]:
    """The settings that the rule of the docstring allows by regret, the most optimistic first."""
    fit = [row for row in rows if row["worst_end"] >= 0.97 and row["worst_final_violation"] <= 0.01]
    least = min(row["regret_share"] for row in fit)
    near = [row for row in fit if row["regret_share"] <= 1.05 * least]
    return sorted(near, key=lambda row: row["beta"] / row["lam"] ** 0.5, reverse=True)


def lake_end(setting: dict[str, float]) -> tuple[float, float]:
    """The final value on the paper's lake: its mean over 640 seeds, and the standard error of that."""
    result = es.run(
        es.problems.frozen_lake(), es.agents.lsvi_ae(**setting), EPISODES, range(10_000, 10_000 + LAKE_SEEDS)
    )
    (curves,) = result.columns.values()
    end = curves["value"][:, -100:].mean(1)
    return float(end.mean()), float(end.std(ddof=1) / LAKE_SEEDS**0.5)


def as_good(end: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether a mean is at most one standard error of the difference below another."""
    return end[0] >= other[0] - (end[1] ** 2 + other[1] ** 2) ** 0.5


def write(
    rows: list[dict[str, float]],
    best: dict[str, float],
    options: argparse.Namespace,
    lake: list[tuple[dict[str, float], tuple[float, float]]],
) -> None:
    seeds, maps = options.seeds, options.maps
    on_lake = "\n".join(f"| {w['beta']:.4g} | {w['lam']:g} | {end:.4f} | {error:.4f} |" for w, (end, error) in lake)
    with (DOCS / "sweep.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows({key: f"{value:.6g}" for key, value in row.items()} for row in rows)
    grid = np.array([row["regret_share"] for row in rows[:PAIRS]]).reshape(SHAPE)
    ends = np.array([row["worst_end"] for row in rows[:PAIRS]]).reshape(SHAPE)
    draw(grid, ends, best)
    shown = {key: best[key] for key in ("beta", "lam", "beta_cost", "lam_cost")}
    (DOCS / "sweep.md").write_text(
        f"""# Where the default widths come from

Made by `python benchmarks/sweep.py --seeds {seeds} --maps {maps}`; every row is in `sweep.csv`.

LSVI-AE, K = {EPISODES}, H = 15, {seeds} seeds from 10,000 on, on the paper's lake and {maps} generated
ones (`es.problems.random_lake(10000)` and on) together. No report uses these seeds.
beta is in units of the range of rewards, 5.99 on these lakes.

The rule: among the beta and lam with which LSVI-AE ends at 97 % of the safe optimum or more, and at 0.01 violations per
episode or fewer, on every map, those whose regret averaged over maps is within 5 % of the smallest (what the seeds
can distinguish); of these the most optimistic about untried actions, the largest beta / sqrt(lam), with which the
paper's lake is learnt as well as with the widths of 0.2.0 (1/30 and 0.01 in these units): its final value over
{LAKE_SEEDS} seeds is at most a standard error of the difference lower. All agents use it.

The rule changed twice after results were seen. The 5 % margin was added after a first sweep, in which neighbouring
settings swapped places between reruns. With it, and without the condition on the lake, a sweep of 16 seeds and a
coarser grid chose beta = 0.03, lam = 0.003, and this grid with 64 seeds beta = 0.035, lam = 0.003; the condition was
added because both ended lower on the paper's lake than the widths of 0.2.0 (table below). The lake is thus part of the
choice, with other seeds than those of the reports.

**Chosen: {", ".join(f"{key} = {value:g}" for key, value in shown.items())}**: worst final value
{best["worst_end"]:.3f} of the optimum, worst final violation {best["worst_final_violation"]:.4f}, regret
{best["regret_share"]:.3f} of the optimum per episode, total violations {best["total_violation"]:.1f} on average and
{best["lake_total_violation"]:.1f} on the paper's lake.

![Regret and worst final value over beta and lam](figures/sweep.png)

Widths of the value model (beta_cost = 0.3, lam_cost = 0.1):

{markdown(rows[:PAIRS], ("beta", "lam"))}

The paper's lake, {LAKE_SEEDS} seeds, with the widths of 0.2.0 (first row) and with the settings that the rest of the
rule allows, the most optimistic first; the first of these that is as good is chosen:

| beta | lam | final value | standard error |
| --- | --- | --- | --- |
{on_lake}

Widths of the cost model, at the chosen beta and lam. Costs on a lake are observed without noise: a hazard is certified
unsafe after one visit iff beta_cost < 1 / sqrt(1 + lam_cost), and below that the widths hardly matter, so the defaults
are in the middle of the flat region. For noisy costs use `radius_cost=coordinate`, whose widths are valid:

{markdown(rows[PAIRS:], ("beta_cost", "lam_cost"))}
""",
        encoding="utf-8",
    )


HEADINGS = ("worst final value", "worst final violations per episode", "regret share", "total violations")


def markdown(rows: list[dict[str, float]], settings: tuple[str, ...]) -> str:
    columns = (*settings, "worst_end", "worst_final_violation", "regret_share", "total_violation")
    heads = (*(name.replace("_", " ") for name in settings), *HEADINGS)
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    lines += ["| " + " | ".join(f"{row[column]:.4g}" for column in columns) + " |" for row in rows]
    return "\n".join(lines)


def draw(regret: np.ndarray, ends: np.ndarray, best: dict[str, float]) -> None:
    figure = Figure(figsize=(9, 4), layout="constrained")
    panels = figure.subplots(1, 2)
    titles = ("regret per episode / safe optimum", "worst final value / safe optimum")
    for axes, cells, title in zip(panels, (regret, ends), titles, strict=True):
        image = axes.imshow(cells, cmap="cividis", aspect="auto")
        axes.set(title=title, xlabel="lam", ylabel="beta", xticks=range(SHAPE[1]), yticks=range(SHAPE[0]))
        axes.set_xticklabels([f"{lam:g}" for lam in VALUES["lam"]])
        axes.set_yticklabels([f"{beta:g}" for beta in VALUES["beta"]])
        middle = (cells.min() + cells.max()) / 2
        for (i, j), value in np.ndenumerate(cells):
            axes.text(j, i, f"{value:.2f}", ha="center", va="center", color="white" if value < middle else "black")
        at = (VALUES["lam"].index(best["lam"]), VALUES["beta"].index(best["beta"]))
        axes.plot(*at, marker="s", markersize=30, markerfacecolor="none", markeredgecolor="#D55E00", markeredgewidth=2)
        figure.colorbar(image, ax=axes)
    (DOCS / "figures").mkdir(parents=True, exist_ok=True)
    figure.savefig(DOCS / "figures" / "sweep.png", dpi=140, facecolor="white")


if __name__ == "__main__":
    main()
