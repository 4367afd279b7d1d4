"""A training becomes rows."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from everystep import files
from everystep.cli import main as command
from everystep.experiments.folder import run_folder

pytestmark = pytest.mark.quick


def test_a_training_of_everystep_becomes_rows(tmp_path, capsys):
    """Its folder, written by hand: nothing is trained here."""
    spec = {"kind": "training", "environment": "Cart", "agent": "lsvi-ae", "seed": 3}
    columns = {"return": [1.0, 2.0], "length": [10, 30], "violation": [0.5, 0.0], "unsafe_steps": [2, 0]}
    with run_folder.folder(tmp_path / "run", spec, False) as folder:
        files.write_json(folder / "spec.json", spec)
        pq.write_table(pa.table(columns), folder / "episodes.parquet")
    words = [
        "leaderboard",
        "--convert",
        str(tmp_path / "run"),
        "--system",
        "lsvi-ae",
        "--problem",
        "cart",
        "--kind",
        "ours",
    ]
    assert command.main([*words, "--out", str(tmp_path / "ours.parquet")]) == 0
    (found,) = pq.read_table(tmp_path / "ours.parquet").to_pylist()
    assert (found["seed"], found["steps"], found["harm"], found["unsafe_steps"], found["last_violation"]) == (
        3,
        40,
        0.5,
        2,
        10,
    )
    assert (found["final_return"], found["kind"]) == (2.0, "ours")
    assert command.main([*words, "--out", str(tmp_path / "ours.parquet"), "--seeds", "1"]) == 2
    assert "seeds is for monitor files" in capsys.readouterr().err
