"""Files of results: reading, checking and writing them. results.schema.json decides which columns there are.

A reader gets no row that contradicts the format: what is wrong is named with its file, column, value and row. Types
that hold the same values are accepted (a dictionary of strings, 32-bit numbers, whole numbers as doubles); what is
written has exactly the types of the format.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
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
CLOSE = 1e-6  # of harm: its curve may have been added in another order


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
    for name in [name for name in schema()["properties"] if name in found.names]:
        if not _fits(found.field(name).type, schema()["properties"][name]["x-parquet"]):
            wanted = schema()["properties"][name]["x-parquet"]
            raise EverystepError(
                f"'{path}': column {name} has the type {shown(found.field(name).type)}; write it as {wanted}."
            )


def _fits(found: pa.DataType, wanted: str) -> bool:
    """Whether a column of this type can hold the values of the format; a column of nothing but nulls fits, too."""
    from pyarrow import types

    if types.is_dictionary(found):
        found = found.value_type
    number = types.is_integer(found) or found in (_types()["harm"], "float32")
    return bool(
        types.is_null(found)
        or (
            wanted == "string"
            and (types.is_string(found) or types.is_large_string(found) or str(found) == "string_view")
        )
        or (wanted == "int64" and types.is_integer(found))
        or (wanted == "double" and number)
        or (wanted == "list<double>" and types.is_nested(found) and "list" in str(found) and _numbers(found))
    )


def _numbers(found: pa.DataType) -> bool:
    return getattr(found, "num_fields", 0) == 1 and _fits(found.field(0).type, "double")


def _checked(path: Path, table: pa.Table) -> pa.Table:
    """The table with the types of the format; every value of its columns is checked."""
    import pyarrow as pa

    columns = schema()["properties"]
    for name in [name for name in columns if name in table.column_names]:
        at, kind = table.column_names.index(name), columns[name]["x-parquet"]
        try:
            table = table.set_column(at, name, table[name].cast(_types()[name]))
        except pa.ArrowException:
            raise EverystepError(
                f"'{path}': column {name} has a value that is no {kind}; write it as {kind}."
            ) from None
        if name in schema()["required"] and table[name].null_count:
            row = table[name].is_null().to_pylist().index(True) + 1
            raise EverystepError(f"'{path}': {name} of row {row} is missing; give every row one.")
    checks = {"string": _check_texts, "int64": _check_numbers, "double": _check_numbers, "list<double>": _check_lists}
    for name in [name for name in columns if name in table.column_names]:
        checks[columns[name]["x-parquet"]](path, name, table)
    _check_together(path, table)
    return table


def _wrong(path: Path, name: str, row: int, value: object, remedy: str) -> NoReturn:
    raise EverystepError(f"'{path}': {name} of row {row + 1} is {quoted(value)}; {remedy}.")


def _check_texts(path: Path, name: str, table: pa.Table) -> None:
    rules = schema()["properties"][name]
    for row, text in enumerate(table[name].to_pylist()):
        if text is None:
            continue
        if "maxLength" in rules and not _is_name(text, rules):
            _wrong(path, name, row, text, f"give a printable name of 1 to {rules['maxLength']} characters")
        if "enum" in rules and text not in rules["enum"]:
            _wrong(path, name, row, text, f"choose {' or '.join(rules['enum'])}")
        if rules.get("contentMediaType") == "application/json":
            _check_json(path, name, row, text)


def _is_name(text: str, rules: Mapping[str, Any]) -> bool:
    fits = rules["minLength"] <= len(text) <= rules["maxLength"]
    return fits and text.isprintable() and text == text.strip()


def check_name(field: str, value: object) -> None:
    """Raise unless `value` may be the name of a system or a problem."""
    rules = schema()["properties"][field]
    if not isinstance(value, str) or not _is_name(value, rules):
        raise EverystepError(
            f"{field} is {quoted(value)}; give a printable name of 1 to {rules['maxLength']} characters."
        )


def _check_json(path: Path, name: str, row: int, text: str) -> None:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        _wrong(path, name, row, text, "give JSON, such as json.dumps makes")
    if "contentSchema" in schema()["properties"][name] and not (
        isinstance(content, dict) and all(isinstance(each, str) for each in content.values())
    ):
        _wrong(path, name, row, text, "give a JSON object of package and version, both texts")


def _check_numbers(path: Path, name: str, table: pa.Table) -> None:
    rules = schema()["properties"][name]
    low, high = rules["minimum"], rules.get("maximum", 2**63 - 1)
    values = [low if each is None else each for each in table[name].to_pylist()]
    if wrong := [row for row, each in enumerate(values) if not low <= each <= high]:  # NaN is in no range
        wanted = "a finite number" if low < 0 else f"a finite number of at least {low}"
        _wrong(path, name, wrong[0], values[wrong[0]], f"give {wanted}")


def _check_lists(path: Path, name: str, table: pa.Table) -> None:
    limits = schema()["properties"][name]["items"]
    for row, entries in enumerate(table[name].to_pylist()):
        if entries is None:
            continue
        values = np.array([np.nan if each is None else each for each in entries], float)
        if not len(values):
            _wrong(path, name, row, entries, "give at least one number, or null instead of the list")
        if "minimum" in limits:  # the curve of harm
            harm = table["harm"][row].as_py()
            close = CLOSE * max(harm, 1)
            if not ((values >= 0) & (values <= limits["maximum"])).all() or (np.diff(values) < -close).any():
                _wrong(path, name, row, entries, "give finite numbers of at least 0 that never fall")
            if abs(values[-1] - harm) > close:
                _wrong(path, name, row, float(values[-1]), f"give a curve that ends at harm, {shown(harm)}")
        elif np.isinf(values).any():
            _wrong(path, name, row, entries, "give finite numbers, or NaN where no episode ended")


def _check_together(path: Path, table: pa.Table) -> None:
    """Columns that contradict each other, row by row."""
    steps, harm, unsafe, last = (table[name].to_numpy() for name in ("steps", "harm", "unsafe_steps", "last_violation"))
    for name, values in (("last_violation", last), ("unsafe_steps", unsafe)):
        if (values > steps).any():
            row = int(np.argmax(values > steps))
            _wrong(path, name, row, int(values[row]), f"give at most its steps, {steps[row]}")
    if (unsafe > last).any():
        row = int(np.argmax(unsafe > last))
        _wrong(path, "unsafe_steps", row, int(unsafe[row]), f"give at most last_violation, {last[row]}")
    for name, values in (("unsafe_steps", unsafe), ("last_violation", last)):
        if ((harm > 0) != (values > 0)).any():
            row = int(np.argmax((harm > 0) != (values > 0)))
            wanted = "give more" if harm[row] > 0 else "give 0"
            _wrong(path, name, row, int(values[row]), f"{wanted}, because its harm is {shown(float(harm[row]))}")


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
