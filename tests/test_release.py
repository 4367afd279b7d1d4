"""What is released agrees with itself: one version, the same dependencies everywhere, checks that can fail."""

import re
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import everystep

pytestmark = pytest.mark.quick

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
sys.path.insert(0, str(ROOT / "release"))
check = import_module("check")
sys.path.remove(str(ROOT / "release"))


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_version_is_written_once_and_everything_else_agrees():
    version = everystep.__version__
    assert "version" in PROJECT["project"]["dynamic"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "src/everystep/__init__.py"
    assert version == check.VERSION
    released = re.findall(r"^## (\d[\w.]*)(?: \(([\d-]+)\))?$", text("CHANGELOG.md"), re.MULTILINE)
    assert re.findall(r"^version: (.+)$", text("CITATION.cff"), re.MULTILINE) == [version]
    assert re.findall(r"^date-released: (.+)$", text("CITATION.cff"), re.MULTILINE) == [released[0][1]]
    assert released[0][0] == version
    assert f'{{% set version = "{version}" %}}' in text("conda/recipe/meta.yaml")
    assert "everystep.__version__" in text("docs/conf.py")
    for name in ("pyproject.toml", "docs/conf.py", "Makefile"):
        assert not re.search(r"^version *=", text(name), re.MULTILINE)


def test_conda_requires_what_pyproject_does():
    recipe = text("conda/recipe/meta.yaml")
    listed = lambda section: re.findall(
        r"^    - (.+)$", recipe.split(f"\n  {section}:\n")[1].split("\n\n")[0], re.MULTILINE
    )
    run = [line.replace(" ", "") for line in listed("run")]
    assert run == [f"python{PROJECT['project']['requires-python']}", *PROJECT["project"]["dependencies"]]
    host = recipe.split("\n  host:\n")[1].split("\n  run:\n")[0].replace(" ", "")
    assert all(f"-{line}\n" in f"{host}\n" for line in PROJECT["build-system"]["requires"])
    assert PROJECT["project"]["scripts"]["everystep"] in recipe
    assert f'summary: "{PROJECT["project"]["description"]}"' in recipe


def test_the_citation_has_what_its_format_requires():
    citation = text("CITATION.cff")
    for key in ("cff-version: 1.2.0", "message: ", "title: ", "type: software", "authors:", "license: MIT"):
        assert re.search(rf"^{re.escape(key)}", citation, re.MULTILINE), key
    references = citation.split("\nreferences:\n")[1]
    assert "The Role of Aggressive Exploration" in references
    assert re.findall("family-names: (.+)", references) == ["Wei", "Liu", "Ying"]


def test_the_sdist_is_the_list_that_is_checked():
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    checked = {f"/{name.rstrip('/')}" for name in check.IN_SDIST} - {"/.gitignore", "/pyproject.toml"}
    assert set(included) == checked
    assert all((ROOT / name.lstrip("/")).exists() for name in included)


def test_a_release_is_checked_before_it_is_published_and_needs_no_token():
    workflow = text(".github/workflows/release.yml")
    build, publish = workflow.split("\n  publish:\n")
    assert 'tags: ["v*"]' in build
    assert 'make dist TAG="$GITHUB_REF_NAME"' in build
    assert "id-token" not in build
    assert "needs: build" in publish
    assert "id-token: write" in publish
    assert not re.search("password|secrets|token:", workflow.replace("id-token:", ""))


WHEEL = {f"everystep-{check.VERSION}.dist-info/{name}": b"" for name in check.INFO}
WHEEL |= {"everystep/__init__.py": b"", "everystep/web/page.css": b""}
SDIST = {"PKG-INFO": b"", "README.md": b"", "src/everystep/__init__.py": b"", "src/everystep/web/page.css": b""}
COMMITTED = [*(name for name in SDIST if name != "PKG-INFO"), "notes.txt"]


@pytest.fixture
def inside(monkeypatch):
    """The contents of both files, which a test may change."""
    inside = {check.WHEEL: dict(WHEEL), check.SDIST: dict(SDIST)}
    monkeypatch.setattr(check, "contents", inside.__getitem__)
    monkeypatch.setattr(check, "files_of_commit", lambda: COMMITTED)
    return inside


def test_what_belongs_is_accepted(inside, tmp_path):
    assert f"{len(WHEEL)} files in the wheel, {len(SDIST)} in the sdist" in check.only_what_belongs(tmp_path)
    assert check.no_places(tmp_path)


@pytest.mark.parametrize("stray", ["everystep/notes.txt", "tests/test_release.py", "out/lake/spec.json", ".venv/x"])
def test_a_stray_file_is_named(inside, tmp_path, stray):
    inside[check.WHEEL][stray] = b""
    with pytest.raises(check.CheckError, match=f"{re.escape(stray)} is stray"):
        check.only_what_belongs(tmp_path)


def test_a_missing_file_is_named(inside, tmp_path):
    del inside[check.SDIST]["README.md"]
    with pytest.raises(check.CheckError, match=r"README\.md is missing"):
        check.only_what_belongs(tmp_path)


@pytest.mark.parametrize(
    "content", ["in /home/" + "someone/x", "/ro" + "ot/.cache", str(ROOT), "https:/" + "/packages.somewhere.net/simple"]
)
def test_a_place_of_a_machine_and_an_address_are_found(inside, tmp_path, content):
    inside[check.SDIST]["README.md"] = content.encode()
    with pytest.raises(check.CheckError, match=r"README\.md names"):
        check.no_places(tmp_path)


def test_a_file_that_is_too_large_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(check, "ROOT", tmp_path)
    (tmp_path / "dist").mkdir()
    for name, limit in check.LIMITS.items():
        (tmp_path / "dist" / name).write_bytes(b" " * (limit + (name == check.SDIST)))
    with pytest.raises(check.CheckError, match=re.escape(f"{check.SDIST} has 8,000,001 bytes")):
        check.sizes(tmp_path)


def test_another_tag_than_that_of_the_version_is_refused(tmp_path):
    with pytest.raises(check.CheckError, match="The tag is v9, and the version"):
        check.tag_of_version("v9")(tmp_path)


def test_the_quick_start_is_that_of_the_readme():
    assert check.quick_start().startswith("import everystep as es\n")
    compile(check.quick_start(), "README.md", "exec")
