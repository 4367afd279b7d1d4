"""Problems that can be asked for by name, and problems read from a person's own file."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

from everystep.errors import EverystepError, openable, unknown
from everystep.mdp.arrays import read_problem as from_arrays
from everystep.mdp.cmdp import FiniteCMDP
from everystep.problems.bandit import bandit, bandit_continuum
from everystep.problems.frozen_lake import from_map, frozen_lake, random_lake
from everystep.problems.hard_instance import hard_instance
from everystep.problems.linear import linear
from everystep.problems.robot_map import robot_map
from everystep.problems.streaming import streaming
from everystep.problems.synthetic import synthetic
from everystep.problems.terrain import READERS, terrain, terrain_from

REGISTERED: dict[str, Callable[..., FiniteCMDP]] = {
    "frozen-lake": frozen_lake,
    "terrain": terrain,
    "linear": linear,
    "synthetic": synthetic,
    "hard-instance": hard_instance,
    "bandit": bandit,
    "bandit-continuum": bandit_continuum,
    "streaming": streaming,
    "robot-map": robot_map,
}

FILES = f"a map (.txt), arrays (.npz) or heights ({', '.join(READERS)})"

__all__ = [
    "REGISTERED",
    "bandit",
    "bandit_continuum",
    "from_arrays",
    "from_map",
    "frozen_lake",
    "hard_instance",
    "linear",
    "load",
    "random_lake",
    "robot_map",
    "streaming",
    "summary",
    "synthetic",
    "terrain",
    "terrain_from",
]


def load(name: str, horizon: int | None = None) -> FiniteCMDP:
    """A problem from what a person types: a registered name, or a file, which its ending tells how to read."""
    path = Path(name)
    if name in REGISTERED:
        return REGISTERED[name]() if horizon is None else REGISTERED[name](horizon=horizon)
    if path.suffix in READERS:
        return terrain_from(path) if horizon is None else terrain_from(path, horizon=horizon)
    if path.suffix not in (".txt", ".npz"):
        raise unknown("problem", name, REGISTERED, f"`everystep list` shows all; a file must be {FILES}.")
    try:
        openable(path)
    except EverystepError as error:
        raise EverystepError(f"problem '{name}': {error}") from None
    if path.suffix == ".npz":
        return from_arrays(path, horizon)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise EverystepError(
            f"problem '{name}': the file cannot be read as text. Give a map with one row a line."
        ) from None
    rows = [line.rstrip("\r") for line in text.rstrip("\n").split("\n")]
    try:
        return from_map(rows, horizon=15 if horizon is None else horizon, name=path.stem)
    except EverystepError as error:
        raise EverystepError(f"problem '{name}': {error}") from None


def summary(name: str) -> str:
    """The first sentence of a registered problem's documentation."""
    return (inspect.getdoc(REGISTERED[name]) or "").split("\n")[0]
