"""The charts of the report, one record each: title, caption, axis labels, and a function for the data.

To add a chart, add a record to `CHARTS`. Its `data` returns the panels of the chart, or none to leave it out; the
page iterates over sections and panels. `style` names the function of report.js that draws the panels:

    curves      agents in one panel: {episodes, bands, seedX, seeds, references}
    steps       one agent per panel, one line for each constraint and step: {agent, episodes, z}
    strip       harm-to-go of one agent, or exact, by state and step: {states, actions, top, exact, ...}
    timeline    unsafe steps by episode and step, drawn below the player from its frames: {}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from everystep import problems
from everystep.experiments import reductions
from everystep.experiments.result import Result
from everystep.mdp import arrays, planner
from everystep.mdp.cmdp import FiniteCMDP
from everystep.problems.registry import REGISTERED
from everystep.web import harm, watch
from everystep.web.assets import as_base64
from everystep.web.drawing import Drawing

MOST_IN_STRIPS = 40_000  # (h, x): more tiles than pixels
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
    y: str
    data: Callable[[Any], list[Panel]]  # of ChartInputs, or of the inputs of another page
    caption: str = ""
    x: str = "episode"
    style: str = "curves"
    from_zero: bool = False


class Section(NamedTuple):
    """A group of charts with one heading, one caption and common controls."""

    title: str
    caption: str
    remarks: Callable[[Any], list[str]]  # what was left out of its charts
    by_agent: bool = False  # whether agents and single seeds can be switched on and off
    by_step: bool = False  # whether lines are coloured by step
    by_scale: bool = True  # whether the vertical axis may be logarithmic


# --- data -------------------------------------------------------------------------------------------------------------
def evenly_spread(K: int, points: int) -> np.ndarray:
    """At most `points` of K episodes, evenly spread, counted from 0."""
    return np.unique(np.linspace(0, K - 1, min(points, K)).round().astype(int))


def learning_curve(column: str, inputs: ChartInputs) -> list[Panel]:
    """One of `reductions.DRAWN`: the mean over seeds with its confidence interval, and single seeds."""
    result, thinned = inputs.result, inputs.seed_episodes
    first_seeds = {
        label: {name: curve[: inputs.seeds_drawn] for name, curve in curves.items()}
        for label, curves in result.columns.items()
    }
    bands = {label: reduced.bands.curves[column] for label, reduced in result.reduced.items()}
    content = {
        "references": [],
        "episodes": (reductions.shown_episodes(inputs.episodes) + 1).tolist(),
        "bands": {
            label: {end: as_base64(getattr(band, end), "<f8") for end in ("mean", "low", "high")}
            for label, band in bands.items()
        },
        "seedX": (thinned + 1).tolist(),
        "seeds": {
            label: as_base64(reductions.DRAWN[column](curves)[:, thinned]) for label, curves in first_seeds.items()
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
        lines = [[as_base64(film.prices[thinned, i, h], "<f8") for h in range(H)] for i in range(m)]
        panels.append(Panel(label, {"agent": label, "episodes": (thinned + 1).tolist(), "z": lines}))
    return panels


def price_remarks(inputs: ChartInputs) -> list[str]:
    K, seed = inputs.episodes, inputs.result.seeds[0]
    return [f"Seed {seed}.", *([f"Drawn at {PRICE_POINTS} of {K:,} episodes."] if K > PRICE_POINTS else [])]


def has_strips(problem: FiniteCMDP) -> bool:
    """Whether harm-to-go is shown by state and step: where a state has no safe action and no map shows it."""
    on_map = problem.grid is not None and Drawing(problem).shows_harm
    return harm.is_shown(problem) and not on_map and problem.horizon * problem.states <= MOST_IN_STRIPS


def harm_strips(inputs: ChartInputs) -> list[Panel]:
    """C*_h(x), and the final estimates of agents that look ahead: C_h(x), and Ghat of the chosen action."""
    problem = inputs.result.problem
    if not has_strips(problem):
        return []
    exact = harm.exact(problem).min(-1)
    beliefs = {label: belief for label, film in inputs.films.items() if (belief := film.frames[-1].harm)}
    found = {
        label: belief.of_states(problem, inputs.films[label].frames[-1].policy) for label, belief in beliefs.items()
    }
    named = _with_names(problem)
    common = {
        "states": list(named.state_names or [f"state {x}" for x in range(problem.states)]),
        "actions": list(named.action_names or [f"action {a}" for a in range(problem.actions)]),
        "top": float(max([exact.max(), *(C.max() for C, _ in found.values())])),
        "exact": as_base64(exact),
    }
    of_agents = [
        Panel(
            label,
            common
            | {
                "agent": label,
                "believed": as_base64(C),
                "chosen": as_base64(chosen),
                "plan": as_base64(inputs.films[label].frames[-1].policy),
            },
        )
        for label, (C, chosen) in found.items()
    ]
    return [Panel(None, common), *of_agents]


def _with_names(problem: FiniteCMDP) -> FiniteCMDP:
    """A run folder holds no names of states and actions; a problem of the library that is the same has them."""
    if problem.state_names or problem.name not in REGISTERED:
        return problem
    named = problems.load(problem.name, problem.horizon)
    return named if arrays.digest(named) == arrays.digest(problem) else problem


def harm_remarks(inputs: ChartInputs) -> list[str]:
    problem, seed = inputs.result.problem, inputs.result.seeds[0]
    at = int((~planner.viable(problem)[0]).sum())
    believed = any(film.frames[-1].harm for film in inputs.films.values())
    return [
        f"At step 1, {at:,} of {problem.states:,} states are not viable.",
        *([f"Estimates: seed {seed}, at the end of the run."] if believed else []),
    ]


def unsafe_steps(inputs: ChartInputs) -> list[Panel]:
    """An empty panel: the frames of the player hold the unsafe steps."""
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
    "harm": Section(
        "Harm-to-go",
        Markup(
            "C<sub>h</sub>(x): the violation from step h on. A state is viable at a step if some policy avoids every "
            "violation from there on; tiles without colour are viable, or estimated to be. Point at a tile for its "
            "state and the harm of the chosen action."
        ),
        harm_remarks,
        by_scale=False,
    ),
}
CHARTS: tuple[Chart, ...] = (
    Chart(
        "return",
        "curves",
        title="Return per episode",
        caption=f"Moving average over {reductions.WINDOW} episodes. Dotted: optimal values.",
        y="return",
        data=return_curve,
    ),
    Chart(
        "violation",
        "curves",
        title="Violations per episode",
        caption=f"Sum of max(g, 0) per episode, moving average over {reductions.WINDOW} episodes.",
        y="violations",
        data=partial(learning_curve, "violation"),
        from_zero=True,
    ),
    Chart(
        "cumulative_regret",
        "curves",
        title="Cumulative regret",
        caption="Against the safe optimum; it decreases where unsafe actions earn more.",
        y="cumulative regret",
        data=partial(learning_curve, "cumulative_regret"),
    ),
    Chart(
        "cumulative_violation",
        "curves",
        title="Cumulative violations",
        caption="Sum of max(g, 0) over all steps so far. Violations never cancel.",
        y="cumulative violations",
        data=partial(learning_curve, "cumulative_violation"),
        from_zero=True,
    ),
    Chart(
        "price",
        "price",
        title="Price Z",
        x="episode k",
        y="Z",
        data=prices,
        style="steps",
    ),
    Chart(
        "harm",
        "harm",
        title="Exact: the least of all policies",
        x="state",
        y="step h",
        data=harm_strips,
        style="strip",
    ),
    Chart(
        "unsafe-steps",
        PLAYER,
        title="Unsafe steps by episode and step",
        caption="One row for each agent; within a row, step 1 is at the bottom. Click a mark to go to its episode.",
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


def for_page(
    inputs: Any,
    looks: Sequence[Mapping[str, str]],
    records: Sequence[Chart] | None = None,
    headed: Mapping[str, Section] | None = None,
) -> PageCharts:
    """The charts of the report of a run, or of another page that has records and sections of its own."""
    look_of = {look["label"]: look for look in looks}
    panels, content = [], []
    for chart in CHARTS if records is None else records:
        for panel in chart.data(inputs):
            name = chart.name if panel.agent is None else f"{chart.name}-{panel.agent}"
            look = None if panel.agent is None else look_of[panel.agent]
            about = {"name": name, "section": chart.section, "title": chart.title}
            axes = {"style": chart.style, "x": chart.x, "y": chart.y, "fromZero": chart.from_zero}
            shown = {**about, **axes, **panel.content}
            panels.append({**{key: shown[key] for key in about}, "caption": chart.caption, "look": look})
            content.append(shown)
    panels_of: Callable[[str], list[dict[str, Any]]] = lambda name: [
        panel for panel in panels if panel["section"] == name
    ]
    sections = [
        section._asdict() | {"name": name, "remarks": section.remarks(inputs), "panels": panels_of(name)}
        for name, section in (SECTIONS if headed is None else headed).items()
        if panels_of(name)
    ]
    return PageCharts(sections, panels_of(PLAYER), content)
