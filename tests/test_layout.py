"""Where things are: a file of tests for each module, folders that can be read at a glance, modules that can be read."""

from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

ROOT = Path(__file__).resolve().parent.parent
SOURCE, TESTS = ROOT / "src" / "everystep", ROOT / "tests"
MODULES = [path.relative_to(SOURCE) for path in sorted(SOURCE.rglob("*.py")) if path.name != "__init__.py"]
# The command and the pages are tested by what a user does with them, in tests/cli and tests/web, not by module.
BY_USE = ("cli", "web")
WITHOUT_TESTS = {
    "environments/protocols.py": "protocols",
    "lsvi/protocols.py": "protocols; tests/lsvi/test_contract.py holds every part against them",
    "lsvi/costs/lemmas.py": "a protocol and a tuple; tests/reports/theory/test_diagnosis.py uses them",
    "lsvi/episode.py": "one tuple; every part that learns is tested with it",
    "training/agent/contract.py": "protocols",
    "training/agent/models/protocols.py": "protocols",
}


def test_every_module_has_a_file_of_tests_with_its_name():
    own = lambda module: TESTS / module.parent / f"test_{module.name}"
    missing = [module.as_posix() for module in MODULES if module.parts[0] not in BY_USE and not own(module).is_file()]
    assert sorted(set(missing) - set(WITHOUT_TESTS)) == []
    assert sorted(set(WITHOUT_TESTS) - set(missing)) == [], "these have tests now, or are gone: remove them above"


def test_folders_have_at_most_sixteen_modules():
    folders = Counter(module.parent.as_posix() for module in MODULES)
    assert {folder: count for folder, count in folders.items() if count > 16} == {}


def test_modules_have_at_most_600_lines():
    lines = {path: len((SOURCE / path).read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {path.as_posix(): count for path, count in lines.items() if count > 600} == {}
