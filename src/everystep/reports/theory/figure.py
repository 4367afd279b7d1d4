"""The figure of `everystep theory`: measured sums and their bounds, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from everystep.experiments.figures import FAINT, INK, STYLE, looks, styled, title
from everystep.reports.theory import bounds

if TYPE_CHECKING:
    from everystep.reports.theory.table import TheoryComparison

Dash = str | tuple[int, tuple[float, ...]]
POINTS = 200  # of a curve
BOUND, BY_ERRORS = (0, (6, 2)), (0, (1, 1.4))  # dashes of bounds given in advance, and from measured errors


def bounds_and_measurements(runs: Mapping[str, TheoryComparison]) -> Figure:
    """Regret, violation and sum of e of each agent (solid), their repaired bounds (dashed), and k H."""
    with styled(STYLE):
        figure = Figure(figsize=(11.4, 4.3), layout="constrained")
        panels = figure.subplots(1, 3, sharey=True)
        for label, (colour, _) in looks(list(runs)).items():
            run = runs[label]
            k = np.unique(np.geomspace(1, run.K, POINTS).astype(int))
            regret, violation, errors = panels
            _line(regret, k, np.cumsum(run.curves["regret"], 1).mean(0), colour)
            if run.beta is not None:
                _line(regret, k, [run.regret_bound(i, run.beta, True) for i in range(1, run.K + 1)], colour, BOUND)
            _line(violation, k, np.cumsum(run.curves["violation"], 1).mean(0), colour)
            if not run.diagnosed.has_costs:
                continue
            measured = np.cumsum(np.asarray(run.diagnosed.measured.error), 1).mean(0)
            price = np.array([bounds.price_term(i, run.H, True) for i in range(1, run.K + 1)])
            _line(errors, k, measured, colour)
            if run.priced:
                _line(violation, k, measured + price, colour, BY_ERRORS)
            if run.lemma is not None:
                _line(errors, k, run.lemma.mean(0), colour, BOUND)
                if run.priced:
                    _line(violation, k, run.lemma.mean(0) + price, colour, BOUND)
        first = next(iter(runs.values()))
        ends = np.array([1, first.K])
        for axes, name in zip(
            panels, ("Cumulative regret", "Cumulative hard violation", "Sum of the errors e"), strict=True
        ):
            axes.plot(ends, first.H * ends, color=FAINT, linewidth=1, zorder=0)
            axes.set(xscale="log", yscale="log", title=name, xlabel="episode", xlim=(1, max(first.K, 2)))
        panels[0].set_ylabel("cumulative, mean over seeds")
        smallest = min(_smallest(axes) for axes in panels)
        panels[0].set_ylim(bottom=max(smallest / 2, 1e-2))
        figure.legend(
            handles=_legend(runs), loc="outside lower center", ncols=4 + min(len(runs), 3), frameon=False, fontsize=9
        )
        return figure


def _line(axes: Axes, k: np.ndarray, curve: object, colour: str, dash: Dash = "-") -> None:
    shown = np.asarray(curve, float)[k - 1]
    axes.plot(
        k, np.where(shown > 0, shown, np.nan), color=colour, linestyle=dash, linewidth=1.8 if dash == "-" else 1.4
    )


def _smallest(axes: Axes) -> float:
    drawn = np.concatenate([np.asarray(line.get_ydata(), float) for line in axes.get_lines()])
    return float(np.nanmin(drawn))


def _legend(runs: Mapping[str, Any]) -> list[Line2D]:
    agents = [Line2D([], [], color=colour, label=title(label)) for label, (colour, _) in looks(list(runs)).items()]
    return [
        *agents,
        Line2D([], [], color=INK, label="measured"),
        Line2D([], [], color=INK, linestyle=BOUND, linewidth=1.4, label="bound, repaired"),
        Line2D([], [], color=INK, linestyle=BY_ERRORS, linewidth=1.4, label="bound from measured errors"),
        Line2D([], [], color=FAINT, linewidth=1, label="k H, the maximum for rewards and costs up to 1"),
    ]
