"""Problems by name, and problems from a user's files. `registry` explains how to register more."""

from __future__ import annotations

from collections.abc import Callable

from numpy.typing import ArrayLike

from everystep.errors import EverystepError, check_openable, path_from, unknown
from everystep.files import name_from
from everystep.mdp.arrays import read_problem as from_arrays
from everystep.mdp.cmdp import FiniteCMDP
from everystep.problems.grids import read_map
from everystep.problems.registry import REGISTERED, Comparison, import_entry_points, register
from everystep.runtime.progress import patiently

# isort: off
# Importing a problem registers it; `everystep list` shows problems in this order.
from everystep.problems.frozen_lake import from_map, frozen_lake, random_lake
from everystep.problems.terrain import READERS, terrain, terrain_from
from everystep.problems.linear import linear
from everystep.problems.synthetic import synthetic
from everystep.problems.hard_instance import hard_instance
from everystep.problems.bandit import bandit, bandit_continuum
from everystep.problems.streaming import streaming
from everystep.problems.robot_map import robot_map
from everystep.problems.racetrack import racetrack, racetrack_from
from everystep.problems.inventory import inventory
from everystep.problems.thermostat import thermostat
# isort: on

FILES = f"a map (.txt), a racetrack (.track), arrays (.npz) or heights ({', '.join(READERS)})"
# The function that reads a problem from a file, by its ending; the first parameter is the path.
FROM_FILES: dict[str, Callable[..., FiniteCMDP]] = {".track": racetrack} | dict.fromkeys(READERS, terrain_from)

__all__ = [
    "REGISTERED",
    "Comparison",
    "bandit",
    "bandit_continuum",
    "from_arrays",
    "from_map",
    "frozen_lake",
    "hard_instance",
    "inventory",
    "linear",
    "load",
    "racetrack",
    "racetrack_from",
    "random_lake",
    "register",
    "robot_map",
    "streaming",
    "synthetic",
    "terrain",
    "terrain_from",
    "thermostat",
]


def load(name: str, horizon: int | None = None, scale: ArrayLike | None = None) -> FiniteCMDP:
    """A registered problem by its name, or a problem from a file, whose ending selects the format.

    >>> es.problems.load("frozen-lake", horizon=20).sizes
    Sizes(states=100, actions=4, successors=4, horizon=20, constraints=1)
    """
    path = path_from("problem", name)
    name = str(name)
    if name in REGISTERED:
        definition = REGISTERED[name]
        if horizon is None:
            return definition.make()
        if "horizon" not in definition.parameters:
            raise EverystepError(f"horizon is {horizon}, but the problem '{name}' has a fixed horizon; leave it out.")
        return definition.make(horizon=horizon)
    if path.suffix in FROM_FILES:
        make = FROM_FILES[path.suffix]
        return make(path) if horizon is None else make(path, horizon=horizon)
    if path.suffix not in (".txt", ".npz"):
        raise unknown("problem", name, REGISTERED, f"`everystep list` shows all; a file must be {FILES}.")
    try:
        if path.suffix == ".txt":
            return from_map(read_map(path), horizon=15 if horizon is None else horizon, name=name_from(path))
        check_openable(path)
    except EverystepError as error:
        raise EverystepError(f"problem '{name}': {error}") from None
    return from_arrays(path, horizon, scale)


# Called from Python, a problem that takes long to make reports it. The command has its own words, and calls `make`.
for _definition in REGISTERED.values():
    globals()[_definition.make.__name__] = patiently(_definition.make)

import_entry_points()  # last, because these modules import this package
