"""A visitor's wish as a problem and an experiment, what is to be said of its map, and a run as a zipped folder."""

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
from everystep.errors import EverystepError, InfeasibleError
from everystep.experiments import config, experiment, run_folder
from everystep.experiments.engines import local
from everystep.experiments.experiment import Experiment
from everystep.mdp.cmdp import FiniteCMDP
from everystep.problems.frozen_lake import from_map
from everystep.web import watch
from everystep.web.playground.protocol import Wish

STAMP = (1980, 1, 1, 0, 0, 0)  # of files in a zip: the same run is the same bytes


def problem(wish: Wish) -> FiniteCMDP:
    """The lake, or the sentence that says what is wrong with its map."""
    return from_map(wish.rows, horizon=wish.horizon, name=wish.name, slip=wish.slip)


def prepared(wish: Wish, episodes: int | None = None) -> Experiment:
    """What `everystep run` would prepare with this map, these settings, and this one seed."""
    recipes = [Recipe(name, _settings(name, wish.settings)) for name in wish.agents]
    return experiment.prepare(problem(wish), recipes, episodes or wish.episodes, seeds=[wish.seed])


def _settings(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Those that the agent has; one that must be told a safe action in every state is told the safest."""
    agent = REGISTERED[name]
    told = {"safe_action": "safest"} if agent.told else {}
    return told | config.accepted_settings(name, given)


def examined(wish: Wish) -> dict[str, Any]:
    """What is to be said of a map before it is run: its scene; or why it cannot be, and which cells are why."""
    read = {"settings": wish._asdict()}
    try:
        lake = problem(wish)
    except InfeasibleError as error:
        cells = list(error.states)
        return {"say": "infeasible", **read, "sentence": _explained(len(cells)), "cells": cells}
    except EverystepError as error:
        return {"say": "infeasible", **read, "sentence": str(error), "cells": []}
    return {"say": "scene", **read, "scene": watch.scene(lake), "remarks": list(lake.remarks)}


def _explained(cells: int) -> str:
    which, them = ("The marked cell has", "it") if cells == 1 else (f"The {cells} marked cells have", "each")
    return (
        f"{which} no safe action: every move from there aims at a hazard, so that no agent could keep the constraint "
        f"there (Assumption 1). Give {them} a way out."
    )


class SoFar(NamedTuple):
    """What agents did in their first `episodes` episodes, by label."""

    episodes: int
    curves: Mapping[str, Mapping[str, np.ndarray]]
    endings: Mapping[str, local.FinalState]


def exported(wish: Wish, so_far: SoFar) -> bytes:
    """The run folder of a run so far, as a zip file; made in a folder that is removed again.

    A run that was cut short is the run of so many episodes only where no setting looks at their number: else it is
    refused with a sentence.
    """
    done, curves, endings = so_far
    if done < 1:
        raise EverystepError("nothing was run yet; run at least one episode before you export.")
    ran, whole = prepared(wish, done), prepared(wish)
    with jax.enable_x64(True):
        for label in whole.agents:
            leaves = [jax.tree.leaves(each.agents[label].build().agent) for each in (ran, whole)]
            if not all(np.array_equal(one, other) for one, other in zip(*leaves, strict=True)):
                raise EverystepError(
                    f"the settings of {label} depend on the number of episodes; let all {wish.episodes} run to export."
                )
    rows = {label: {name: column[None] for name, column in columns.items()} for label, columns in curves.items()}
    result = ran.result(rows, endings)
    with tempfile.TemporaryDirectory(prefix="everystep-") as private:
        folder = Path(private) / "run"
        with run_folder.folder(folder, ran.spec) as partial:
            run_folder.fill(result, partial)
        (folder / "map.txt").write_text("\n".join(wish.rows) + "\n", encoding="utf-8")
        return _zipped(folder)


def _zipped(folder: Path) -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            info = zipfile.ZipInfo(f"everystep-run/{path.relative_to(folder).as_posix()}", STAMP)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, path.read_bytes())
    return memory.getvalue()
