"""Whatever path a command is given to write to, it replaces nothing of the user's, and ends in one sentence."""

import io
import os
import shutil
import subprocess
import sys

import pytest

import everystep as es
from everystep.cli import main, shared
from everystep.errors import EverystepError
from everystep.experiments.folder import rerun


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pond = es.problems.from_map(("SFF", "FHF", "FFG"), horizon=4)
    return es.run(pond, "lsvi-ae", episodes=5, seeds=1).save(tmp_path_factory.mktemp("runs") / "run", figures=False)


@pytest.fixture
def desk(folder, tmp_path, monkeypatch):
    """The working directory, with a run folder."""
    shutil.copytree(folder, tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(arguments, capsys):
    capsys.readouterr()
    try:
        status = main.main(arguments)
    except SystemExit as stopped:
        status = stopped.code
    printed = capsys.readouterr()
    assert (status, printed.out) == (2, ""), printed
    assert printed.err.count("\n") == 1
    assert printed.err.startswith("everystep")
    return printed.err


OUTPUTS = {
    "report": (["report", "run", "--no-player"], "run/report.html"),
    "report elsewhere": (["report", "run", "--no-player", "--out", "page.html"], "page.html"),
    "figures": (["figures", "run"], "run/figures/learning.png"),
    "figures elsewhere": (["figures", "run", "--out", "drawn"], "drawn/learning.svg"),
    "certify": (["certify", "run"], "run/certificates.json"),
    "certify, figure": (["certify", "run"], "run/figures/certificates.svg"),
    "compare": (["compare", "--table-only", "--out", "."], "table1.csv"),
}


@pytest.mark.parametrize("case", OUTPUTS)
def test_a_command_replaces_its_own_output_and_the_users_only_by_force(case, desk, sketched, capsys):
    arguments, place = OUTPUTS[case]
    path = desk / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine", encoding="utf-8")
    before = sorted(desk.rglob("*"))
    assert "exists and was not written by everystep" in refused(arguments, capsys)
    assert (sorted(desk.rglob("*")), path.read_text(encoding="utf-8")) == (before, "mine")
    assert main.main([*arguments, "--force"]) == 0
    assert main.main(arguments) == 0
    assert path.read_bytes() != b"mine"
    path.unlink()
    path.symlink_to(desk / "victim")
    assert "is a symbolic link, which is never replaced" in refused([*arguments, "--force"], capsys)
    assert not (desk / "victim").exists()


@pytest.mark.parametrize("place", ["theory.json", "figures/theory.svg"])
def test_theory_refuses_before_it_runs_anything_again(place, desk, monkeypatch, capsys):
    monkeypatch.setattr(rerun.Run, "again", lambda *rest: pytest.fail("it was run again"))
    (desk / "run" / place).parent.mkdir(exist_ok=True)
    (desk / "run" / place).write_text("mine", encoding="utf-8")
    assert "exists and was not written by everystep" in refused(["theory", "run", "--seeds", "1"], capsys)
    (desk / "run" / place).unlink()
    (desk / "run" / place).mkdir()
    assert "is a folder, which is never replaced" in refused(["theory", "run", "--seeds", "1", "--force"], capsys)


@pytest.mark.parametrize("out", ["", ".", "--", "loop", "loop/x", "a\0b", "run/spec.json/x", "x" * 300])
def test_a_path_that_cannot_be_written_is_one_sentence(out, desk, capsys):
    (desk / "loop").symlink_to("loop")
    (desk / "pond.txt").write_text("SFF\nFHF\nFFG\n", encoding="utf-8")
    before = sorted(desk.rglob("*"))
    run = ["run", "--problem", "pond.txt", "--agents", "lsvi", "--episodes", "3", "--seeds", "1"]
    commands = [["report", "run", "--no-player"], run]
    commands += [] if out == "." else [["figures", "run"], ["compare", "--table-only"], ["reproduce", "--seeds", "1"]]
    for command in commands:
        refused([*command, f"--out={out}"], capsys)
        assert sorted(desk.rglob("*")) == before


@pytest.mark.quick
@pytest.mark.parametrize("command", ["summary", "report", "figures", "certify", "theory", "resume"])
@pytest.mark.parametrize("folder", ["", "loop", "nowhere", "a\0b", "file"])
def test_a_folder_that_is_none_is_one_sentence(command, folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("", encoding="utf-8")
    refused([command, folder], capsys)


@pytest.mark.parametrize("out", ["", "a\0b"])
def test_python_is_told_the_same(out, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pond = es.problems.from_map(("SFF", "FHF", "FFG"), horizon=4)
    with pytest.raises(EverystepError, match="out is"):
        es.run(pond, "lsvi-ae", episodes=5, seeds=1).save(out)
    assert not list(tmp_path.iterdir())


def test_the_results_of_a_run_that_the_user_changed_are_replaced_by_force_only(folder, tmp_path):
    pond = es.problems.from_map(("SFF", "FHF", "FFG"), horizon=4)
    result = es.run(pond, "lsvi-ae", episodes=5, seeds=1)
    out = shutil.copytree(folder, tmp_path / "run")
    (out / "summary.json").write_text("{}", encoding="utf-8")
    with pytest.raises(EverystepError, match=r"summary\.json' .*not written by everystep"):
        result.save(out, figures=False)
    result.save(out, figures=False, force=True)
    assert (out / "summary.json").read_bytes() == (folder / "summary.json").read_bytes()


# --- printing ---------------------------------------------------------------------------------------------------------
class Strict(io.StringIO):
    """A terminal that knows ASCII only, and is not one of Python's own streams."""

    encoding = "ascii"

    def write(self, text):
        text.encode(self.encoding)
        return super().write(text)


@pytest.mark.quick
def test_what_a_terminal_cannot_show_is_escaped(monkeypatch):
    strict = Strict()
    monkeypatch.setattr(sys, "stdout", strict)
    with shared.printable():
        print("Written to caf\u00e9 \udcff")
    assert sys.stdout is strict
    assert strict.getvalue() == "Written to caf\\xe9 \\udcff\n"


@pytest.mark.skipif(sys.platform != "linux", reason="file names are text here, not bytes")
def test_a_page_with_any_name_is_written_and_reported(desk, capsys):
    strange = os.fsdecode("seite-\u00e9-".encode() + b"\xff.html")
    assert main.main(["report", "run", "--no-player", "--out", strange]) == 0
    assert "\\udcff.html" in capsys.readouterr().out
    assert (desk / strange).is_file()
    (desk / "all").mkdir()
    (desk / "run").rename(desk / "all" / os.fsdecode(b"run-\xff"))
    assert main.main(["compare", "--table-only", "--out", "all"]) == 0
    assert "run-\\udcff" in (desk / "all" / "table1.md").read_text(encoding="utf-8")


@pytest.mark.skipif(sys.platform == "win32", reason="by the shell of POSIX")
def test_closed_streams_change_nothing(desk):
    command = f"{sys.executable} -m everystep.cli list >&- 2>&-"
    assert subprocess.run(command, shell=True, capture_output=True).returncode == 0
