"""The house: who may import whom, and what the project promises about itself."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "everystep"
MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(SOURCE.rglob("*.py"))
    if path != SOURCE / "__init__.py"
}
# Imports go up this list, never down: a package may use those on earlier lines and itself.
FLOORS = [
    {"errors"},
    {"files", "kernels", "features"},
    {"runtime"},
    {"mdp"},
    {"lsvi", "problems"},
    {"agents"},
    {"experiments"},
    {"environments"},
    {"training"},
    {"reports"},
    {"web"},
    {"cli"},
]
FLOOR = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}


def imported(path: Path, at_run_time_only: bool = True) -> set[str]:
    """The modules a file imports, those for type checking left out."""
    names = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        id(node)
        for block in ast.walk(tree)
        if at_run_time_only and isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def rooms_used_by(path: Path) -> set[str]:
    ours = {name.removeprefix("everystep.") for name in imported(path) if name.startswith("everystep.")}
    return {name.split(".")[0] for name in ours} & set(FLOOR)


@pytest.mark.parametrize("name", MODULES)
def test_imports_go_downward_only(name):
    own = name.split(".")[0]
    assert own in FLOOR, f"{name} has no place: put it into FLOORS and docs/architecture.md"
    above = {room for room in rooms_used_by(MODULES[name]) if FLOOR[room] >= FLOOR[own]} - {own}
    assert not above


def test_the_package_has_at_most_fifteen_entries():
    entries = {name.split(".")[0] for name in MODULES}
    assert len(entries) <= 15, sorted(entries)


def test_the_algorithm_imports_no_concrete_part():
    used = {name for name in imported(SOURCE / "lsvi" / "algorithm.py") if name.startswith("everystep.lsvi")}
    assert not [name for name in used if name.split(".")[2] not in ("rowwise", "protocols", "episode")]


def test_statistics_know_nothing_of_agents_or_jax():
    assert not {
        name for name in imported(SOURCE / "experiments" / "statistics.py") if name.startswith(("jax", "everystep"))
    }


def test_core_dependencies_are_exactly_what_is_imported():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = project["dependencies"]
    name = lambda line: re.split(r"[<>=~! \[]", line)[0]
    names = {name(line) for line in declared}
    used = {name.split(".")[0] for path in SOURCE.rglob("*.py") for name in imported(path, at_run_time_only=False)}
    # What an extra brings is imported where it is used; pygame comes with gymnasium's own extras, psutil with ray, and
    # Pillow with matplotlib.
    extra = {name(line) for lines in project["optional-dependencies"].values() for line in lines}
    extra |= {"pygame", "psutil", "PIL"}
    assert used - set(sys.stdlib_module_names) - {"everystep", "__future__"} - (extra - names) == names
    assert not [line for line in declared if "==" in line or "<" in line]


def test_the_package_holds_nothing_but_source():
    source = {".py", ".pyi", ".pyc"}
    pages = {"static": {".js", ".css", ".ts"}, "templates": {".html", ".md"}, "leaderboard": {".json"}}
    allowed = lambda path: path.suffix in source | pages.get(path.parent.name, set())
    strays = [path for path in SOURCE.rglob("*") if path.is_file() and not allowed(path)]
    assert strays == [SOURCE / "py.typed"]


def test_every_version_is_pinned_by_name_without_addresses():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    assert lines
    assert all(re.fullmatch(r"[A-Za-z0-9_.\-]+==[A-Za-z0-9_.+!]+", line) for line in lines)


def test_nothing_is_ever_unpickled():
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "allow_pickle=True" not in text
        assert not {"pickle", "joblib", "cloudpickle", "dill"} & {name.split(".")[0] for name in imported(path)}


@pytest.mark.parametrize("name", MODULES)
def test_every_module_says_what_it_is_for(name):
    assert ast.get_docstring(ast.parse(MODULES[name].read_text(encoding="utf-8")))


def test_the_picture_of_the_house_names_every_room():
    picture = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    missing = [room for room in FLOOR if f"{room}.py" not in picture and f"{room}/" not in picture]
    assert not missing


def test_every_package_has_tests_and_every_file_of_tests_a_quick_one():
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    packages = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert packages <= {path.parent.name for path in files}
    nodes = lambda path: ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    marks = lambda path: {ast.unparse(node) for node in nodes(path) if isinstance(node, ast.Attribute)}
    assert [path.name for path in files if "pytest.mark.quick" not in marks(path)] == []


MODES = {kind + more for kind in "rwxa" for more in ("", "b", "b+", "+", "+b")}  # of opening a file
NOT_TEXT = {"os.open", "webbrowser.open", "Image.open", "archive.open", "files.write_text"}


def without_encoding(path: Path) -> list[str]:
    """Where a program opens a text file in the encoding of the locale."""

    def lacking(call: ast.Call) -> bool:
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if ast.unparse(call.func) in NOT_TEXT or {"encoding", None} & {word.arg for word in call.keywords}:
            return False
        modes = [node.value for node in call.args if isinstance(node, ast.Constant) and node.value in MODES]
        return name in {"read_text", "write_text"} or (name == "open" and not any("b" in mode for mode in modes))

    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [f"{path.name}:{node.lineno}" for node in ast.walk(tree) if isinstance(node, ast.Call) and lacking(node)]


def test_text_is_read_and_written_as_utf_8_whatever_the_locale(tmp_path):
    folders = [ROOT / name for name in ("src", "benchmarks", "docs", "examples", "studies")]
    programs = [path for folder in folders for path in folder.rglob("*.py")]
    own = SOURCE / "files" / "__init__.py"  # `write_text` there is the function that others call
    assert not [place for path in programs if path != own for place in without_encoding(path)]
    (tmp_path / "wrong.py").write_text("open('a')\nopen('b', 'rb')\np.open('w')\np.read_text()\n", encoding="utf-8")
    assert without_encoding(tmp_path / "wrong.py") == ["wrong.py:1", "wrong.py:3", "wrong.py:4"]
