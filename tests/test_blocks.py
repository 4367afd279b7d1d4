"""docs/run_blocks.py: what it finds on a page, what it leaves out, and how it says that something failed."""

import argparse
import functools
import re
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from everystep.cli.main import COMMANDS, parser

pytestmark = pytest.mark.quick

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs"))
run_blocks = import_module("run_blocks")
sys.path.remove(str(ROOT / "docs"))
Block = run_blocks.Block

PRINTED = """Text `everystep list`.

    everystep run --set 'a=#1' \\
        --out out   # a comment
    # pond.txt: a map
    SF
    FG

    plain text

```python
import everystep as es
es.run("frozen-lake")
```

```
$ everystep summary out
done
```

```{code-cell} python
print("everystep list")
```

    make test
"""


def printed_blocks():
    """All blocks of all pages."""
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in run_blocks.all_pages()}
    return {(name, block) for name, text in texts.items() for block in run_blocks.blocks(run_blocks.expanded(text))}


@pytest.fixture
def page(tmp_path):
    page = run_blocks.Page(tmp_path)
    yield page
    page.close()


def test_commands_and_python_of_a_page_are_found_in_their_order():
    found = run_blocks.blocks(PRINTED)
    assert [(block.kind, block.title) for block in found] == [
        ("command", "everystep run --set 'a=#1' --out out"),
        ("python", 'es.run("frozen-lake")'),
        ("command", "everystep summary out"),
        ("command", "make test"),
    ]
    assert [block.reason is None for block in found] == [True, True, True, False]
    assert run_blocks.files(PRINTED) == {"pond.txt": "SF\nFG\n"}


def test_what_takes_minutes_is_shortened_and_what_installs_never_runs():
    assert (
        Block("command", "everystep run --problem terrain").to_run.text == "everystep run --problem terrain --dry-run"
    )
    as_printed = Block("command", "everystep run examples/experiment.toml --dry-run")
    assert as_printed.to_run == as_printed
    for text in ("pip install everystep", "make test", "ray start --head"):
        assert Block("command", text).to_run is None


def test_a_block_is_left_out_only_where_a_package_is_missing(monkeypatch):
    block = Block("python", "from stable_baselines3 import DQN\nmodel.learn(10_000)\n")
    monkeypatch.setattr(run_blocks, "installed", lambda module: False)
    assert (block.reason, block.to_run) == ("needs stable_baselines3", None)
    monkeypatch.setattr(run_blocks, "installed", lambda module: module == "stable_baselines3")
    assert block.to_run.text == "from stable_baselines3 import DQN\nmodel.learn(500)\n"


def test_every_entry_of_the_lists_is_about_a_block_that_is_printed():
    """Those that are not would hide that a page has changed."""
    printed = printed_blocks()
    for entry in run_blocks.LISTS["changed"]:
        assert any(block.change == entry for _, block in printed), entry["has"]
    for entry in run_blocks.LISTS["given"]:
        wanted = entry.get("before", "")
        assert any(name == entry["page"] and wanted in block.text for name, block in printed), entry
    for _, block in printed:
        assert block.to_run is None or block.to_run.text


def test_extras_and_targets_that_pages_name_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for name, block in printed_blocks():
        for extras in re.findall(r"pip install '[\w.]*\[([\w,]+)\]'", block.text):
            assert set(extras.split(",")) <= set(project["optional-dependencies"]), (name, block.text)
        if found := re.match(r"make ([\w-]+)", block.text):
            assert found[1] in targets, (name, block.text)


@functools.cache
def options_of(command):
    """The options of a subcommand of everystep."""
    subcommands = next(each for each in parser()._actions if isinstance(each, argparse._SubParsersAction))
    return set(subcommands.choices[command]._option_string_actions)


def test_commands_on_pages_have_names_and_options_that_exist():
    """Also those inside sentences, which do not run."""
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in run_blocks.all_pages()}
    inline = {(name, each) for name, text in texts.items() for each in re.findall(r"`(everystep [^`]+)`", text)}
    printed = inline | {(name, block.text) for name, block in printed_blocks() if block.text.startswith("everystep ")}
    assert len(printed) > 100
    for name, command in printed:
        words = command.split()
        if words[1].startswith("-") or words[1].isupper():  # a placeholder
            continue
        if words[1] == "worst":  # which docs/extending.md shows how to add
            continue
        assert words[1] in COMMANDS, (name, command)
        used = {word.split("=")[0] for word in words if word.startswith("--")}
        assert used <= options_of(words[1]), (name, command)


def test_the_python_of_a_page_is_one_session_and_a_failure_says_what_was_printed(page):
    assert page.run(Block("command", "echo 1 > one")) is None
    assert page.run(Block("python", "number = int(open('one').read())")) is None
    assert page.run(Block("python", "assert number == 1")) is None
    said = page.run(Block("python", "print('before')\nraise SystemExit('no such thing')"))
    assert "before" in said
    assert "no such thing" in said
    assert page.run(Block("python", "assert number == 1")) is None
    assert "status 3" in page.run(Block("command", "exit 3"))


def test_a_block_that_does_not_end_is_ended_with_all_it_started(page, monkeypatch):
    monkeypatch.setattr(run_blocks, "LIMIT", 0.3)
    assert page.run(Block("command", "sleep 60 && true")) == "did not end in 0.3 s"
    assert page.run(Block("python", "import time; time.sleep(60)")) == "did not end in 0.3 s"
    assert page.session is None
