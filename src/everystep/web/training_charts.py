"""The charts of the report of a training: learning curves over steps, and the estimates of the cost model.

Those of networks are in `learnt_charts.py`.

`curves` is drawn as in the report of a run. One more style, drawn by training.js:

    slice       the beliefs about one action, by two coordinates, or by state: {x, y, labels, lower, upper, ...}
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from everystep.environments.play import coordinate_names
from everystep.errors import EverystepError
from everystep.reports.training import cost_slice
from everystep.reports.training import curves as training_curves
from everystep.reports.training.cost_slice import Beliefs, Slice
from everystep.reports.training.curves import Curve
from everystep.reports.training.learnt import Learnt
from everystep.reports.training.results import TrainingResults
from everystep.training.policy.policy import Policy
from everystep.web import learnt_charts
from everystep.web.assets import as_base64
from everystep.web.charts import SEEDS_DRAWN, Chart, Panel, Section

MOST_ACTIONS = 6  # that have a panel
MOST_DOTS = 250  # transitions marked in all panels together


class Model(NamedTuple):
    """The estimates of the cost model of one seed, along two coordinates or at every state; or why it is not shown."""

    sliced: Slice | None = None
    states: np.ndarray | None = None
    beliefs: Beliefs | None = None
    why: str = ""


class TrainingInputs(NamedTuple):
    """The data of the page: the rows of all seeds, and what the first seed has learnt, with its cost model."""

    results: TrainingResults
    learnt: Learnt
    model: Model

    @property
    def environment(self) -> str:
        return self.results.seeds[0].environment

    @property
    def agent(self) -> str:
        return self.results.seeds[0].agent


# --- curves -----------------------------------------------------------------------------------------------------------
def curve(of: Callable[[TrainingResults], list[Curve]], inputs: TrainingInputs) -> list[Panel]:
    """The mean over seeds with its interval, and single seeds, each to its own end."""
    curves, label = of(inputs.results), inputs.agent
    steps, interval = training_curves.mean(curves)
    ends = {"mean": interval.mean} | ({"low": interval.low, "high": interval.high} if len(curves) > 1 else {})
    first = curves[:SEEDS_DRAWN]
    shown = np.linspace(0, training_curves.end(curves), training_curves.POINTS)
    inside = [np.where((shown >= each.steps[0]) & (shown <= each.steps[-1]), each.at(shown), np.nan) for each in first]
    content = {
        "references": [],
        "episodes": np.round(steps, 2).tolist(),
        "bands": {label: {name: as_base64(values, "<f8") for name, values in ends.items()}},
        "seedX": np.round(shown, 2).tolist(),
        "seeds": {label: as_base64(np.stack(inside))} if len(curves) > 1 else {},
        "faint": float(np.clip(2 / len(first), 0.12, 0.6)),
    }
    return [Panel(None, content)]


def returns(inputs: TrainingInputs) -> list[Panel]:
    """The return, with the mean return of the evaluated policies."""
    found = [each for each in map(inputs.results.evaluation_of, inputs.results.seeds) if each is not None]
    (panel,) = curve(training_curves.returns, inputs)
    if not found:
        return [panel]
    mean = float(np.mean([each.columns["return"].mean() for each in found]))
    references = [{"value": mean, "name": f"policy alone {mean:.4g}"}]
    return [panel._replace(content=panel.content | {"references": references})]


def curve_remarks(inputs: TrainingInputs) -> list[str]:
    results, n = inputs.results, len(inputs.results.seeds)
    steps = sorted({each.steps for each in results.seeds})
    remarks = {
        f"Moving averages are over {training_curves.window(results)} episodes.": True,
        "Between the ends of episodes, curves are straight lines.": True,
        f"The mean ends at {steps[0]:,} steps, where the first seed does.": len(steps) > 1,
        f"Single seeds are the first {SEEDS_DRAWN} of {n:,}.": n > SEEDS_DRAWN,
        "The training is unfinished.": bool(results.unfinished),
    }
    return [remark for remark, applies in remarks.items() if applies]


# --- the cost model ---------------------------------------------------------------------------------------------------
def model(learnt: Learnt, along: tuple[int, ...] | None) -> Model:
    """The estimates of a policy's cost model along two coordinates: the given ones, or those with most effect."""
    if learnt.policy is None:
        return Model(why=learnt.why)
    policy = learnt.policy
    try:
        listed = cost_slice.states(policy)
        if listed is not None and along is not None:
            raise EverystepError(
                f"--along is '{','.join(map(str, along))}', but observations are single integers, which are all shown; "
                "leave it out."
            )
        if listed is not None:
            return Model(states=listed, beliefs=cost_slice.believed(policy, listed))
        where = cost_slice.ranges(learnt.seen)
        which = None if along is None else cost_slice.check_along(along, len(where.held))
        return Model(sliced=cost_slice.along(policy, where, which or cost_slice.strongest(policy, where)))
    except cost_slice.NothingToShowError as error:
        return Model(why=str(error))


def slices(inputs: TrainingInputs) -> list[Panel]:
    """A panel for each of the first actions."""
    found, policy = inputs.model, inputs.learnt.policy
    if policy is None or (found.sliced is None and found.beliefs is None):
        return []
    beliefs = found.beliefs if found.sliced is None else found.sliced.beliefs
    assert beliefs is not None
    names = coordinate_names.of_actions(inputs.environment, policy.candidates)
    about = _by_state(inputs) if found.sliced is None else _by_coordinates(inputs, found.sliced)
    panels = []
    for a in shown_actions(policy):
        floats = {key: as_base64(getattr(beliefs, key)[a]) for key in ("lower", "upper", "estimate")}
        labels = as_base64(beliefs.labels[a])
        own = {"name": f"slice-{a}", "title": names[a], "labels": labels, **floats, "dots": _dots(inputs, a)}
        panels.append(Panel(None, about | own))
    return panels


