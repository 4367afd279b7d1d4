"""A problem as named arrays: saved to a file, read from it, and hashed, all from one list of fields.

`FIELDS` names every array once. A field of `FiniteCMDP` (or of `Factored`, `Noise`, `Grid`, `Known`) that is neither in
the list nor in `DESCRIPTIVE` fails a test: if the digest missed a field, two different problems would be the same run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from everystep.errors import EverystepError, check_openable, path_from, shown, whole_number
from everystep.files import name_from, read_npz, write_npz
from everystep.mdp.cmdp import Factored, FiniteCMDP, Grid, Known, Noise, Successors
from everystep.mdp.validation import numbers

T = TypeVar("T")
COORDINATE = "coordinate_"  # prefix of a named coordinate in a file
DESCRIPTIVE = ("state_names", "action_names", "remarks", "_stepped")  # fields that are not saved


def _unchanged(value: T) -> T:
    return value


def _without_step_axis(array: np.ndarray) -> np.ndarray:
    return array if len(array) > 1 else array[0]


# Readers of one array of a file, by its name.
def _given(name: str, array: np.ndarray) -> np.ndarray:
    return array


def _sigma(name: str, array: np.ndarray) -> float | np.ndarray:
    """A standard deviation: one number, or one per constraint."""
    value = numbers(name, array)
    return value if value.ndim else float(value)


def _text(name: str, array: np.ndarray) -> str:
    if array.ndim or array.dtype.kind != "U":
        raise EverystepError(f"{name} has shape {array.shape} and type {array.dtype}; save one text.")
    return str(array)


def _flag(name: str, array: np.ndarray) -> bool:
    """True or false; 1 and 0 are also accepted."""
    if array.ndim or array.dtype.kind not in "biu" or array not in (0, 1):
        raise EverystepError(f"{name} is {shown(array)}; save True or False.")
    return bool(array)


def _scale(name: str, array: np.ndarray) -> bool | np.ndarray:
    """The scale of constraints: true, a number, or one per constraint."""
    return bool(array) if array.dtype == bool and array.ndim == 0 else array


class ArrayField(NamedTuple):
    """One array of a problem.

    name       in a file
    path       in a problem, with dots for the fields of its parts
    required   whether a file must have it (P, or phi and mu)
    hashed     whether it decides what happens in a problem; the others name it, draw it, or are defaults of settings
    to_file    the value as it is saved; None leaves it out
    from_file  the array as the problem takes it
    """

    name: str
    path: str
    required: bool = False
    hashed: bool = True
    to_file: Callable[[Any], Any] = _unchanged
    from_file: Callable[[str, np.ndarray], Any] = _given

    def value(self, problem: FiniteCMDP) -> Any:
        """The value in a problem; None where the problem has none."""
        found: Any = problem
        for attribute in self.path.split("."):
            found = getattr(found, attribute, None)
        return None if isinstance(found, Factored | Successors) else found


FIELDS = (
    ArrayField("P", "P", required=True),  # a table: in files of users; a problem keeps lists
    ArrayField("successors", "P.states", required=True),
    ArrayField("probabilities", "P.probabilities", required=True, to_file=_without_step_axis),
    ArrayField("phi", "P.phi", required=True, to_file=_without_step_axis),
    ArrayField("mu", "P.mu", required=True, to_file=_without_step_axis),
    ArrayField("r", "r", required=True, to_file=_without_step_axis),
    ArrayField("g", "g", required=True),
    ArrayField("start", "start", required=True, to_file=lambda start: start if start.size > 1 else start[0]),
    ArrayField("horizon", "horizon", required=True, from_file=lambda name, horizon: whole_number(name, horizon[()])),
    ArrayField("reward_on_arrival", "noise.reward_on_arrival"),
    ArrayField("cost_on_arrival", "noise.cost_on_arrival"),
    ArrayField("reward_sigma", "noise.reward_sigma", from_file=_sigma),
    ArrayField("cost_sigma", "noise.cost_sigma", to_file=lambda sigma: np.asarray(sigma, float), from_file=_sigma),
    ArrayField("features", "features"),
    ArrayField("exempt", "exempt"),
    ArrayField(
        "rows",
        "grid.rows",
        hashed=False,
        to_file=np.array,
        from_file=lambda name, rows: tuple(str(row) for row in rows.reshape(-1)),
    ),
    ArrayField("heights", "grid.heights", hashed=False),
    ArrayField("cells", "grid.cells", hashed=False),
    ArrayField("moves", "grid.moves", hashed=False),
    ArrayField("kernel", "kernel", hashed=False, to_file=np.array, from_file=_text),
    ArrayField(
        "linear_costs",
        "linear_costs",
        hashed=False,
        to_file=lambda linear: None if linear else np.array(False),
        from_file=_flag,
    ),
    ArrayField("scale", "scale", from_file=_scale),
    ArrayField("threshold", "known.threshold"),
    ArrayField("safe_action", "known.safe_action"),
    ArrayField("triples", "known.triples"),
    ArrayField(f"{COORDINATE}*", "coordinates"),  # one array per name
    ArrayField("name", "name", hashed=False, to_file=np.array, from_file=_text),
)
TRANSITIONS = (("P",), ("successors", "probabilities"), ("phi", "mu"))  # the forms of P, of which a file has one


def save_problem(problem: FiniteCMDP, path: str | Path) -> None:
    """Write a problem as arrays that `everystep run --problem` reads."""
    arrays: dict[str, Any] = {}
    for each in FIELDS:
        value = each.value(problem)
        if each.path == "coordinates":
            arrays |= {f"{COORDINATE}{name}": array for name, array in value.items()}
        elif value is not None and (saved := each.to_file(value)) is not None:
            arrays[each.name] = saved
    phi = problem.P.phi if isinstance(problem.P, Factored) else None
    if phi is not None and problem.features is not None and np.array_equal(problem.features[None], phi):
        del arrays["features"]  # they come with the factors
    write_npz(path, arrays.items(), compressed=True)


def read_problem(path: str | Path, horizon: int | None = None, scale: ArrayLike | None = None) -> FiniteCMDP:
    """A problem from an .npz file with P, r, g, start and horizon. Nothing is unpickled.

    P is a table `P`, lists `successors` and `probabilities`, or factors `phi` and `mu`.

    `horizon` and `scale` replace those of the file.

    >>> P, r, g = np.ones((1, 2, 1)), np.zeros((1, 2)), -np.ones((1, 2))
    >>> np.savez("mine.npz", P=P, r=r, g=g, start=0, horizon=3)
    >>> es.problems.from_arrays("mine.npz").horizon
    3
    """
    file = path_from("path", path)
    try:
        check_openable(file)
        problem = _from_arrays(_read_fields(file, horizon), name_from(file), {} if scale is None else {"scale": scale})
        problem.check()
    except EverystepError as error:
        raise EverystepError(f"problem '{path}': {error}") from None
    return problem


def digest(problem: FiniteCMDP) -> str:
    """A fingerprint of everything that decides what happens in a problem."""
    sha = hashlib.sha256(str(problem.horizon).encode())
    for name, array in sorted(problem.coordinates.items()):
        sha.update(name.encode() + np.ascontiguousarray(array).tobytes())
    left_out = {"horizon", "coordinates"}  # they came first
    left_out |= {"P"} | ({"P.states", "P.probabilities"} if isinstance(problem.P, Factored) else {"P.phi", "P.mu"})
    if problem.scale is None:  # hashed only where it is set, as what is known
        left_out.add("scale")
    if problem.known.is_empty:
        left_out |= {each.path for each in FIELDS if each.path.startswith("known.")}
    for each in FIELDS:
        if each.hashed and each.path not in left_out:
            value = each.value(problem)
            sha.update(b"-" if value is None else str(np.shape(value)).encode() + np.ascontiguousarray(value).tobytes())
    return sha.hexdigest()


def _read_fields(path: str | Path, horizon: int | None) -> dict[str, np.ndarray]:
    """The arrays of a file that are fields of a problem, with one form of the transitions and the horizon given."""
    names = {each.name for each in FIELDS}
    arrays = read_npz(path, lambda key: key in names or key.startswith(COORDINATE))
    form = next((form for form in TRANSITIONS if any(key in arrays for key in form)), TRANSITIONS[0])
    unused = {key for other in TRANSITIONS if other != form for key in other}
    needed = [each.name for each in FIELDS if each.required and each.name not in unused]
    if horizon is not None:
        arrays["horizon"] = np.asarray(whole_number("horizon", horizon))
    if missing := [key for key in needed if key not in arrays]:
        raise EverystepError(f"it has no {' and no '.join(missing)}. Save {', '.join(needed)} in it.")
    if arrays["horizon"].ndim != 0:
        raise EverystepError(f"horizon has shape {arrays['horizon'].shape}; save one whole number.")
    return {key: array for key, array in arrays.items() if key not in unused}


def _from_arrays(arrays: dict[str, np.ndarray], name: str, replaced: dict[str, Any]) -> FiniteCMDP:
    parts: dict[str, dict[str, Any]] = {"": {"name": name}, "P": {}, "noise": {}, "grid": {}, "known": {}}
    for each in FIELDS:
        part, _, attribute = each.path.rpartition(".")
        if each.path == "coordinates":
            named = {key: array for key, array in arrays.items() if key.startswith(COORDINATE)}
            parts[part][attribute] = {key.removeprefix(COORDINATE): array for key, array in named.items()}
        elif each.name in arrays:
            parts[part][attribute] = each.from_file(each.name, arrays[each.name])
    fields = parts[""] | {"noise": Noise(**parts["noise"]), "known": Known(**parts["known"])}
    if parts["P"]:
        fields["P"] = (Factored if "phi" in parts["P"] else Successors)(**parts["P"])
    if "rows" in parts["grid"]:
        fields["grid"] = Grid(**parts["grid"])
    return FiniteCMDP(**fields | replaced)
