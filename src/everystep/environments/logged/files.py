"""Batches in files: Parquet, CSV, and npz without objects.

A table has one row per step and the columns observation (or observation_0, observation_1, ... for a vector), action,
reward, cost (or cost_1, cost_2, ... for several constraints), next_observation (like observation), terminated, and step
or episode or both. Other columns are ignored. An npz file has arrays of these names, of any shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from everystep import files
from everystep.environments.play.batch import Batch
from everystep.errors import LARGEST, EverystepError, check_openable, check_type, path_from
from everystep.files import read_npz, read_parquet

ENDINGS = (".parquet", ".csv", ".npz")
SINGLE = {"action": "actions", "reward": "rewards", "terminated": "terminated", "step": "steps", "episode": "episode"}
SEVERAL = {"observation": "observations", "next_observation": "next_observations", "cost": "costs"}


def read(path: str | Path, action_count: int | None = None) -> Batch:
    """Read a batch from a .parquet or .csv table, or from an .npz file whose arrays are named like the columns.

    >>> env = es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4))
    >>> path = es.logged.write(es.logged.from_env(env, None, episodes=2), "log.csv")
    >>> len(es.logged.read("log.csv", action_count=4))
    8
    """
    file = path_from("path", path)
    try:
        if file.suffix not in ENDINGS:
            raise EverystepError(f"it ends in '{file.suffix}'; give {', '.join(ENDINGS)}.")
        check_openable(file)
        columns = read_npz(file, _wanted) if file.suffix == ".npz" else _read_table(file)
        given: dict[str, Any] = {SINGLE[name]: columns[name] for name in SINGLE if name in columns}
        given |= {field: array for name, field in SEVERAL.items() if (array := _gathered(columns, name)) is not None}
        missing = [name for name in (*SEVERAL, *SINGLE) if (SEVERAL | SINGLE)[name] not in given]
        if missing and missing not in (["step"], ["episode"]):  # one of these two is enough
            raise EverystepError(f"it has no column {missing[0]} (it has {', '.join(columns)}); add it.")
        return Batch.of(**given, action_count=action_count)
    except EverystepError as error:
        raise EverystepError(f"log '{path}': {error}") from None


def write(batch: Batch, path: str | Path, force: bool = False) -> Path:
    """Write a .parquet, .csv or .npz file from which `read` returns an equal batch; whole or not at all.

    A file that another program wrote or changed is replaced only with `force`.

    >>> batch = es.Batch.of(
    ...     observations=[0, 1], actions=[1, 0], rewards=[0.0, 1.0], costs=[[-1.0], [0.5]],
    ...     next_observations=[1, 2], terminated=[False, True], steps=[0, 1],
    ... )
    >>> es.logged.write(batch, "log.npz").name
    'log.npz'
    """
    check_type("batch", batch, Batch, "an es.Batch")
    file = path_from("path", path)
    if file.suffix not in ENDINGS:
        raise EverystepError(f"log '{path}': it ends in '{file.suffix}'; choose {', '.join(ENDINGS)}.")
    columns: dict[str, np.ndarray] = {}
    for name, field in (SEVERAL | SINGLE).items():
        array = getattr(batch, field)
        if name == "cost" and batch.constraints == 1:
            array = array[:, 0]
        if file.suffix == ".npz" or array.ndim == 1:
            columns[name] = array
        elif array.ndim == 2:
            columns |= {f"{name}_{i + (name == 'cost')}": column for i, column in enumerate(array.T)}
        else:
            raise EverystepError(
                f"log '{path}': {field} have shape {array.shape}, which a table cannot hold; write .npz."
            )
    writer = {".npz": _write_npz, ".parquet": _write_parquet, ".csv": _write_csv}[file.suffix]
    try:
        files.write_output(file, lambda opened: writer(columns, opened), force)
    except OSError as error:
        raise EverystepError(
            f"log '{path}' cannot be written ({error.strerror or error}); choose a folder you may write to."
        ) from None
    return file


def _read_table(path: Path) -> dict[str, np.ndarray]:
    import pyarrow as pa
    import pyarrow.csv

    try:
        if path.suffix == ".parquet":
            table = read_parquet(path, _wanted, LARGEST)
        else:
            with path.open("rb") as file:
                table = pyarrow.csv.read_csv(file)
        names = table.column_names
    except (pa.ArrowException, OSError, ValueError) as error:  # names that are no text, or columns that are too large
        reason = " ".join(str(error).split())[:120]
        raise EverystepError(f"it cannot be read as {path.suffix} ({reason}).") from None
    columns = {}
    for name in dict.fromkeys(names):
        if not _wanted(name):
            continue
        if names.count(name) > 1:
            raise EverystepError(f"it has {names.count(name)} columns {name}; keep one.")
        column = table.column(name)
        if column.null_count:
            raise EverystepError(f"{name} is empty in {column.null_count} rows; fill them or leave them out.")
        columns[name] = column.to_numpy()
    return columns


def _write_npz(columns: Mapping[str, np.ndarray], file: BinaryIO) -> None:
    files.write_npz(file, columns.items(), compressed=True)


def _write_parquet(columns: Mapping[str, np.ndarray], file: BinaryIO) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(dict(columns)), file, compression="zstd")


def _write_csv(columns: Mapping[str, np.ndarray], file: BinaryIO) -> None:
    import pyarrow as pa
    import pyarrow.csv

    pyarrow.csv.write_csv(pa.table(dict(columns)), file)


def _wanted(column: str) -> bool:
    """Whether a column belongs to a batch; a log may have others."""
    return column in SINGLE or column in SEVERAL or _numbered(column) in SEVERAL


def _numbered(column: str) -> str:
    """'cost' for cost_2; '' for a column without a number."""
    name, _, number = column.rpartition("_")
    return name if number.isdigit() else ""


def _gathered(columns: Mapping[str, np.ndarray], name: str) -> np.ndarray | None:
    """The column `name`, or the columns name_0, name_1, ... (costs: from 1) stacked; None if there are neither."""
    numbered = [key for key in columns if _numbered(key) == name]
    if name in columns or not numbered:
        return columns.get(name)
    first = 1 if name == "cost" else 0
    wanted = [f"{name}_{i}" for i in range(first, first + len(numbered))]
    if missing := [key for key in wanted if key not in numbered]:
        raise EverystepError(
            f"it has no column {missing[0]} among {', '.join(sorted(numbered))}; number them consecutively."
        )
    return np.stack([columns[key] for key in wanted], -1)