def shown_actions(policy: Policy) -> list[int]:
    """The first actions; where they lie in a Box, some that are evenly spread in their list."""
    n = len(policy.candidates)
    if policy.candidates.values is None or n <= MOST_ACTIONS:
        return list(range(min(n, MOST_ACTIONS)))
    return [round(a) for a in np.linspace(0, n - 1, MOST_ACTIONS)]


def _by_coordinates(inputs: TrainingInputs, sliced: Slice) -> dict[str, Any]:
    names = coordinate_names.of_coordinates(inputs.environment, len(sliced.ranges.held))
    points = [[float(f"{each:.6g}") for each in values] for values in sliced.points]
    titles = [names[j] for j in sliced.along]
    up = points[1] if len(points) > 1 else [0.0]
    return {"across": points[0], "up": up, "x": titles[0], "y": titles[1] if len(titles) > 1 else "", "cells": False}


def _by_state(inputs: TrainingInputs) -> dict[str, Any]:
    """On the map where it is known, else in one row."""
    listed = inputs.model.states
    assert listed is not None
    columns = coordinate_names.columns_of_map(inputs.environment, len(listed))
    width = columns or len(listed)
    rows = len(listed) // width
    first = int(listed[0])
    across = list(range(width)) if columns else list(range(first, first + width))
    axes = {"x": "column", "y": "row"} if columns else {"x": "state", "y": ""}
    return {"across": across, "up": list(range(rows)), **axes, "cells": True, "first": first}


def _dots(inputs: TrainingInputs, a: int) -> list[list[float]]:
    """Where an action was taken, among the last transitions, projected onto the coordinates that are shown."""
    sliced, recent = inputs.model.sliced, inputs.learnt.recent
    if sliced is None or not recent or len(sliced.along) < 2:
        return []
    x = np.concatenate([each.observations for each in recent])
    actions = np.concatenate([each.actions for each in recent])
    kept = np.unique(np.linspace(0, len(x) - 1, MOST_DOTS).round().astype(int))
    kept = kept[actions[kept] == a]
    return [[float(f"{each:.5g}") for each in x[kept, j]] for j in sliced.along]


def slice_remarks(inputs: TrainingInputs) -> list[str]:
    found = inputs.model
    beliefs = found.beliefs if found.sliced is None else found.sliced.beliefs
    if beliefs is None:
        return []
    seeds, actions = inputs.results.seeds, len(beliefs.labels)
    remarks = [f"Seed {seeds[0].seed}, step 1 of the plan."] if len(seeds) > 1 else ["Step 1 of the plan."]
    if found.sliced is not None:
        remarks += _held(inputs, found.sliced)
    if inputs.learnt.recent and found.sliced is not None:
        remarks.append("Dots: where the action was taken, among the last transitions, projected onto the slice.")
    if actions > MOST_ACTIONS and inputs.learnt.policy is not None:
        which = "" if inputs.learnt.policy.candidates.values is not None else "The first "
        remarks.append(f"{which}{MOST_ACTIONS} of {actions} actions are shown.")
    return remarks


def _held(inputs: TrainingInputs, sliced: Slice) -> list[str]:
    names = coordinate_names.of_coordinates(inputs.environment, len(sliced.ranges.held))
    others = [j for j in range(len(names)) if j not in sliced.along]
    if not others:
        return []
    listed = ", ".join(f"{names[j]} {sliced.ranges.held[j]:.3g}" for j in others[:8])
    more = f" and {len(others) - 8} more" if len(others) > 8 else ""
    return [f"Held at the median of what was observed: {listed}{more}."]


# --- the list ---------------------------------------------------------------------------------------------------------
SECTIONS = {
    "learnt": learnt_charts.SECTION,
    "curves": Section(
        "Learning curves",
        "Over the number of steps. With several seeds, lines are means, bands are their 95 % bootstrap intervals, "
        "thin lines are single seeds. Drag to zoom, double-click to reset.",
        curve_remarks,
        by_agent=True,
    ),
    "model": Section("Cost model", "", slice_remarks, by_scale=False),
}
CHARTS: tuple[Chart, ...] = (
    Chart(
        "violation",
        "curves",
        title="Violation so far",
        caption="Sum of max(g, 0) over all steps. Violations never cancel.",
        x="steps",
        y="violation",
        data=partial(curve, training_curves.violation_so_far),
        from_zero=True,
    ),
    Chart(
        "return",
        "curves",
        title="Return per episode",
        caption="Moving average, while the agent explores. Dotted, if evaluated: the policies alone.",
        x="steps",
        y="return",
        data=returns,
    ),
    Chart(
        "unsafe",
        "curves",
        title="Unsafe steps so far",
        caption="Steps at which some constraint was above 0.",
        x="steps",
        y="unsafe steps",
        data=partial(curve, training_curves.unsafe_so_far),
        from_zero=True,
    ),
    Chart(
        "unsafe-share",
        "curves",
        title="Share of unsafe steps",
        caption="Moving average over episodes.",
        x="steps",
        y="unsafe steps / steps",
        data=partial(curve, training_curves.unsafe_share),
        from_zero=True,
    ),
    *learnt_charts.CHARTS,
    Chart("slice", "model", title="", x="", y="", data=slices, style="slice"),
)
