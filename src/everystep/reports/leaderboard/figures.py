"""The two figures of a leaderboard: interquartile means with intervals, and performance profiles with bands.

A system has the same colour in both: ours warm and drawn thick, rivals cool, references grey and dashed.
"""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from everystep.experiments import figures as drawing
from everystep.experiments.figures import FAINT, INK, STYLE, styled
from everystep.reports.leaderboard.board import OURS, REFERENCE, Aggregate, AggregateRow

if TYPE_CHECKING:
    from everystep.reports.leaderboard.board import Leaderboard

WARM = ("#D55E00", "#E69F00", "#CC79A7", "#8C2D04")
COOL = ("#0072B2", "#009E73", "#56B4E9", "#4B3F8F", "#7FB069", "#1B7F8C", "#9A86D8", "#2F4B2A", "#6C8EBF")
GREY = ("#555555", "#999999", "#222222")
Dash = str | tuple[int, tuple[float, ...]]
DASHES: tuple[Dash, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), "-.")
WIDEST = 24  # characters of a name beside an axis
MOST, MOST_CURVES = 30, 12  # systems in a figure, and in one with curves: ours and those with the least violation


class Look(NamedTuple):
    """How a system is drawn."""

    colour: str
    dash: Dash
    width: float


def write(board: Leaderboard, places: Mapping[str, Path]) -> None:
    """Write both figures as PNG to these paths: the same bytes for the same rows."""
    drawn = {"profiles": profiles, "overview": overview}
    with styled(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a name in a script that the font lacks: drawn as boxes
        for name, path in places.items():
            drawing.save(drawn[name](board.aggregate, _about(board)), path.with_suffix(""), (path.suffix,))


def _about(board: Leaderboard) -> str:
    n, seeds = len(board.runs), board.seeds_in_words
    return f"{n} problem{'s' if n > 1 else ''}, {seeds} seed{'' if seeds == '1' else 's'} each"


def overview(found: Aggregate, about: str) -> Figure:
    """Interquartile means of violation and return with intervals, the system with the least violation on top."""
    rows = _shown(found)
    figure = Figure(figsize=(9.6, 1.7 + 0.3 * max(len(rows), 2)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    styles = looks(rows)
    places = np.arange(len(rows))[::-1]
    for axes, intervals in ((left, [row.harm for row in rows]), (right, [row.final_return for row in rows])):
        for row, y, each in zip(rows, places, intervals, strict=True):
            look = styles[row.system]
            bar = {"color": look.colour, "solid_capstyle": "butt", "zorder": 2}
            axes.plot([each.low, each.high], [y, y], linewidth=6, alpha=0.4, **bar)
            face = "white" if row.kind == REFERENCE else look.colour
            axes.plot(float(each.mean), y, "o", color=look.colour, markerfacecolor=face, markersize=4.5, zorder=3)
        axes.grid(axis="x", color=FAINT, alpha=0.25, linewidth=0.6)
        axes.set_ylim(-0.7, len(rows) - 0.3)
    _violation_axis(left, [float(each) for row in rows for each in row.harm])
    left.set_yticks(places, [_short(row.system) for row in rows])
    for row, words in zip(rows, left.get_yticklabels(), strict=True):
        words.set(
            color=styles[row.system].colour if row.kind == OURS else INK,
            weight="bold" if row.kind == OURS else "normal",
        )
        words.set_fontstyle("italic" if row.kind == REFERENCE else "normal")
    left.tick_params(axis="y", length=0)
    right.tick_params(axis="y", length=0)
    left.set(title="Violation while learning: less is better", xlabel="normalised violation (1: the best rival)")
    right.set(title="Final return: more is better", xlabel="normalised return (1: the best mean)")
    if not rows:
        _say_nothing((left, right))
    _head(figure, f"Interquartile means over all runs with 95 % intervals; {about}", rows)
    return figure


def profiles(found: Aggregate, about: str) -> Figure:
    """Shares of runs: with a normalised violation of at most tau, and with a normalised return above tau."""
    rows = _shown(found, MOST_CURVES)
    some = f"; the {len(rows)} systems that are ours or have the least violation"
    about += some if len(rows) < len(found.rows) else ""
    figure = Figure(figsize=(9.6, 3.4 + 0.24 * -(-len(rows) // 4)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    lines = []
    for row, look in zip(rows, looks(rows).values(), strict=True):
        for axes, taus, band in ((left, found.harms, row.harm_at_most), (right, found.returns, row.return_above)):
            style = {"color": look.colour, "linewidth": look.width, "linestyle": look.dash}
            (line,) = axes.plot(taus, band.mean, label=_short(row.system), zorder=3 if row.kind == OURS else 2, **style)
            axes.fill_between(taus, band.low, band.high, color=look.colour, alpha=0.12, linewidth=0)
        lines.append(line)
    left.set_xscale("log")
    left.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    for axes, taus in ((left, found.harms), (right, found.returns)):
        axes.set(xlim=(taus[0], taus[-1]), ylim=(0, 1.02))
        axes.grid(color=FAINT, alpha=0.25, linewidth=0.6)
    left.set(title="Runs with little violation", xlabel="normalised violation, at most (log)", ylabel="share of runs")
    right.set(title="Runs with much return", xlabel="normalised return, above")
    if rows:
        legend = figure.legend(
            handles=lines, loc="outside lower center", ncols=min(4, len(rows)), frameon=False, handlelength=2.6
        )
        for row, words in zip(rows, legend.get_texts(), strict=True):
            words.set_fontweight("bold" if row.kind == OURS else "normal")
            words.set_fontstyle("italic" if row.kind == REFERENCE else "normal")
    else:
        _say_nothing((left, right))
    _head(figure, f"Performance profiles with 95 % bands (higher is better); {about}", rows)
    return figure


def looks(rows: Sequence[AggregateRow]) -> dict[str, Look]:
    """A colour and a dash for each system; dashes change when the colours of its kind are used up."""
    used = dict.fromkeys((OURS, REFERENCE, ""), 0)
    found = {}
    for row in rows:
        kind = row.kind if row.kind in used else ""
        palette = {OURS: WARM, REFERENCE: GREY, "": COOL}[kind]
        n, used[kind] = used[kind], used[kind] + 1
        dash = DASHES[(n // len(palette) + (kind == REFERENCE)) % len(DASHES)]
        found[row.system] = Look(palette[n % len(palette)], dash, 2.6 if kind == OURS else 1.5)
    return found


def _shown(found: Aggregate, most: int = MOST) -> list[AggregateRow]:
    """All systems; if they are too many, ours and those with the least violation."""
    ours = [row.system for row in found.rows if row.kind == OURS][:most]
    others = [row.system for row in found.rows if row.kind != OURS][: most - len(ours)]
    return [row for row in found.rows if row.system in {*ours, *others}]


def _violation_axis(axes: Axes, numbers: Sequence[float]) -> None:
    """Logarithmic where systems are far apart; from 0 otherwise, or if one has no violation at all."""
    most = max(numbers, default=1.0)
    if numbers and min(numbers) > 0 and most > 20 * min(numbers):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    else:
        axes.set_xlim(left=-0.03 * most)


def _head(figure: Figure, words: str, rows: Sequence[AggregateRow]) -> None:
    references = "; italics: references" if any(row.kind == REFERENCE for row in rows) else ""
    figure.suptitle(textwrap.fill(words + references, 118), fontsize=mpl.rcParams["axes.titlesize"], color=INK)


def _say_nothing(panels: Sequence[Axes]) -> None:
    for axes in panels:
        axes.text(0.5, 0.5, "no system is on all problems", ha="center", transform=axes.transAxes, color=FAINT)


def _short(name: str) -> str:
    """A name that fits beside an axis, without mathematical markup."""
    shown = name if len(name) <= WIDEST else name[: WIDEST - 3] + "..."
    return shown.replace("$", r"\$")
