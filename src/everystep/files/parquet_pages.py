"""The headers of the pages of a Parquet file: how much a page says that it takes, before anything is allocated for it.

A reader allocates what a header says. The headers are in Thrift's compact protocol: fields of (type, number), of which
1, 2 and 3 are the kind of page, its size when it is not compressed, and its size in the file; the others are skipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow.parquet as pq

SIZE, STORED = 2, 3  # fields of a page header
MOST_DEPTH = 8


def check_pages(data: bytes, chunk: pq.ColumnChunkMetaData) -> None:
    """A ValueError unless the pages of a column chunk (its metadata, of pyarrow) fit into what the metadata say."""
    begins = [each for each in (chunk.dictionary_page_offset, chunk.data_page_offset) if each]
    at = min(begins, default=0)
    end, left = at + chunk.total_compressed_size, chunk.total_uncompressed_size
    try:
        while at < end:
            sizes, at = _struct(data, at, 0)
            size, stored = sizes[SIZE], sizes[STORED]
            if min(size, stored) < 0 or size > left:
                raise ValueError("a page says that it is larger than its column")
            left -= size
            at += stored
    except (IndexError, KeyError):
        raise ValueError("a page has no header") from None


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, int], int]:
    """The whole numbers of a struct by field, and where it ends."""
    if depth > MOST_DEPTH:
        raise ValueError("headers of pages are nested too deeply")
    found, field = {}, 0
    while (head := data[at]) != 0:
        kind, at = head & 15, at + 1
        if head >> 4:
            field += head >> 4
        else:
            number, at = _varint(data, at)
            field = _signed(number)
        if kind in (4, 5, 6):
            number, at = _varint(data, at)
            found[field] = _signed(number)
        else:
            at = _skipped(data, at, kind, depth)
    return found, at + 1


def _skipped(data: bytes, at: int, kind: int, depth: int) -> int:
    if kind in (1, 2):  # true and false, in the kind itself
        return at
    if kind in (3, 7):
        return at + (1 if kind == 3 else 8)
    if kind == 8:
        length, at = _varint(data, at)
        return at + length
    if kind == 12:
        return _struct(data, at, depth + 1)[1]
    raise ValueError("a page has another header")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = data[at]
        value, at, shift = value | (byte & 127) << shift, at + 1, shift + 7
        if byte < 128:
            return value, at
    raise ValueError("a number of a page header does not end")


def _signed(number: int) -> int:
    return (number >> 1) ^ -(number & 1)
