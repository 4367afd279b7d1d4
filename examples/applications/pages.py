"""The tables and pictures of docs/applications, from the results that are kept beside this file.

    python examples/applications/pages.py

Each page has a place for its table, between <!-- table --> and <!-- end -->. The leaderboard is written by
`everystep leaderboard examples/applications/results --page docs/leaderboard.md`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq

import everystep as es

HERE = Path(__file__).parent
DOCS = HERE.parent.parent / "docs"
OURS = {"lsvi-ahead": "#0072b2", "lsvi-ae": "#56b4e9", "shielded PPO": "#009e73"}
THEIRS = {"PPO": "#d55e00", "DQN": "#e69f00", "QR-DQN": "#cc79a7", "PPO-Lagrangian": "#666666"}
REFERENCES = {"MaskablePPO, oracle": "black", "controller": "black"}


def rows(name: str) -> list[dict[str, Any]]:
    return pq.read_table(HERE / "results" / f"{name}.parquet").to_pylist()


def shown(table: Any) -> dict[str, str]:
    """Systems that are drawn as lines, with colours: ours, the best price of each algorithm, and references."""
    by_name = {row.system: row for row in table.rows}
    found = {name: colour for name, colour in OURS.items() if name in by_name}
    for algorithm, colour in THEIRS.items():
        prices = [row for row in table.rows if row.system.split(", price")[0] == algorithm]
        enough = [row for row in prices if row.share >= 0.9]  # rows are sorted by violation
        if prices:
            best = enough[0] if enough else max(prices, key=lambda row: row.share)
            found[best.system] = colour
    return found | {name: colour for name, colour in REFERENCES.items() if name in by_name}


def picture(name: str, table: Any, unit: str) -> None:
    """Violation while learning, step by step; and violation against the final return, of every system."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for row in rows(name):
        runs.setdefault(row["system"], []).append(row)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.6), layout="constrained")
    lines = shown(table)
    harm = [np.mean([each["harm"] for each in runs[system]]) for system in lines]
    floor = min(each for each in harm if each > 0) / 30
    for system, colour in lines.items():
        curves = np.array([each["harm_curve"] for each in runs[system]])
        steps = runs[system][0]["steps"] * np.arange(1, curves.shape[1] + 1) / curves.shape[1]
        style = {"color": colour, "linestyle": "--" if system in REFERENCES else "-"}
        left.plot(
            steps, np.maximum(curves.mean(0), floor), label=system, linewidth=2.2 if system in OURS else 1.4, **style
        )
        draws = np.random.default_rng(0).integers(len(curves), size=(500, len(curves)))
        low, high = np.quantile(curves[draws].mean(1), [0.025, 0.975], axis=0)
        left.fill_between(steps, np.maximum(low, floor), np.maximum(high, floor), color=colour, alpha=0.15, linewidth=0)
    left.set(
        yscale="log", xlabel="steps of training", ylabel=f"violation so far ({unit})", title="Violation while learning"
    )
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8, frameon=False)
    if any(not any(each["harm"] for each in runs[system]) for system in lines):
        left.text(steps[-1], floor * 1.08, "no violation at all", fontsize=8, ha="right")
    for row in table.rows:
        if row.system == "random":  # far from all others
            continue
        at = max(float(row.harm.mean), floor), float(row.final_return.mean)
        colour = lines.get(row.system)
        right.plot(*at, "o" if row.kind == "ours" else "s", color=colour or "#bbbbbb", markersize=7 if colour else 4)
    right.set(
        xscale="log",
        xlabel=f"violation while learning ({unit})",
        ylabel="final return",
        title="Up and to the left is better",
    )
    right.grid(alpha=0.25)
    left.grid(alpha=0.25)
    path = DOCS / "figures" / f"application-{name}.png"
    figure.savefig(path, dpi=110)
    plt.close(figure)
    print(path)


def number(interval: Any) -> str:
    show = lambda x: f"{x:.0f}" if abs(x) >= 100 else f"{x:.3g}"
    return f"{show(float(interval.mean))} [{show(float(interval.low))}, {show(float(interval.high))}]"


def seeds(table: Any) -> str:
    numbers = {row.seeds for row in table.rows}
    return " to ".join(str(n) for n in sorted({min(numbers), max(numbers)}))


def markdown(table: Any) -> str:
    """One row for each system, by violation while learning; ours in bold; * marks the best rival."""
    lines = [
        "| | violation while learning | last violation at step | final return | final violation per episode |",
        "|---|---|---|---|---|",
    ]
    for row in table.rows:
        best = table.best_rival is not None and row.system == table.best_rival.system
        label = {"ours": f"**{row.system}**", "reference": f"*{row.system}*"}.get(row.kind, row.system) + (
            " \\*" if best else ""
        )
        last = f"{row.last_violation:,.0f}"
        lines.append(
            f"| {label} | {number(row.harm)} | {last} | {number(row.final_return)} | {number(row.final_harm)} |"
        )
    words = f"Means over {seeds(table)} seeds, with 95 % bootstrap intervals; the last violation is a median."
    lines += ["", words + " Ours in bold, references in", "italics; \\* the best rival."]
    return "\n".join(lines)


def summary(tables: list[Any], titles: dict[str, str], folder: str = "") -> str:
    """One row for each application: the best rival, ours, the factor between them and the share of the return."""
    lines = [
        "| | seeds | best rival | its violation | ours | its violation | factor | share of the best final return |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for table in tables:
        if table.best_rival is None:
            continue
        ours = [row for row in table.rows if row.kind == "ours"]
        enough = [row for row in ours if row.share >= 0.95]
        best = enough[0] if enough else max(ours, key=lambda row: row.share)
        rival, name = table.best_rival, titles[table.problem].split(":")[0]
        least = float(best.harm.mean)
        ratio = float(rival.harm.mean) / least if least > 0 else float("inf")
        factor = f"{ratio:.1f}" if ratio < 100 else f"{ratio:,.0f}"
        lines.append(
            f"| [{name}]({folder}{table.problem}.md) | {seeds(table)} | {rival.system} | {float(rival.harm.mean):.3g} "
            f"| {best.system} | {least:.3g} | {factor} | {100 * best.share:.0f} % |"
        )
    return "\n".join(lines)


def put(page: Path, text: str) -> None:
    before, rest = page.read_text(encoding="utf-8").split("<!-- table -->")
    _, after = rest.split("<!-- end -->")
    page.write_text(f"{before}<!-- table -->\n\n{text}\n\n<!-- end -->{after}", encoding="utf-8")


def main() -> None:
    from importlib import import_module

    found = es.leaderboard(sorted(str(path) for path in (HERE / "results").glob("*.parquet")))
    titles = {}
    for table in found.problems:
        app = import_module(table.problem.replace("-", "_")).APPLICATION
        titles[table.problem] = app.title
        picture(table.problem, table, app.unit)
        if (DOCS / "applications" / f"{table.problem}.md").exists():
            put(DOCS / "applications" / f"{table.problem}.md", markdown(table))
    put(DOCS / "applications" / "index.md", summary(found.problems, titles))
    put(DOCS.parent / "README.md", summary(found.problems, titles, "docs/applications/"))


if __name__ == "__main__":
    sys.exit(main())
