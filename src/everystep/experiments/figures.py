"""Figures: arrays in, matplotlib out. An agent has the same colour everywhere, safe for colour-blind readers.

Every figure shows one idea. For the screen it is written as PNG and SVG; for a paper as PDF and SVG, one or two columns
wide, as vector graphics with embedded fonts. Bands are 95 % bootstrap intervals over seeds.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection, QuadMesh
from matplotlib.colors import LinearSegmentedColormap, LogNorm, to_rgba
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from matplotlib.patheffects import Normal, Stroke

from everystep import agents, files
from everystep.experiments import statistics
from everystep.experiments.reductions import WINDOW, Bands, shown_episodes
from everystep.lsvi.loop import CHUNK
from everystep.mdp import planner
from everystep.mdp.cmdp import FiniteCMDP, Grid

if TYPE_CHECKING:
    from everystep.experiments.result import FinishedRun, Result

# Agents are registered with their titles, colours and dashes. Others get these, of the palette of Okabe and Ito; dashes
# distinguish agents in grey print.
SPARE = (("#CC79A7", "-"), ("#E69F00", "-."), ("#56B4E9", "-"), ("#000000", ":"))
INK, FAINT = "#222222", "#888888"
CELLS = {"H": "#C9453B", "G": "#3C8D5A", "S": "#F0C75E", "#": "#4A4A4A"}
ICE = "#EAF2F8"
LARGE = 40  # cells a side beyond which a map is drawn as pixels: letters would overlap, and files would be megabytes
# One hue whose lightness falls evenly from CIELAB 97 to 62: words and lines in INK stay legible on all of it.
EARTH = LinearSegmentedColormap.from_list("earth", ["#FBF6EA", "#E5D4B3", "#CDB283", "#B1925B"])
STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.labelsize": 10,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.linewidth": 1.8,
    "svg.hashsalt": "everystep",
}
PAPER = STYLE | {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "axes.linewidth": 0.6,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "lines.linewidth": 1.2,
    "pdf.fonttype": 42,  # embedded TrueType, which publishers require; matplotlib's default is Type 3
    "ps.fonttype": 42,
    "svg.fonttype": "path",  # outlines, which need no font
}


class Page(NamedTuple):
    """A page format: width of a figure and height of a panel in inches, arrangement of panels, style and file types."""

    width: float
    height: float
    stacked: bool
    style: dict[str, Any]
    endings: tuple[str, ...]

    def panels(self) -> tuple[Figure, list[Axes]]:
        """A figure with two panels."""
        rows, columns = (2, 1) if self.stacked else (1, 2)
        figure = Figure(figsize=(self.width, self.height * rows), layout="constrained")
        return figure, list(figure.subplots(rows, columns))


SCREEN = Page(9.6, 3.9, False, STYLE, (".png", ".svg"))
COLUMN = Page(3.35, 2.2, True, PAPER, (".pdf", ".svg"))
TWO_COLUMNS = Page(6.9, 2.6, False, PAPER, (".pdf", ".svg"))
SCREEN_PAGE = {"": SCREEN}
PAPER_PAGES = {"-single": COLUMN, "-double": TWO_COLUMNS}
HALO = [Stroke(linewidth=2.2, foreground="white"), Normal()]  # keeps text legible on any background


@contextmanager
def styled(style: Mapping[str, Any]) -> Iterator[None]:
    """Draw in this style, whatever the settings of matplotlib are: it reads `matplotlibrc` of the current folder."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(style)  # type: ignore[arg-type]
        yield


def write(run: FinishedRun, folder: Path) -> list[Path]:
    """Write all figures of a run; those of the map only for problems drawn on a grid."""
    return on_pages(partial(_figures, run), folder)


def write_paper(run: FinishedRun, folder: Path) -> list[Path]:
    """Write the same for a paper."""
    return on_pages(partial(_figures, run), folder, PAPER_PAGES)


