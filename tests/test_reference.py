"""The reference of the site: every public name, command and setting has an entry, and docstrings stay readable."""

import argparse
import dataclasses
import inspect
import re
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import everystep as es
from everystep.agents.settings import SETTINGS
from everystep.cli.main import COMMANDS, parser
from everystep.experiments import tables
from everystep.experiments.folder import finished
from everystep.mdp import arrays
from everystep.reports.leaderboard import results_files
from everystep.reports.training import results as training_results
from everystep.training.folder import training_spec
from everystep.training.seeds import request as training_request

pytestmark = pytest.mark.quick

DOCS = Path(__file__).resolve().parent.parent / "docs"
REFERENCE = sorted((DOCS / "reference").glob("*.md"))
ENTRY = re.compile(r"^\.\. auto(?:class|function|exception|data):: everystep\.([\w.]+)$", re.MULTILINE)
ENTRIES = [name for page in REFERENCE for name in ENTRY.findall(page.read_text(encoding="utf-8"))]
MODULES = [name for name in [*es.__all__, "gym"] if inspect.ismodule(getattr(es, name))]

sys.path.insert(0, str(DOCS / "extensions"))
docstrings, generated, symbols = map(import_module, ("docstrings", "generated", "symbols"))
sys.path.pop(0)


def public(module):
    """The public names of a module: those it lists, or those that it defines."""
    listed = getattr(module, "__all__", None)
    return listed or [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__module__", None) == module.__name__
    ]


def test_every_public_name_of_the_package_has_an_entry():
    assert {name for name in es.__all__ if name not in MODULES} - set(ENTRIES) == set()
    assert {"actions", "agents", "features", "gym", "kernels", "logged", "planner", "problems"} <= set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_of_a_module_has_an_entry(name):
    if name == "gym":
        pytest.importorskip("gymnasium")
    names = {f"{name}.{member}" for member in public(getattr(es, name))}
    assert names
    assert names - set(ENTRIES) == set()


def test_every_entry_is_of_something_that_exists_and_stands_once():
    assert len(ENTRIES) == len(set(ENTRIES))
    for name in ENTRIES:
        assert generated._resolved(f"everystep.{name}") is not None


def test_every_entry_but_of_data_has_a_docstring():
    for name in ENTRIES:
        thing = generated._resolved(f"everystep.{name}")
        assert isinstance(thing, dict) or (thing.__doc__ or "").strip(), name


def test_every_command_and_every_flag_is_in_the_reference():
    text = generated.commands("")
    (commands,) = [each for each in parser()._actions if isinstance(each, argparse._SubParsersAction)]
    assert set(commands.choices) == set(COMMANDS)
    for name, command in commands.choices.items():
        section = text.split(f"\n## everystep {name}\n")[1].split("\n## ")[0]
        for action in command._actions:
            assert isinstance(action, argparse._HelpAction) or all(
                f"`{flag}" in section for flag in action.option_strings or [action.metavar]
            )


def test_every_setting_is_in_the_reference_with_its_default():
    text = generated.settings("")
    for key, setting in SETTINGS.items():
        assert f"`{key}`, by default `{str(setting.default).lower()}`\n: " in text


def test_what_the_pages_ask_for_exists():
    pages = [*DOCS.glob("*.md"), *REFERENCE]
    asked = [mark for page in pages for mark in generated.MARK.findall(page.read_text(encoding="utf-8"))]
    assert len(asked) > 15
    for source, argument in asked:
        if "gym" not in argument:  # needs an extra
            assert generated.SOURCES[source](argument).strip()


def test_a_section_that_the_readme_does_not_have_stops_the_build():
    with pytest.raises(ValueError, match="0 sections 'Nothing'"):
        generated.readme_section("Nothing")
    with pytest.raises(ValueError, match="no 'Nothing"):
        generated.readme_paragraph("Nothing")


def test_links_of_the_root_are_those_of_a_page_here():
    text = "[a](docs/runs.md#sizes) [b](CHANGELOG.md) [c](examples/x.py) [d](https://x.org) ![e](docs/figures/e.png)"
    here = "[a](runs.md#sizes) [b](changelog.md) [c](../examples/x.py) [d](https://x.org) ![e](figures/e.png)"
    assert generated.from_root(text) == here
    assert generated.titled("[docs/runs.md](runs.md) [runs.md](runs.md#sizes) [x](runs.md) [a.md](b.md)") == (
        "[](runs.md) [](runs.md#sizes) [x](runs.md) [a.md](b.md)"
    )


