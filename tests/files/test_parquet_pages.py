"""Pages of Parquet files are counted before they are read."""

import numpy as np
import pytest

from everystep import files
from everystep.files import contents

pytestmark = pytest.mark.quick


def test_rows_that_take_no_room_in_a_file_of_parquet_are_counted_before_they_are_read(tmp_path, monkeypatch):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"a": np.zeros(10**5), "b": np.zeros(10**5), "c": ["x"] * 10**5}), tmp_path / "x.parquet")
    assert files.read_parquet(tmp_path / "x.parquet", ["a"]).column_names == ["a"]
    with pytest.raises(ValueError, match="it has 100000 rows, more than 99999"):
        files.read_parquet(tmp_path / "x.parquet", ["a"], 99_999)
    with pytest.raises(ValueError, match="its column c holds string, no numbers"):
        files.read_parquet(tmp_path / "x.parquet", ["c"])
    monkeypatch.setattr(contents, "ROOM", 2**20)
    with pytest.raises(ValueError, match=r"1600000 bytes.* 1048576"):
        files.read_parquet(tmp_path / "x.parquet", ["a", "b"])


@pytest.mark.quick
@pytest.mark.parametrize("compression", ["zstd", "snappy", "none"])
def test_a_page_that_says_more_than_its_column_is_refused(tmp_path, compression):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "rows.parquet"
    table = pa.table({"x": np.arange(50_000.0), "n": np.arange(50_000) % 7, "b": np.arange(50_000) % 2 == 0})
    for options in ({}, {"data_page_version": "2.0", "use_dictionary": False, "data_page_size": 1000}):
        pq.write_table(table, path, compression=compression, write_page_index=True, **options)
        assert files.read_parquet(path, ["x", "n", "b"]).equals(table)
    pq.write_table(table, path, compression=compression, use_dictionary=False, column_encoding="PLAIN")
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(0)
    data, at = bytearray(path.read_bytes()), chunk.data_page_offset
    assert data[at : at + 3] == bytes([0x15, 0, 0x15])  # a data page, and its size as a varint
    end = next(i for i in range(at + 3, at + 9) if data[i] < 128)
    data[at + 3 : end + 1] = bytes([0xFF] * (end - at - 3) + [0x7F])
    path.write_bytes(data)
    with pytest.raises(ValueError, match="larger than its column"):
        files.read_parquet(path, ["x"])
