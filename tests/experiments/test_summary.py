"""Tables, and the rows of a folder in slices, say what whole columns say."""

import shutil
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

import everystep as es
from everystep import files
from everystep.cli import main
from everystep.experiments import experiment, reductions, runner, summary
from everystep.experiments.folder import finished, run_folder
from everystep.files import store


@pytest.fixture(scope="module")
def prepared():
    pond = es.problems.from_map(("SFF", "FHF", "FFG"), horizon=4)
    return experiment.prepare(pond, ["lsvi-ae", es.agents.lsvi(switch=2)], 700, 3)


@pytest.fixture(scope="module")
def folder(prepared, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    runner.run(prepared, out, figures=False)
    return out


@pytest.mark.quick
def test_the_rows_give_the_numbers_of_the_summary(folder):
    opened = finished.read(folder)
    written = opened.summary()["agents"]
    for label, curves in opened.curves(("value", "violation", "regret", "planned")).items():
        for name, samples in reductions.samples(curves).items():
            assert samples.mean() == pytest.approx(written[label][name]["mean"], rel=1e-12)
    assert "planned" not in opened.curves(("planned",))["lsvi-ae"]


def test_row_groups_hold_whole_seeds_and_any_batches_give_the_same_file(folder, tmp_path, monkeypatch, prepared):
    monkeypatch.setattr(run_folder, "ROWS", 1400)
    result = prepared.run()
    run_folder.write_episodes(result, tmp_path / "one.parquet")
    in_pieces = lambda label: iter([{k: v[i : i + 1] for k, v in result.columns[label].items()} for i in range(3)])
    monkeypatch.setattr(type(result), "batches", lambda self, label: in_pieces(label))
    run_folder.write_episodes(result, tmp_path / "two.parquet")
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()
    groups = pq.ParquetFile(tmp_path / "one.parquet").metadata
    assert [groups.row_group(i).num_rows for i in range(groups.num_row_groups)] == [1400, 700] * 2
    assert pq.read_table(tmp_path / "one.parquet").equals(result.episodes)


def test_an_unfinished_run_says_how_far_it_is_while_somebody_works_on_it(prepared, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(store, "EVERY", 0.0)
    monkeypatch.setattr(store, "COST", 0)
    monkeypatch.setattr(runner.local, "workers", lambda: 1)
    seen = []

    def look(step):
        before = sorted(path.name for path in (tmp_path / "run" / ".work").iterdir())
        assert main.main(["summary", str(tmp_path / "run")]) == 0
        seen.append(capsys.readouterr().out)
        assert sorted(path.name for path in (tmp_path / "run" / ".work").iterdir()) == before

    runner.run(prepared, tmp_path / "run", look, figures=False)
    assert "unfinished; 700 episodes, 3 seeds" in seen[0]
    assert "47.6%  0 of 3" in " ".join(seen[0].split()).replace("47.6% 0", "47.6%  0")  # 500 of two seeds, of 3 * 700
    assert "100.0%" in seen[-1]
    assert main.main(["summary", str(tmp_path / "run")]) == 0
    assert "safe optimum" in capsys.readouterr().out


def test_a_folder_without_a_run_or_with_other_rows_is_refused(folder, tmp_path):
    with pytest.raises(es.EverystepError, match="holds no run"):
        summary.text(tmp_path)
    opened = finished.read(folder)
    with pytest.raises(es.EverystepError, match="cannot be read as the rows of this run"):
        replace(opened, spec=opened.spec | {"episodes": 701}).curves(("value",))


def test_damaged_folders_are_said_in_a_sentence(prepared, folder, tmp_path, capsys):
    def stop(step):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        runner.run(prepared, tmp_path / "half", stop, figures=False)
    part = next((tmp_path / "half" / ".work").glob("part-*"))
    part.write_bytes(part.read_bytes()[:1000])
    shutil.copytree(folder, tmp_path / "whole")
    for name, said in (
        ("half", "unfinished run with a file that is damaged"),
        ("whole", "summary.json' was altered since it was written"),
    ):
        (tmp_path / "whole" / "summary.json").write_text("{}", encoding="utf-8")
        assert main.main(["summary", str(tmp_path / name)]) == 2
        assert said in capsys.readouterr().err


def test_a_bit_that_was_turned_in_the_rows_is_noticed(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "run")
    path = tmp_path / "run" / "episodes.parquet"
    data = bytearray(path.read_bytes())
    with pq.ParquetFile(path) as file:
        names = file.schema_arrow.names
        where = file.metadata.row_group(0).column(names.index("value"))
    first = where.dictionary_page_offset or where.data_page_offset
    data[first + where.total_compressed_size // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(es.EverystepError, match=r"episodes\.parquet' was altered"):
        summary.text(tmp_path / "run")
    with (tmp_path / "run" / files.RECORD).open("a") as record:  # the pages carry checksums of their own
        record.write(f"{files.seal(path).sha256}  episodes.parquet\n")
    with pytest.raises(es.EverystepError, match="cannot be read as the rows of this run"):
        finished.read(tmp_path / "run").curves(("value",))
