"""A car that must brake in time: LSVI-AE, LSVI-AE looking ahead, and LSVI with a price on violations in its reward.

    python examples/racetrack.py [--seeds 16] [--episodes 1000] [--price 10] [--out out/examples/racetrack]

The price is the best of 0.1, 1, 10 and 100 on this track (100 ties with it), chosen with hindsight: docs/comparison.md.
"""

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import everystep as es
from everystep.cli.shared import progress_bar
from everystep.experiments import figures, statistics, tables


def draw(curves: dict[str, dict[str, np.ndarray]], price: float) -> Figure:
    """Violations per episode and value of the policy, with intervals over seeds."""
    columns = {"violation": "Hard violation per episode", "value": "Value of the policy"}
    figure = Figure(figsize=(9.6, 3.9), layout="constrained")
    for axes, (column, title) in zip(figure.subplots(1, 2), columns.items(), strict=True):
        figures.bands(axes, {label: statistics.moving_average(each[column], 50) for label, each in curves.items()})
        axes.set(title=title, xlabel="episode", ylabel="mean of the last 50 episodes")
        axes.get_lines()[-1].set_label(f"LSVI, price {price:g}")
        axes.set_ylim(0, 3 if column == "violation" else 1.2)  # the first few episodes have up to 7 violations
        figures.name_ends(axes)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--price", type=float, default=10.0)
    parser.add_argument("--out", default="out/examples/racetrack")
    options = parser.parse_args()
    agents = ["lsvi-ae", "lsvi-ahead", es.agents.lsvi_priced(violation_price=options.price)]
    with progress_bar(len(agents) * options.seeds * options.episodes) as advanced:
        result = es.run(es.problems.racetrack(), agents, options.episodes, options.seeds, progress=advanced)
    folder = result.save(Path(options.out), figures=False)
    print(tables.summary(result.summary))
    with mpl.rc_context(figures.STYLE):
        paths = figures.save(draw(result.columns, options.price), Path(options.out) / "racetrack")
    print(f"\nWritten to {folder}; drawn: {paths[0]}")


if __name__ == "__main__":
    main()
