"""What pages are made of: our own scripts and styles, templates, and Plotly from its package.

A page that must open from a disk holds everything inside it. Our scripts are ES modules; put into one page they are
one module, from which the lines that import and the word export are left out: so each `import` is one line, and
names at the top of modules that share a page differ.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import jinja2
import plotly
from markupsafe import Markup

HERE = resources.files(__package__)


def static(name: str) -> str:
    """One of our scripts or styles."""
    return (HERE / "static" / name).read_text(encoding="utf-8")


def plotly_script() -> str:
    """Plotly's own script, as its package has it."""
    return (resources.files(plotly) / "package_data" / "plotly.min.js").read_text(encoding="utf-8")


def one_module(names: Sequence[str]) -> str:
    """Our modules as one, in this order."""
    text = "\n".join(static(name) for name in names)
    text = re.sub(r"^import .*$\n?", "", text, flags=re.MULTILINE)
    return re.sub(r"^export (?=class|function|const|async)", "", text, flags=re.MULTILINE)


def as_json(content: Any) -> Markup:
    """Any content for <script type="application/json">: no text in it can end the script or begin another element."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def page(template: str, told: Mapping[str, Any]) -> str:
    """A template filled in; everything told is escaped, unless it is Markup."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: (HERE / "templates" / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(told)


def inlined(text: str) -> Markup:
    """A script or a style of ours, or Plotly's, for the inside of its element."""
    assert not re.search(r"</(script|style)|<!--", text, flags=re.IGNORECASE)
    return Markup(text)


def looks(labels: Sequence[str]) -> list[dict[str, str]]:
    """How agents look on a page: as in every figure."""
    from everystep.experiments import figures

    return [
        {"label": label, "title": figures.TITLES.get(label, label), "colour": colour, "dash": _dash(dash)}
        for label, (colour, dash) in figures.looks(list(labels)).items()
    ]


def _dash(dash: Any) -> str:
    """A dash of matplotlib as Plotly says it."""
    if isinstance(dash, str):
        return {"-": "solid", "-.": "dashdot", ":": "dot", "--": "dash"}[dash]
    return ",".join(f"{2 * length:g}px" for length in dash[1])
