"""A visitor's request as a problem and an experiment, the check of its map, and a run as a zipped folder."""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from everystep.agents.registry import REGISTERED, Recipe
from everystep.errors import EverystepError
from everystep.experiments import config, experiment
from everystep.experiments.engines import local
from everystep.experiments.experiment import Experiment
from everystep.experiments.folder import run_folder
from everystep.mdp.cmdp import FiniteCMDP
from everystep.problems.frozen_lake import from_map
from everystep.problems.racetrack import racetrack_from
from everystep.web import harm, watch
from everystep.web.playground.protocol import PlaygroundRequest

TIMESTAMP = (1980, 1, 1, 0, 0, 0)  # of files in a zip, so that equal runs give equal bytes


def painted(request: PlaygroundRequest) -> FiniteCMDP:
    """The problem; raises EverystepError if its map is not valid."""
    if request.kind == "racetrack":
        return racetrack_from(
            request.rows, request.top_speed, request.failure, horizon=request.horizon, name=request.name
        )
    return from_map(request.rows, horizon=request.horizon, name=request.name, slip=request.slip)


def prepare(request: PlaygroundRequest, episodes: int | None = None) -> Experiment:
    """The experiment that `everystep run` would prepare with this map, these settings and this seed."""
    recipes = [Recipe(name, _settings_of(name, request.settings)) for name in request.agents]
    return experiment.prepare(painted(request), recipes, episodes or request.episodes, seeds=[request.seed])


def required_settings(agent: str) -> dict[str, Any]:
    """Settings that an agent requires on any lake: a known safe action in every state, if it needs one."""
    return {"safe_action": "safest"} if REGISTERED[agent].requires_safe_action else {}


def _settings_of(agent: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The required settings of an agent, and the given ones that it accepts."""
    return required_settings(agent) | config.accepted_settings(agent, given)


def check(request: PlaygroundRequest) -> dict[str, Any]:
    """The scene of a map with the cells that have no safe action, or the reason why the map cannot be run."""
    settings = {"settings": request._asdict()}
    try:
        problem = painted(request)
    except EverystepError as error:
        return {"event": "infeasible", **settings, "sentence": str(error)}
    scene = watch.scene(problem)
    assert scene is not None
    without_harm = problem.dead_ends is not None and "harm" not in scene
    return {
        "event": "scene",
        **settings,
        "scene": scene,
        "remarks": [*problem.check(), *([harm.too_large(problem)] if without_harm else [])],
        "cells": _without_safe_action(problem),
    }


def _without_safe_action(problem: FiniteCMDP) -> list[int]:
    """The cells none of whose states has a safe action."""
    ends = problem.dead_ends
    if ends is None:
        return []
    assert problem.grid is not None
    stuck = problem.grid.by_cell(ends.without_safe_action.any(0).astype(int)).reshape(-1)
    return np.flatnonzero(
        (stuck > 0) & (stuck == problem.grid.by_cell(np.ones(problem.states, int)).reshape(-1))
    ).tolist()


class PartialRun(NamedTuple):
    """The first `episodes` episodes of a run, by the labels of its agents."""

    episodes: int
    curves: Mapping[str, Mapping[str, np.ndarray]]
    endings: Mapping[str, local.FinalState]


def export(request: PlaygroundRequest, partial: PartialRun) -> bytes:
    """The run folder of a run so far, as a zip file.

    A partial run equals a run of that many episodes only if no setting depends on their number; otherwise the export is
    refused.
    """
    done, curves, endings = partial
    if done < 1:
        raise EverystepError("nothing was run yet; run at least one episode before you export.")
    short, full = prepare(request, done), prepare(request)
    with jax.enable_x64(True):
        for label in full.agents:
            leaves = [jax.tree.leaves(run.agents[label].build().agent) for run in (short, full)]
            if not all(np.array_equal(one, other) for one, other in zip(*leaves, strict=True)):
                raise EverystepError(
                    f"the settings of {label} depend on the number of episodes; run all {request.episodes} to export."
                )
    rows = {label: {name: column[None] for name, column in columns.items()} for label, columns in curves.items()}
    result = short.result(rows, endings)
    with tempfile.TemporaryDirectory(prefix="everystep-") as private:
        folder = Path(private) / "run"
        with run_folder.folder(folder, short.spec) as unfinished:
            run_folder.fill(result, unfinished)
        (folder / ("map.track" if request.kind == "racetrack" else "map.txt")).write_text(
            "\n".join(request.rows) + "\n", encoding="utf-8"
        )
        return _zipped(folder)


def _zipped(folder: Path) -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            info = zipfile.ZipInfo(f"everystep-run/{path.relative_to(folder).as_posix()}", TIMESTAMP)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, path.read_bytes())
    return memory.getvalue()
