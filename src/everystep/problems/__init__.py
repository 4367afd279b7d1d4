"""Problems that can be asked for by name, and problems read from a person's own file."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from everystep.arrays import read_npz
from everystep.errors import EverystepError, openable, unknown, whole_number
from everystep.problem import Factored, FiniteCMDP, Grid, Known, Noise, called_after
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

ARRAYS = ("P", "r", "g", "start", "horizon")
FACTORS = ("phi", "mu")  # instead of P
NOISE_ARRAYS = ("reward_on_arrival", "cost_on_arrival", "reward_sigma", "cost_sigma")
KNOWN_ARRAYS = ("threshold", "safe_action", "triples")
OPTIONAL_ARRAYS = (
    *NOISE_ARRAYS,
    *KNOWN_ARRAYS,
    "features",
    "exempt",
    "rows",
    "heights",
    "kernel",
    "linear_costs",
    "name",
)
COORDINATE = "coordinate_"  # how a named coordinate is called in a file

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
        return from_map(rows, horizon=15 if horizon is None else horizon, name=called_after(path))
    except EverystepError as error:
        raise EverystepError(f"problem '{name}': {error}") from None


def from_arrays(path: str | Path, horizon: int | None = None) -> FiniteCMDP:
    """A problem from an .npz file with P (or its factors phi and mu), r, g, start and horizon. Nothing is unpickled."""
    name = str(path)
    known = (*ARRAYS, *FACTORS, *OPTIONAL_ARRAYS)
    try:
        arrays = read_npz(path, lambda key: key in known or key.startswith(COORDINATE))
    except EverystepError as error:
        raise EverystepError(f"problem '{name}': {error}") from None
    by_factors = "P" not in arrays and any(key in arrays for key in FACTORS)
    needed = (*FACTORS, *ARRAYS[1:]) if by_factors else ARRAYS
    missing = [key for key in needed if key not in arrays and not (key == "horizon" and horizon is not None)]
    if missing:
        raise EverystepError(f"problem '{name}': it has no {' and no '.join(missing)}. Save {', '.join(needed)} in it.")
    if horizon is None and arrays["horizon"].ndim != 0:
        raise EverystepError(f"problem '{name}': horizon has shape {arrays['horizon'].shape}; save one whole number.")
    try:
        problem = FiniteCMDP(
            Factored(arrays["phi"], arrays["mu"]) if by_factors else arrays["P"],
            arrays["r"],
            arrays["g"],
            start=arrays["start"],
            horizon=whole_number("horizon", arrays["horizon"][()] if horizon is None else horizon),
            noise=Noise(
                reward_on_arrival=arrays.get("reward_on_arrival"),
                cost_on_arrival=arrays.get("cost_on_arrival"),
                reward_sigma=_sigma(arrays, "reward_sigma"),
                cost_sigma=_sigma(arrays, "cost_sigma"),
            ),
            features=arrays.get("features"),
            exempt=arrays.get("exempt"),
            grid=Grid(tuple(str(row) for row in arrays["rows"].reshape(-1)), arrays.get("heights"))
            if "rows" in arrays
            else None,
            coordinates={
                key.removeprefix(COORDINATE): array for key, array in arrays.items() if key.startswith(COORDINATE)
            },
            kernel=str(arrays["kernel"]) if "kernel" in arrays else None,
            linear_costs=bool(arrays.get("linear_costs", True)),
            known=Known(arrays.get("threshold", 0.0), arrays.get("safe_action"), arrays.get("triples")),
            name=str(arrays.get("name", called_after(Path(path)))),
        )
        problem.check()
    except EverystepError as error:
        raise EverystepError(f"problem '{name}': {error}") from None
    return problem


def summary(name: str) -> str:
    """The first sentence of a registered problem's documentation."""
    return (inspect.getdoc(REGISTERED[name]) or "").split("\n")[0]


def _sigma(arrays: dict[str, np.ndarray], name: str) -> Any:
    """A standard deviation from a file: one number, or one for each constraint."""
    try:
        value = np.asarray(arrays.get(name, 0.0), float)
    except ValueError:
        raise EverystepError(f"{name} is not a number; give one.") from None
    return value if value.ndim else float(value)
