"""How the settings of DQN and QR-DQN were chosen: a grid, at each price, on seeds that are not reported.

    python examples/applications/tuning.py oil_pump [--systems "DQN, price 10;QR-DQN, price 1"] [--jobs 2]

Every setting of `GRID`, and the application's own, is tried on three seeds from 1000 on. Of those whose mean final
return is at least 90 % of the highest one, the one with the least mean harm while learning is chosen. All runs are
kept, as `tuning/NAME.parquet`; a run that is there already is not run again. Without --systems nothing is run, and the
choices are printed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
from importlib import import_module
from pathlib import Path
from typing import Any

import compare
import numpy as np

EXPLORATION = {  # random steps before the first update, and the share of the training over which exploration ends
    "usual": {"learning_starts": 200, "exploration_fraction": 0.1},
    "little": {"learning_starts": 50, "exploration_fraction": 0.02},
    "least": {"learning_starts": 16, "exploration_fraction": 0.005},
}
RATES = (3e-4, 1e-3)
GRID = [{"learning_rate": rate, **explored} for explored, rate in itertools.product(EXPLORATION.values(), RATES)]
SEEDS = range(1000, 1003)
ENOUGH = 0.9  # of the highest mean final return
Setting = tuple[tuple[str, Any], ...]


def grid(app: Any, system: Any) -> list[dict[str, Any]]:
    """`GRID` and what the application says, if that is another one."""
    own = {name: system.settings(app)[name] for name in GRID[0]}
    return GRID if own in GRID else [*GRID, own]


def setting(row: dict[str, Any]) -> Setting:
    """What the grid says of a run, out of all its settings."""
    given = json.loads(row["settings"])
    return tuple((name, given[name]) for name in GRID[0])


def chosen(rows: list[dict[str, Any]]) -> tuple[Setting, float, float]:
    """The setting with the least harm among those that return enough; its mean harm and final return."""
    found: dict[Setting, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(setting(row), []).append(row)
    means = {
        each: (float(np.mean([row["harm"] for row in runs])), float(np.mean([row["final_return"] for row in runs])))
        for each, runs in found.items()
    }
    highest = max(final_return for _, final_return in means.values())
    enough = {each: mean for each, mean in means.items() if mean[1] >= ENOUGH * highest}
    best = min(enough, key=lambda each: enough[each][0])
    return best, *means[best]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("application", help="the name of its file, such as oil_pump")
    parser.add_argument("--systems", default="", help="names with prices, separated by ;")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "tuning")
    options = parser.parse_args()
    os.environ.update(compare.ONE_THREAD)
    app = import_module(options.application).APPLICATION
    path = options.out / f"{app.name}.parquet"
    found = compare.rows(path)
    done = {(row["system"], row["seed"], setting(row)) for row in found}
    jobs = [
        (options.application, name, seed, None, each)
        for name in options.systems.split(";") if name
        for each in grid(app, compare.systems()[name])
        for seed in SEEDS
        if (name, seed, tuple(each.items())) not in done
    ]  # fmt: skip
    for row in compare.each_done(jobs, options.jobs):
        found.append(row)
        compare.write(path, found)
    for name in sorted({row["system"] for row in found}):
        best, harm, final_return = chosen([row for row in found if row["system"] == name])
        print(f"{app.name}, {name}: {dict(best)}, harm {harm:.3g}, final return {final_return:.4g}")


if __name__ == "__main__":
    main()