def on_pages(
    drawn: Callable[[Page], Mapping[str, Figure]], folder: Path, pages: Mapping[str, Page] = SCREEN_PAGE
) -> list[Path]:
    """Write figures, by name, on each of some pages, whose keys are the endings of names."""
    paths = []
    for ending, page in pages.items():
        with styled(page.style):
            for name, figure in drawn(page).items():
                paths += save(figure, folder / f"{name}{ending}", page.endings)
    return paths


def _figures(run: FinishedRun, page: Page) -> dict[str, Figure]:
    problem, curves = run.problem, {label: each.bands for label, each in run.reduced.items()}
    drawn = {"learning": learning(problem, curves, page), "regret": regret(curves, page)}
    if problem.grid is not None:
        after = run.spec["visits_after"]
        visits = {label: run.visits[f"{label}_{CHUNK}"].mean(0) for label in curves}
        shown = [label for label in ("lsvi-ae", "lsvi-primal") if label in visits] or list(visits)[:2]
        seeds = len(run.spec["seeds"])
        heat = heatmap(problem.grid, {label: visits[label] for label in shown}, after, seeds, page)
        drawn |= ({} if page is TWO_COLUMNS else {"map": lake_map(problem, page)}) | {"heatmap": heat}
    return drawn


DPI = 200
UNDATED: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def save(figure: Figure, stem: Path, endings: Sequence[str] = SCREEN.endings) -> list[Path]:
    """Write `stem`.png and `stem`.svg, or other endings: the same bytes for the same data."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    _lay_out(figure)
    paths = [stem.with_name(stem.name + ending) for ending in endings]
    for path, ending in zip(paths, endings, strict=True):
        look: dict[str, Any] = {"dpi": DPI, "facecolor": "white", "metadata": UNDATED.get(ending)}
        files.write(path, partial(figure.savefig, format=ending[1:], **look))
    return paths


def _lay_out(figure: Figure) -> None:
    """Place everything once, for all file types: matplotlib would do it again, and draw twice, for each of them."""
    engine = figure.get_layout_engine()
    if engine is not None:
        figure.set_dpi(DPI)
        engine.execute(figure)
        figure.set_layout_engine(None)


def learning(problem: FiniteCMDP, curves: Mapping[str, Bands], page: Page = SCREEN) -> Figure:
    """Moving averages of the return and of the hard violation per episode: the paper's Figure 2."""
    figure, (left, right) = page.panels()
    draw(left, curves, "return")
    draw(right, curves, "violation")
    safe, free = planner.solve(problem).value, planner.solve(problem, safe=False).value
    reference(left, safe, f"safe optimum {safe:.2f}")
    if free > safe + 1e-6:
        reference(left, free, f"unconstrained {free:.2f}")
    left.set(title="Return per episode", xlabel="episode", ylabel=f"mean of the last {WINDOW} episodes")
    right.set(title="Hard violation per episode", xlabel="episode", ylabel=f"mean of the last {WINDOW} episodes")
    from_zero(right)
    name_ends(left)
    name_ends(right)
    return figure


def regret(curves: Mapping[str, Bands], page: Page = SCREEN) -> Figure:
    """Cumulative regret against the safe optimum, and cumulative hard violation."""
    figure, (left, right) = page.panels()
    draw(left, curves, "cumulative_regret")
    left.axhline(0, color=FAINT, linewidth=0.8, zorder=0)
    totals = [float(each.curves["cumulative_violation"].mean[-1]) for each in curves.values()]
    far_apart = max(totals) > 10 * max(min(totals), 1)
    if far_apart:
        right.set_yscale("symlog", linthresh=10)
    draw(right, curves, "cumulative_violation")
    left.set(title="Cumulative regret", xlabel="episode", ylabel="against the safe optimum")
    right.set(
        title="Cumulative hard violation",
        xlabel="episode",
        ylabel="log scale above 10" if far_apart else "sum over steps of max(g, 0)",
    )
    from_zero(right)
    name_ends(left)
    name_ends(right)
    return figure


