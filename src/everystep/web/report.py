"""`everystep report DIR`: a run folder as one page that opens from the disk, without a network.

The learning curves are those of figures.py: means over seeds of episodes.parquet with their confidence intervals. The
folder does not hold the trajectories, the plans and the prices Z of single episodes; they come from running the first
seed again, which is checked against the folder. Where there is too much to show, the page holds fewer points and
a remark. charts.py lists the charts.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from everystep import __version__, files
from everystep.errors import EverystepError
from everystep.experiments import figures, reductions, tables
from everystep.experiments.experiment import Experiment
from everystep.experiments.folder import rerun
from everystep.mdp import planner
from everystep.mdp.cmdp import FiniteCMDP
from everystep.runtime.progress import counting
from everystep.web import assets, charts, harm, watch
from everystep.web.drawing import Drawing

COLUMNS = ("return", "value", "regret", "violation", "planned")
HEADS = {
    "final_value": "Final value",
    "final_violation": "Final violations per episode",
    "total_violation": "Total violations",
    "avoidable_violation": "Avoidable violations",
    "total_regret": "Total regret",
}
FRAMES = 120  # the largest number in the player
BYTES_OF_FRAMES = 5 * 2**20  # of all agents together
FEWEST_FRAMES = 12
MOST_BYTES = 4 * BYTES_OF_FRAMES  # if the fewest frames take more, the page has none
VIOLATIONS = 5_000  # the largest number of unsafe steps that the player marks for one agent


class FirstSeed(NamedTuple):
    """The first seed, run again: a film of each agent, and remarks on what they leave out or why there are none."""

    films: dict[str, watch.Film]
    remarks: list[str]


def write(folder: Path, out: Path | None = None, player: bool = True, force: bool = False) -> Path:
    """Write the report of a run folder (DIR/report.html) and return its path."""
    run = rerun.read(folder, COLUMNS)
    out = check_place(folder, out, force)
    first_seed = run_first_seed(run) if player else FirstSeed({}, ["The player was left out (--no-player)."])
    return write_page(out, page(run, first_seed), force)


def write_page(out: Path, text: str, force: bool) -> Path:
    """Write a page where `check_place` allows it."""
    content = text.encode("utf-8", "backslashreplace")  # a folder may have any name
    with files.writing(out):
        files.write_output(out, lambda file: file.write(content), force)
    return out


def check_place(folder: Path, out: Path | None, force: bool = False) -> Path:
    """Where the report of a folder goes; raises if it could not be written there."""
    out = out or folder / "report.html"
    with files.writing(out):
        files.check_place(out, force)
    return out


def page(run: rerun.Run, first_seed: FirstSeed) -> str:
    """The complete page."""
    summary = run.opened.summary()
    looks = assets.looks([agent["label"] for agent in run.spec["agents"]])
    scene = watch.scene(run.problem)
    films = first_seed.films
    page_charts = charts.for_page(charts.ChartInputs(run.result(), films), looks)
    content = {
        "episodes": run.spec["episodes"],
        "agents": looks,
        "charts": page_charts.content,
        "scene": scene,
        "films": _drawn(run.problem, films) if scene else {},
    }
    no_map = ["There is no player, because the problem is not drawn on a grid."]
    return assets.page(
        "report.html",
        {
            "name": run.problem.name,
            "facts": [
                *_facts(run.problem, summary),
                ("Seeds", seeds_in_words(run.spec["seeds"])),
                ("Versions", versions_in_words(run.spec)),
            ],
            "run_line": counted(agent=len(looks), seed=len(run.spec["seeds"]), episode=run.spec["episodes"]),
            "remarks": [*run.spec["remarks"], *run.problem.check(), *_no_harm(run.problem, scene)],
            "has_map": scene is not None,
            "map_caption": _map_caption(scene) if scene else "",
            "viable": _viable(run.problem, scene) if scene and "harm" in scene else None,
            "picture": None if scene else _picture(run.problem),
            "looks": looks,
            "agents": [_agent(agent, look) for agent, look in zip(run.spec["agents"], looks, strict=True)],
            "summary": _summary_rows(summary, looks),
            "heads": [HEADS[column] for column in tables.shown_columns(summary)],
            "final": min(reductions.FINAL, run.spec["episodes"]),
            "certificates": _certificate_rows(summary, looks),
            "seeds": len(run.spec["seeds"]),
            "sections": page_charts.sections,
            "below_player": page_charts.below_player,
            "has_player": bool(content["films"]),
            "first_seed": run.spec["seeds"][0],
            "horizon": run.problem.horizon,
            "player_remarks": first_seed.remarks if scene or not films else no_map,
            "content": assets.as_json(content),
            "style": assets.inlined("\n".join(assets.static(name) for name in ("page.css", "board.css", "report.css"))),
            "plotly": assets.inlined(assets.plotly_script()),
            "script": assets.inlined(assets.one_module(["harm.js", "board.js", "curves.js", "charts.js", "report.js"])),
            "version": __version__,
        },
    )


# --- what was run -----------------------------------------------------------------------------------------------------
def counted(**numbers: int) -> str:
    """Numbers of things: 2 agents, 1 seed."""
    return ", ".join(f"{n:,} {noun}{'' if n == 1 else 's'}" for noun, n in numbers.items())


def seeds_in_words(seeds: Sequence[int]) -> str:
    consecutive = len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[0] + len(seeds)))
    if consecutive:
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds[:12])) + (f" and {len(seeds) - 12:,} more" if len(seeds) > 12 else "")


def versions_in_words(spec: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {number}" for name, number in spec.get("versions", {}).items())


def _facts(problem: FiniteCMDP, summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    optima = summary["problem"]
    least = optima.get("least_violation", 0)
    return [
        ("States", f"{problem.states:,}"),
        ("Actions", f"{problem.actions:,}"),
        ("Horizon H", f"{problem.horizon}"),
        ("Constraints", f"{problem.constraints}"),
        ("Unsafe state-action pairs", f"{1 - watch.truly_safe(problem)[~problem.exempt].mean():.1%}"),
        ("Safe optimum", f"{optima['optimal_value']:.4f}"),
        ("Unconstrained optimum", f"{optima['unconstrained_value']:.4f}"),
        *([("Violations per episode that no policy avoids", f"{least:.4f}")] if least > 0 else []),
    ]


def _map_caption(scene: Mapping[str, Any]) -> str:
    hazards = "Hatched: hazards. " if scene["hazards"] else ""
    heights = "Darker green: higher. " if scene["heights"] else ""
    cross = "action, on the side of its direction" if scene["top_speed"] == 1 else "move, where it leads from the cell"
    return (
        f"The map. {hazards}{heights}S: start. G: goal. A cross marks an unsafe {cross}. "
        "Dotted: the most likely path of the safe optimal policy."
    )


def _viable(problem: FiniteCMDP, scene: Mapping[str, Any]) -> dict[str, Any]:
    """The texts of the map of viable states."""
    shares = len(scene["harm"]["velocities"]) > 1
    each = ", one for each velocity of a cell, placed where it leads" if shares else ""
    at = (~planner.viable(problem)[0]).sum()
    return {
        "velocities": shares,
        "caption": (
            f"Diamonds: states that are not viable{each}: from there every policy violates the constraint, at this "
            f"step or later. At step 1 these are {at:,} of {problem.states:,} states."
        ),
    }


def _no_harm(problem: FiniteCMDP, scene: Mapping[str, Any] | None) -> list[str]:
    """Why a problem with states without a safe action is shown without its harm-to-go."""
    if problem.dead_ends is None or (scene is not None and "harm" in scene) or charts.has_strips(problem):
        return []
    return [harm.too_large(problem)]


def _picture(problem: FiniteCMDP) -> str:
    """A problem without a map as tiles: a PNG in a data URL."""
    from matplotlib.image import imsave

    from everystep.environments.finite import rendering

    start = int(np.argmax(planner.start_distribution(problem)))
    pixels, file = rendering.Picture(problem).frame(rendering.Moment(0, start, (start,))), io.BytesIO()
    imsave(file, pixels, format="png")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def _agent(agent: Mapping[str, Any], look: Mapping[str, str]) -> dict[str, Any]:
    as_text: Callable[[object], str] = lambda value: (
        ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    )
    p = agent.get("confidence")
    return {
        "look": look,
        "name": agent["agent"],
        "settings": [(key, as_text(value)) for key, value in agent["settings"].items()],
        "confidence": "cost intervals are a heuristic"
        if p is None
        else f"all cost intervals hold with probability {1 - p:g}",
    }


# --- tables -----------------------------------------------------------------------------------------------------------
def _summary_rows(summary: Mapping[str, Any], looks: list[dict[str, str]]) -> list[dict[str, Any]]:
    cell: Callable[[Mapping[str, float]], dict[str, str]] = lambda numbers: {
        "mean": tables.number(numbers["mean"]),
        "interval": f"{tables.number(numbers['low'])} to {tables.number(numbers['high'])}",
    }
    columns = tables.shown_columns(summary)
    return [
        {"look": look, "cells": [cell(summary["agents"][look["label"]][column]) for column in columns]}
        for look in looks
    ]


def _certificate_rows(summary: Mapping[str, Any], looks: list[dict[str, str]]) -> list[dict[str, Any]]:
    certificates = summary.get("certificates", {})
    return [
        {
            "look": look,
            "cells": [tables.number(own[key]) for key in ("safe", "unsafe", "unknown", "false")],
            "confidence": "heuristic" if own["p"] is None else f"p = {own['p']:g}",
        }
        for look in looks
        if (own := certificates.get(look["label"]))
    ]


# --- the first seed, run again ---------------------------------------------------------------------------------------
def run_first_seed(run: rerun.Run) -> FirstSeed:
    """Run the first seed of every agent again and record frames."""
    K, labels = run.spec["episodes"], [agent["label"] for agent in run.spec["agents"]]
    if (takes := FEWEST_FRAMES * len(labels) * _bytes_of_a_frame(run.problem)) > MOST_BYTES:
        return FirstSeed({}, [_too_large(run.problem, takes)])
    try:
        again = run.again(1)
        when = watch.moments(K, _frames_at_most(run.problem, len(labels)))
        with counting(K * len(labels), "episodes") as advanced:
            films = {label: _film(run, again, label, when, advanced) for label in labels}
    except EverystepError as error:
        return FirstSeed({}, [f"There is no player and no price chart, because the run could not be repeated: {error}"])
    remarks = []
    if len(when) < K + 1:
        remarks.append(
            f"{len(when)} of {K + 1:,} moments are shown, more of them early in the run; "
            "every unsafe step in between is marked at the next moment."
        )
    for label, film in films.items():
        if (unsafe := sum(len(frame.violations) for frame in film.frames)) > VIOLATIONS:
            remarks.append(
                f"{figures.full_title(label)} took {unsafe:,} unsafe steps; the first {VIOLATIONS:,} are marked."
            )
    return FirstSeed(films, remarks)


def _film(
    run: rerun.Run, again: Experiment, label: str, when: list[int], advanced: Callable[[int], None]
) -> watch.Film:
    film = watch.film(watch.Player(again, label, again.spec["seeds"][0]), when, advanced)
    run.check(label, film.columns["value"][None], film.columns["violation"][None])
    return film


def _drawn(problem: FiniteCMDP, films: Mapping[str, watch.Film]) -> dict[str, list[dict[str, Any]]]:
    """The frames of each agent as the page draws them."""
    drawing = Drawing(problem)
    return {label: [frame.to_json(drawing) for frame in _with_few_marks(film.frames)] for label, film in films.items()}


def _frames_at_most(problem: FiniteCMDP, agents: int) -> int:
    return int(np.clip(BYTES_OF_FRAMES / (agents * _bytes_of_a_frame(problem)), FEWEST_FRAMES, FRAMES))


def _bytes_of_a_frame(problem: FiniteCMDP) -> float:
    """Of one agent: plan and labels in base64, and visits; where harm-to-go is shown, the plan by states and Ghat."""
    H, S, A = problem.horizon, problem.states, problem.actions
    if problem.grid is None or not (drawing := Drawing(problem)).shows_harm:
        return 4 * (H + A) * S / 3 + 5 * S
    drawn = 4 * (H + len(drawing.moves)) * drawing.grid.size / 3 + 10 * drawing.grid.size
    return drawn + 4 * (1 + 8 * harm.POSITIVE * A) * H * S / 3


def _too_large(problem: FiniteCMDP, takes: float) -> str:
    return (
        f"There is no player and no price chart, because {FEWEST_FRAMES} frames for {problem.states:,} states "
        f"and {problem.horizon:,} steps would take {takes / 1e6:,.0f} MB."
    )


def _with_few_marks(frames: list[watch.Frame]) -> list[watch.Frame]:
    """The frames with the first VIOLATIONS unsafe steps."""
    left, kept = VIOLATIONS, []
    for frame in frames:
        kept.append(frame._replace(violations=frame.violations[:left]))
        left -= len(kept[-1].violations)
    return kept
