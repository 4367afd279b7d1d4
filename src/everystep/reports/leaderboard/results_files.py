"""Files of results: reading, checking and writing them. results.schema.json decides which columns there are.

A reader gets no row that contradicts the format: what is wrong is named with its file, column, value and row. Types
that hold the same values are accepted (a dictionary of strings, 32-bit numbers, whole numbers as doubles); what is
written has exactly the types of the format.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

import numpy as np

from everystep import files
from everystep.errors import LARGEST_TEXT, EverystepError, path_from, quoted, shown

if TYPE_CHECKING:
    import pyarrow as pa

ENDING = ".parquet"
OWN = "leaderboard.parquet"  # what the command writes: not read again when it searches a folder
MOST_ROWS = 1_000_000
MOST_SYSTEMS = 1000  # on one board: each is compared with the baseline on every problem, and is a row of every table
MOST_FILES = 100_000  # in the folders that are searched
FORMAT = "docs/reference/files.md describes the format"
CLOSE = 1e-6  # of the violation: its curve may have been added in another order


@cache
def schema() -> dict[str, Any]:
    """results.schema.json: JSON Schema of one row."""
    found: dict[str, Any] = json.loads(Path(__file__).with_name("results.schema.json").read_text(encoding="utf-8"))
    return found


def path_of(field: str, value: object) -> Path:
    """`value` as a path that the file system can name, or the error that names `field`."""
    path = path_from(field, value)
    try:
        os.fsencode(path)
    except UnicodeError:
        raise EverystepError(f"{field} is {quoted(str(path))}, which no file can be called; check the path.") from None
    return path


def read(paths: Sequence[Path]) -> pa.Table:
    """All rows of the files, and of those in folders, with the columns of the format first; raises if one is wrong."""
    return together([(path, read_file(path)) for path in found_in(paths)])


def found_in(paths: Sequence[Path]) -> list[Path]:
    """The files that are given, and every .parquet file below the folders; none twice."""
    found: dict[Path, Path] = {}
    for path in paths:
        try:
            inside = _in_folder(path) if stat.S_ISDIR(path.stat().st_mode) else [path]
        except OSError as error:
            reason = error.strerror or error
            raise EverystepError(
                f"'{path}' cannot be read ({reason}); give files of results, or their folders."
            ) from None
        if not inside:
            raise EverystepError(f"'{path}' holds no {ENDING} file; give a folder with files of results ({FORMAT}).")
        found |= {files.real(each): each for each in inside if files.real(each) not in found}
    return list(found.values())


def _in_folder(folder: Path) -> list[Path]:
    return [path for path in below(folder, ENDING) if path.name != OWN]


def below(folder: Path, ending: str) -> list[Path]:
    """The files below a folder whose names end so, without what is hidden; refuses to search a whole disk."""
    found, seen = [], 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name[0] != ".")
        seen += len(folders) + len(names)
        if seen > MOST_FILES:
            raise EverystepError(f"'{folder}' holds more than {MOST_FILES:,} files; give the folder of the results.")
        found += [Path(place, name) for name in sorted(names) if name.endswith(ending) and name[0] != "."]
    return found


def read_file(path: Path) -> pa.Table:
    """The rows of one file, checked, with the types of the format."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        files.check_regular(path)
        data = path.read_bytes()
    except OSError as error:
        raise EverystepError(f"'{path}' cannot be read ({error.strerror or error}); check the path.") from None
    try:
        with pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True) as file:
            _check_columns(path, file.schema_arrow, file.metadata.num_rows)
            files.check_parquet(file, len(data), file.schema_arrow.names, MOST_ROWS)
        texts = [each.name for each in file.schema_arrow if pa.types.is_string(each.type)]
        with pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True, read_dictionary=texts) as file:
            table = file.read()
        if sum(_length_of_texts(table[name]) for name in texts) > LARGEST_TEXT:
            raise EverystepError(f"'{path}' has texts of more than {LARGEST_TEXT:,} bytes; shorten them.")
        table.validate(full=True)
        return _checked(path, table)
    except EverystepError:
        raise
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        raise EverystepError(
            f"'{path}' cannot be read as Parquet; write it again, with pyarrow, pandas or polars ({FORMAT})."
        ) from None


def _length_of_texts(column: pa.ChunkedArray) -> int:
    """The bytes of all texts of a column, each of which is in memory once."""
    import pyarrow.compute as pc

    total = 0
    for chunk in column.chunks:
        if hasattr(chunk, "dictionary"):
            total += pc.sum(pc.take(pc.binary_length(chunk.dictionary), chunk.indices)).as_py() or 0
    return total


