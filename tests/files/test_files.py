"""Files appear whole or not at all, and only one module renames."""

import ast
import contextlib
import errno
import os
import shutil
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import everystep as es
from everystep import files

pytestmark = pytest.mark.quick
SOURCE = Path(files.__file__).parent.parent
RENAMING = {"replace", "rename", "renames", "move"}


def calls_that_rename(path):
    """Calls of os.replace, os.rename, shutil.move, Path.rename or Path.replace in a module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in RENAMING:
            of_text = node.func.attr == "replace" and len(node.args) == 2 and ast.unparse(node.func.value) != "os"
            if not of_text:
                yield f"{path.relative_to(SOURCE)}:{node.lineno} {ast.unparse(node.func)}"
        if isinstance(node, ast.ImportFrom) and node.module in ("os", "shutil"):
            yield from (
                f"{path.relative_to(SOURCE)} imports {each.name}" for each in node.names if each.name in RENAMING
            )


def test_no_other_module_renames_or_moves_a_file():
    found = {path: list(calls_that_rename(path)) for path in SOURCE.rglob("*.py")}
    assert len(found.pop(SOURCE / "files" / "__init__.py")) == 1
    assert [call for calls in found.values() for call in calls] == []


def test_a_file_is_replaced_only_when_its_content_is_complete(tmp_path):
    path = tmp_path / "notes.txt"
    files.write_text(path, "first")

    def fail(file):
        file.write(b"second")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        files.write(path, fail)
    assert path.read_text(encoding="utf-8") == "first"
    assert [each.name for each in tmp_path.iterdir()] == ["notes.txt"]


def test_a_seal_identifies_what_was_written(tmp_path):
    sealed = files.write_text(tmp_path / "notes.txt", "first")
    assert sealed == files.seal(tmp_path / "notes.txt")
    files.write_text(tmp_path / "notes.txt", "other")
    assert sealed != files.seal(tmp_path / "notes.txt")


def test_files_are_moved_into_a_folder_beside_those_that_stay_with_one_of_them_last(tmp_path, monkeypatch):
    out = tmp_path / "out"
    (out / "figures").mkdir(parents=True)
    (out / "mine.txt").write_text("stays", encoding="utf-8")
    files.write_output(out / "figures" / "map.svg", lambda file: file.write(b"old"))
    moved, rename = [], files._rename
    monkeypatch.setattr(files, "_rename", lambda source, target: (moved.append(target.name), rename(source, target)))
    with files.replacing(out, last="spec.json") as partial:
        (partial / "figures").mkdir()
        for name in ("a.txt", "spec.json", "figures/map.svg", "z.txt"):
            (partial / name).write_text("new", encoding="utf-8")
        assert (out / "figures" / "map.svg").read_text(encoding="utf-8") == "old"
    assert moved[-1] == "spec.json"
    found = {str(path.relative_to(out)): path.read_text(encoding="utf-8") for path in out.rglob("*") if path.is_file()}
    assert found == {
        "mine.txt": "stays", "a.txt": "new", "spec.json": "new", "figures/map.svg": "new", "z.txt": "new",
    } | {name: found[name] for name in (".everystep.sha256", "figures/.everystep.sha256")}  # fmt: skip
    assert "mine.txt" not in files.recorded(out)


def test_what_a_killed_process_left_is_swept_away_and_nothing_else(tmp_path):
    (tmp_path / ".everystep-0123.partial").write_text("half a file", encoding="utf-8")
    (tmp_path / ".everystep-4567.partial").mkdir()
    (tmp_path / ".everystep-4567.partial" / "part.npz").write_text("half a folder", encoding="utf-8")
    (tmp_path / "mine.partial").write_text("stays", encoding="utf-8")
    files.sweep(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.partial"]


def test_a_folder_that_cannot_be_written_is_refused_with_its_name(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(es.EverystepError, match=r"file' is a file; choose a folder"):
        files.check_writable(tmp_path / "file")
    for place in ("file/run", "a" * 300):
        with pytest.raises(es.EverystepError, match="cannot be written"):
            files.check_writable(tmp_path / place)


def put(path, text="new", force=False):
    files.write_output(path, lambda file: file.write(text.encode()), force)


def test_a_file_of_our_own_is_replaced_any_number_of_times(tmp_path):
    for text in ("first", "second", "second", "third"):
        put(tmp_path / "page.html", text)
        assert (tmp_path / "page.html").read_text(encoding="utf-8") == text
    assert len(files.recorded(tmp_path)["page.html"]) == 3


def test_a_file_of_the_user_or_one_that_the_user_changed_is_replaced_by_force_only(tmp_path):
    mine, ours = tmp_path / "mine.html", tmp_path / "ours.html"
    mine.write_text("thesis", encoding="utf-8")
    put(ours)
    ours.write_text("new, with notes", encoding="utf-8")
    for path in (mine, ours):
        before = path.read_text(encoding="utf-8")
        with pytest.raises(es.EverystepError, match=r"not written by everystep.*--force"):
            put(path)
        assert path.read_text(encoding="utf-8") == before
        put(path, force=True)
        assert path.read_text(encoding="utf-8") == "new"
        put(path, "again")
    assert not list(tmp_path.glob("*.partial"))


def odd_places(folder):
    """One of each kind of thing that is no regular file, made here."""
    (folder / "a folder").mkdir()
    (folder / "a symbolic link").symlink_to(folder / "victim")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "a pipe")
    if os.geteuid() == 0:
        with contextlib.suppress(PermissionError):  # some systems forbid it to everyone
            os.mknod(folder / "a device", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    with socket.socket(socket.AF_UNIX) as listening:
        os.chdir(folder)
        listening.bind("a socket")
    return sorted(path for path in folder.iterdir() if path.name != "victim")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such files")
def test_what_is_no_regular_file_is_never_replaced_not_even_by_force(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "victim").write_text("precious", encoding="utf-8")
    odd = odd_places(tmp_path)
    assert len(odd) >= 5
    before = {path: os.lstat(path) for path in odd}
    for path in odd:
        for force in (False, True):
            with pytest.raises(es.EverystepError, match=r"choose another name"):
                put(path, force=force)
    assert {path: os.lstat(path).st_ino for path in odd} == {path: each.st_ino for path, each in before.items()}
    assert {stat.S_IFMT(os.lstat(path).st_mode) for path in odd} == {
        stat.S_IFMT(each.st_mode) for each in before.values()
    }
    assert (tmp_path / "victim").read_text(encoding="utf-8") == "precious"
    assert not (tmp_path / files.RECORD).exists()


def test_one_file_that_may_not_be_replaced_stops_all_of_a_folder(tmp_path):
    out = tmp_path / "out"
    (out / "figures").mkdir(parents=True)
    (out / "figures" / "map.svg").write_text("mine", encoding="utf-8")

    def fill(force=False):
        with files.replacing(out, force=force) as partial:
            (partial / "figures").mkdir()
            for name in ("a.txt", "figures/map.svg"):
                (partial / name).write_text("new", encoding="utf-8")

    with pytest.raises(es.EverystepError, match=r"map\.svg' exists and was not written by everystep"):
        fill()
    assert sorted(path.name for path in out.rglob("*")) == ["figures", "map.svg"]
    fill(force=True)
    fill()
    assert (out / "a.txt").read_text(encoding="utf-8") == "new"


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_inside_that_is_a_link_leads_nowhere(tmp_path, force):
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    out.mkdir(), elsewhere.mkdir()
    (out / "figures").symlink_to(elsewhere)

    def fill():
        with files.replacing(out, force=force) as partial:
            (partial / "figures").mkdir()
            (partial / "figures" / "map.svg").write_text("new", encoding="utf-8")

    with pytest.raises(es.EverystepError, match=r"figures' is a symbolic link, not a folder"):
        fill()
    assert not list(elsewhere.iterdir())
    assert [path.name for path in out.iterdir()] == ["figures"]


def test_the_record_is_what_sha256sum_checks_for_any_name(tmp_path):
    names = ["page.html", "two words", "line\nfeed", "back\\slash", "back\\nslash", os.fsdecode(b"byte-\xff")]
    for name in names:
        put(tmp_path / name)
    assert sorted(files.recorded(tmp_path)) == sorted(names)
    assert not [name for name in names if files.altered(tmp_path, name)]
    if tool := shutil.which("sha256sum"):
        done = subprocess.run([tool, "-c", files.RECORD], cwd=tmp_path, capture_output=True)
        assert done.returncode == 0, done.stderr


def test_a_record_that_is_cut_off_junk_or_no_file_gives_nothing_away(tmp_path):
    put(tmp_path / "page.html")
    record = tmp_path / files.RECORD
    record.write_bytes(record.read_bytes() + b"0" * 30)  # a power failure in the next line
    put(tmp_path / "other.html")
    assert set(files.recorded(tmp_path)) == {"page.html", "other.html"}
    record.write_bytes(b"\xff\0" * 100)
    with pytest.raises(es.EverystepError, match="not written by everystep"):
        put(tmp_path / "page.html")
    record.unlink()
    (tmp_path / "victim").write_text("precious", encoding="utf-8")
    record.symlink_to(tmp_path / "victim")
    with pytest.raises(es.EverystepError, match=r"not a regular file"):
        put(tmp_path / "third.html")
    assert (tmp_path / "victim").read_text(encoding="utf-8") == "precious"
    assert not (tmp_path / "third.html").exists()


def everything(folder):
    """The content and the time of change of all files below a folder, and all folders."""
    return {
        path: (path.read_bytes(), path.stat().st_mtime_ns) if path.is_file() else path.is_dir()
        for path in sorted(folder.rglob("*"))
    }


def fill(out, *names):
    with files.replacing(out) as partial:
        for name in names:
            (partial / name).parent.mkdir(exist_ok=True)
            (partial / name).write_text("new", encoding="utf-8")


OBSTACLES = {  # what refuses files in out/figures, and what is said of it
    "record": (lambda figures: (figures / files.RECORD).mkdir(), "is not a regular file"),
    "folder": (lambda figures: None, "Permission denied"),
    "rename": (lambda figures: None, "cannot be written"),
    "disk": (lambda figures: None, "cannot be written"),
}


@pytest.mark.parametrize("obstacle", OBSTACLES)
@pytest.mark.parametrize("before", ["recorded", "new"])
def test_a_refused_move_leaves_the_folder_and_its_records_as_they_were(obstacle, before, tmp_path, monkeypatch):
    out = tmp_path / "out"
    (out / "figures").mkdir(parents=True)
    if before == "recorded":
        put(out / "table.csv", "old")
    make, sentence = OBSTACLES[obstacle]
    make(out / "figures")
    found = everything(out)

    def fail(*_):
        raise OSError(errno.ENOSPC, "no space")

    if obstacle == "folder":  # permissions do not bind root
        monkeypatch.setattr(files.os, "access", lambda path, mode: Path(path).name != "figures")
    if obstacle == "rename":
        monkeypatch.setattr(files, "_rename", fail)
    if obstacle == "disk":
        append = files._append
        last = lambda path, *rest: (append(path, *rest), path.parent.name == "more" and fail())
        monkeypatch.setattr(files, "_append", last)
    with pytest.raises(es.EverystepError, match=sentence):
        fill(out, "table.csv", "figures/map.svg", "more/other.svg")
    assert everything(out) == found


def test_a_move_that_is_interrupted_after_its_first_file_stays_recorded(tmp_path, monkeypatch):
    rename = files._rename

    def interrupted(source, target):
        rename(source, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "_rename", interrupted)
    (tmp_path / "out").mkdir()
    with pytest.raises(KeyboardInterrupt):
        fill(tmp_path / "out", "a.txt", "b.txt")
    assert files.altered(tmp_path / "out", "a.txt") is None
    monkeypatch.setattr(files, "_rename", rename)
    put(tmp_path / "out" / "a.txt", "again")


def test_an_interrupted_removal_is_finished(tmp_path, monkeypatch):
    remove, folder = shutil.rmtree, tmp_path / "out" / ".work"
    folder.mkdir(parents=True)
    (folder / "part.npz").write_text("", encoding="utf-8")
    interrupts = iter([KeyboardInterrupt])

    def interrupted(path, **options):
        for error in interrupts:
            raise error
        remove(path, **options)

    monkeypatch.setattr(files.shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt):
        files.remove_folder(folder)
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.quick
def test_a_name_for_temporary_files_is_refused(tmp_path):
    taken = tmp_path / ".everystep-1.partial"
    for write in (
        lambda: files.write_output(taken, lambda file: file.write(b"x")),
        lambda: files.check_writable(taken),
    ):
        with pytest.raises(es.EverystepError, match="temporary files"):
            write()
    assert not list(tmp_path.iterdir())


def test_a_path_through_a_folder_that_is_not_there_makes_nothing(tmp_path):
    with pytest.raises(FileNotFoundError):
        files.make_folder(tmp_path / "nowhere" / ".." / "place" / "x")
    assert not list(tmp_path.iterdir())
