"""The parts of pages: our scripts and styles, templates, and Plotly from its package.

A page that opens from the disk holds everything it needs. Our scripts are ES modules; such a page joins them to one
module, without imports and exports. This requires that each `import` is one line, and that top-level names differ
between modules that share a page.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import jinja2
import numpy as np
import plotly
from markupsafe import Markup

HERE = resources.files(__package__)


def static(name: str) -> str:
    """One of our scripts or styles."""
    return (HERE / "static" / name).read_text(encoding="utf-8")


def plotly_script() -> str:
    """Plotly's script, from its package."""
    return (resources.files(plotly) / "package_data" / "plotly.min.js").read_text(encoding="utf-8")


def one_module(names: Sequence[str]) -> str:
    """Our modules joined to one, in this order."""
    text = "\n".join(static(name) for name in names)
    text = re.sub(r"^import .*$\n?", "", text, flags=re.MULTILINE)
    return re.sub(r"^export (?=class|function|const|async)", "", text, flags=re.MULTILINE)


def as_json(content: object) -> Markup:
    """Content for <script type="application/json">, escaped so that no text in it can end the element."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def as_base64(array: np.ndarray, dtype: str = "<f4") -> str:
    """Numbers as base64 of their bytes, in order: `<f4` and `<f8` floats, `<u4` and `u1` whole numbers."""
    return base64.b64encode(np.ascontiguousarray(array, np.dtype(dtype)).tobytes()).decode("ascii")


def page(template: str, context: Mapping[str, Any]) -> str:
    """Render a template; all values are escaped, except Markup."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: (HERE / "templates" / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(context)


def inlined(text: str) -> Markup:
    """A trusted script or style as the content of its element."""
    assert not re.search(r"</(script|style)|<!--", text, flags=re.IGNORECASE)
    return Markup(text)


def looks(labels: Sequence[str]) -> list[dict[str, str]]:
    """The titles, colours and dashes of agents, the same as in every figure."""
    from everystep.experiments import figures

    return [
        {"label": label, "title": figures.full_title(label), "colour": colour, "dash": _dash(dash)}
        for label, (colour, dash) in figures.looks(list(labels)).items()
    ]


def _dash(dash: str | tuple[int, Sequence[float]]) -> str:
    """A dash of matplotlib in Plotly's notation."""
    if isinstance(dash, str):
        return {"-": "solid", "-.": "dashdot", ":": "dot", "--": "dash"}[dash]
    return ",".join(f"{2 * length:g}px" for length in dash[1])
