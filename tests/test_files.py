"""Files appear whole or not at all, and only one module renames."""

import ast
from pathlib import Path

import pytest

import everystep as es
from everystep import files

pytestmark = pytest.mark.quick

SOURCE = Path(files.__file__).parent
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
    assert len(found.pop(SOURCE / "files.py")) == 1
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
