"""Batches in files: Parquet, CSV, and npz without objects.

A table has a row for each step and the columns observation (or observation_0, observation_1, ... for a vector), action,
reward, cost (or cost_1, cost_2, ... for several constraints), next_observation (as observation), terminated, and step
or episode or both. Other columns are left alone. An npz file holds arrays of these names, of any shape.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from everystep.arrays import read_npz
from everystep.errors import EverystepError, openable
from everystep.logged.batch import Batch

ENDINGS = (".parquet", ".csv", ".npz")
SINGLE = {"action": "actions", "reward": "rewards", "terminated": "terminated", "step": "steps", "episode": "episode"}
SEVERAL = {"observation": "observations", "next_observation": "next_observations", "cost": "costs"}


def read(path: str | Path, action_count: int | None = None) -> Batch:
    """A batch from a .parquet or .csv table, or from an .npz file with arrays named as the columns."""
    file = Path(path)
    try:
        if file.suffix not in ENDINGS:
            raise EverystepError(f"it ends in '{file.suffix}'; give {', '.join(ENDINGS)}.")
        openable(file)
        columns = read_npz(file, _wanted) if file.suffix == ".npz" else _read_table(file)
        given: dict[str, Any] = {SINGLE[name]: columns[name] for name in SINGLE if name in columns}
        given |= {field: array for name, field in SEVERAL.items() if (array := _gathered(columns, name)) is not None}
        missing = [name for name in (*SEVERAL, *SINGLE) if (SEVERAL | SINGLE)[name] not in given]
        if missing and missing not in (["step"], ["episode"]):  # one of these two is enough
            raise EverystepError(f"it has no column {missing[0]} (it has {', '.join(columns)}); give it one.")
        return Batch.of(**given, action_count=action_count)
    except EverystepError as error:
        raise EverystepError(f"log '{path}': {error}") from None


def write(batch: Batch, path: str | Path) -> Path:
    """The batch as a .parquet, .csv or .npz file that `read` gives back the same; written whole or not at all."""
    file = Path(path)
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
            raise EverystepError(f"log '{path}': {field} have shape {array.shape}, which no table holds; write .npz.")
    partial = file.with_name(f".{file.stem}-{uuid.uuid4().hex[:12]}.partial{file.suffix}")
    try:
        if file.suffix == ".npz":
            np.savez_compressed(partial, **columns)  # type: ignore[arg-type]
        else:
            _write_table(columns, partial)
        os.replace(partial, file)
    except OSError as error:
        raise EverystepError(
            f"log '{path}' cannot be written ({error.strerror or error}); choose a folder you may write to."
        ) from None
    finally:
        partial.unlink(missing_ok=True)
    return file


def _read_table(path: Path) -> dict[str, np.ndarray]:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as file:  # given a path, pyarrow would read meaning into the names of its folders
            table = pq.read_table(file) if path.suffix == ".parquet" else pyarrow.csv.read_csv(file)
    except (pa.ArrowException, OSError) as error:
        reason = " ".join(str(error).split())[:120]
        raise EverystepError(f"it cannot be read as {path.suffix} ({reason}).") from None
    columns = {}
    for name in dict.fromkeys(table.column_names):
        if not _wanted(name):
            continue
        if table.column_names.count(name) > 1:
            raise EverystepError(f"it has {table.column_names.count(name)} columns {name}; give it one.")
        column = table.column(name)
        if column.null_count:
            raise EverystepError(f"{name} is empty in {column.null_count} rows; fill them or leave them out.")
        columns[name] = column.to_numpy()
    return columns


def _write_table(columns: Mapping[str, np.ndarray], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    table = pa.table(dict(columns))
    with path.open("wb") as file:  # not the path: see _read_table
        if path.suffix == ".parquet":
            pq.write_table(table, file, compression="zstd")
        else:
            pyarrow.csv.write_csv(table, file)


def _wanted(column: str) -> bool:
    """Whether it is one of ours: a log may hold more than is learnt from."""
    return column in SINGLE or column in SEVERAL or _numbered(column) in SEVERAL


def _numbered(column: str) -> str:
    """'cost' for cost_2; nothing for a column without a number."""
    name, _, number = column.rpartition("_")
    return name if number.isdigit() else ""


def _gathered(columns: Mapping[str, np.ndarray], name: str) -> np.ndarray | None:
    """The column `name`, or the columns name_0, name_1, ... (costs: from 1) side by side; None if there are neither."""
    numbered = [key for key in columns if _numbered(key) == name]
    if name in columns or not numbered:
        return columns.get(name)
    first = 1 if name == "cost" else 0
    wanted = [f"{name}_{i}" for i in range(first, first + len(numbered))]
    if missing := [key for key in wanted if key not in numbered]:
        raise EverystepError(
            f"it has no column {missing[0]} among {', '.join(sorted(numbered))}; number them in a row."
        )
    return np.stack([columns[key] for key in wanted], -1)
