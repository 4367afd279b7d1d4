"""The run folder: Parquet, JSON, npz and figures, written whole or not at all. Nothing in it is ever unpickled.

episodes.parquet  a row for each agent, seed and episode      spec.json     everything needed to run it again
summary.json      means over seeds with intervals             problem.npz   the problem itself, as arrays
visits.npz        visits of each state, after 500 and at the end  figures/  PNG and SVG
features.npz      features given to an agent from Python, if any were
certificates.npz  the ends of every cost interval at the end    kernels.json  fitted kernels, if any were fitted
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everystep.errors import EverystepError
from everystep.problem import Factored, FiniteCMDP

if TYPE_CHECKING:
    from everystep.experiment import Result

PARTIAL = ".partial"


def claim(out: Path, spec: dict[str, Any]) -> None:
    """Refuse a folder that cannot be written, or that holds anything but this very run, before any work is done."""
    try:
        if out.is_dir() and any(not path.name.endswith(PARTIAL) for path in out.iterdir()):
            if not (out / "spec.json").is_file():
                raise EverystepError(f"out '{out}' holds other files; choose an empty or a new folder.")
            if not _same_run(read_spec(out), spec):
                raise EverystepError(f"out '{out}' already holds a different run; choose another folder, or remove it.")
        probe = _partial(out)
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        raise _unusable(out, error) from None


def holds(out: Path, spec: dict[str, Any]) -> bool:
    """Whether a folder holds this very run already, whole: nothing half-written is ever there."""
    return (out / "spec.json").is_file() and _same_run(read_spec(out), spec)


def read_spec(folder: Path) -> dict[str, Any]:
    """The spec.json of a run folder."""
    return read_json(folder / "spec.json")


def read_json(path: Path) -> dict[str, Any]:
    """One of the JSON files of a run folder."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        content = None
    if not isinstance(content, dict):
        raise EverystepError(f"out '{path.parent}' has a {path.name} that cannot be read; choose another folder.")
    return content


def read_curves(folder: Path, columns: Sequence[str]) -> dict[str, dict[str, np.ndarray]]:
    """Columns of episodes.parquet as (seeds, K), by agent; those that an agent does not have are left out."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    spec = read_spec(folder)
    try:
        shape = (len(spec["seeds"]), spec["episodes"])
        file = folder / "episodes.parquet"
        there = [name for name in columns if name in pq.read_schema(file).names]
        table = pq.read_table(file, columns=["agent", *there])
        agents = table["agent"].to_numpy()
        arrays = {name: table[name].to_numpy() for name in there}
        valid = {name: table[name].is_valid().to_numpy() for name in there}
        mine = {each["label"]: agents == each["label"] for each in spec["agents"]}
        return {
            label: {name: array[rows].reshape(shape) for name, array in arrays.items() if valid[name][rows].all()}
            for label, rows in mine.items()
        }
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        raise EverystepError(
            f"out '{folder}' has an episodes.parquet or a spec.json that cannot be read; remove it and run it again."
        ) from None


@contextmanager
def folder(out: Path, spec: dict[str, Any]) -> Iterator[Path]:
    """A folder to fill beside `out`, moved there when it is full; on any error nothing is left."""
    claim(out, spec)
    with replacing(out) as partial:
        yield partial


@contextmanager
def replacing(out: Path) -> Iterator[Path]:
    """A folder to fill beside `out`, whose files are then moved there one by one, each whole; others stay."""
    partial = _partial(out)
    try:
        partial.mkdir()
        yield partial
        _move(partial, out)
    except OSError as error:
        raise _unusable(out, error) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def fill(result: Result, folder: Path, figures: bool = True) -> None:
    """Everything a result holds, as files in an existing folder."""
    import pyarrow.parquet as pq

    pq.write_table(result.episodes, folder / "episodes.parquet", compression="zstd")
    np.savez_compressed(folder / "visits.npz", **result.visits)  # type: ignore[arg-type]
    save_problem(result.problem, folder / "problem.npz")
    if result.features:
        kept = {f"{label}_features": phi for label, phi in result.features.items()}
        np.savez_compressed(folder / "features.npz", **kept)  # type: ignore[arg-type]
    if result.certificates:
        np.savez_compressed(folder / "certificates.npz", **result.certificates)  # type: ignore[arg-type]
    texts = {"summary.json": result.summary, "spec.json": result.spec}
    for name, content in (texts | ({"kernels.json": result.fits} if result.fits else {})).items():
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    if figures:
        from everystep import figures as draw

        draw.write(result, folder / "figures")


def save_problem(problem: FiniteCMDP, path: Path) -> None:
    """The problem as arrays that `everystep run --problem` reads back."""
    noise = problem.noise
    P, features = problem.P, problem.features
    if isinstance(P, Factored) and features is not None and np.array_equal(features[None], P.phi):
        features = None  # they come with the factors
    arrays: dict[str, Any] = {
        **({"phi": P.phi, "mu": P.mu} if isinstance(P, Factored) else {"P": P}),
        "r": problem.r,
        "g": problem.g,
        "start": problem.start if problem.start.size > 1 else problem.start[0],
        "horizon": problem.horizon,
        "reward_on_arrival": noise.reward_on_arrival,
        "cost_on_arrival": noise.cost_on_arrival,
        "reward_sigma": noise.reward_sigma,
        "cost_sigma": np.asarray(noise.cost_sigma, float),
        "features": features,
        "exempt": problem.exempt,
        "rows": None if problem.grid is None else np.array(problem.grid.rows),
        "heights": None if problem.grid is None else problem.grid.heights,
        "kernel": None if problem.kernel is None else np.array(problem.kernel),
        "linear_costs": None if problem.linear_costs else np.array(False),
        "threshold": problem.known.threshold,
        "safe_action": problem.known.safe_action,
        "triples": problem.known.triples,
        **{f"coordinate_{name}": array for name, array in problem.coordinates.items()},
        "name": np.array(problem.name),
    }
    for name in {"P", "phi", "mu", "r"} & arrays.keys():
        arrays[name] = arrays[name] if len(arrays[name]) > 1 else arrays[name][0]
    np.savez_compressed(path, **{key: value for key, value in arrays.items() if value is not None})


def _same_run(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two specs ask for the same work; versions may differ."""
    strip = lambda spec: {key: value for key, value in json.loads(json.dumps(spec)).items() if key != "versions"}
    return bool(strip(one) == strip(other))


def _partial(out: Path) -> Path:
    """Where a folder is filled: inside `out` if it is there, else in the nearest folder above it that is."""
    out = out.resolve()
    if out.exists() and not out.is_dir():
        raise EverystepError(f"out '{out}' is a file; choose a folder.")
    home = next(path for path in (out, *out.parents) if path.exists())
    return home / f".everystep-{uuid.uuid4().hex[:12]}{PARTIAL}"


def _unusable(out: Path, error: OSError) -> EverystepError:
    return EverystepError(
        f"out '{out}' cannot be written ({error.strerror or error}); choose a folder you may write to."
    )


def _move(partial: Path, out: Path) -> None:
    """Put the finished folder in place: at once where there is none, else file by file, each one whole."""
    out = out.resolve()
    if not out.exists():
        out.parent.mkdir(parents=True, exist_ok=True)
        os.replace(partial, out)
        return
    for source in sorted(path for path in partial.rglob("*") if path.is_file()):
        target = out / source.relative_to(partial)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(source, target)
