"""Files of results: the schema, and what contradicts it."""

import re

import numpy as np
import pyarrow as pa
import pytest
from helpers.results import row, save

import everystep as es
from everystep.cli import main as command
from everystep.reports.leaderboard import board, results_files

pytestmark = pytest.mark.quick


def test_the_schema_is_one_and_its_rows_are_the_rows_that_are_read(tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    schema = results_files.schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema)
    full = row(kind="ours", settings="{}", seconds=1.0, harm_curve=[1.0, 2.0], return_curve=[0.0, 1.0], mine=3)
    assert check.is_valid(full)
    assert results_files.read([save([full], tmp_path / "full.parquet")]).to_pylist() == [full]
    for wrong in ({"harm": -1.0}, {"seed": "x"}, {"steps": 0}, {"kind": "best"}, {"system": ""}):
        assert not check.is_valid(full | wrong)
        with pytest.raises(es.EverystepError):
            results_files.read([save([full | wrong], tmp_path / "wrong.parquet")])


FAULTS = {
    "harm of row 2 is -1": {"harm": -1.0},
    "harm of row 2 is nan": {"harm": np.nan},
    "harm of row 2 is inf": {"harm": np.inf},
    "final_return of row 2 is nan": {"final_return": np.nan},
    "final_harm of row 2 is -2": {"final_harm": -2.0},
    "final_episodes of row 2 is 0": {"final_episodes": 0},
    "last_violation of row 2 is 101; give at most its steps, 100": {"last_violation": 101},
    "unsafe_steps of row 2 is 101; give at most its steps": {"unsafe_steps": 101},
    "unsafe_steps of row 2 is 51; give at most last_violation, 50": {"unsafe_steps": 51},
    "unsafe_steps of row 2 is 0; give more, because its harm is 2": {"unsafe_steps": 0},
    "last_violation of row 2 is 50; give 0, because its harm is 0": {"unsafe_steps": 0, "harm": 0.0},
    "versions of row 2 is 'numpy 2'; give": {"versions": "numpy 2"},
    "versions of row 2 is '[1]'; give a JSON object": {"versions": "[1]"},
    "kind of row 2 is 'best'; choose ours or rival or reference": {"kind": "best"},
    "settings of row 2 is '{'; give JSON": {"settings": "{"},
    "seconds of row 2 is -1": {"seconds": -1.0},
    "harm_curve of row 2 is 1.0; give a curve that ends at harm, 2.0": {"harm_curve": [0.5, 1.0]},
    "harm_curve of row 2 is [3.0, 2.0]; give finite numbers of at least 0": {"harm_curve": [3.0, 2.0]},
    "harm_curve of row 2 is": {"harm_curve": []},
    "return_curve of row 2 is": {"return_curve": [np.inf]},
    "system of row 2 is 'a b'": {"system": "a\nb"},
    "problem of row 2 is ''": {"problem": ""},
    "seed 0 of 'a' on 'lake' is also in": {"seed": 0},
    "kind of 'a' is 'ours', but 'rival' in": {"kind": "ours"},
}  # fmt: skip


@pytest.mark.parametrize("words", FAULTS)
def test_a_row_that_contradicts_the_format_is_refused_with_its_file_and_value(words, tmp_path):
    path = save([row(kind="rival"), row(kind="rival", seed=1) | FAULTS[words]], tmp_path / "some.parquet")
    with pytest.raises(es.EverystepError, match=re.escape(words)) as refused:
        es.leaderboard(path)
    assert "some.parquet" in str(refused.value)


def test_files_that_are_no_results_are_refused_by_the_command_in_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    good = pa.Table.from_pylist([row()])
    save(good.drop_columns(["harm", "seed"]), tmp_path / "lacking.parquet")
    save(good.set_column(0, "system", pa.array([1])), tmp_path / "typed.parquet")
    save(good.set_column(2, "seed", pa.array([1.0])), tmp_path / "float.parquet")
    save(good.set_column(4, "harm", pa.array([None], pa.float64())), tmp_path / "null.parquet")
    save(good.slice(0, 0), tmp_path / "empty.parquet")
    (tmp_path / "text.parquet").write_text("no Parquet", encoding="utf-8")
    (tmp_path / "nothing").mkdir()
    whole = save(good, tmp_path / "whole.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[:-20])
    for words, names in {
        "has no column seed, harm; add": ["lacking.parquet"],
        "column system has the type int64; write it as string": ["typed.parquet"],
        "column seed has the type double; write it as int64": ["float.parquet"],
        "harm of row 1 is missing": ["null.parquet"],
        "has 0 rows": ["empty.parquet"],
        "'text.parquet' cannot be read as Parquet": ["text.parquet"],
        "'cut.parquet' cannot be read as Parquet": ["cut.parquet"],
        "'nothing' holds no .parquet file": ["nothing"],
        "'nowhere' cannot be read (No such file or directory)": ["nowhere"],
        "no files of results": [],
        "no system 'b'": ["whole.parquet", "--baseline", "b"],
        "--system is for --convert": ["whole.parquet", "--system", "b"],
        "page 'page.html' is no Markdown": ["whole.parquet", "--page", "page.html"],
    }.items():
        assert command.main(["leaderboard", *names]) == 2
        said = capsys.readouterr().err
        assert words in said
        assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_types_that_hold_the_same_values_are_read_and_other_columns_are_kept(tmp_path):
    table = pa.Table.from_pylist([row(seed=i) for i in range(2)])
    other = table.set_column(0, "system", table["system"].cast(pa.large_string()).dictionary_encode())
    other = other.set_column(1, "problem", pa.chunked_array([["pump"] * 2]))
    other = other.set_column(2, "seed", table["seed"].cast(pa.int32())).set_column(4, "harm", pa.array([2, 3]))
    other = other.append_column("kind", pa.nulls(2)).append_column("gpu", pa.array(["x", "y"]))
    save(table.append_column("gpu", pa.array([1, 2])), tmp_path / "a.parquet")
    save(other, tmp_path / "b.parquet")
    rows = es.leaderboard(tmp_path).rows
    assert rows["gpu"].to_pylist() == ["1", "2", "x", "y"]  # their types differ, so they are texts
    assert rows["harm"].to_pylist() == [2.0, 2.0, 2.0, 3.0]
    assert [str(rows[name].type) for name in ("system", "seed", "harm")] == ["string", "int64", "double"]
    assert board.kinds(rows) == {"a": "rival"}
