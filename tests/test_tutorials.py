"""The tutorials of the site run: every cell of each, in its order, in one namespace, with small sizes.

The site (`make docs`) runs all of them in full. Here is no notebook: cells are plain Python, as
docs/extensions/tutorials.py reads them.
"""

import sys
from importlib import import_module
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGES = sorted((DOCS / "tutorials").glob("*.md"))

sys.path.insert(0, str(DOCS / "extensions"))
tutorials = import_module("tutorials")
sys.path.pop(0)

SMALL = {
    "paper": {"episodes": 20, "seeds": 2},
    "finite-problem": {"episodes": 20, "seeds": 2},
    "environment": {"episodes": 5, "played": 2},
    "look-ahead": {"episodes": 10, "seeds": 1, "agents": ("lsvi-ahead",)},
    "shield": {"episodes": 12, "seeds": 1},
    "cost-models": {"episodes": 10, "seeds": 1},
    "theory": {"episodes": 10, "seeds": 1, "names": ("tuned",)},
}


def cells_of(page):
    return tutorials.cells(page.read_text(encoding="utf-8"))


@pytest.fixture
def pictures(monkeypatch):
    """Pictures are made, but not shown."""
    import matplotlib as mpl

    before = mpl.get_backend()
    mpl.use("agg")
    import matplotlib.pyplot as plt

    with mpl.rc_context():
        yield plt
    plt.close("all")
    mpl.use(before)


@pytest.mark.usefixtures("sketched")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_cell_of_a_tutorial_runs(page, pictures, tmp_path, monkeypatch):
    pytest.importorskip("gymnasium")
    monkeypatch.chdir(tmp_path)
    namespace, drawn = {"__name__": "tutorial"}, 0
    for cell in cells_of(page):
        if "full-size" in cell.tags:
            continue
        code = "\n" * (cell.line - 1) + cell.code  # so that an error names the line of the page
        exec(compile(code, str(page), "exec"), namespace)
        if "parameters" in cell.tags:
            assert SMALL[page.stem].keys() <= namespace.keys()
            namespace |= SMALL[page.stem]
        drawn += len(pictures.get_fignums())
        pictures.close("all")
    assert drawn
    assert not list(tmp_path.iterdir())


@pytest.mark.quick
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_has_what_all_have(page):
    text = page.read_text(encoding="utf-8")
    cells = cells_of(page)
    assert len(cells) == text.count("```{code-cell}")
    assert [cell.tags for cell in cells].count(frozenset({"parameters"})) == 1
    assert text.count("plt.subplots(") == text.count("    alt: ")
    assert "\n## What to try next\n" in text
    for cell in cells:
        compile(cell.code, str(page), "exec")
        assert max(map(len, cell.code.splitlines())) <= 100


@pytest.mark.quick
def test_the_seven_tutorials_are_on_the_site_and_the_paper_has_ten_cells():
    assert {page.stem for page in PAGES} == set(SMALL)
    index, start = ((DOCS / name).read_text(encoding="utf-8") for name in ("index.md", "start.md"))
    for page in PAGES:
        assert f"\ntutorials/{page.stem}\n" in index
        assert f"(tutorials/{page.stem}.md)" in start
    assert len(cells_of(DOCS / "tutorials" / "paper.md")) == 10


@pytest.mark.quick
def test_cells_are_found_with_their_tags_and_lines():
    text = "# A\n\n```{code-cell} python\n:tags: [parameters, b-c]\n\nx = 1\n```\n"
    text += "```{code-cell} python\n---\nm: 1\n---\ny\n```\n"
    assert tutorials.cells(text) == [("x = 1\n", {"parameters", "b-c"}, 6), ("y\n", frozenset(), 12)]
