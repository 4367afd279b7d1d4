"""Registering problems: from outside the package, by name, and without clashes."""

import inspect
import re
import subprocess
import sys

import pytest

import everystep as es
from everystep.errors import EverystepError
from everystep.problems import REGISTERED, Comparison, load, register

HEADINGS = ("States", "Actions", "Reward", "Constraint", "Optimum", "Origin")


def pond(horizon=4):
    """A pond of six cells."""
    return es.problems.from_map(["S.H", "..G"], horizon=horizon, name="pond")


def without_horizon():
    """A pond of a fixed horizon."""
    return pond()


@pytest.mark.parametrize("name", list(REGISTERED))
def test_every_problem_is_documented_under_the_same_headings(name):
    documented = inspect.getdoc(REGISTERED[name].make)
    assert [heading for heading in HEADINGS if not re.search(rf"^{heading} ", documented, re.MULTILINE)] == []
    assert re.match(r"[A-Z].*\.$", REGISTERED[name].summary)


@pytest.mark.parametrize("name", list(REGISTERED))
def test_every_problem_accepts_a_horizon_and_is_compared_with_parameters_it_has(name):
    definition = REGISTERED[name]
    assert "horizon" in definition.parameters
    assert set(definition.comparison.parameters) <= set(definition.parameters)


@pytest.mark.quick
def test_a_registered_function_is_returned_as_it_was(registry):
    assert register("pond")(pond) is pond
    assert registry["pond"] == ("pond", pond, None, None)
    assert registry["pond"].summary == "A pond of six cells."
    assert load("pond").horizon == 4
    assert load("pond", horizon=7).horizon == 7


def test_a_problem_that_is_compared_says_how_or_takes_the_defaults(registry):
    register("pond", compared=True)(pond)
    assert registry["pond"].comparison == Comparison(episodes=1000)
    register("fixed", compared=Comparison(episodes=5, ablation=True))(without_horizon)
    assert registry["fixed"].comparison.episodes == 5


def test_a_horizon_is_refused_where_the_problem_has_none(registry):
    register("fixed")(without_horizon)
    with pytest.raises(EverystepError, match=r"^horizon is 9, .*'fixed'"):
        load("fixed", horizon=9)


@pytest.mark.parametrize("name", ["", "Pond", "pond.txt", "a pond", "-pond", "pond/2"])
def test_a_name_that_could_be_a_file_or_a_flag_is_refused(name, registry):
    with pytest.raises(EverystepError, match=rf"^name is '{re.escape(name)}'; use lower-case letters"):
        register(name)


@pytest.mark.parametrize("gym_id", ["Pond", "mine/Pond", "mine/Pond-0", "a/b/Pond-v0", "my pond-v0"])
def test_an_id_that_gymnasium_would_not_accept_is_refused(gym_id, registry):
    with pytest.raises(EverystepError, match=rf"^gym_id is '{re.escape(gym_id)}'; write it as mine/Pond-v0"):
        register("pond", gym_id=gym_id)


@pytest.mark.quick
def test_names_and_ids_of_other_problems_are_refused(registry):
    taken = r"^problem 'linear' is registered already \(everystep.problems.linear.linear\); choose another name"
    with pytest.raises(EverystepError, match=taken):
        register("linear")(pond)
    with pytest.raises(EverystepError, match=r"^gym_id everystep/Linear-v0 .*'linear'"):
        register("pond", gym_id="everystep/Linear-v0")(pond)
    assert "pond" not in registry
    assert load("linear").name == "linear-0"


def test_a_module_that_is_imported_again_replaces_its_problem(registry):
    register("pond")(pond)
    register("pond", compared=True)(pond)
    assert registry["pond"].comparison == Comparison()


PLUGIN = '''
import everystep as es

@es.problems.register("puddle", gym_id="mine/Puddle-v0")
def puddle(horizon=3):
    """Two cells of water."""
    return es.problems.from_map(["SG"], horizon=horizon, name="puddle")
'''


def installed(folder, name, source):
    """A package as pip leaves it: a module, and its metadata with an entry point."""
    (folder / f"{name}.py").write_text(source, encoding="utf-8")
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text(f"[everystep.problems]\nmine = {name}\n", encoding="utf-8")


def python(code, folder):
    code = f"import sys; sys.path.insert(0, {str(folder)!r})\n{code}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("order", ["everystep, gymnasium", "gymnasium, everystep"])
def test_problems_of_installed_packages_have_names_and_ids(order, tmp_path):
    installed(tmp_path, "my_ponds", PLUGIN)
    code = f"import {order}\nprint(gymnasium.make('mine/Puddle-v0').unwrapped.problem.name)"
    done = python(f"{code}\nfrom everystep.cli.main import main\nmain(['list'])", tmp_path)
    assert done.stdout.startswith("puddle\n"), done.stderr
    assert re.search("puddle +Two cells of water", done.stdout)


def test_a_broken_package_is_reported_and_leaves_the_other_problems_usable(tmp_path):
    installed(tmp_path, "my_ponds", "import a_module_that_is_not_there")
    done = python("import everystep as es\nprint(es.problems.load('bandit').name)", tmp_path)
    assert done.stdout == "bandit-0\n"
    assert "the problems of my_ponds are not available (ModuleNotFoundError: No module named" in done.stderr
