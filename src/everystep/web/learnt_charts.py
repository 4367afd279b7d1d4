"""The charts of the report of a training about networks: how well they predict what they have not learnt yet.

The figures are those of the first seed (`training/learnt/quality.py`). Styles, drawn by learnt.js:

    lines         named lines over steps: {steps, lines: [{name, colour, dash, values}]}
    reliability   imagined violations and those that came, by bin: {points: [{imagined, came, count}], tolerance}
    labels        how often a violation stayed within the tolerance, by label: {bars: [{name, held, count, kind}]}
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from everystep.reports.training.learnt import Learnt
from everystep.training.learnt.quality import Curves, QualityFigures
from everystep.web.charts import Chart, Panel, Section

BLUE, ORANGE, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
MOST_CONSTRAINTS = 3  # that have lines
LATE = "In the second half of the steps."


def _figures(inputs: Any) -> QualityFigures | None:
    learnt: Learnt = inputs.learnt
    return learnt.quality


def _line(name: str, colour: str, values: list[float | None], dash: str = "solid") -> dict[str, Any]:
    return {"name": name, "colour": colour, "dash": dash, "values": values}


def _varies(curves: Curves) -> bool:
    return any(curves["error"])


def _named(found: QualityFigures) -> list[tuple[str, Curves]]:
    """The constraints, as the page names them."""
    constraints = found["constraints"]
    return [
        ("constraint" if len(constraints) == 1 else f"constraint {i}", each) for i, each in enumerate(constraints, 1)
    ]


def _panel(inputs: Any, of: Callable[[QualityFigures], list[dict[str, Any]]]) -> list[Panel]:
    """Lines over steps; none where there are none."""
    found = _figures(inputs)
    lines = [] if found is None else [each for each in of(found) if any(value is not None for value in each["values"])]
    return [Panel(None, {"steps": found["steps"], "lines": lines})] if found is not None and lines else []


def errors(found: QualityFigures) -> list[dict[str, Any]]:
    each = found["observation"]
    return [_line("error", BLUE, each["error"]), _line("spread of the members", ORANGE, each["spread"], "dash")]


def reward_errors(found: QualityFigures) -> list[dict[str, Any]]:
    each = found["reward"]
    if not _varies(each):
        return []
    return [_line("error", BLUE, each["error"]), _line("spread of the members", ORANGE, each["spread"], "dash")]


def constraint_errors(found: QualityFigures) -> list[dict[str, Any]]:
    lines = []
    shown = [each for each in _named(found) if _varies(each[1])][:MOST_CONSTRAINTS]
    for (name, each), colour in zip(shown, (BLUE, GREEN, PINK), strict=False):
        words = "" if len(found["constraints"]) == 1 else f", {name}"
        lines += [
            _line(f"error{words}", colour, each["error"]),
            _line(f"spread{words}", colour, each["spread"], "dash"),
        ]
    if len(found["constraints"]) == 1 and lines:
        lines[1]["colour"] = ORANGE
    return lines


def shares(found: QualityFigures) -> list[dict[str, Any]]:
    lines = [
        _line("observation", BLUE, found["observation"]["share"]),
        _line("reward", ORANGE, found["reward"]["share"], "dash"),
    ]
    shown = zip(_named(found)[:MOST_CONSTRAINTS], ((GREEN, "solid"), (GREEN, "dash"), (GREEN, "dot")), strict=False)
    return lines + [_line(name, colour, each["share"], dash) for (name, each), (colour, dash) in shown]


def imagined(key: str, found: QualityFigures) -> list[dict[str, Any]]:
    both = found["returned"] if key == "returned" else found["violated"]
    return [_line("what came", BLUE, both["came"]), _line("imagined", ORANGE, both["imagined"], "dash")]


def reliability(inputs: Any) -> list[Panel]:
    found = _figures(inputs)
    if found is None or not found["violations"]:
        return []
    points = [{"imagined": one, "came": came, "count": int(n)} for one, came, n in found["violations"]]
    return [Panel(None, {"points": points, "colour": BLUE, "tolerance": max(found["tolerance"], 1e-4)})]


def labels(inputs: Any) -> list[Panel]:
    found = _figures(inputs)
    if found is None or not any(count for count, _ in found["labels"].values()):
        return []
    bars = [
        {"name": name, "kind": kind, "count": found["labels"][kind][0], "held": found["labels"][kind][1]}
        for name, kind in (("safe ahead", "safe"), ("unknown", "unknown"), ("unsafe ahead", "unsafe"))
    ]
    return [Panel(None, {"bars": bars})]


def remarks(inputs: Any) -> list[str]:
    found, seeds = _figures(inputs), inputs.results.seeds
    if found is None:
        return []
    judged = sum(count for count, _ in found["labels"].values())
    return [
        *([f"Seed {seeds[0].seed}."] if len(seeds) > 1 else []),
        f"The first {found['random']:,} steps were random." if found["random"] else "The networks were used at once.",
        f"Judged, in the second half: {judged:,} steps whose next {found['horizons'][-1]} were seen, or the end.",
    ]


SECTION = Section(
    "Predictions",
    "Every step is predicted before it is learnt, and every eighth is judged before it is played: what return and what "
    "violation follow, and is it safe ahead? Labels and imagined sums are heuristic; this is how they did.",
    remarks,
)
CHARTS: tuple[Chart, ...] = (
    Chart(
        "learnt-share",
        "learnt",
        title="Share of the variance that is predicted",
        caption="1 less the squared error over that of the mean so far. 1: exactly; 0: no better than the mean.",
        x="steps",
        y="share",
        data=partial(_panel, of=shares),
        style="lines",
        from_zero=True,
    ),
    Chart(
        "learnt-error",
        "learnt",
        title="Error and spread: the next observation",
        caption="RMS error of the change, in usual changes of each coordinate. Where the spread is far below the "
        "error, the members are overconfident.",
        x="steps",
        y="usual changes",
        data=partial(_panel, of=errors),
        style="lines",
        from_zero=True,
    ),
    Chart(
        "learnt-constraint",
        "learnt",
        title="Error and spread: the constraint",
        caption="RMS error of g(x, a), by the networks, in its own unit.",
        x="steps",
        y="g",
        data=partial(_panel, of=constraint_errors),
        style="lines",
        from_zero=True,
    ),
    Chart(
        "learnt-reward",
        "learnt",
        title="Error and spread: the reward",
        caption="RMS error of the reward of a step.",
        x="steps",
        y="reward",
        data=partial(_panel, of=reward_errors),
        style="lines",
        from_zero=True,
    ),
    Chart(
        "learnt-return",
        "learnt",
        title="Return ahead: imagined, and what came",
        caption="Discounted as in the critics; means over the steps that were judged.",
        x="steps",
        y="discounted return",
        data=partial(_panel, of=partial(imagined, "returned")),
        style="lines",
    ),
    Chart(
        "learnt-violation",
        "learnt",
        title="Violation ahead: imagined, and what came",
        caption="The sum of max(g, 0), discounted likewise.",
        x="steps",
        y="discounted violation",
        data=partial(_panel, of=partial(imagined, "violated")),
        style="lines",
        from_zero=True,
    ),
    Chart(
        "learnt-reliability",
        "learnt",
        title="Reliability of the imagined violation",
        caption=f"{LATE} In units of the largest |g|; areas grow with the number of steps. Above the dotted line more "
        "came than was imagined.",
        x="imagined violation ahead",
        y="mean of what came",
        data=reliability,
        style="reliability",
    ),
    Chart(
        "learnt-labels",
        "learnt",
        title="What labels were worth",
        caption=f"{LATE} After how many steps the violation that came stayed within the tolerance: nearly all that "
        "were labelled safe ahead should, hardly any unsafe ahead.",
        x="label, before the step was played",
        y="within the tolerance",
        data=labels,
        style="labels",
    ),
)
