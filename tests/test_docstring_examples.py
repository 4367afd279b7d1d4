"""Every public name has an example in its docstring, and the examples run.

An example begins with >>> and knows `es` and `np`. A member of a class has one of its own, or is used in another one of
its class.
"""

import doctest
import inspect
import re
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import everystep as es
from everystep.agents import model_syntax

DOCS = Path(__file__).resolve().parent.parent / "docs"
ENTRY = re.compile(r"^\.\. auto(?:class|function|exception):: everystep\.([\w.]+)$", re.MULTILINE)
PAGES = sorted((DOCS / "reference").glob("*.md"))
ENTRIES = [name for page in PAGES for name in ENTRY.findall(page.read_text(encoding="utf-8"))]
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

sys.path.insert(0, str(DOCS / "extensions"))
docstrings, generated = map(import_module, ("docstrings", "generated"))
sys.path.pop(0)

# Called by the library itself, and documented for those who read it.
WITHOUT_AN_EXAMPLE = {
    "Learner": {"learn_played", "use_features", "decided", "played"},
    "TrainingResult": {"fill"},
    "Shield": {"judged", "plan", "plan_step", "stage", "tolerance"},
}
NEEDED = {"callbacks.tensorboard": "tensorboardX"}  # packages of extras
QUICK = ("EverystepError", "kernels.RBF", "planner.solve", "problems.from_map", "actions.grid", "agents.lsvi_ae")


def of(name):
    return generated._resolved(f"everystep.{name}")


def members(thing):
    """The methods and properties of a class that the reference shows, by name."""
    if not inspect.isclass(thing):
        return {}
    found = {}
    for name, member in vars(thing).items():
        member = getattr(member, "__func__", member)
        field = type(member).__name__ == "_tuplegetter" or not (callable(member) or hasattr(member, "__get__"))
        if not field and (name == "__call__" or not name.startswith("_")):
            found[name] = member
    return found


def examples(docstring, name):
    """The example of a docstring as a test; without any it has no statements."""
    return doctest.DocTestParser().get_doctest(inspect.cleandoc(docstring or ""), {"es": es, "np": np}, name, name, 0)


def of_entry(name):
    """The examples of an entry and of its members."""
    thing = of(name)
    several = {name: thing} | {f"{name}.{member}": each for member, each in members(thing).items()}
    tests = [examples(each.__doc__, key) for key, each in several.items()]
    return [test for test in tests if test.examples]


@pytest.fixture
def registries():
    """What an example registers is forgotten after it."""
    several = [(each, dict(each)) for each in (es.agents.REGISTERED, es.problems.REGISTERED, model_syntax.COST_MODELS)]
    yield
    for each, before in several:
        each.clear()
        each.update(before)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.quick) if name in QUICK else name for name in ENTRIES]
)
@pytest.mark.usefixtures("registries")
def test_the_examples_of_an_entry_run(name, tmp_path, monkeypatch):
    if name in NEEDED:
        pytest.importorskip(NEEDED[name])
    monkeypatch.chdir(tmp_path)
    for test in of_entry(name):
        said = []
        result = doctest.DocTestRunner(verbose=False, optionflags=OPTIONS).run(test, out=said.append)
        assert result.failed == 0, "".join(said)


@pytest.mark.quick
@pytest.mark.parametrize("name", ENTRIES)
def test_every_entry_and_every_member_of_it_has_an_example(name):
    tests = of_entry(name)
    assert name in {test.name for test in tests}, "an example that begins with >>> in the docstring"
    used = " ".join(example.source for test in tests for example in test.examples)
    allowed = WITHOUT_AN_EXAMPLE.get(name, set())
    for member in members(of(name)):
        own = f"{name}.{member}" in {test.name for test in tests}
        has_one = own or member == "__call__" or re.search(rf"\.{member}\b", used)
        assert has_one or member in allowed, f"an example of {member}"
        assert not (has_one and member in allowed), f"{member} has one, and need not be allowed none"


@pytest.mark.quick
def test_every_name_of_the_package_is_among_them():
    assert {name for name in es.__all__ if not inspect.ismodule(getattr(es, name))} <= set(ENTRIES)
    assert set(WITHOUT_AN_EXAMPLE) | set(NEEDED) | set(QUICK) <= set(ENTRIES)


@pytest.mark.quick
def test_a_wrong_example_is_found():
    test = examples("One.\n\n>>> 1 + 1\n3\n", "wrong")
    assert doctest.DocTestRunner(verbose=False).run(test, out=lambda text: None).failed == 1
    assert examples("One.", "none").examples == []


@pytest.mark.quick
def test_an_example_is_shown_as_a_session():
    shown = docstrings.as_rst("One.\n\n>>> f(1)\n2\n", set())
    assert shown == ["One.", "", ".. code-block:: pycon", "", "    >>> f(1)", "    2", ""]
