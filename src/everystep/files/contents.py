"""What files hold: JSON, arrays without pickle, and tables. Sizes are checked before anything of that size is read.

A file may come from anyone, and a few megabytes of a compressed file can claim to hold gigabytes. So every reader names
the parts that it needs, only these are read, and their size is compared with a bound first:

    JSON      at most `LARGEST_JSON` bytes, nested at most `DEEPEST` deep
    npz       members that are wanted, at most `MOST_MEMBERS`; together at most `room` bytes
    Parquet   columns that are wanted, of at most `most_rows` rows; together at most `room` bytes

`room` is 1 GiB, or four times the size of the file if that is more: an array that was not compressed always fits.
"""

from __future__ import annotations

import errno
import json
import math
import os
import stat
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from everystep.errors import EverystepError
from everystep.files.parquet_pages import check_pages

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

DEEPEST = 40  # levels of a JSON file: nothing that this software writes has more than eight
LARGEST_JSON = 2**25  # bytes; in memory it may take thirty times as much
MOST_MEMBERS = 100_000  # of an npz file
MOST_ROWS = 10_000_000  # of a table, where nothing else is known
MOST_COLUMNS = 10_000
ROOM, TIMES = 2**30, 4  # bytes of arrays, at least, and times the size of the file
LONGEST_HEADER = 10_000  # bytes of the header of an array, as NumPy limits it


def room(size: int) -> int:
    """The most bytes that the arrays or columns of a file of this size may take."""
    return max(ROOM, TIMES * size)


def check_regular(path: Path) -> None:
    """Raise an OSError unless it is a regular file; opening a pipe would block forever."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))


# --- JSON -------------------------------------------------------------------------------------------------------------
def read_json(path: Path) -> Any:
    """The content of a JSON file; an OSError or a ValueError if it is none, too large or nested too deeply for ours."""
    check_regular(path)
    if os.stat(path).st_size > LARGEST_JSON:
        raise ValueError("it is too large")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    level = [content]
    for _ in range(DEEPEST):
        level = [inner for each in level if isinstance(each, dict | list) for inner in _inside(each)]
    if level:
        raise ValueError("it is nested too deeply")
    return content


def _inside(content: dict[str, object] | list[object]) -> Iterable[object]:
    return content.values() if isinstance(content, dict) else content


# --- Parquet ----------------------------------------------------------------------------------------------------------
def read_parquet(
    path: Path, wanted: Sequence[str] | Callable[[str], bool], most_rows: int = MOST_ROWS, most_bytes: int = 0
) -> pa.Table:
    """Columns of a Parquet file as a table of pyarrow, by their names or by which names are wanted; they hold numbers.

    They take at most `room` bytes, or `most_bytes` if that is more.

    A ValueError names the reason if it cannot be read. The bytes are read first: from an open file pyarrow reads in
    its own threads, with which Python sometimes aborted (pyarrow 26, on a busy machine); given a path, it would
    interpret the names of folders.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    check_regular(path)
    data = path.read_bytes()
    with pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True) as file:
        names = [each for each in file.schema_arrow.names if (wanted(each) if callable(wanted) else each in wanted)]
        check_parquet(file, len(data), names, most_rows, most_bytes)
        for each in file.schema_arrow:
            if each.name in names and (kind := _no_number(each.type)):
                raise ValueError(f"its column {each.name} holds {kind}, no numbers")
        for i in range(file.metadata.num_row_groups):
            group = file.metadata.row_group(i)
            for chunk in map(group.column, range(group.num_columns)):
                if chunk.path_in_schema in names:
                    check_pages(data, chunk)
        return file.read(names)


def _no_number(kind: pa.DataType) -> str | None:
    """The type of a column in words, unless it holds numbers."""
    from pyarrow import types

    fits = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_null(kind)
    return None if fits else str(kind)