def test_text_is_not_taken_for_markup():
    assert (
        generated.prose("g_1 <= *|x|* in `a_b` (docs/runs.md)") == r"g\_1 \<= \*\|x\|\* in `a_b` ([runs](../runs.md))"
    )
    assert docstrings.as_rst("x_ of *all* |g|, `a*`s", set()) == [r"x\_ of \*all\* \|g\|, ``a*``\ s", ""]


@pytest.mark.parametrize(
    ("written", "escaped"),
    [
        ("V* - C*_{h+1} and (x, a*)", r"V\* - C\*\_{h+1} and (x, a\*)"),
        ("[g_{h,i}]_+ = sum_i w_i", r"[g\_{h,i}]\_+ = sum_i w_i"),
        ("**For all of them G*_h is 0.** *So* a*", r"**For all of them G\*\_h is 0.** *So* a\*"),
        ("an *emphasis of `a*`\nover lines*, V*", "an *emphasis of `a*`\nover lines*, V\\*"),
    ],
)
def test_a_star_of_a_symbol_is_no_emphasis(written, escaped):
    assert symbols.escaped(written) == escaped


@pytest.mark.parametrize(
    "text", ["* a\n* b", "    C*_h = 0\n", "```\nC*_h\n```", "`C*_h`", "[x](a_/b*_c)", r"C\*\_h", "<!-- a*_b -->"]
)
def test_code_links_and_lists_stay_as_they_are(text):
    assert symbols.escaped(text) == text


def test_an_aligned_list_becomes_entries():
    doc = (
        "What it is: a thing.\n\nP      (S, A)   chances,\n       or lists\nlonger text\nlow, high  bounds\n\nThe end."
    )
    assert docstrings.as_rst(doc, set()) == [
        *("What it is: a thing.", "", "``P``", "    (S, A): chances, or lists", "", "``longer``", "    text", ""),
        *("``low, high``", "    bounds", "", "The end.", ""),
    ]


def test_examples_and_formulas_stay_as_they_stand():
    doc = "First.\n\n    x = f(1)\n    y\n\na_h = argmax_a {Q_h},   Z <- max{Z, 0}\n\nIf a = b the end is near."
    assert docstrings.as_rst(doc, set()) == [
        *("First.", "", ".. code-block:: python", "", "    x = f(1)", "    y", ""),
        *(".. code-block:: text", "", "    a_h = argmax_a {Q_h},   Z <- max{Z, 0}", ""),
        *("If a = b the end is near.", ""),
    ]


def test_names_with_an_entry_are_links():
    linked = docstrings.as_rst("See `Policy`, `es.train`, `policy` and `World`.", {"Policy", "train", "policy"})
    assert linked[0] == (
        "See :py:obj:`Policy <everystep.Policy>`, :py:obj:`es.train <everystep.train>`, ``policy`` and ``World``."
    )
    assert docstrings.as_rst("See docs/look-ahead.md.", set())[0] == "See :doc:`/look-ahead`."
    assert docstrings.entry_of("es.train(env, ...)", {"train"}) == "train"
    assert docstrings.entry_of("es.train(env) + 1", {"train"}) is None


def test_the_tools_of_the_site_are_pinned_and_not_needed_for_tests():
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    tools = {re.split("[><=]", each)[0].lower() for each in extras["docs"]}
    pinned = {line.split("==")[0].lower() for line in (DOCS.parent / "constraints.txt").read_text().splitlines()}
    assert {"furo", "myst-parser", "sphinx"} <= tools <= pinned
    assert not {"furo", "myst-parser", "sphinx"} & {re.split("[><=]", each)[0].lower() for each in extras["dev"]}


def test_every_array_and_key_of_a_file_is_described():
    page, runs = ((DOCS / name).read_text(encoding="utf-8") for name in ("reference/files.md", "runs.md"))
    requested = [field.name for field in dataclasses.fields(training_request.TrainingRequest)]
    keys = [
        *finished.SPEC,
        *finished.SPEC["agents"][0],
        *finished.LABELS,
        *finished.SUMMARY,
        *training_spec.SPEC,
        *requested,
    ]
    keys += [
        *finished.PLANS,
        *training_spec.FIT,
        *(field.name for field in arrays.FIELDS),
        *results_files.schema()["properties"],
    ]
    for key in keys:
        assert f"`{key.removesuffix('?')}`" in page, key
    for column in (*training_results.NEEDED, *tables.COLUMNS, tables.AVOIDABLE):
        assert f"`{column}`" in page + runs or f".{column}`" in runs, column
