"""Ids of gymnasium: registered whichever package is imported first."""

import subprocess
import sys

import pytest
from gymnasium.utils.env_checker import check_env

from everystep.problems import REGISTERED

pytestmark = pytest.mark.quick
gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is not installed: environments are not tested")
IDS = [problem.gym_id for problem in REGISTERED.values()]


def fresh(code):
    """What a new Python prints: names are registered on import, so that a used one shows nothing."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_registered_problem_has_an_environment():
    assert None not in IDS
    assert {gymnasium.spec(gym_id).kwargs["problem"] for gym_id in IDS} == set(REGISTERED)


ORDERS = ["everystep, gymnasium", "gymnasium, everystep"]


@pytest.mark.parametrize("order", ORDERS)
def test_ids_are_registered_whichever_package_is_imported_first(order):
    code = f"import {order}\nprint(all(name in gymnasium.registry for name in {IDS}))"
    assert fresh(code) == "True"


@pytest.mark.parametrize("order", ORDERS)
def test_environments_are_made_after_register_envs_in_either_order(order):
    code = f"import {order}\ngymnasium.register_envs(everystep)\nenv = gymnasium.make('{IDS[0]}')"
    code += "\nprint(env.unwrapped.problem.name)"
    assert fresh(code) == "frozen-lake"


@pytest.mark.parametrize("imports", ["gymnasium", *ORDERS])
def test_environments_are_made_by_module_and_id(imports):
    modules = "'everystep', 'everystep.environments.finite.gym'"
    code = f"import {imports}\nfor module in {modules}: gymnasium.make(module + ':{IDS[0]}')"
    assert fresh(code) == ""


def test_es_gym_registers_the_ids_by_importing_gymnasium():
    code = f"import everystep as es\nes.gym\nimport gymnasium\nprint('{IDS[0]}' in gymnasium.registry)"
    assert fresh(code) == "True"


def test_importing_the_package_imports_neither_gymnasium_nor_numpy():
    code = "import sys, everystep\nprint({'gymnasium', 'numpy', 'jax', 'minari'} & set(sys.modules))"
    assert fresh(code) == "set()"


def test_finding_gymnasium_without_importing_it_does_not_lose_the_ids():
    """importlib.util.find_spec finds a module without importing it; a later import must still register the ids."""
    code = (
        "import sys, everystep, importlib.util\nassert importlib.util.find_spec('gymnasium')\n"
        f"import gymnasium\nprint('{IDS[0]}' in gymnasium.registry, *map(type, sys.meta_path))"
    )
    printed = fresh(code)
    assert printed.startswith("True")
    assert "RegisterOnImport" not in printed


def test_without_gymnasium_the_rest_of_the_package_works():
    hidden = "class Hide:\n  def find_spec(name, *_):\n    if name == 'gymnasium': raise ModuleNotFoundError(name)\n"
    code = f"import sys, everystep\n{hidden}sys.meta_path.insert(1, Hide)\n"
    code += "try: import gymnasium\nexcept ModuleNotFoundError: print(everystep.problems.bandit().name)"
    assert fresh(code) == "bandit-0"


def test_without_gymnasium_a_sentence_names_the_extra():
    code = "import sys, everystep\nsys.modules['gymnasium'] = None\ntry: everystep.gym"
    code += "\nexcept ValueError as e: print(e)"
    assert fresh(code).endswith("install it with pip install 'everystep[gym]'.")


# Gymnasium's checker takes an episode of one step for a mistake, which in a bandit it is not.
BANDITS = [name for name in IDS if "Bandit" in name]


@pytest.mark.parametrize("name", [name for name in IDS if name not in BANDITS])
def test_registered_environments_pass_gymnasiums_own_checks(name):
    check_env(gymnasium.make(name).unwrapped)  # warnings are errors here