def check_parquet(
    file: pq.ParquetFile, size: int, columns: Sequence[str], most_rows: int = MOST_ROWS, most_bytes: int = 0
) -> None:
    """A ValueError unless columns of an open `ParquetFile` of `size` bytes fit, by what its metadata say.

    A run of equal values takes no room in the file, so that values are counted, not only bytes.
    """
    metadata = file.metadata
    if metadata.num_rows > most_rows:
        raise ValueError(f"it has {metadata.num_rows} rows, more than {most_rows}")
    if metadata.num_columns > MOST_COLUMNS:
        raise ValueError(f"it has {metadata.num_columns} columns, more than {MOST_COLUMNS}")
    wanted, taken, rows = set(columns), 0, 0
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        rows += group.num_rows
        for j in range(group.num_columns):
            chunk = group.column(j)
            if chunk.path_in_schema.partition(".")[0] in wanted:
                taken += max(8 * max(chunk.num_values, group.num_rows), chunk.total_uncompressed_size)
    if rows != metadata.num_rows:
        raise ValueError("its parts have other rows than it says")
    if taken > (most := max(room(size), most_bytes)):
        raise ValueError(f"its columns would take {taken} bytes, more than {most}")


# --- arrays without pickle --------------------------------------------------------------------------------------------
class NpzFile:
    """An open npz file. Nothing of an array is read before `read`, which checks its size first."""

    def __init__(self, path: str | Path) -> None:
        if not zipfile.is_zipfile(path):
            raise _broken()
        self._most = room(os.stat(path).st_size)
        with _in_sentences():
            self._archive = zipfile.ZipFile(path)
            members = self._archive.infolist()
            self._members = {each.filename.removesuffix(".npy"): each for each in members}
            if len(self._members) < len(members) or len(members) > MOST_MEMBERS:
                raise _broken()

    @property
    def names(self) -> list[str]:
        return list(self._members)

    def read(self, name: str, besides: int = 0) -> np.ndarray:
        """An array, unless it takes more than there is room for; `besides` are bytes of others."""
        archive = self._archive
        with _in_sentences(), archive.open(self._members[name]) as member:
            header = np.lib.format.read_magic(member)
            read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[header]
            shape, _, dtype = read(member, max_header_size=LONGEST_HEADER)
            if dtype.hasobject:
                raise EverystepError("it holds Python objects, which are never unpickled. Save plain number arrays.")
            if any(n < 0 for n in shape):
                raise _broken()
            size = math.prod(shape) * dtype.itemsize
            if size != self._members[name].file_size - member.tell():
                raise _broken()
            if besides + size > self._most:
                raise EverystepError(
                    f"it would take {besides + size} bytes of memory, and a file of its size may take {self._most}. "
                    "Save it with numpy.savez, without compression."
                )
            member.seek(0)
            return np.asarray(np.lib.format.read_array(member, allow_pickle=False))

    def close(self) -> None:
        self._archive.close()

    def __enter__(self) -> NpzFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_npz(path: str | Path, wanted: Callable[[str], bool]) -> dict[str, np.ndarray]:
    """The arrays whose names are wanted; others are not read."""
    found: dict[str, np.ndarray] = {}
    with NpzFile(path) as file:
        for name in filter(wanted, file.names):
            found[name] = file.read(name, sum(array.nbytes for array in found.values()))
    return found


class _in_sentences:  # noqa: N801  used like a function
    """Report the errors of a block that reads an archive in sentences."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        # A damaged header is parsed as Python and may raise any error, which differ by version.
        if isinstance(error, Exception) and not isinstance(error, EverystepError) and not did_not_fit(error):
            raise _broken() from None


def _broken() -> EverystepError:
    return EverystepError("it cannot be read as .npz. Write it with numpy.savez.")


def did_not_fit(error: Exception) -> bool:
    """Whether there is no memory for an array: a header that is nested too deeply is a MemoryError, too."""
    return isinstance(error, MemoryError) and "allocate" in str(error)


def write_npz(file: str | Path | BinaryIO, arrays: Iterable[tuple[str, np.ndarray]], compressed: bool = False) -> None:
    """Write arrays under their names, one at a time: not all need be in memory. Equal arrays give equal bytes."""
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, array in arrays:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
