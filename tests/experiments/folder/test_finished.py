"""A finished folder that was altered is recognised, and no number about violations is ever invented."""

import json
import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import everystep as es
from everystep import files
from everystep.cli import main
from everystep.experiments.folder import finished

READERS = {
    "summary": ["summary", "{}"],
    "report": ["report", "{}", "--no-player"],
    "figures": ["figures", "{}"],
    "certify": ["certify", "{}"],
    "theory": ["theory", "{}", "--seeds", "1"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pond = es.problems.from_map(("SFF", "FHF", "FFG"), horizon=4)
    agents = ["lsvi-ae", es.agents.lsvi(switch=2)]
    return es.run(pond, agents, episodes=6, seeds=3).save(tmp_path_factory.mktemp("runs") / "run", figures=False)


@pytest.fixture
def copy(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "all" / "run")


def seal_again(folder):
    """As a thorough forger would: the record lists the files as they are now."""
    found = [path for path in folder.iterdir() if path.is_file() and path.name != files.RECORD]
    lines = [f"{files.seal(path).sha256}  {path.name}\n" for path in found]
    (folder / files.RECORD).write_text("".join(lines), encoding="utf-8")


def said(arguments, capsys):
    """The exit status, what was printed, and the sentence on standard error without notes."""
    capsys.readouterr()
    status = main.main(arguments)
    printed = capsys.readouterr()
    return status, printed.out, [line for line in printed.err.splitlines() if not line.startswith("note:")]


def change_table(folder, change):
    pq.write_table(change(pq.read_table(folder / "episodes.parquet")), folder / "episodes.parquet")


def change_column(name, make):
    return lambda table: table.set_column(table.column_names.index(name), name, make(table[name]))


def change_json(name, change):
    def spoil(folder):
        content = json.loads((folder / name).read_text(encoding="utf-8"))
        change(content)
        (folder / name).write_text(json.dumps(content), encoding="utf-8")

    return spoil


@pytest.mark.quick
def test_every_file_of_a_finished_folder_is_in_its_record(folder):
    present = {path.name for path in folder.iterdir() if path.is_file()}
    assert set(files.recorded(folder)) == present - {files.RECORD}
    assert not [name for name in files.recorded(folder) if files.altered(folder, name)]


@pytest.mark.parametrize("name", ["episodes.parquet", "spec.json", "summary.json", "problem.npz", "visits.npz"])
def test_a_file_that_was_altered_removed_or_replaced_is_named_by_every_reader(name, copy, capsys):
    path = copy / name
    before = path.read_bytes()
    of_arrays = {"visits.npz": ["report", "figures"], "problem.npz": ["report", "certify"]}
    readers = of_arrays.get(name, ["summary", "report"])
    for content in (before + b" ", before[:50], b""):
        path.write_bytes(content)
        for reader in readers:
            status, out, error = said([each.format(copy) for each in READERS[reader]], capsys)
            assert (status, out, len(error)) == (2, "", 1)
            assert f"{name}' was altered since it was written" in error[0]
    path.unlink()
    for replace in (lambda: None, path.mkdir, lambda: (path.rmdir(), os.mkfifo(path)), lambda: path.symlink_to(name)):
        path.unlink() if path.is_fifo() else None
        replace()
        for reader in readers:
            status, out, error = said([each.format(copy) for each in READERS[reader]], capsys)
            assert (status, out, len(error)) == (2, "", 1)
    assert not (copy / "report.html").exists()


def test_a_run_again_on_an_altered_folder_does_not_print_its_numbers(copy, capsys):
    change_json("summary.json", lambda content: content["agents"]["lsvi"]["total_violation"].update(mean=0.0))(copy)
    status, out, error = said(["compare", "--table-only", "--out", str(copy.parent)], capsys)
    assert (status, out) == (2, "")
    assert "summary.json' was altered since it was written" in error[0]


def test_a_folder_without_its_record_is_refused(copy, capsys):
    (copy / files.RECORD).unlink()
    for reader in ("summary", "report", "certify"):
        status, out, error = said([each.format(copy) for each in READERS[reader]], capsys)
        assert (status, out) == (2, "")
        assert "spec.json' is not in the list of what was written" in error[0]


# --- crafted files: their checksums are right -------------------------------------------------------------------------
nothing = lambda column: pa.nulls(len(column), column.type)
timestamps = lambda column: pa.array(np.arange(len(column)).astype("datetime64[s]"))
one_is = lambda number: lambda column: pa.array(np.where(np.arange(len(column)) == 4, number, column.to_numpy()))

WRONG_ROWS = {
    "no violation": (lambda table: table.drop_columns(["violation"]), "it has 0 columns violation"),
    "violation under another name": (
        lambda table: table.rename_columns([name.replace("violation", "harm") for name in table.column_names]),
        "it has 0 columns violation",
    ),
    "nothing in violation": (change_column("violation", nothing), "violation has rows of lsvi-ae without a number"),
    "timestamps": (change_column("violation", timestamps), "its column violation holds timestamp"),
    "texts": (change_column("value", lambda column: pa.array(["x"] * len(column))), "its column value holds string"),
    "not a number": (change_column("violation", one_is(np.nan)), "has rows of lsvi-ae without a number"),
    "infinite": (change_column("value", one_is(np.inf)), "has rows of lsvi-ae without a number"),
    "twice": (lambda table: table.append_column("violation", table["violation"]), "it has 2 columns violation"),
    "a row less": (lambda table: table.slice(1), "it has 35 rows instead of 36"),
    "no rows": (lambda table: table.slice(0, 0), "it has 0 rows instead of 36"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_ROWS)
def test_rows_that_no_run_wrote_give_no_number(case, copy, capsys):
    change, message = WRONG_ROWS[case]
    change_table(copy, change)
    seal_again(copy)
    for reader in ("report", "theory"):
        status, out, error = said([each.format(copy) for each in READERS[reader]], capsys)
        assert (status, out, len(error)) == (2, "", 1)
        assert "cannot be read as the rows of this run" in error[0]
        assert message in error[0]
    assert {path.name for path in copy.iterdir()} == {
        files.RECORD, "certificates.npz", "episodes.parquet", "problem.npz", "spec.json", "summary.json", "visits.npz",
    }  # fmt: skip


def test_columns_are_those_of_the_table_by_agent(folder):
    table = pq.read_table(folder / "episodes.parquet")
    for label, curves in finished.read(folder).curves(("violation", "planned", "unsafe_steps")).items():
        own = table.filter(pa.compute.equal(table["agent"], label))
        assert ("planned" in curves) == (label == "lsvi")
        for name, curve in curves.items():
            np.testing.assert_array_equal(curve, own[name].to_numpy().reshape(3, 6))


def wrong_specs():
    for name, keys in (
        ("spec.json", ("problem", "agents", "episodes", "seeds", "visits_after", "remarks")),
        ("summary.json", ("problem", "episodes", "seeds", "agents", "remarks")),
    ):
        for key in keys:
            yield f"{name} without {key}", change_json(name, lambda content, key=key: content.pop(key))
            for value in (None, -1, "x", [None], {"x": 1}, 10**400):
                yield (
                    f"{name} {key} {str(value)[:9]}",
                    change_json(name, lambda content, key=key, value=value: content.update({key: value})),
                )
        for levels in (300, 5000):
            deep = '{"a":' * levels + "1" + "}" * levels
            yield f"{name} {levels} deep", lambda folder, name=name, deep=deep: (folder / name).write_text(deep)
        for text in ("", "[]", "NaN", '"\\ud800"'):
            yield f"{name} {text}", lambda folder, name=name, text=text: (folder / name).write_text(text)
    agent = lambda **fields: change_json("spec.json", lambda content: content["agents"][0].update(fields))
    yield "a label that is no text", agent(label="\ud800")
    yield "a label twice", agent(label="lsvi")
    yield "settings that are a list", agent(settings=[])
    yield "confidence that is a text", agent(confidence="high")
    yield "confidence that is no probability", agent(confidence=3)
    mean = lambda value: lambda content: content["agents"]["lsvi"]["total_violation"].update(mean=value)
    yield "a mean that is a text", change_json("summary.json", mean("low"))
    yield "a mean that is no number", change_json("summary.json", mean(float("nan")))


WRONG_SPECS = dict(wrong_specs())


@pytest.mark.parametrize("case", WRONG_SPECS)
def test_json_of_another_form_is_one_sentence(case, copy, capsys):
    WRONG_SPECS[case](copy)
    seal_again(copy)
    for reader in ("summary", "report", *(("certify",) if "seeds" in case or "confidence" in case else ())):
        if reader == "certify" and case.startswith("summary"):
            continue
        status, out, error = said([each.format(copy) for each in READERS[reader]], capsys)
        assert (status, out, len(error)) == (2, "", 1)
        assert error[0].startswith("everystep: ")


def save_arrays(name, change):
    def spoil(folder):
        with np.load(folder / name) as file:
            arrays = change(dict(file))
        np.savez(folder / name, **arrays)

    return spoil


WRONG_ARRAYS = {
    "no visits": ("figures", save_arrays("visits.npz", lambda arrays: {}), "without the visits of lsvi-ae"),
    "visits of other states": (
        "figures", save_arrays("visits.npz", lambda arrays: {name: each[:, :4] for name, each in arrays.items()}),
        "without the visits of lsvi-ae",
    ),
    "visits that are texts": (
        "report", save_arrays("visits.npz", lambda arrays: {name: each.astype(str) for name, each in arrays.items()}),
        "without the visits of lsvi-ae",
    ),
    "intervals that are no numbers": (
        "certify", save_arrays("certificates.npz", lambda arrays: {k: each * np.nan for k, each in arrays.items()}),
        "without the cost intervals of lsvi-ae",
    ),
    "half of the intervals": (
        "certify", save_arrays("certificates.npz", lambda arrays: {"lsvi-ae_lower": arrays["lsvi-ae_lower"]}),
        "without the cost intervals of lsvi-ae",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_ARRAYS)
def test_arrays_that_are_not_those_of_the_spec_are_one_sentence(case, copy, capsys):
    reader, spoil, message = WRONG_ARRAYS[case]
    spoil(copy)
    seal_again(copy)
    status, out, error = said([each.format(copy) for each in READERS[reader]], capsys)
    assert (status, out, len(error)) == (2, "", 1)
    assert message in error[0]
