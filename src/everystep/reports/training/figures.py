"""The figure of a training: cumulative violation and return per episode over steps, seeds as a band.

Of networks there are more (`predictions.py`).
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from everystep.experiments import figures
from everystep.experiments.figures import COLUMN, FAINT, INK, SCREEN, Page
from everystep.reports.training import curves as training_curves
from everystep.reports.training import learnt, predictions
from everystep.reports.training.curves import Curve
from everystep.reports.training.results import TrainingResults

NAME = "training"


def write(results: TrainingResults, folder: Path, paper: bool = False) -> list[Path]:
    """For the screen, or for a paper: one column wide, and two."""
    pages = figures.PAPER_PAGES if paper else figures.SCREEN_PAGE
    first = results.seeds[0]
    quality = learnt.quality(first)

    def drawn(page: Page) -> dict[str, Figure]:
        more = {} if quality is None else predictions.drawn(quality, results.title, first.seed, page)
        return {NAME: training(results, page), **more}

    return figures.on_pages(drawn, folder, pages)


def training(results: TrainingResults, page: Page = SCREEN) -> Figure:
    """Two panels over the number of steps; curves of several seeds end where the first of them does."""
    figure, (left, right) = page.panels()
    colour, _ = figures.looks([results.seeds[0].agent])[results.seeds[0].agent]
    violation, earned = training_curves.violation_so_far(results), training_curves.returns(results)
    for axes, curves in ((left, violation), (right, earned)):
        _draw(axes, curves, colour)
        axes.set_xlabel("steps")
    left.set(title="Violation so far", ylabel="sum over steps of max(g, 0)")
    figures.from_zero(left)
    right.set(title="Return per episode", ylabel=f"mean of the last {training_curves.window(results)} episodes")
    _mark_evaluations(right, results, colour)
    figure.suptitle(
        textwrap.fill(_title(results), 52 if page is COLUMN else 110),
        fontsize=mpl.rcParams["axes.titlesize"],
        color=INK,
    )
    return figure


def _mark_evaluations(axes: Axes, results: TrainingResults, colour: str) -> None:
    """The mean return of every policy without exploration, as a circle at the right edge, and the mean over seeds."""
    found = [each for each in map(results.evaluation_of, results.seeds) if each is not None]
    if not found:
        return
    means = [float(each.columns["return"].mean()) for each in found]
    edge = axes.get_xlim()[1]
    axes.plot(
        [edge] * len(means), means, "o", markersize=5, color=colour, markerfacecolor="white", clip_on=False, zorder=5
    )
    axes.annotate(
        f"policy\nalone\n{np.mean(means):.4g}", (1, float(np.mean(means))), xycoords=("axes fraction", "data"),
        xytext=(7, 0), textcoords="offset points", color=colour, va="center",
        fontsize=0.95 * mpl.rcParams["font.size"], annotation_clip=False,
    )  # fmt: skip


def _draw(axes: Axes, curves: list[Curve], colour: str) -> None:
    for each in curves if len(curves) > 1 else []:
        axes.plot(each.steps, each.values, color=colour, linewidth=0.7, alpha=0.45)
    shown, interval = training_curves.mean(curves)
    axes.plot(shown, interval.mean, color=colour)
    if len(curves) > 1:
        axes.fill_between(shown, interval.low, interval.high, color=colour, alpha=0.22, linewidth=0)
    axes.set_xlim(0, training_curves.end(curves))
    axes.xaxis.set_major_locator(mpl.ticker.MaxNLocator(5, integer=True))
    axes.grid(axis="y", color=FAINT, alpha=0.2, linewidth=0.6)


def _title(results: TrainingResults) -> str:
    n = len(results.seeds)
    seeds = "one seed" if n == 1 else f"{n} seeds (thin), their mean and its 95 % interval"
    return f"{results.title}: {seeds}{'; unfinished' if results.unfinished else ''}"
