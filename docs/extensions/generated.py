"""Text that comes into a page when it is built. A page asks for it in a line of its own, which GitHub does not show:

    <!-- generated: readme_section Install -->

names a function of `SOURCES` and its argument. A section or block that does not exist any more stops the build.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import symbols

ROOT = Path(__file__).resolve().parent.parent.parent
MARK = re.compile(r"^<!-- generated: (\w+) ?(.*?) -->$", re.MULTILINE)
PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}  # of the root, and their names here


def from_root(text: str) -> str:
    """A text of the repository's root with its links as a page of docs/ writes them."""

    def here(found: re.Match[str]) -> str:
        target = found[1]
        if target.startswith(("http:", "https:", "#")):
            return found[0]
        inside = target.startswith("docs/")
        return f"]({target.removeprefix('docs/') if inside else PAGES.get(target, f'../{target}')})"

    return re.sub(r"\]\(([^)\s]+)\)", here, text)


def root_page(name: str) -> str:
    """A whole page of the repository's root."""
    return from_root((ROOT / name).read_text(encoding="utf-8"))


def _section(heading: str) -> str:
    parts = (ROOT / "README.md").read_text(encoding="utf-8").split(f"\n## {heading}\n")
    if len(parts) != 2:
        raise ValueError(f"README.md has {len(parts) - 1} sections '{heading}'")
    return parts[1].split("\n## ")[0]


def _only(found: list[str], what: str) -> str:
    if not found:
        raise ValueError(f"README.md has no {what}")
    return found[0]


def readme_section(heading: str) -> str:
    """The text of a section, without its heading; its subsections become sections."""
    return from_root(re.sub(r"^##(#+ )", r"#\1", _section(heading), flags=re.MULTILINE))


def readme_paragraph(first_words: str) -> str:
    """The paragraph that begins with these words."""
    paragraphs = (ROOT / "README.md").read_text(encoding="utf-8").split("\n\n")
    return from_root(_only([each for each in paragraphs if each.startswith(first_words)], f"'{first_words} ...'"))


def readme_python(heading: str) -> str:
    """The first block of Python of a section, or of the README itself."""
    text = _section(heading) if heading else (ROOT / "README.md").read_text(encoding="utf-8")
    return _only(re.findall(r"```python\n.*?```", text, re.DOTALL), f"Python in '{heading}'")


def readme_table(heading: str) -> str:
    """The first table of a section."""
    return from_root(_only(re.findall(r"(?:^\|.*\n)+", _section(heading), re.MULTILINE), f"table in '{heading}'"))


def prose(text: str) -> str:
    """Plain text as Markdown: code between backticks stays, a page of docs/ becomes a link, all else is literal."""

    def piece(part: str) -> str:
        page = re.fullmatch(r"docs/([\w-]+)\.md", part)
        if page:
            return f"[{page[1]}](../{page[1]}.md)"
        return part if part.startswith("`") else re.sub(r"([\\*_<>\[\]|#{}$~])", r"\\\1", part)

    return "".join(piece(part) for part in re.split(r"(`[^`]+`|\bdocs/[\w-]+\.md\b)", text))


def commands(_: str) -> str:
    """Every command: what it is for, its usage and its arguments, from the parser of the command line."""
    from everystep.cli.main import parser

    top = parser()
    (subparsers,) = [action for action in top._actions if isinstance(action, argparse._SubParsersAction)]
    helps = {choice.dest: choice.help for choice in subparsers._choices_actions}
    index = [f"| [`{name}`](#everystep-{name}) | {prose(text)} |" for name, text in helps.items()]
    lines = ["\n".join(["| command | what it does |", "|---|---|", *index])]
    for name, command in subparsers.choices.items():
        lines += [f"## everystep {name}", f"{_sentence(helps[name])}", f"```text\n{_usage(command)}\n```"]
        for action in command._actions:
            if not isinstance(action, argparse._HelpAction):
                lines.append(f"{_argument(action)}\n: {prose(command._get_formatter()._expand_help(action))}")
    return "\n\n".join(lines)


def _sentence(text: str) -> str:
    return prose(text[0].upper() + text[1:]).rstrip(".") + "."


