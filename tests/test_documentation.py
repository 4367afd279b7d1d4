"""What the pages name exists: files, links, modules, functions and classes. Changes of names must reach the pages."""

import re
from importlib import import_module
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "everystep"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "studies" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
WRITTEN_BY_THE_READER = {"cli/worst.py"}  # what docs/extending.md shows how to add
PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
FOLDERS = {path.name for path in (*ROOT.iterdir(), *SOURCE.iterdir()) if path.is_dir()} - {"out"}


def in_code(page):
    """The text of a page between backticks, in indented blocks and in fenced ones."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
    text = re.sub(r"```\w*\n.*?```", "", text, flags=re.DOTALL)
    indented = [line for line in text.splitlines() if line.startswith("    ")]
    return [*blocks, *indented, *re.findall(r"`([^`\n]+)`", text)]


def resolved(dotted):
    """The object that a dotted name stands for: as much of it as is a module, then attributes."""
    parts = dotted.split(".")
    found = import_module(parts[0])
    for i, part in enumerate(parts[1:], 2):
        try:
            found = getattr(found, part)
        except AttributeError:
            found = import_module(".".join(parts[:i]))
    return found


@PAGE
def test_every_script_and_module_a_page_names_exists(page):
    named = {path for code in in_code(page) for path in re.findall(r"[\w./-]*\w\.py\b", code)}
    named -= WRITTEN_BY_THE_READER
    missing = [path for path in named if not any((base / path).is_file() for base in (ROOT, SOURCE))]
    assert not missing


@PAGE
def test_every_folder_a_page_names_exists(page):
    named = {
        path for code in in_code(page) for path in re.findall(r"(?<![\w./-])[\w-]+(?:/[\w-]+)*/(?![\w.*<{-])", code)
    }
    named = {path for path in named if path.split("/")[0] in FOLDERS}
    missing = [path for path in named if not any((base / path).is_dir() for base in (ROOT, SOURCE))]
    assert not missing


@PAGE
def test_every_link_of_a_page_leads_somewhere(page):
    links = re.findall(r"\]\(([^)\s]+)\)|<img src=\"([^\"]+)\"", page.read_text(encoding="utf-8"))
    for link in {plain or image for plain, image in links}:
        if link.startswith(("http:", "https:")):
            continue
        path, _, heading = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if heading:
            titles = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
            assert heading in slugs, link


@PAGE
def test_every_name_of_the_library_on_a_page_exists(page):
    names = {name for code in in_code(page) for name in re.findall(r"(?<![\w/.:-])everystep(?:\.[A-Za-z_]\w*)+", code)}
    short = {name for code in in_code(page) for name in re.findall(r"(?<![\w.])es((?:\.[A-Za-z_]\w*)+)", code)}
    for name in names | {f"everystep{name}" for name in short}:
        assert resolved(name) is not None


@PAGE
def test_every_import_on_a_page_works(page):
    for code in in_code(page):
        for module, names in re.findall(r"^from (everystep[\w.]*) import ([\w, ]+)$", code, re.MULTILINE):
            for name in names.split(","):
                assert resolved(f"{module}.{name.strip()}") is not None


def test_every_class_and_member_in_the_table_of_symbols_exists():
    source = {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    page = (ROOT / "docs" / "notation.md").read_text(encoding="utf-8")
    pairs = re.findall(r"`([A-Z]\w+)(?:\.(\w+))?`", page)
    assert len(pairs) > 40
    letters = {"Q", "V", "M", "U"}
    for name, member in pairs:
        if name in letters:
            continue
        homes = [text for text in source.values() if re.search(rf"^class {name}\b", text, re.MULTILINE)]
        assert homes, f"no class {name}"
        assert not member or any(re.search(rf"\b{member}\b", text) for text in homes), f"{name} has no {member}"


def readme_example(heading):
    """The first block of Python of a section of the README; None is the section before all headings."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text if heading is None else text.split(f"\n## {heading}\n")[1]
    return re.search(r"```python\n(.*?)```", section, re.DOTALL)[1]


@pytest.mark.usefixtures("sketched")
def test_the_example_of_the_paper_in_the_readme_runs(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    exec(readme_example("Reproduce the paper").replace("episodes=1000, seeds=8", "episodes=60, seeds=2"), {})
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in printed] == ["lsvi-ae", "lsvi"]
    assert all("safe optimum 5.23" in line for line in printed)
    assert (tmp_path / "out" / "lake" / "episodes.parquet").is_file()


def test_the_example_at_the_top_of_the_readme_runs(monkeypatch, tmp_path, capsys):
    pytest.importorskip("gymnasium")
    monkeypatch.chdir(tmp_path)
    example = readme_example(None).replace("length=200, episodes=50", "length=20, horizon=10, episodes=3")
    exec(example.replace("episodes=20", "episodes=1"), {})
    printed = capsys.readouterr().out
    assert "look ahead" in printed
    assert "lsvi-ahead on CartPole-v1: 3 episodes" in printed
    assert (tmp_path / "out" / "upright" / "policy" / "CARD.md").is_file()
