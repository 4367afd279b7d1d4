"""Tutorials: pages of docs/tutorials, notebooks in the form of Markdown (jupytext's `myst`), executed by every build.

    ```{code-cell} python
    :tags: [parameters]

    episodes = 1000
    ```

A cell with the tag `parameters` sets the sizes, as for papermill: tests/test_tutorials.py runs the cells with smaller
ones, and without those tagged `full-size`, which check what holds at full size only. A header between lines of `---`
holds what a picture shows, for those who do not see it.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import re
import sys
import tempfile
from functools import partialmethod
from pathlib import Path
from typing import Any, NamedTuple

CELL = re.compile(
    r"^```\{code-cell\} python\n(?P<header>---\n.*?^---\n|(?::\w+:[^\n]*\n)+\n)?(?P<code>.*?)^```$", re.S | re.M
)


class Cell(NamedTuple):
    """A cell of Python, its tags and the line of its page on which it begins."""

    code: str
    tags: frozenset[str]
    line: int


def cells(text: str) -> list[Cell]:
    """The cells of a tutorial in their order."""
    found = []
    for match in CELL.finditer(text):
        tags = re.search(r"^:tags: \[(.*)\]$", match["header"] or "", re.M)
        names = frozenset(re.findall(r"[\w-]+", tags[1])) if tags else frozenset()
        found.append(Cell(match["code"], names, text.count("\n", 0, match.start("code")) + 1))
    return found


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx. Cells run in this Python, whichever kernels a user has; the log of a kernel has errors only."""
    from nbclient import NotebookClient

    folder = tempfile.TemporaryDirectory(prefix="everystep-kernel-")
    atexit.register(folder.cleanup)
    kernel = Path(folder.name) / "kernels" / "everystep-docs"
    kernel.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}", "--log-level=40"]
    spec = {"argv": command, "display_name": "Python", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    os.environ["JUPYTER_PATH"] = os.pathsep.join([folder.name, *filter(None, [os.environ.get("JUPYTER_PATH")])])
    logging.getLogger("traitlets").setLevel(logging.WARNING)
    # What a cell prints is one text, however many messages brought it: nb_merge_streams would break lines between them.
    NotebookClient.__init__ = partialmethod(NotebookClient.__init__, coalesce_streams=True)
    app.connect("html-page-context", _named_by_their_text)
    return {"parallel_read_safe": True}


def _named_by_their_text(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """What unfolds code has a text, and needs no other name for those who hear the page."""
    if page.startswith("tutorials/"):
        context["body"] = context["body"].replace(' aria-label="Toggle hidden content"', "")
