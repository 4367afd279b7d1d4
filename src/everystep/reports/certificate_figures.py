"""Figures of certificates: the certified actions on a map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import Normal, Stroke

from everystep.experiments.figures import INK, STYLE, cells, styled
from everystep.experiments.figures import title as title_of
from everystep.mdp.certificates import SAFE, UNKNOWN, UNSAFE
from everystep.mdp.cmdp import FiniteCMDP
from everystep.problems.grids import MOVES

# A colour and a shape for each label, so that labels also differ without colours.
LABELS = {SAFE: ("#0072B2", "safe"), UNSAFE: ("#D55E00", "unsafe"), UNKNOWN: ("#9A9A9A", "unknown")}
EDGE = [Stroke(linewidth=3.2, foreground="white", alpha=0.7), Normal()]  # keeps arrows legible on any cell


def certificates(
    problem: FiniteCMDP,
    panels: Mapping[str, np.ndarray],
    false: Mapping[str, np.ndarray],
    confidence: Mapping[str, float | None],
) -> Figure:
    """The map with an arrow for each action: safe, unsafe (barred) or unknown (thin); false labels are ringed.

    Each panel is labels (S, A) of one agent; `false` has the same shape; `confidence` is p, or None for a heuristic.
    """
    assert problem.grid is not None
    height, width = len(problem.grid.rows), problem.grid.width
    with styled(STYLE):
        size = max(3.6, 0.42 * width)
        figure = Figure(figsize=(size * len(panels) + 0.3, size * height / width + 1.1), layout="constrained")
        for axes, (title, labels) in zip(
            figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
        ):
            cells(axes, problem.grid, fill=True)
            _arrows(axes, labels, width, ~problem.exempt)
            ringed = np.argwhere(false[title] & ~problem.exempt[:, None])
            for x, a in ringed:
                axes.plot(*_tip(int(x), int(a), width), "o", markersize=11, markerfacecolor="none", color=INK, zorder=6)
            number = {name: int((labels[~problem.exempt] == label).sum()) for label, (_, name) in LABELS.items()}
            counts = ", ".join(f"{number[name]} {name}" for _, name in LABELS.values())
            confident = "heuristic" if confidence[title] is None else f"p = {confidence[title]:g}"
            axes.set_title(
                f"{title_of(title, int(size * 10))}\n{counts}; {len(ringed)} false; {confident}", fontsize=9.5
            )
        figure.legend(handles=_legend(), loc="outside lower center", ncols=4, frameon=False, fontsize=9)
        return figure


def _tip(x: int, a: int, width: int) -> tuple[float, float]:
    down, right = MOVES[a]
    return x % width + 0.38 * right, x // width + 0.38 * down


def _arrows(axes: Axes, labels: np.ndarray, width: int, shown: np.ndarray) -> None:
    for label, (colour, _) in LABELS.items():
        at = np.argwhere((labels == label) & shown[:, None])
        if not len(at):
            continue
        column, row = at[:, 0] % width, at[:, 0] // width
        down, right = np.array(MOVES)[at[:, 1]].T
        ends = (
            np.stack([column + 0.2 * right, column + 0.38 * right]),
            np.stack([row + 0.2 * down, row + 0.38 * down]),
        )
        thick = 0.7 if label == UNKNOWN else 1.7
        edge = [] if label == UNKNOWN else EDGE
        axes.plot(*ends, color=colour, linewidth=thick, zorder=5, path_effects=edge)
        if label == UNSAFE:  # a bar across the end
            bar = 0.1
            axes.plot(
                np.stack([ends[0][1] - bar * down, ends[0][1] + bar * down]),
                np.stack([ends[1][1] - bar * right, ends[1][1] + bar * right]),
                color=colour, linewidth=thick, zorder=5, path_effects=EDGE,
            )  # fmt: skip
        elif label == SAFE:
            for marker, (d, r) in zip("<v>^", MOVES, strict=True):
                own = (down == d) & (right == r)
                axes.plot(ends[0][1][own], ends[1][1][own], marker, color=colour, markersize=3.4, zorder=5)


def _legend() -> list[Line2D]:
    looks: dict[int, dict[str, Any]] = {
        SAFE: {"linewidth": 1.7, "marker": ">", "markersize": 4},
        UNSAFE: {"linewidth": 1.7, "marker": "|", "markersize": 7},
        UNKNOWN: {"linewidth": 0.7},
    }
    lines = [Line2D([], [], color=colour, label=name, **looks[label]) for label, (colour, name) in LABELS.items()]
    ring = Line2D([], [], color=INK, marker="o", markerfacecolor="none", linestyle="none", markersize=9, label="false")
    return [*lines, ring]
