"""The charts of the report, one record each: title, caption, axis labels, and a function for the data.

To add a chart, add a record to `CHARTS`. Its `data` returns the panels of the chart, or none to leave it out; the
page iterates over sections and panels. `style` names the function of report.js that draws the panels:

    curves      agents in one panel: {episodes, bands, seedX, seeds, references}
    steps       one agent per panel, one line for each constraint and step: {agent, episodes, z}
    timeline    unsafe steps by episode and step, drawn below the player from its frames: {}
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from everystep.experiments import reductions
from everystep.experiments.result import Result
from everystep.mdp import planner
from everystep.web import watch

SEEDS_DRAWN = 64  # the largest number of single seeds drawn as thin lines
POINTS_OF_SEEDS = 16_000  # of all seeds of one agent together
PRICE_POINTS = 400


class ChartInputs(NamedTuple):
    """The data of a report: the run, and for each agent the film of its first seed (empty if it was not run again)."""

    result: Result
    films: Mapping[str, watch.Film]

    @property
    def episodes(self) -> int:
        return int(self.result.spec["episodes"])

    @property
    def seeds_drawn(self) -> int:
        return min(len(self.result.seeds), SEEDS_DRAWN)

    @property
    def seed_episodes(self) -> np.ndarray:
        """The episodes at which single seeds are drawn, counted from 0."""
        return evenly_spread(self.episodes, max(POINTS_OF_SEEDS // self.seeds_drawn, 2))


class Panel(NamedTuple):
    """One drawing of a chart: the label of its agent, if it shows one agent alone, and the content for report.js."""

    agent: str | None
    content: dict[str, Any]


class Chart(NamedTuple):
    """One chart of the report."""

    name: str
    section: str  # a key of SECTIONS
    title: str
    caption: str
    x: str
    y: str
    data: Callable[[ChartInputs], list[Panel]]
    style: str = "curves"
    from_zero: bool = False


class Section(NamedTuple):
    """A group of charts with one heading, one caption and common controls."""

    title: str
    caption: str
    remarks: Callable[[ChartInputs], list[str]]  # what was left out of its charts
    by_agent: bool = False  # whether agents and single seeds can be switched on and off
    by_step: bool = False  # whether lines are coloured by step


# --- data -------------------------------------------------------------------------------------------------------------
def base64_floats(array: np.ndarray, dtype: str = "<f8") -> str:
    """Numbers as base64 of little-endian floats."""
    return base64.b64encode(np.ascontiguousarray(array, np.dtype(dtype)).tobytes()).decode("ascii")


def evenly_spread(K: int, points: int) -> np.ndarray:
    """At most `points` of K episodes, evenly spread, counted from 0."""
    return np.unique(np.linspace(0, K - 1, min(points, K)).round().astype(int))


def learning_curve(column: str, inputs: ChartInputs) -> list[Panel]:
    """One of `reductions.DRAWN`: the mean over seeds with its confidence interval, and single seeds."""
    result, thinned = inputs.result, inputs.seed_episodes
    first_seeds = {
        label: {name: curve[: inputs.seeds_drawn] for name, curve in curves.items()}
        for label, curves in result.curves.items()
    }
    bands = {label: reduced.bands.curves[column] for label, reduced in result.reduced.items()}
    content = {
        "references": [],
        "episodes": (reductions.shown_episodes(inputs.episodes) + 1).tolist(),
        "bands": {
            label: {end: base64_floats(getattr(band, end)) for end in ("mean", "low", "high")}
            for label, band in bands.items()
        },
        "seedX": (thinned + 1).tolist(),
        "seeds": {
            label: base64_floats(reductions.DRAWN[column](curves)[:, thinned], "<f4")
            for label, curves in first_seeds.items()
        },
    }
    return [Panel(None, content)]


def return_curve(inputs: ChartInputs) -> list[Panel]:
    """The return, with the optimal values as reference lines."""
    safe, unconstrained = (planner.solve(inputs.result.problem, safe=only_safe).value for only_safe in (True, False))
    references = [{"value": safe, "name": f"safe optimum {safe:.2f}"}]
    if unconstrained > safe + 1e-6:
        references.append({"value": unconstrained, "name": f"unconstrained {unconstrained:.2f}"})
    return [
        panel._replace(content=panel.content | {"references": references}) for panel in learning_curve("return", inputs)
    ]


def thinning_remarks(inputs: ChartInputs) -> list[str]:
    """What the learning curves leave out."""
    n, K = len(inputs.result.seeds), inputs.episodes
    shown, thinned = len(reductions.shown_episodes(K)), len(inputs.seed_episodes)
    remarks = {
        f"Means are drawn at {shown:,} of {K:,} episodes.": shown < K,
        f"Single seeds are drawn at {thinned:,} of {K:,} episodes.": thinned < K,
        f"Single seeds are the first {inputs.seeds_drawn} of {n:,}; means and intervals use all seeds.": (
            inputs.seeds_drawn < n
        ),
    }
    return [remark for remark, applies in remarks.items() if applies]


def prices(inputs: ChartInputs) -> list[Panel]:
    """Z_h^k of every agent that has a price: a line for each constraint and step."""
    panels = []
    for label, film in inputs.films.items():
        K, m, H = film.prices.shape
        if not film.prices.any():
            continue
        thinned = evenly_spread(K, PRICE_POINTS)
        lines = [[base64_floats(film.prices[thinned, i, h]) for h in range(H)] for i in range(m)]
        panels.append(Panel(label, {"agent": label, "episodes": (thinned + 1).tolist(), "z": lines}))
    return panels


def price_remarks(inputs: ChartInputs) -> list[str]:
    K, seed = inputs.episodes, inputs.result.seeds[0]
    return [f"Seed {seed}.", *([f"Drawn at {PRICE_POINTS} of {K:,} episodes."] if K > PRICE_POINTS else [])]


def unsafe_steps(inputs: ChartInputs) -> list[Panel]:
    """Nothing but the labels: the frames of the player hold the unsafe steps already."""
    return [Panel(None, {})] if inputs.films else []


# --- the list ---------------------------------------------------------------------------------------------------------
PLAYER = "player"  # the section of charts that belong to the player
SECTIONS = {
    "curves": Section(
        "Learning curves",
        "Lines are means over seeds, bands are 95 % bootstrap confidence intervals, thin lines are single seeds. "
        "Drag to zoom, double-click to reset.",
        thinning_remarks,
        by_agent=True,
    ),
    "price": Section(
        "Price of violations",
        Markup(
            "Z<sub>h</sub><sup>k</sup> before episode k: the factor that the plan charges for an estimated violation "
            "at step h. Thin lines are single steps, the thick line is their mean."
        ),
        price_remarks,
        by_step=True,
    ),
}
CHARTS: tuple[Chart, ...] = (
    Chart(
        "return",
        "curves",
        title="Return per episode",
        caption=f"Moving average over {reductions.WINDOW} episodes. Dotted: optimal values.",
        x="episode",
        y="return",
        data=return_curve,
    ),
    Chart(
        "violation",
        "curves",
        title="Violations per episode",
        caption=f"Sum of max(g, 0) per episode, moving average over {reductions.WINDOW} episodes.",
        x="episode",
        y="violations",
        data=partial(learning_curve, "violation"),
        from_zero=True,
    ),
    Chart(
        "cumulative_regret",
        "curves",
        title="Cumulative regret",
        caption="Against the safe optimum; it decreases where unsafe actions earn more.",
        x="episode",
        y="cumulative regret",
        data=partial(learning_curve, "cumulative_regret"),
    ),
    Chart(
        "cumulative_violation",
        "curves",
        title="Cumulative violations",
        caption="Sum of max(g, 0) over all steps so far. Violations never cancel.",
        x="episode",
        y="cumulative violations",
        data=partial(learning_curve, "cumulative_violation"),
        from_zero=True,
    ),
    Chart(
        "price",
        "price",
        title="Price Z",
        caption="",
        x="episode k",
        y="Z",
        data=prices,
        style="steps",
    ),
    Chart(
        "unsafe-steps",
        PLAYER,
        title="Unsafe steps by episode and step",
        caption="One row for each agent; within a row, step 1 is at the bottom. Click a mark to go to its episode.",
        x="episode",
        y="",
        data=unsafe_steps,
        style="timeline",
    ),
)


# --- for the page -----------------------------------------------------------------------------------------------------
class PageCharts(NamedTuple):
    """All charts of one page: by section and below the player, for the template; and the content for report.js."""

    sections: list[dict[str, Any]]
    below_player: list[dict[str, Any]]
    content: list[dict[str, Any]]


def for_page(inputs: ChartInputs, looks: Sequence[Mapping[str, str]]) -> PageCharts:
    look_of = {look["label"]: look for look in looks}
    panels, content = [], []
    for chart in CHARTS:
        for panel in chart.data(inputs):
            name = chart.name if panel.agent is None else f"{chart.name}-{panel.agent}"
            look = None if panel.agent is None else look_of[panel.agent]
            about = {"name": name, "section": chart.section, "title": chart.title}
            axes = {"style": chart.style, "x": chart.x, "y": chart.y, "fromZero": chart.from_zero}
            panels.append({**about, "caption": chart.caption, "look": look})
            content.append({**about, **axes, **panel.content})
    panels_of = lambda name: [panel for panel in panels if panel["section"] == name]
    sections = [
        section._asdict() | {"name": name, "remarks": section.remarks(inputs), "panels": panels_of(name)}
        for name, section in SECTIONS.items()
        if panels_of(name)
    ]
    return PageCharts(sections, panels_of(PLAYER), content)
