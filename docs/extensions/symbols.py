"""Formulas in prose: C*_{h+1} is a symbol, not the beginning of an emphasis.

Pages write formulas as plain text. Markdown takes `*` and `_` beside punctuation for emphasis, and would drop them. Our
emphasis is written with `*`, begins a word and ends one; every other `*`, and `_` beside punctuation, is escaped.
"""

from __future__ import annotations

import re

# Where nothing is escaped: comments, blocks of code, fenced or indented, code in a line, and targets of links.
LITERAL = re.compile(
    r"^---\n.*?^---$|<!--.*?-->|^(`{3,}|:{3,}).*?^\1|^(?: {4}[^\n]*(?:\n|\Z))+|(`+)[^`]+\2|\]\([^)\s]*\)",
    re.DOTALL | re.MULTILINE,
)
SYMBOL = re.compile(r"\*+|_")


def escaped(text: str) -> str:
    """Markdown in which only what is meant as emphasis is one."""
    plain = LITERAL.sub(lambda found: "".join(c if c == "\n" else "a" for c in found[0]), text)
    positions: list[int] = []
    for paragraph in re.finditer(r"(?:.+\n?)+", plain):
        positions += _not_emphasis(plain, paragraph.start(), paragraph.end())
    out, last = [], 0
    for position in positions:
        out += [text[last:position], "\\"]
        last = position
    return "".join([*out, text[last:]])


def _not_emphasis(text: str, start: int, end: int) -> list[int]:
    """Where the symbols of a paragraph are that are no emphasis."""
    positions: list[int] = []
    inside = 0  # how many stars began the emphasis
    for found in SYMBOL.finditer(text, start, end):
        before, after = text[: found.start()][-1:] or "\n", text[found.end() :][:1] or "\n"
        if before == "\\":
            continue
        if found[0] == "_":
            if not (before.isalnum() and after.isalnum()):
                positions.append(found.start())
        elif inside == len(found[0]):
            inside = 0
        elif not (inside or before.isalnum() or before in ")]}" or after.isspace()):
            inside = len(found[0])
        elif before != "\n":  # where it would be an item of a list
            positions += range(found.start(), found.end())
    return positions
