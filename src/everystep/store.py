"""The run folder: Parquet, JSON, npz and figures, written whole or not at all. Nothing in it is ever unpickled.

episodes.parquet  a row for each agent, seed and episode      spec.json     everything needed to run it again
summary.json      means over seeds with intervals             problem.npz   the problem itself, as arrays
visits.npz        visits of each state, after 500 and at the end  figures/  PNG and SVG
features.npz      features given to an agent from Python, if any were
certificates.npz  the ends of every cost interval at the end    kernels.json  fitted kernels, if any were fitted

While a run is not finished its folder holds .work/ (see `checkpoint.py`), and nobody reads anything else there.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everystep import experiment
from everystep.arrays import write_npz
from everystep.durable import PARTIAL
from everystep.errors import EverystepError
from everystep.problem import Factored, FiniteCMDP

if TYPE_CHECKING:
    from everystep.experiment import Outcome

WORK = ".work"
ROWS = 2**17  # of a row group, at most: whole seeds where they fit


def claim(out: Path, spec: dict[str, Any]) -> None:
    """Refuse a folder that cannot be written, or that holds anything but this very run, before any work is done."""
    try:
        if out.is_dir() and any(not path.name.endswith(PARTIAL) for path in out.iterdir()):
            finished(out)
            _refuse_another(out, out, spec)
        probe = _partial(out)
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        raise unusable(out, error) from None


def _refuse_another(out: Path, where: Path, spec: dict[str, Any]) -> None:
    if not (where / "spec.json").is_file():
        raise EverystepError(f"out '{out}' holds other files; choose an empty or a new folder.")
    if not same_run(read_spec(where), spec):
        kind = "a different run" if where == out else "a different, unfinished run"
        raise EverystepError(f"out '{out}' already holds {kind}; choose another folder, or remove it.")


def claim_for_work(out: Path, spec: dict[str, Any]) -> bool:
    """Refuse a folder that cannot be worked in, or holds anything but this very run; whether it is unfinished there."""
    try:
        if _there(out) and not out.is_dir():
            raise EverystepError(f"out '{out}' is a file; choose a folder.")
        if is_unfinished(out):
            _refuse_another(out, out / WORK, spec)
            return True
        if out.is_dir() and any(not path.name.endswith(PARTIAL) for path in out.iterdir()):
            _refuse_another(out, out, spec)
    except OSError as error:
        raise unusable(out, error) from None
    return False


def is_unfinished(folder: Path) -> bool:
    """Whether a run was begun in this folder and has not come to its end."""
    return (folder / WORK).is_dir()


def finished(folder: Path) -> None:
    """Nothing if no run in this folder waits to be finished, else the error that says how to finish it."""
    if is_unfinished(folder):
        raise EverystepError(how_to_finish(folder))


def how_to_finish(folder: Path) -> str:
    return f"'{folder}' holds an unfinished run; `everystep resume {folder}` finishes it."


def holds(out: Path, spec: dict[str, Any]) -> bool:
    """Whether a folder holds this very run already, whole: nothing half-written is ever there."""
    return not is_unfinished(out) and (out / "spec.json").is_file() and same_run(read_spec(out), spec)


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
        # Given a path, pyarrow would read meaning into the names of its folders, and some it could not encode.
        with (folder / "episodes.parquet").open("rb") as opened:
            file = pq.ParquetFile(opened, page_checksum_verification=True)
            there = [name for name in columns if name in file.schema_arrow.names]
            table = file.read(["agent", *there])
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
        raise unusable(out, error) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def fill(outcome: Outcome, folder: Path, figures: bool = True) -> None:
    """Everything a finished experiment holds, as files in an existing folder; rows pass through in batches of seeds."""
    write_episodes(outcome, folder / "episodes.parquet")
    write_npz(folder / "visits.npz", outcome.visits.items(), compressed=True)
    save_problem(outcome.problem, folder / "problem.npz")
    if outcome.features:
        save_features(outcome.features, folder)
    if outcome.certificates:
        write_npz(folder / "certificates.npz", outcome.certificates.items(), compressed=True)
    texts = {"summary.json": outcome.summary, "spec.json": outcome.spec}
    for name, content in (texts | ({"kernels.json": outcome.fits} if outcome.fits else {})).items():
        write_json(folder / name, content)
    if figures:
        from everystep import figures as draw

        draw.write(outcome, folder / "figures")


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def save_features(features: Mapping[str, np.ndarray], folder: Path) -> None:
    """features.npz: those given to agents from Python."""
    kept = {f"{label}_features": phi for label, phi in features.items()}
    write_npz(folder / "features.npz", kept.items(), compressed=True)


def write_episodes(outcome: Outcome, path: Path) -> None:
    """episodes.parquet: rows by agent, seed and episode, in row groups whose sizes depend on the spec alone."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    spec = outcome.spec
    labels, seeds, K = [each["label"] for each in spec["agents"]], spec["seeds"], spec["episodes"]
    first = {label: next(iter(outcome.batches(label))) for label in labels}
    none_of = lambda label: {name: curve[:0] for name, curve in first[label].items()}
    schema = pa.unify_schemas([experiment.rows(spec, label, [], none_of(label)).schema for label in labels])
    how = {"compression": "zstd", "write_page_checksum": True}
    with path.open("wb") as opened, pq.ParquetWriter(opened, schema, **how) as file:
        for label in labels:
            done = 0
            for group in _regrouped(outcome.batches(label), max(1, ROWS // K)):
                n = len(next(iter(group.values())))
                table = experiment.rows(spec, label, seeds[done : done + n], group)
                # an agent without cost models has no labels
                columns = [
                    table[field.name] if field.name in table.column_names else pa.nulls(len(table), field.type)
                    for field in schema
                ]
                file.write_table(pa.table(columns, schema=schema), row_group_size=ROWS)
                done += n


def _regrouped(batches: Iterable[Mapping[str, np.ndarray]], size: int) -> Iterator[dict[str, np.ndarray]]:
    """The same seeds in groups of `size`; the last may be smaller."""
    waiting: list[Mapping[str, np.ndarray]] = []
    count = 0

    def joined() -> dict[str, np.ndarray]:
        return {name: np.concatenate([batch[name] for batch in waiting]) for name in waiting[0]}

    for batch in batches:
        n, at = len(next(iter(batch.values()))), 0
        while at < n:
            taken = min(size - count, n - at)
            waiting.append({name: column[at : at + taken] for name, column in batch.items()})
            at, count = at + taken, count + taken
            if count == size:
                yield joined()
                waiting, count = [], 0
    if waiting:
        yield joined()


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


def same_run(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two specs ask for the same work; versions may differ."""
    strip = lambda spec: {key: value for key, value in json.loads(json.dumps(spec)).items() if key != "versions"}
    return bool(strip(one) == strip(other))


def _partial(out: Path) -> Path:
    """Where a folder is filled: inside `out` if it is there, else in the nearest folder above it that is."""
    out = out.resolve()
    if _there(out) and not out.is_dir():
        raise EverystepError(f"out '{out}' is a file; choose a folder.")
    home = next(path for path in (out, *out.parents) if _there(path))
    return home / f".everystep-{uuid.uuid4().hex[:12]}{PARTIAL}"


def _there(path: Path) -> bool:
    """Whether there is something at a path; an OSError where the system cannot say (`exists` would say no)."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def unusable(out: Path, error: OSError) -> EverystepError:
    """The sentence for a folder that the system does not let us write."""
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
