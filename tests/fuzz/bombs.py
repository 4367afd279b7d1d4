"""Small files that claim to hold gigabytes: arrays of zeros, tables of equal rows, and pictures of enormous size."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.cases import Bench

CHUNK = 2**24  # bytes of zeros that are compressed once and repeated
BYTES = (2**28, 15 * 2**26, 3 * 2**30)  # of an array: allowed everywhere, almost too many, and too many
ROWS = (9_900_000, 30_000_000)  # of a table: just allowed, and too many


def make(place: Path) -> None:
    """The contents of arrays and tables; their checksums take seconds, so they are made once."""
    place.mkdir(parents=True)
    squeeze = zlib.compressobj(9, wbits=-15)
    zeros = squeeze.compress(bytes(CHUNK)) + squeeze.flush(zlib.Z_FULL_FLUSH)
    end = zlib.compressobj(9, wbits=-15).flush()
    for size in BYTES:
        for shape in ((size // 8,), (1, size // 8), (size // 16, 2), (size // 48, 2, 3)):
            header, crc = _header(shape), 0
            total = 8 * int(np.prod(shape))
            first = zlib.compressobj(9, wbits=-15)
            opening = first.compress(header + bytes(total % CHUNK)) + first.flush(zlib.Z_FULL_FLUSH)
            crc = zlib.crc32(bytes(total % CHUNK), zlib.crc32(header))
            for _ in range(total // CHUNK):
                crc = zlib.crc32(_ZEROS, crc)
            content = opening + zeros * (total // CHUNK) + end
            (place / f"{size}-{len(shape)}-{shape[-1]}.deflated").write_bytes(
                struct.pack("<QI", len(header) + total, crc) + content
            )
            if size == BYTES[-1]:
                break


_ZEROS = bytes(CHUNK)


def _header(shape: tuple[int, ...]) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return file.getvalue()


def npz(bench: Bench, arrays: dict[str, np.ndarray], name: str) -> bytes:
    """The arrays, of which the one called `name` has gigabytes of zeros. The checksum of the archive is right."""
    claimed = (bench.pick(sorted((bench.templates / "bombs").iterdir()))).read_bytes()
    (size, crc), content = struct.unpack("<QI", claimed[:12]), claimed[12:]
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for each, array in arrays.items():
            if each != name:
                with archive.open(zipfile.ZipInfo(f"{each}.npy"), "w") as member:
                    np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
        info = zipfile.ZipInfo(f"{name}.npy")
        archive.writestr(info, content)
        info.compress_type, info.CRC, info.file_size = zipfile.ZIP_DEFLATED, crc, size
    made = bytearray(file.getvalue())
    struct.pack_into("<H", made, info.header_offset + 8, zipfile.ZIP_DEFLATED)
    struct.pack_into("<L", made, info.header_offset + 14, crc)
    struct.pack_into("<L", made, info.header_offset + 22, size)
    return bytes(made)


def few_rows(path: Path) -> Any:
    """A table, or the first rows of one that is a bomb already: the memory of an input is measured in this process."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        return file.read() if file.metadata.num_rows <= 100_000 else file.read_row_group(0).slice(0, 1000)


def parquet(bench: Bench, path: Path) -> bytes:
    """A table with the columns of another, all rows equal: a run of equal values takes no room."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    row, many = few_rows(path).slice(0, 1), int(bench.pick(ROWS))
    each = 300_000
    group = pa.table({name: pa.repeat(row[name][0], each) for name in row.column_names})
    file = io.BytesIO()
    with pq.ParquetWriter(file, group.schema, compression="zstd") as writer:
        for _ in range(many // each):
            writer.write_table(group)
    return file.getvalue()


def png(bench: Bench, data: bytes) -> bytes:
    """A picture that says that it is enormous."""
    width, height = bench.pick([(10**5, 10**5), (2**31 - 1, 1), (60_000, 60_000), (0, 0), (1, 2**31 - 1)])
    header = b"IHDR" + struct.pack(">II", width, height) + data[24:29]
    return data[:12] + header + struct.pack(">I", zlib.crc32(header)) + data[33:]