def _usage(command: argparse.ArgumentParser) -> str:
    command.formatter_class = lambda prog: argparse.HelpFormatter(prog, width=84)
    first, *others = command.format_usage().replace("[-h] ", "").rstrip().splitlines()
    return "\n".join([first.removeprefix("usage: "), *(line.removeprefix(" " * len("usage: ")) for line in others)])


def _argument(action: argparse.Action) -> str:
    value = f" {action.metavar or ''}".rstrip() if action.nargs != 0 else ""
    if not action.option_strings:
        return f"`{action.metavar or action.dest}`"
    return ", ".join(f"`{flag}{value}`" for flag in action.option_strings)


def agents(_: str) -> str:
    """The registered agents, what they require, and their own defaults."""
    from everystep.agents.registry import REGISTERED

    rows = ["| agent | requires | what it is |", "|---|---|---|"]
    rows += [f"| `{name}` | {prose(agent.needs)} | {prose(agent.summary)} |" for name, agent in REGISTERED.items()]
    return "\n".join(rows)


def own_defaults(_: str) -> str:
    """The defaults of one agent that differ from those of the setting."""
    from everystep.agents.registry import REGISTERED
    from everystep.cli.list import _as_flag

    rows = ["| agent | its own defaults |", "|---|---|"]
    rows += [
        f"| `{name}` | {', '.join(f'`{key}={_as_flag(value)}`' for key, value in agent.defaults.items())} |"
        for name, agent in REGISTERED.items()
        if agent.defaults
    ]
    return "\n".join(rows)


def settings(_: str) -> str:
    """Every setting with its default, what it does, and the agents that have it."""
    from everystep.agents.registry import REGISTERED
    from everystep.agents.settings import SETTINGS
    from everystep.cli.list import _as_flag

    entries = []
    for key, setting in SETTINGS.items():
        owners = [name for name, agent in REGISTERED.items() if key in agent.settings]
        others = [name for name in REGISTERED if name not in owners]
        of = f"all but {', '.join(others)}" if 0 < len(others) < len(owners) else ", ".join(owners) if others else "all"
        default = f"`{key}`, by default `{_as_flag(setting.default)}`"
        entries.append(f"{default}\n: {_sentence(setting.help)}\n\n  *Of {of}.*")
    return "\n\n".join(entries)


def problems(_: str) -> str:
    """The registered problems."""
    from everystep import problems

    rows = ["| problem | what it is |", "|---|---|"]
    return "\n".join([*rows, *(f"| `{n}` | {prose(each.summary)} |" for n, each in problems.REGISTERED.items())])


def docstring(module: str) -> str:
    """The docstring of a module."""
    from docstrings import as_rst

    return "\n".join(["```{eval-rst}", *as_rst(inspect.getdoc(_resolved(module)) or "", set()), "```"])


def _resolved(dotted: str) -> Any:
    package, *names = dotted.split(".")
    found: Any = import_module(package)
    for i, name in enumerate(names, 1):
        try:
            found = getattr(found, name)
        except AttributeError:
            found = import_module(".".join([package, *names[:i]]))
    return found


SOURCES: dict[str, Callable[[str], str]] = {
    each.__name__: each
    for each in (
        *(root_page, readme_section, readme_paragraph, readme_python, readme_table),
        *(commands, agents, own_defaults, settings, problems, docstring),
    )
}


def titled(text: str) -> str:
    """Links that are named by their file, such as [runs.md](runs.md), without this name: the site shows the title."""
    return re.sub(r"\[(?:docs/)?([\w-]+\.md)\]\((\1(?:#[\w-]+)?)\)", r"[](\2)", text)


def expanded(text: str) -> str:
    """A page with everything that it asks for; one that asks for a page of the root is that page alone."""
    whole = MARK.search(text)
    if whole and whole[1] == root_page.__name__:
        return titled(symbols.escaped(root_page(whole[2])))
    return titled(symbols.escaped(MARK.sub(lambda found: SOURCES[found[1]](found[2]), text)))


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""

    def read(app: Any, name: str, source: list[str]) -> None:
        source[0] = expanded(source[0])

    app.connect("source-read", read)
    return {"parallel_read_safe": True}
