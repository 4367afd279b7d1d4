"""Our docstrings as Sphinx reads them. They are plain text with a few habits, which become its markup:

    a block that begins with >>>         an example, which the tests run
    a block that is indented by four     an example or a formula, as it stands
    lines of symbols with = or <=        a formula, as it stands
    name   what it is                    an aligned list: an entry for each name
    `code`, docs/page.md                 code, with a link if it is the name of an entry; a link to the page

Everything else is prose, in which no character is markup.
"""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path
from typing import Any

ENTRY = re.compile(r"^\.\. auto(?:class|function|exception|data):: everystep\.([\w.]+)", re.MULTILINE)
# A name, or several, then a gap of two blanks or more; or `name: text`.
LISTED = re.compile(r"^([`\w][\w`*., ]*?(?: \([\w, .]+\))?:? {2,}|\w+(?:, \w+)*: )(\S.*)$")

LONGEST_NAME = 32


def entries() -> set[str]:
    """The names that have an entry on a page of the reference, without `everystep.`."""
    pages = (Path(__file__).resolve().parent.parent / "reference").glob("*.md")
    return {name for page in pages for name in ENTRY.findall(page.read_text(encoding="utf-8"))}


def as_rst(doc: str, known: set[str]) -> list[str]:
    """A docstring as lines of reStructuredText; `known` are the names that can be linked to."""
    lines: list[str] = []
    for block in re.split(r"\n\s*\n", textwrap.dedent(doc).strip("\n")):
        rows = block.splitlines()
        if not block.strip():
            continue
        if rows[0].startswith(">>> ") or all(row.startswith("    ") for row in rows) or _formula(rows):
            lines += _as_it_stands(rows)
        elif pairs := _aligned(rows) if lines else []:  # the first sentence is no list
            for name, text in pairs:
                text = re.sub(r"(?<=[\w)\]]) {2,}(?=\S)", ": ", text)  # a second column
                lines += [_prose(name, known) if "`" in name else f"``{name}``", f"    {_prose(text, known)}", ""]
        else:
            lines += [_prose(" ".join(row.strip() for row in rows), known), ""]
    return lines


def _as_it_stands(rows: list[str]) -> list[str]:
    code = textwrap.dedent("\n".join(rows))
    try:
        ast.parse(code)
        language = "python"
    except SyntaxError:
        language = "pycon" if code.startswith(">>> ") else "text"
    return [f".. code-block:: {language}", "", *(f"    {row}" for row in code.splitlines()), ""]


def _formula(rows: list[str]) -> bool:
    """Whether every line is symbols: each has an equality and none ends as a sentence does."""
    return all(re.search(r" (=|<=|<-|>=) ", row) and not row.rstrip().endswith((".", ":", ";")) for row in rows)


def _aligned(rows: list[str]) -> list[tuple[str, str]]:
    """The names and texts of an aligned list; none if it is not one."""
    first = LISTED.match(rows[0])
    if not first:
        return []
    column, pairs = first.start(2), []
    for row in rows:
        found = LISTED.match(row)
        in_column = row[:1].strip() and row[column - 1 : column] == " " and row[column : column + 1].strip()
        if row.startswith("  ") and pairs:
            pairs[-1] = (pairs[-1][0], f"{pairs[-1][1]} {row.strip()}")
        elif found and len(found[1].strip()) <= LONGEST_NAME:
            pairs.append((found[1].rstrip(": "), found[2]))
        elif in_column and column <= LONGEST_NAME:  # a name as long as the column is wide
            pairs.append((row[:column].strip(), row[column:]))
        else:
            return []
    return pairs


def _prose(text: str, known: set[str]) -> str:
    """Text in which only `code` and the names of pages are markup."""
    parts = re.split(r"(`[^`]+`|\bdocs/[\w-]+\.md\b)", re.sub(r" {2,}", " ", text))
    out = []
    for i, part in enumerate(parts):
        if part.startswith("docs/") and i % 2:
            out.append(f":doc:`/{part[5:-3]}`")
        elif i % 2:
            out.append(_code(part[1:-1], known))
        else:
            out.append(re.sub(r"([\\*_|`])", r"\\\1", part))
        after = parts[i + 1][:1] if i % 2 else ""
        if after and not re.match(r"[\s.,;:!?'\")\]}>/-]", after):
            out.append("\\ ")  # ends the code, where a letter follows
    return "".join(out)


def _code(text: str, known: set[str]) -> str:
    name = entry_of(text, known) or (text if text in known and text[0].isupper() else None)
    return f":py:obj:`{text} <everystep.{name}>`" if name else f"``{text}``"


def entry_of(code: str, known: set[str]) -> str | None:
    """The entry that `es.name` or `es.name(...)` refers to; None if it is anything else."""
    found = re.match(r"(?:es|everystep)\.([A-Za-z_][\w.]*)(?:\(.*\))?$", code)
    return found[1] if found and found[1] in known else None


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    known = entries()

    def translated(app: Any, kind: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
        text = "\n".join(lines)
        not_ours = kind == "data" or text.startswith("Alias for field number")  # of dict, of a named tuple
        lines[:] = [] if not_ours else as_rst(text, known)

    def shortened(app: Any, kind: str, name: str, thing: Any, options: Any, signature: str, returned: str) -> Any:
        return (signature or "").replace("<factory>", "...") or None, returned  # a default that is made for each object

    def skipped(app: Any, kind: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
        # Fields of dataclasses and named tuples stand in the signature, and in the docstring of the class.
        field = not (callable(thing) or hasattr(thing, "__get__")) or type(thing).__name__ == "_tuplegetter"
        return True if kind == "class" and field else None

    app.connect("autodoc-skip-member", skipped)
    app.connect("autodoc-process-docstring", translated)
    app.connect("autodoc-process-signature", shortened)
    return {"parallel_read_safe": True}
