"""`everystep report DIR`: a run folder as one page that opens from the disk, without a network.

Curves are those of figures.py: means over seeds of episodes.parquet with their intervals. What the folder did not write
down (where an agent went, what it planned and certified, the prices Z) comes from running its first seed again, checked
against the folder. Where there is too much to show, fewer points are put into the page, and it says so.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from everystep import __version__, files
from everystep.errors import EverystepError
from everystep.experiments import figures, reductions, rerun, run_folder, tables
from everystep.experiments.experiment import Experiment
from everystep.experiments.result import Result
from everystep.mdp import planner
from everystep.mdp.cmdp import FiniteCMDP
from everystep.web import assets, watch

COLUMNS = ("return", "value", "regret", "violation", "planned")
SEEDS_DRAWN = 64  # single seeds as faint lines, at most
POINTS_OF_SEEDS = 16_000  # of all of an agent's seeds together
FRAMES = 120  # of the player, at most
BYTES_OF_FRAMES = 5 * 2**20  # of all agents together
FEWEST_FRAMES = 12
VIOLATIONS = 5_000  # of an agent that the player marks, at most
PRICE_POINTS = 400

CHARTS = (
    ("return", "Reward per episode", f"mean of the last {reductions.WINDOW}", False),
    ("violation", "Hard violation per episode", f"mean of the last {reductions.WINDOW}", True),
    ("cumulative_regret", "Cumulative regret", "against the safe optimum", False),
    ("cumulative_violation", "Cumulative hard violation", "sum of max(g, 0)", True),
)

Bar = Callable[[int], AbstractContextManager[Callable[[int], None]]]


class Films(NamedTuple):
    """The first seed run again: the film of each agent and what was left out; or why there is none."""

    films: dict[str, watch.Film]
    remarks: list[str]


def write(folder: Path, bar: Bar, out: Path | None = None, player: bool = True) -> Path:
    """Write the report of a run folder (DIR/report.html) and return its path. `bar(total)` shows episodes done."""
    run = rerun.read(folder, COLUMNS)
    text = page(run, shot(run, bar) if player else Films({}, ["The player was left out (--no-player)."]))
    out = out or folder / "report.html"
    try:
        files.write_text(out, text)
    except OSError as error:
        raise EverystepError(
            f"out '{out}' cannot be written ({error.strerror or error}); choose a file in a folder you may write to."
        ) from None
    return out


def page(run: rerun.Run, shown: Films) -> str:
    """The page, whole."""
    result, summary = run.result(), run_folder.read_json(run.folder / "summary.json")
    curves, remarks = _curves(result)
    looks = assets.looks([each["label"] for each in run.spec["agents"]])
    scene = watch.scene(run.problem)
    content = {
        "episodes": run.spec["episodes"],
        "agents": looks,
        "curves": curves,
        "scene": scene,
        "films": {
            label: [frame.told() for frame in _with_few_marks(film.frames)] for label, film in shown.films.items()
        }
        if scene
        else {},
        "prices": _prices(shown.films),
    }
    scripts = ["board.js", "curves.js", "report.js"]
    return assets.page(
        "report.html",
        {
            "name": run.problem.name,
            "facts": [*_facts(run.problem, summary), ("Seeds", _seeds(run.spec["seeds"]))],
            "run_line": _run_line(run.spec),
            "remarks": run.spec["remarks"],
            "has_map": scene is not None,
            "map_words": _map_words(scene) if scene else "",
            "picture": None if scene else _picture(run.problem),
            "looks": looks,
            "agents": [_agent(each, look) for each, look in zip(run.spec["agents"], looks, strict=True)],
            "versions": run.spec.get("versions", {}),
            "summary": _summary_rows(summary, looks),
            "final": min(reductions.FINAL, run.spec["episodes"]),
            "certificates": _certificate_rows(summary, looks),
            "seeds": len(run.spec["seeds"]),
            "charts": [{"name": name, "title": title} for name, title, _, _ in CHARTS],
            "prices": [look for look in looks if look["label"] in content["prices"]],
            "price_remark": f"Drawn at {PRICE_POINTS} of {K:,} episodes."
            if (K := run.spec["episodes"]) > PRICE_POINTS
            else "",
            "has_player": bool(content["films"]),
            "first_seed": run.spec["seeds"][0],
            "horizon": run.problem.horizon,
            "curve_remarks": remarks,
            "player_remarks": shown.remarks
            if scene or not shown.films
            else ["There is no player, because the problem is not drawn on a grid."],
            "content": assets.as_json(content),
            "style": assets.inlined("\n".join(assets.static(name) for name in ("page.css", "board.css", "report.css"))),
            "plotly": assets.inlined(assets.plotly_script()),
            "script": assets.inlined(assets.one_module(scripts)),
            "version": __version__,
        },
    )


# --- what was run -----------------------------------------------------------------------------------------------------
def _run_line(spec: Mapping[str, Any]) -> str:
    seeds, agents = spec["seeds"], spec["agents"]
    many = lambda n, what: f"{n:,} {what}{'' if n == 1 else 's'}"
    return ", ".join(
        [many(len(agents), "agent"), many(len(seeds), "seed"), many(spec["episodes"], "episode") + " each"]
    )


def _seeds(seeds: list[int]) -> str:
    in_a_row = len(seeds) > 2 and seeds == list(range(seeds[0], seeds[0] + len(seeds)))
    if in_a_row:
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds[:12])) + (f" and {len(seeds) - 12:,} more" if len(seeds) > 12 else "")


def _facts(problem: FiniteCMDP, summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    told = summary["problem"]
    return [
        ("States", f"{problem.states:,}"),
        ("Actions", f"{problem.actions:,}"),
        ("Horizon H", f"{problem.horizon}"),
        ("Constraints", f"{problem.constraints}"),
        ("Unsafe pairs (x, a)", f"{1 - watch.really_safe(problem)[~problem.exempt].mean():.1%}"),
        ("Safe optimum", f"{told['optimal_value']:.4f}"),
        ("Optimum without the constraint", f"{told['unconstrained_value']:.4f}"),
    ]


def _map_words(scene: Mapping[str, Any]) -> str:
    hatched = "Hatched: hazards. " if scene["hazards"] else ""
    shade = "The greener, the higher. " if scene["heights"] else ""
    return (
        f"The map. {hatched}{shade}S is the start, G a goal; a cross marks an action that is unsafe there, towards "
        "where it goes; the dotted line is the likeliest way of the safe optimum."
    )


def _picture(problem: FiniteCMDP) -> str:
    """A problem without a map as its tiles: a PNG as a data address."""
    from matplotlib.image import imsave

    from everystep.environments import rendering

    start = int(np.argmax(planner.start_distribution(problem)))
    pixels, file = rendering.Picture(problem).frame(rendering.Moment(0, start, (start,))), io.BytesIO()
    imsave(file, pixels, format="png")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def _agent(each: Mapping[str, Any], look: Mapping[str, str]) -> dict[str, Any]:
    said = lambda value: ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    p = each.get("confidence")
    return {
        "look": look,
        "name": each["agent"],
        "settings": [(key, said(value)) for key, value in each["settings"].items()],
        "confidence": "radii carry no probability" if p is None else f"cost intervals hold with probability {1 - p:g}",
    }


# --- tables -----------------------------------------------------------------------------------------------------------
def _summary_rows(summary: Mapping[str, Any], looks: list[dict[str, str]]) -> list[dict[str, Any]]:
    cell = lambda numbers: {
        "mean": tables.number(numbers["mean"]),
        "interval": f"{tables.number(numbers['low'])} to {tables.number(numbers['high'])}",
    }
    return [
        {"look": look, "cells": [cell(summary["agents"][look["label"]][column]) for column in tables.COLUMNS]}
        for look in looks
    ]


def _certificate_rows(summary: Mapping[str, Any], looks: list[dict[str, str]]) -> list[dict[str, Any]]:
    said = summary.get("certificates", {})
    return [
        {
            "look": look,
            "cells": [tables.number(said[look["label"]][key]) for key in ("safe", "unsafe", "unknown", "false")],
            "promise": "heuristic" if said[look["label"]]["p"] is None else f"p = {said[look['label']]['p']:g}",
        }
        for look in looks
        if look["label"] in said
    ]


# --- curves -----------------------------------------------------------------------------------------------------------
def floats(array: np.ndarray, kind: str = "<f8") -> str:
    """Numbers as base64 of little-endian floats."""
    return base64.b64encode(np.ascontiguousarray(array, np.dtype(kind)).tobytes()).decode("ascii")


def _curves(result: Result) -> tuple[list[dict[str, Any]], list[str]]:
    """The charts, and what was left out of them."""
    n, K = len(result.seeds), result.spec["episodes"]
    seeds = min(n, SEEDS_DRAWN)
    points = max(POINTS_OF_SEEDS // seeds, 2)
    thin = _thinned(K, points)
    shown = reductions.shown_episodes(K)
    optima = planner.solve(result.problem).value, planner.solve(result.problem, safe=False).value
    lines = [{"value": optima[0], "name": f"safe optimum {optima[0]:.2f}"}]
    if optima[1] > optima[0] + 1e-6:
        lines.append({"value": optima[1], "name": f"unconstrained {optima[1]:.2f}"})
    single = {
        label: {name: curve(batch) for name, curve in reductions.DRAWN.items()}
        for label, batch in ((label, _first(curves, seeds)) for label, curves in result.curves.items())
    }
    charts = []
    for name, title, y, from_zero in CHARTS:
        bands = {label: each.bands.curves[name] for label, each in result.reduced.items()}
        charts.append(
            {
                "name": name,
                "title": title,
                "y": y,
                "fromZero": from_zero,
                "references": lines if name == "return" else [],
                "episodes": (shown + 1).tolist(),
                "bands": {
                    label: {end: floats(getattr(band, end)) for end in ("mean", "low", "high")}
                    for label, band in bands.items()
                },
                "seedX": (thin + 1).tolist(),
                "seeds": {label: floats(each[name][:, thin], "<f4") for label, each in single.items()},
            }
        )
    remarks = []
    if len(shown) < K:
        remarks.append(f"Means are drawn at {len(shown):,} of {K:,} episodes.")
    if len(thin) < K:
        remarks.append(f"Single seeds are drawn at {len(thin):,} of {K:,} episodes.")
    if seeds < n:
        remarks.append(f"Single seeds are the first {seeds} of {n:,}; means and intervals are of all.")
    return charts, remarks


def _thinned(K: int, points: int) -> np.ndarray:
    """So many of K episodes at most, evenly spread, counted from 0."""
    return np.unique(np.linspace(0, K - 1, min(points, K)).round().astype(int))


def _first(curves: Mapping[str, np.ndarray], seeds: int) -> dict[str, np.ndarray]:
    return {name: curve[:seeds] for name, curve in curves.items()}


# --- the first seed again ---------------------------------------------------------------------------------------------
def shot(run: rerun.Run, bar: Bar) -> Films:
    """The first seed of every agent, run again and watched."""
    K, labels = run.spec["episodes"], [each["label"] for each in run.spec["agents"]]
    try:
        again = run.again(1)
        when = watch.moments(K, _frames_at_most(run.problem, len(labels)))
        with bar(K * len(labels)) as advanced:
            films = {label: _film(run, again, label, when, advanced) for label in labels}
    except EverystepError as error:
        return Films(
            {}, [f"There is no player and there are no prices, because the run could not be repeated: {error}"]
        )
    remarks = []
    if len(when) < K + 1:
        remarks.append(
            f"{len(when)} moments of {K:,} episodes are shown, closer together at the beginning; "
            "every unsafe step in between is marked at the next."
        )
    for label, film in films.items():
        if (many := sum(len(frame.violations) for frame in film.frames)) > VIOLATIONS:
            remarks.append(
                f"{figures.TITLES.get(label, label)} took {many:,} unsafe steps; the first {VIOLATIONS:,} are marked."
            )
    return Films(films, remarks)


def _film(
    run: rerun.Run, again: Experiment, label: str, when: list[int], advanced: Callable[[int], None]
) -> watch.Film:
    film = watch.film(watch.Player(again, label, again.spec["seeds"][0]), when, advanced)
    run.check(label, film.columns["value"][None], film.columns["violation"][None])
    return film


def _frames_at_most(problem: FiniteCMDP, agents: int) -> int:
    one = 4 * (problem.horizon + problem.actions) * problem.states / 3 + 5 * problem.states
    return int(np.clip(BYTES_OF_FRAMES / (agents * one), FEWEST_FRAMES, FRAMES))


def _with_few_marks(film: list[watch.Frame]) -> list[watch.Frame]:
    """The frames with the first so many violations."""
    left, kept = VIOLATIONS, []
    for frame in film:
        kept.append(frame._replace(violations=frame.violations[:left]))
        left -= len(kept[-1].violations)
    return kept


def _prices(films: Mapping[str, watch.Film]) -> dict[str, Any]:
    """Z_h^k of agents that have a price: a line for each constraint and step."""
    told = {}
    for label, film in films.items():
        K, m, H = film.prices.shape
        if not film.prices.any():
            continue
        thin = _thinned(K, PRICE_POINTS)
        told[label] = {
            "x": (thin + 1).tolist(),
            "z": [[floats(film.prices[thin, i, h]) for h in range(H)] for i in range(m)],
        }
    return told