def together(tables: Sequence[tuple[Path, pa.Table]]) -> pa.Table:
    """The rows of all files. Columns that the format does not have are kept, as text where their types differ."""
    import pyarrow as pa

    types: dict[str, set[Any]] = {}
    for _, table in tables:
        for field in table.schema:
            types.setdefault(field.name, set()).add(field.type)
    own = list(schema()["properties"])
    parts = []
    for _, table in tables:
        for name in set(table.column_names) - set(own):
            if len(types[name]) > 1:
                words = [None if each is None else str(each) for each in table[name].to_pylist()]
                table = table.set_column(table.column_names.index(name), name, pa.array(words, pa.string()))
        parts.append(table.replace_schema_metadata(None))
    rows = pa.concat_tables(parts, promote_options="default").combine_chunks()
    _refuse_repeated(tables)
    if (systems := len(rows["system"].unique())) > MOST_SYSTEMS:
        raise EverystepError(f"there are {systems:,} systems; compare at most {MOST_SYSTEMS:,} at a time.")
    return rows.select([name for name in own if name in types] + [name for name in types if name not in own])


def table_of(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Rows as a table with the types of the format, checked."""
    import pyarrow as pa

    listed = list(rows)
    named = [name for name in schema()["properties"] if any(name in row for row in listed)]
    arrays = [pa.array([row.get(name) for row in listed], _types()[name]) for name in named]
    return _checked(Path("results"), pa.table(arrays, names=named))


def write(table: pa.Table, file: BinaryIO) -> None:
    """Write rows; the same bytes for the same rows."""
    import pyarrow.parquet as pq

    pq.write_table(table, file, compression="zstd", write_page_checksum=True)


# --- checking ---------------------------------------------------------------------------------------------------------
@cache
def _types() -> dict[str, pa.DataType]:
    import pyarrow as pa

    named = {"string": pa.string(), "int64": pa.int64(), "double": pa.float64(), "list<double>": pa.list_(pa.float64())}
    return {name: named[each["x-parquet"]] for name, each in schema()["properties"].items()}


def _check_columns(path: Path, found: pa.Schema, rows: int) -> None:
    if twice := [name for name in found.names if found.names.count(name) > 1]:
        raise EverystepError(
            f"'{path}' has {found.names.count(twice[0])} columns {quoted(twice[0])}; keep one of them."
        )
    if missing := [name for name in schema()["required"] if name not in found.names]:
        raise EverystepError(f"'{path}' has no column {', '.join(missing)}; add it ({FORMAT}).")
    if not 1 <= rows <= MOST_ROWS:
        raise EverystepError(f"'{path}' has {rows} rows; give from 1 to {MOST_ROWS:,}.")
    for name, rules in schema()["properties"].items():
        if name in found.names and not _fits(found.field(name).type, rules["x-parquet"]):
            raise EverystepError(
                f"'{path}': column {name} has the type {shown(found.field(name).type)}; write it as "
                f"{rules['x-parquet']}."
            )


def _fits(found: pa.DataType, wanted: str) -> bool:
    """Whether a column of this type can hold the values of the format; a column of nothing but nulls fits, too."""
    from pyarrow import types

    if types.is_dictionary(found):
        found = found.value_type
    if wanted == "list<double>" and types.is_nested(found):
        return "list" in str(found) and found.num_fields == 1 and _fits(found.field(0).type, "double")
    fit = {
        "string": str(found) in ("string", "large_string", "string_view"),
        "int64": types.is_integer(found),
        "double": types.is_integer(found) or str(found) in ("double", "float"),
    }
    return bool(types.is_null(found) or fit.get(wanted))


def _checked(path: Path, table: pa.Table) -> pa.Table:
    """The table with the types of the format; every value of its columns is checked."""
    import pyarrow as pa

    columns = {name: rules for name, rules in schema()["properties"].items() if name in table.column_names}
    for name, rules in columns.items():
        try:
            table = table.set_column(table.column_names.index(name), name, table[name].cast(_types()[name]))
        except pa.ArrowException:
            kind = rules["x-parquet"]
            raise EverystepError(
                f"'{path}': column {name} has a value that is no {kind}; write it as {kind}."
            ) from None
        for row, value in enumerate(table[name].to_pylist()):
            if value is None and name in schema()["required"]:
                raise EverystepError(f"'{path}': {name} of row {row + 1} is missing; give every row one.")
            if value is not None and (remedy := _remedy(value, rules)):
                _wrong(path, name, row, value, remedy)
    _check_together(path, table)
    return table


def _wrong(path: Path, name: str, row: int, value: object, remedy: str) -> NoReturn:
    raise EverystepError(f"'{path}': {name} of row {row + 1} is {quoted(value)}; {remedy}.")


def _remedy(value: object, rules: Mapping[str, Any]) -> str | None:
    """What to give instead of a value that the rules of its column do not allow."""
    if isinstance(value, str):
        return _remedy_of_text(value, rules)
    low, high = rules.get("minimum", -math.inf), rules.get("maximum", 2**63 - 1)
    if isinstance(value, int | float):  # NaN is in no range
        return None if low <= value <= high else f"give a finite number{'' if low < 0 else f' of at least {low}'}"
    assert isinstance(value, list)
    curve = np.array([np.nan if each is None else each for each in value], float)
    if not len(curve):
        return "give at least one number, or null instead of the list"
    if "minimum" not in rules["items"]:
        return "give finite numbers, or NaN where no episode ended" if np.isinf(curve).any() else None
    rises = (np.diff(curve) >= -CLOSE * max(curve[-1], 1)).all()
    fits = rises and ((curve >= 0) & (curve <= rules["items"]["maximum"])).all()
    return None if fits else "give finite numbers of at least 0 that never fall"


def _remedy_of_text(text: str, rules: Mapping[str, Any]) -> str | None:
    if "enum" in rules and text not in rules["enum"]:
        return f"choose {' or '.join(rules['enum'])}"
    most = int(rules.get("maxLength", LARGEST_TEXT))
    if "maxLength" in rules and not (text.isprintable() and text == text.strip() and 1 <= len(text) <= most):
        return f"give a printable name of 1 to {most} characters"
    if rules.get("contentMediaType") != "application/json":
        return None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return "give JSON, such as json.dumps makes"
    if "contentSchema" in rules and not (
        isinstance(content, dict) and all(isinstance(each, str) for each in content.values())
    ):
        return "give a JSON object of package and version, both texts"
    return None


def check_name(field: str, value: object) -> None:
    """Raise unless `value` may be the name of a system or a problem."""
    remedy = _remedy_of_text(value if isinstance(value, str) else "", schema()["properties"][field])
    if remedy is not None:
        raise EverystepError(f"{field} is {quoted(value)}; {remedy}.")


def _check_together(path: Path, table: pa.Table) -> None:
    """Columns that contradict each other, row by row."""
    steps, harm, unsafe, last = (table[name].to_numpy() for name in ("steps", "harm", "unsafe_steps", "last_violation"))

    def refuse(wrong: np.ndarray, name: str, values: np.ndarray, remedy: Callable[[int], str]) -> None:
        if wrong.any():
            row = int(np.argmax(wrong))
            _wrong(path, name, row, int(values[row]), remedy(row))

    for name, values in (("last_violation", last), ("unsafe_steps", unsafe)):
        refuse(values > steps, name, values, lambda row: f"give at most its steps, {steps[row]}")
    refuse(unsafe > last, "unsafe_steps", unsafe, lambda row: f"give at most last_violation, {last[row]}")
    wanted = lambda row: f"give {'more' if harm[row] > 0 else '0'}, because its harm is {shown(float(harm[row]))}"
    for name, values in (("unsafe_steps", unsafe), ("last_violation", last)):
        refuse((harm > 0) != (values > 0), name, values, wanted)
    for row, curve in enumerate(table["harm_curve"].to_pylist() if "harm_curve" in table.column_names else ()):
        if curve is not None and abs(curve[-1] - harm[row]) > CLOSE * max(harm[row], 1):
            _wrong(path, "harm_curve", row, curve[-1], f"give a curve that ends at harm, {shown(float(harm[row]))}")


def _refuse_repeated(tables: Sequence[tuple[Path, pa.Table]]) -> None:
    """Raise if a training is there twice, or a system is of two kinds."""
    seen: dict[tuple[str, str, int], Path] = {}
    kinds: dict[str, tuple[str, Path]] = {}
    for path, table in tables:
        given = table["kind"].to_pylist() if "kind" in table.column_names else [None] * table.num_rows
        names = [table[name].to_pylist() for name in ("system", "problem", "seed")]
        for system, problem, seed, kind in zip(*names, given, strict=True):
            if (system, problem, seed) in seen:
                raise EverystepError(
                    f"'{path}': seed {seed} of {quoted(system)} on {quoted(problem)} is also in "
                    f"'{seen[system, problem, seed]}'; keep one of the two rows."
                )
            seen[system, problem, seed] = path
            other, there = kinds.setdefault(system, (kind or "rival", path))
            if other != (kind or "rival"):
                raise EverystepError(
                    f"'{path}': kind of {quoted(system)} is {quoted(kind or 'rival')}, but {quoted(other)} in "
                    f"'{there}'; give a system one kind."
                )
