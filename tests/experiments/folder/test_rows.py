"""Rows of a run as a stream: in the order of the spec, with a number in every column, or refused."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from everystep.errors import EverystepError
from everystep.experiments.folder import rows

pytestmark = pytest.mark.quick
SPEC = {
    "problem": {"name": "pond"},
    "agents": [{"agent": "lsvi", "label": "one"}, {"agent": "lsvi-ae", "label": "two"}],
    "seeds": [3, 5],
    "episodes": 3,
}
COUNT = 12


def table(**changed):
    text = lambda names: pa.array(names).dictionary_encode()
    columns = {
        "problem": text(["pond"] * COUNT),
        "agent": text(["one"] * 6 + ["two"] * 6),
        "seed": pa.array(([3] * 3 + [5] * 3) * 2, pa.int64()),
        "episode": pa.array([1, 2, 3] * 4, pa.int64()),
        "value": pa.array(np.arange(12.0)),
        "violation": pa.array(np.arange(12.0) / 10),
        "unsafe_steps": pa.array(range(12), pa.int64()),
    }
    return pa.table({name: column for name, column in (columns | changed).items() if column is not None})


def read(path, written, columns=("value", "violation"), size=None):
    pq.write_table(written, path)
    return list(rows.stream(path, SPEC, columns, size))


@pytest.mark.parametrize("size", [None, 1, 4, 5])
def test_slices_of_any_size_hold_the_rows_of_one_agent_each_in_order(tmp_path, size):
    found = read(tmp_path / "rows.parquet", table(), size=size)
    lengths = [len(part.columns["value"]) for part in found]
    assert [part.first for part in found] == [sum(lengths[:i]) for i in range(len(found))]
    for label, first in (("one", 0), ("two", 6)):
        joined = np.concatenate([part.columns["value"] for part in found if part.label == label])
        np.testing.assert_array_equal(joined, np.arange(first, first + 6.0))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"value": None}, "no column value"),
        ({"value": pa.array(range(12), pa.int64())}, "column value is int64"),
        ({"value": pa.array([None, *np.arange(11.0)], pa.float64())}, "value has rows of one without a number"),
        ({"violation": pa.array(-np.ones(12))}, "negative number"),
        ({"seed": pa.array([3] * 12, pa.int64())}, "row 4 has another seed"),
        ({"episode": pa.array([1, 2, 2] * 4, pa.int64())}, "row 3 has another episode"),
        ({"agent": pa.array(["one"] * 12).dictionary_encode()}, "row 7 has another agent"),
        ({"problem": pa.array(["lake"] * 12).dictionary_encode()}, "row 1 has another problem"),
    ],
)
def test_rows_that_are_not_those_of_the_spec_are_refused_with_what_differs(tmp_path, changed, words):
    with pytest.raises(EverystepError, match=words):
        read(tmp_path / "rows.parquet", table(**changed))


def test_too_few_rows_are_refused_with_their_number(tmp_path):
    with pytest.raises(EverystepError, match="10 rows instead of 12"):
        read(tmp_path / "rows.parquet", table().slice(0, 10))


def test_what_is_no_table_is_refused(tmp_path):
    (tmp_path / "rows.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(EverystepError, match="cannot be read"):
        list(rows.stream(tmp_path / "rows.parquet", SPEC, ["value"]))