def lake_map(problem: FiniteCMDP, page: Page = SCREEN) -> Figure:
    """The map of a lake or a terrain, with the most likely path of the safe optimum."""
    assert problem.grid is not None
    width, rows = problem.grid.width, len(problem.grid.rows)
    shape = min(max(rows / width, 0.4), 2.5)
    side = 4.4 if page is SCREEN else COLUMN.width  # a map fits in one column
    figure = Figure(figsize=(side, side * shape + 0.2), layout="constrained")
    axes = figure.subplots()
    cells(axes, problem.grid, fill=True, in_lines=page is not SCREEN)
    best = planner.solve(problem)
    cells_of_path = problem.grid.cell(np.array(planner.most_likely_states(problem, best)))
    path = [(x % width, x // width) for x in cells_of_path]
    axes.plot(*np.transpose(path), color=INK, linewidth=2, zorder=1.5, solid_capstyle="round")
    shade = "" if problem.grid.heights is None else "; darker = higher"
    worth = f"value {best.value:.3f} in {problem.horizon} steps"
    axes.set_title(f"The most likely path of the safe optimum\n({worth}{shade})")
    return figure


def heatmap(grid: Grid, visits: Mapping[str, np.ndarray], after: int, seeds: int, page: Page = SCREEN) -> Figure:
    """Mean visits of each cell, darker = fewer: the paper's Figure 3."""
    narrow = page.stacked
    size = (4.3 * len(visits) + 0.9, 4.6) if page is SCREEN else (page.width, 2.7 if narrow else 3.6)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(visits), squeeze=False)[0]
    counts = {label: grid.by_cell(each) for label, each in visits.items()}
    norm = LogNorm(vmin=0.1, vmax=max(float(each.max()) for each in counts.values()))
    image = None
    for axes, label in zip(panels, counts, strict=True):
        image = shades(axes, np.maximum(counts[label], 0.1), page is not SCREEN, cmap="cividis", norm=norm)
        cells(axes, grid, fill=False)
        axes.set_title(title(label))
    assert image is not None
    where = "bottom" if narrow else "right"
    bar = figure.colorbar(image, ax=list(panels), shrink=0.8, pad=0.02, location=where)
    if page is not SCREEN:
        assert bar.solids is not None
        bar.solids.set(rasterized=False, edgecolor="face")
    bar.set_label(f"mean visits per cell (0.1 or fewer at the {'left' if narrow else 'bottom'})")
    lines = "" if grid.heights is None else "; contours of height"
    words = f"Visits after {after} episodes, mean over {seeds} seeds (darker = fewer{lines})"
    figure.suptitle(textwrap.fill(words, 45 if narrow else 120), fontsize=mpl.rcParams["axes.titlesize"])
    return figure


def write_literal(main: Result, longer: Result, folder: Path) -> list[Path]:
    """The step-indexed Algorithm 1 beside the shared one: exact value and violation per episode, on a log axis."""
    with styled(STYLE):
        figure = Figure(figsize=(9.6, 3.9), layout="constrained")
        left, right = figure.subplots(1, 2)
        same, wider, printed = longer.columns
        for axes, column in ((left, "value"), (right, "violation")):
            shown = {
                "shared": (main.columns["lsvi-ae"], "#0072B2", "-"),
                "step-indexed": (longer.columns[same], "#D55E00", (0, (5, 2))),
                "wider bonus": (longer.columns[wider], "#CC79A7", "-."),
                "printed radii": (longer.columns[printed], "#009E73", (0, (2, 1.5))),
            }
            for name, (curves, colour, dash) in shown.items():
                smooth = statistics.moving_average(curves[column], WINDOW)
                interval = statistics.mean_over_seeds(smooth, resamples=200)
                episode = np.arange(1, len(interval.mean) + 1)
                thin = np.unique(np.geomspace(1, len(episode), 600).astype(int)) - 1
                axes.plot(episode[thin], interval.mean[thin], color=colour, linestyle=dash, label=name)
                axes.fill_between(
                    episode[thin], interval.low[thin], interval.high[thin], color=colour, alpha=0.22, linewidth=0
                )
            axes.set(xscale="log", xlabel="episode (log scale)", xlim=(1, longer.spec["episodes"]))
        reference(left, planner.solve(main.problem).value, "safe optimum")
        left.set(title="Value of the policy", ylabel=f"mean of the last {WINDOW} episodes")
        right.set(title="Hard violation per episode", ylabel=f"mean of the last {WINDOW} episodes")
        for axes in (left, right):
            from_zero(axes)
            name_ends(axes)
        return save(figure, folder / "literal")


# --- building blocks --------------------------------------------------------------------------------------------------
def title(label: str, width: int = 26) -> str:
    """The name of an agent in a figure, on at most two lines that fit beside it."""
    lines = textwrap.wrap(full_title(label), width, break_long_words=False)
    shown = [line if len(line) <= width else line[: width - 3] + "..." for line in lines[:2]]
    return "\n".join([*shown[:-1], shown[-1] + (" ..." if len(lines) > 2 else "")])


def full_title(label: str) -> str:
    """The title of a registered agent; any other label as it is."""
    return agents.REGISTERED[label].title if label in agents.REGISTERED else label


def looks(labels: Sequence[str]) -> dict[str, tuple[str, Any]]:
    """A colour and a dash for each agent: those registered for it, or spare ones."""
    spare = iter(SPARE * (1 + len(labels) // len(SPARE)))
    registered = {label: agents.REGISTERED.get(label) for label in labels}
    return {
        label: (definition.colour, definition.dashes) if definition and definition.colour else next(spare)
        for label, definition in registered.items()
    }


def bands(axes: Axes, curves: Mapping[str, np.ndarray]) -> None:
    """Draw a curve with its interval for each agent; (seeds, K) each."""
    shown = shown_episodes(len(next(iter(curves.values()))[0]))
    over_seeds = lambda samples: statistics.mean_over_seeds(samples[:, shown], resamples=1000)
    draw(axes, {label: Bands(shown + 1, {"": over_seeds(each)}) for label, each in curves.items()}, "")


def draw(axes: Axes, curves: Mapping[str, Bands], name: str) -> None:
    """Draw one of the curves of each agent, with its interval."""
    for label, (colour, dash) in looks(list(curves)).items():
        episode, interval = curves[label].episodes, curves[label].curves[name]
        axes.plot(episode, interval.mean, color=colour, linestyle=dash, label=title(label))
        axes.fill_between(episode, interval.low, interval.high, color=colour, alpha=0.22, linewidth=0)
    axes.set_xlim(0, int(next(iter(curves.values())).episodes[-1]))


def name_ends(axes: Axes, apart: float = 0.075) -> None:
    """Write names beside the right ends of curves, moved apart where they overlap. Call it when limits are final."""
    axes.get_xlim(), axes.get_ylim()  # reading them updates the limits, which the next line uses
    to_fraction = axes.transData + axes.transAxes.inverted()
    curves = [line for line in axes.get_lines() if not str(line.get_label()).startswith("_")]
    height = lambda line: float(to_fraction.transform((1, np.asarray(line.get_ydata())[-1]))[1])
    curves.sort(key=height)
    at = np.clip([height(line) for line in curves], 0, 1)
    apart *= max(str(line.get_label()).count("\n") + 1 for line in curves)
    for _ in range(50):  # push neighbours away from each other until none is too close
        gap = np.maximum(apart - np.diff(at), 0) / 2
        at[:-1] -= gap
        at[1:] += gap
    for i in range(len(at)):  # and none below the axis
        at[i] = max(at[i], 0.0 if i == 0 else at[i - 1] + apart)
    for line, y in zip(curves, at, strict=True):
        axes.annotate(
            str(line.get_label()), (1, y), xycoords="axes fraction", xytext=(4, 0), textcoords="offset points",
            color=str(line.get_color()), va="center", fontsize=0.95 * mpl.rcParams["font.size"], annotation_clip=False,
        )  # fmt: skip


def from_zero(axes: Axes) -> None:
    """Start the vertical axis at zero, with space above it even if all values are zero."""
    axes.set_ylim(0, max(axes.get_ylim()[1], 1e-3))


def reference(axes: Axes, value: float, name: str) -> None:
    """Draw a thin reference line with its name."""
    axes.axhline(value, color=FAINT, linewidth=0.8, zorder=0)
    axes.annotate(
        name, (0.01, value), xycoords=("axes fraction", "data"), xytext=(0, 2), textcoords="offset points",
        color=FAINT, fontsize=0.85 * mpl.rcParams["font.size"], zorder=4, path_effects=HALO,
    )  # fmt: skip


def cells(axes: Axes, grid: Grid, fill: bool, in_lines: bool = False) -> None:
    """Draw the cells of a map: letters on S, G and H, filled or outlined; heights as a background where it has them.

    On a `LARGE` map hazards have no letters.
    """
    height, width = len(grid.rows), grid.width
    if grid.heights is not None:
        ground(axes, grid.heights, fill, in_lines)
    large = max(height, width) > LARGE
    if large:
        _small_cells(axes, grid, fill)
    for i, row in enumerate(grid.rows):
        for j, letter in enumerate(row):
            special = letter in CELLS
            if not large and (special or (fill and grid.heights is None)):
                colour = CELLS[letter] if special else ICE
                face = colour if fill or letter == "#" else "none"
                edge = "white" if fill else colour
                box = Rectangle((j - 0.46, i - 0.46), 0.92, 0.92, facecolor=face, edgecolor=edge, linewidth=1.4)
                axes.add_patch(box)
            if letter in ("SG" if large else "SGH"):
                axes.text(j, i, letter, ha="center", va="center", color=INK, weight="bold", path_effects=HALO, zorder=4)
    axes.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5), xticks=[], yticks=[], aspect="equal")
    for spine in axes.spines.values():
        spine.set_visible(False)


def _small_cells(axes: Axes, grid: Grid, fill: bool) -> None:
    """Draw the cells of a large map: as one image, or as thin outlines of the special ones (walls are filled)."""
    letters = np.array([list(row) for row in grid.rows])
    pixels = np.zeros((*letters.shape, 4))  # transparent
    if fill and grid.heights is None:
        pixels[:] = to_rgba(ICE)
    for letter, colour in CELLS.items():
        here = letters == letter
        if fill or letter == "#":
            pixels[here] = to_rgba(colour)
        else:
            boxes = [Rectangle((j - 0.46, i - 0.46), 0.92, 0.92) for i, j in zip(*here.nonzero(), strict=True)]
            axes.add_collection(PatchCollection(boxes, facecolor="none", edgecolor=colour, linewidth=0.3))
    axes.imshow(pixels, interpolation="nearest")


def shades(axes: Axes, numbers: np.ndarray, in_lines: bool, **look: Any) -> AxesImage | QuadMesh:
    """Draw numbers as shades of cells: as pixels, or as vector graphics unless there are many."""
    if not in_lines or max(numbers.shape) > LARGE:
        return axes.imshow(numbers, **look)
    edges = [np.arange(n + 1) - 0.5 for n in numbers.shape]
    return axes.pcolormesh(edges[1], edges[0], numbers, edgecolors="face", linewidth=0.4, **look)


def ground(axes: Axes, heights: np.ndarray, fill: bool, in_lines: bool = False) -> None:
    """Draw heights as shades under thin contours, or the contours alone."""
    if fill:
        shades(axes, heights, in_lines, cmap=EARTH)
    levels = np.linspace(heights.min(), heights.max(), 9)[1:-1]
    if not (np.diff(levels) > 0).all():
        return  # flat
    to_the_edge = lambda n: np.array([-0.5, *range(n), n - 0.5])
    axes.contour(
        *map(to_the_edge, heights.shape[::-1]), np.pad(heights, 1, mode="edge"), levels,
        colors="#6B5331" if fill else "white", linewidths=0.6, linestyles="solid", alpha=0.6, zorder=0.5,
    )  # fmt: skip
