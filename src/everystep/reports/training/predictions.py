"""Figures of what networks predict, against what came: of one seed, each step before it was learnt.

prediction    the share of the variance that was predicted; error and spread of the next observation
imagined      return and violation ahead, imagined and as they came
reliability   the imagined violation against the one that came, by bin; what labels were worth
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from everystep.experiments import figures
from everystep.experiments.figures import COLUMN, FAINT, INK, SCREEN, Page
from everystep.training.learnt.quality import QualityFigures

BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
PATCHES = {"safe": "#56A3D9", "unknown": "#C4C4BE", "unsafe": "#D9722E"}  # as on the page
FLOOR = 1 / 20  # of the tolerance: smaller violations are drawn there, 0 among them
Line = tuple[str, list[float | None], str, str]


def drawn(found: QualityFigures, title: str, seed: int, page: Page = SCREEN) -> dict[str, Figure]:
    """All figures, by name."""
    about = f"{title}, seed {seed}: each step predicted before it was learnt"
    judged = f"{title}, seed {seed}: steps judged before they were played"
    made = {"prediction": _named(prediction(found, page), about, page)}
    if any(found["returned"]["count"]):
        made["imagined"] = _named(imagined(found, page), judged, page)
    if found["violations"]:
        made["reliability"] = _named(reliability(found, page), f"{judged}; second half", page)
    return made


def prediction(found: QualityFigures, page: Page = SCREEN) -> Figure:
    figure, (left, right) = page.panels()
    one = len(found["constraints"]) == 1
    lines = [
        ("observation", found["observation"]["share"], BLUE, "-"),
        ("reward", found["reward"]["share"], ORANGE, "--"),
        *(
            ("constraint" if one else f"constraint {i}", each["share"], GREEN, style)
            for i, (each, style) in enumerate(zip(found["constraints"], ("-", "--", ":"), strict=False), 1)
        ),
    ]
    _lines(left, found["steps"], lines)
    left.set(title="Share of the variance predicted", ylabel="1: exactly, 0: as by the mean", ylim=(0, 1.02))
    error = found["observation"]
    _lines(right, found["steps"], [("error", error["error"], BLUE, "-"), ("spread", error["spread"], ORANGE, "--")])
    right.set(title="Next observation: error and spread of the members", ylabel="RMS, in usual changes")
    figures.from_zero(right)
    return figure


def imagined(found: QualityFigures, page: Page = SCREEN) -> Figure:
    figure, panels = page.panels()
    for axes, name, both in zip(panels, ("Return", "Violation"), (found["returned"], found["violated"]), strict=True):
        _lines(axes, found["steps"], [("came", both["came"], BLUE, "-"), ("imagined", both["imagined"], ORANGE, "--")])
        axes.set(title=f"{name} ahead: imagined, and what came", ylabel=f"discounted {name.lower()}")
    figures.from_zero(panels[1])
    return figure


def reliability(found: QualityFigures, page: Page = SCREEN) -> Figure:
    figure, (left, right) = page.panels()
    tolerance = max(found["tolerance"], 1e-4)
    least, bins = FLOOR * tolerance, np.array(found["violations"], float)
    x, y, count = bins[:, 0].clip(least), bins[:, 1].clip(least), bins[:, 2]
    top = max(x.max(), y.max(), 10 * tolerance) * 2
    left.plot([least, top], [least, top], color=FAINT, linewidth=0.8, linestyle=":", zorder=0)
    left.axvline(tolerance, color=FAINT, linewidth=0.8, linestyle="--", zorder=0)
    left.axhline(tolerance, color=FAINT, linewidth=0.8, linestyle="--", zorder=0)
    left.scatter(x, y, s=12 + 170 * count / count.max(), color=BLUE, alpha=0.8, linewidths=0)
    left.annotate("tolerance", (tolerance, top), xytext=(3, -2), textcoords="offset points", va="top", color=INK,
                  fontsize=0.9 * mpl.rcParams["font.size"])  # fmt: skip
    left.set(xscale="log", yscale="log", xlim=(least / 1.4, top), ylim=(least / 1.4, top), title="Violation ahead",
             xlabel="imagined, in units of the largest |g|", ylabel="mean of what came")  # fmt: skip
    names = {"safe": "safe ahead", "unknown": "unknown", "unsafe": "unsafe ahead"}
    for i, kind in enumerate(names):
        n, held = found["labels"][kind]
        share = held / n if n else 0.0
        right.bar(i, share, width=0.6, color=PATCHES[kind])
        words = f"{share:.0%}\n{held:,} of {n:,}" if n else "none"
        right.annotate(
            words, (i, share), xytext=(0, 2), textcoords="offset points", ha="center", va="bottom", color=INK
        )
    right.set_xticks(range(len(names)), list(names.values()))
    right.set_yticks(np.linspace(0, 1, 6), [f"{each:.0%}" for each in np.linspace(0, 1, 6)])
    right.set(title="Violation stayed within the tolerance, by label", xlabel="label before the step", ylim=(0, 1.18))
    return figure


def _lines(axes: Axes, steps: list[int], lines: Iterable[Line]) -> None:
    """Lines over steps; those without a number are left out."""
    for name, values, colour, style in lines:
        y = np.array(values, float)
        known = np.isfinite(y)
        if known.any():
            axes.plot(np.array(steps)[known], y[known], color=colour, linestyle=style, label=name)
    axes.set_xlim(0, steps[-1])
    axes.set_xlabel("steps")
    axes.xaxis.set_major_locator(mpl.ticker.MaxNLocator(5, integer=True))
    axes.grid(axis="y", color=FAINT, alpha=0.2, linewidth=0.6)


def _named(figure: Figure, words: str, page: Page) -> Figure:
    """With names at the ends of lines, now that limits are final, and a title."""
    for axes in figure.axes:
        if any(not str(each.get_label()).startswith("_") for each in axes.get_lines()):
            figures.name_ends(axes)
    size = mpl.rcParams["axes.titlesize"]
    figure.suptitle(textwrap.fill(words, 52 if page is COLUMN else 110), fontsize=size, color=INK)
    return figure
