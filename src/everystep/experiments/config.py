"""What `everystep run` runs: from a TOML file, from flags, or from a file whose values flags override.

docs/runs.md lists the keys, and examples/experiment.toml is an example. Each combination of an agent's `grid` is an
agent of its own. Each problem has its own run folder inside `out`; with flags alone (`read` with path None) `out`
itself is the run folder.
"""

from __future__ import annotations

import inspect
import itertools
import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from everystep import problems
from everystep.agents.registry import REGISTERED, Recipe
from everystep.agents.settings import SETTINGS
from everystep.errors import (
    LARGEST_TEXT,
    EverystepError,
    check_openable,
    quoted,
    shown,
    unknown,
)
from everystep.experiments import experiment, needs
from everystep.experiments.experiment import Experiment
from everystep.experiments.options import ENGINES, RUN_OPTIONS, TEXT, EngineChoice, Option, RunOptions
from everystep.mdp.cmdp import FiniteCMDP

VALUES = {name: RUN_OPTIONS[name] for name in ("episodes", "seeds", "certify", "out", "engine", "address", "settings")}
KEYS = (*VALUES, "problems", "agents")
LONGEST = 100  # letters of a folder's name
PROBLEM_KEYS = ("name", "called", "episodes")
AGENT_KEYS = ("name", "called", "settings", "grid")
EPISODES, SEEDS = 1000, 32  # by default


class RunList(NamedTuple):
    """The runs, by the name of their folder inside `out`; "" is `out` itself."""

    out: Path
    runs: dict[str, Experiment]
    engine: EngineChoice = EngineChoice()

    def folders(self) -> dict[Path, Experiment]:
        return {self.out / name if name else self.out: run for name, run in self.runs.items()}


@dataclass(frozen=True)
class File:
    """The text of an experiment, for errors that name the line. Flags alone have no path and an empty text."""

    path: Path | None = None
    text: str = ""

    def wrong(self, key: str, sentence: str, value: object = "") -> EverystepError:
        """The error about a key, with its line if one line alone has the key, or has the key and this value."""
        if self.path is None:
            return EverystepError(sentence)
        written = re.escape(shown(value).lower() if isinstance(value, bool) else shown(value))
        lines = [(n, text.partition("#")[0]) for n, text in enumerate(self.text.split("\n"), 1)]
        word = rf"(^|[\s{{,\[\".]){re.escape(key)}[\"\s]*[=\]]"
        for pattern in (word, rf"{word}[\"'\s]*{written}(?![\w.])"):
            having = [n for n, text in lines if re.search(pattern, text)]
            if len(having) == 1:
                return EverystepError(f"'{self.path}', line {having[0]}: {sentence}")
        return EverystepError(f"'{self.path}': {sentence}")

    def table(self, key: str, value: object) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise self.wrong(key, f"{key} is {quoted(value)}; write a table, such as {key} = {{beta = 0.3}}.")
        return value

    def only(self, table: Mapping[str, Any], known: Sequence[str], what: str) -> None:
        for key in table:
            if key not in known:
                raise self.wrong(key, str(unknown(f"key of {what}", key, known, f"It has {', '.join(known)}.")))

    def several(self, key: str, value: object, example: str) -> list[Any]:
        """A list of names and tables that is not empty."""
        if not isinstance(value, list) or not value:
            found = "empty" if value in (None, []) else quoted(value)
            if self.path is None:
                raise EverystepError(f"{key} is {found}; give at least one by --{_flag(key)}.")
            raise self.wrong(key, f"{key} is {found}; write {key} = {example}, or give --{_flag(key)}.")
        for each in value:
            if not isinstance(each, str | dict):
                raise self.wrong(key, f"{key} has {quoted(each)}; write names in quotes, as in {key} = {example}.")
        return value

    def checked(self, option: Option, value: object) -> Any:
        """The value of an option, or the error with its line."""
        try:
            return option.checked(value)
        except EverystepError as error:
            keys = value if isinstance(value, dict) else ()
            raise self.wrong(_named(error, keys, option.name), str(error), value) from None

    def text_of(self, key: str, value: object) -> str:
        return str(self.checked(Option(key, "", TEXT, "", "", ()), value))


def _flag(key: str) -> str:
    """The flag that overrides a list of the file."""
    return {"problems": "problem"}.get(key, key)


def read(path: Path | None, flags: RunOptions | None = None) -> RunList:
    """The runs of a file and of flags that override it, or of flags alone; checked as far as possible without running.

    Flags alone must give `problem`, `agents` and `out`.
    """
    flags = flags or RunOptions()
    file, content = (File(), {}) if path is None else opened(path)
    file.only(content, KEYS, "an experiment")
    given = {name: file.checked(VALUES[name], value) for name, value in content.items() if name in VALUES}
    given |= {name: value for name in VALUES if (value := getattr(flags, name)) is not None}
    if "out" not in given:
        raise EverystepError(f"'{path}' has no out; write out = \"out/mine\", or give --out.")
    engine = _engine(file, content, flags)
    recipes = _agents(file, content, flags)
    runs: dict[str, Experiment] = {}
    for name, problem, own in _problems(file, content, flags):
        if name in runs:
            raise file.wrong("problems", f"problem '{name}' is given twice; set `called` of one to another name.")
        episodes = flags.episodes or own or given.get("episodes", EPISODES)
        seeds, certify = given.get("seeds", SEEDS), given.get("certify", False)
        try:
            runs["" if path is None else name] = experiment.prepare(problem, recipes, episodes, seeds, certify)
        except EverystepError as error:
            raise (error if path is None else EverystepError(f"'{path}', problem '{name}': {error}")) from None
    return RunList(Path(given["out"]), runs, engine)


def opened(path: Path) -> tuple[File, dict[str, Any]]:
    try:
        check_openable(path, LARGEST_TEXT)
    except EverystepError as error:
        raise EverystepError(f"experiment '{path}': {error}") from None
    try:
        text = path.read_text(encoding="utf-8-sig")
        return File(path, text), tomllib.loads(text)
    except OSError as error:
        raise EverystepError(f"experiment '{path}' cannot be opened ({error.strerror}). Check the path.") from None
    except UnicodeDecodeError:
        raise EverystepError(f"experiment '{path}' is not a text file; write it in TOML.") from None
    except RecursionError:
        raise EverystepError(f"experiment '{path}' nests tables or lists too deeply; nest them less.") from None
    except ValueError as error:  # TOMLDecodeError, or a number of thousands of digits
        raise EverystepError(f"experiment '{path}' is not valid TOML: {error}. Correct it there.") from None


def _engine(file: File, content: Mapping[str, Any], flags: RunOptions) -> EngineChoice:
    given = {key: file.text_of(key, content[key]) for key in ("engine", "address") if key in content}
    if flags.engine == "local":
        given.pop("address", None)  # it belongs to the engine of the file
    named = EngineChoice(flags.engine or given.get("engine", "local"), flags.address or given.get("address"))
    try:
        return named.checked()
    except EverystepError as error:
        raise file.wrong("address" if named.name in ENGINES else "engine", str(error)) from None


# --- problems ---------------------------------------------------------------------------------------------------------
def _problems(file: File, content: Mapping[str, Any], flags: RunOptions) -> list[tuple[str, FiniteCMDP, int | None]]:
    """For each problem the name of its run folder, the problem, and its number of episodes if it has its own."""
    if flags.horizon is not None:
        needs.check_horizon(flags.horizon)
    if flags.problem is not None:
        problem = problems.load(flags.problem, flags.horizon)
        return [(problem.name, problem, None)]
    found = []
    for each in file.several("problems", content.get("problems"), '["frozen-lake"]'):
        table = {"name": each} if isinstance(each, str) else each
        if "name" not in table:
            raise file.wrong("problems", 'a problem has no name; write name = "frozen-lake" below [[problems]].')
        name = file.text_of("name", table["name"])
        own = file.checked(VALUES["episodes"], table["episodes"]) if "episodes" in table else None
        given = {key: value for key, value in table.items() if key not in PROBLEM_KEYS}
        if flags.horizon is not None:
            given["horizon"] = flags.horizon
        problem = _problem(file, name, given)
        found.append((file.text_of("called", table.get("called", problem.name)), problem, own))
        folder = found[-1][0]
        if "/" in folder or folder.startswith(".") or len(folder) > LONGEST:
            raise file.wrong(
                "called", f"called is '{shown(folder)}'; write a valid folder name of at most {LONGEST} characters."
            )
    return found


def _problem(file: File, name: str, given: dict[str, Any]) -> FiniteCMDP:
    """A problem by name or file, with parameters."""
    assert file.path is not None
    beside = file.path.parent / name
    registered = problems.REGISTERED.get(name)
    from_file = None if registered else problems.FROM_FILES.get(beside.suffix)
    make: Any = registered.make if registered else from_file
    of_files = ["horizon", "scale"] if beside.suffix == ".npz" else ["horizon"]
    allowed = of_files if make is None else list(inspect.signature(make).parameters)
    if make is None and beside.suffix not in (".txt", ".npz"):
        raise file.wrong(name, str(unknown("problem", name, problems.REGISTERED, "`everystep list` shows all.")))
    for key in given:
        if key not in allowed or (from_file is not None and key == allowed[0]):
            raise file.wrong(key, str(unknown(f"parameter of {name}", key, allowed, f"It has {', '.join(allowed)}.")))
    if "horizon" in given:
        given["horizon"] = file.checked(RUN_OPTIONS["horizon"], given["horizon"])
    try:
        if make is None:
            return problems.load(str(beside), given.get("horizon"), given.get("scale"))
        return make(**given) if from_file is None else from_file(beside, **given)
    except EverystepError as error:
        raise file.wrong(_named(error, given, name), f"problem {name}: {error}" if given else str(error)) from None
    except Exception as error:  # of a problem that does not check its parameters
        reason = str(error) or type(error).__name__
        raise file.wrong(name, f"problem {name} cannot be created ({reason}); correct its parameters.") from error


def _named(error: EverystepError, keys: Iterable[str], otherwise: str) -> str:
    """The key that an error mentions."""
    return next((key for key in keys if re.search(rf"\b{re.escape(key)}\b", str(error))), otherwise)


# --- agents -----------------------------------------------------------------------------------------------------------
def _agents(file: File, content: Mapping[str, Any], flags: RunOptions) -> list[Recipe]:
    listed = content.get("agents") if flags.agents is None else list(flags.agents)
    shared = file.table("settings", content.get("settings", {}))
    names_or_tables = file.several("agents", listed, '["lsvi-ae"]')
    tables = [{"name": each} if isinstance(each, str) else each for each in names_or_tables]
    for table in tables:
        file.only(table, AGENT_KEYS, "an agent")
        if "name" not in table:
            raise file.wrong("agents", 'an agent has no name; write name = "lsvi-ae" below [[agents]].')
    names = [file.text_of("name", table["name"]) for table in tables]
    for name in names:
        if name not in REGISTERED:
            raise file.wrong(name, str(unknown("agent", name, REGISTERED, "`everystep list` shows all.")))
    for key in shared:
        if fault := _unusable(None, key, names):
            raise file.wrong(key, f"[settings] has {key}: {fault}")
    for flag in flags.settings:
        if fault := _unusable(flag.agent, flag.key, names):
            raise EverystepError(f"--set is '{shown(str(flag))}': {fault}")
    recipes = []
    for name, table in zip(names, tables, strict=True):
        own = accepted_settings(name, shared) | dict(file.table("settings", table.get("settings", {})))
        flagged = accepted_settings(name, {key: value for agent, key, value in flags.settings if agent in (None, name)})
        grid = {
            key: _several(file, key, values)
            for key, values in file.table("grid", table.get("grid", {})).items()
            if key not in flagged
        }
        for key in grid:
            if key in table.get("settings", {}):
                raise file.wrong(key, f"{key} is in settings and in grid of {name}; leave it out of one.")
        needs.check_grid(name, math.prod(map(len, grid.values())))
        for values in itertools.product(*grid.values()):
            point = dict(zip(grid, values, strict=True))
            recipes.append(_recipe(file, name, table.get("called"), own | point | flagged, point))
    return recipes


def accepted_settings(agent: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the settings that the agent has."""
    return {key: value for key, value in settings.items() if key in REGISTERED[agent].settings}


def _unusable(agent: str | None, key: str, names: Sequence[str]) -> EverystepError | None:
    """Why a setting of one agent (None: of all) has no effect on a run of the named agents; None if it has one."""
    if agent not in (None, *names):
        return EverystepError(f"{agent} is not an agent of this run ({', '.join(dict.fromkeys(names))}); add it.")
    if key not in SETTINGS:
        return unknown("setting", key, SETTINGS, "`everystep list` shows all.")
    candidates = list(dict.fromkeys(names if agent is None else [agent]))
    if any(key in REGISTERED[name].settings for name in candidates):
        return None
    owners = ", ".join(name for name, each in REGISTERED.items() if key in each.settings)
    have = "has" if len(candidates) == 1 else "have"
    return EverystepError(f"{', '.join(candidates)} {have} no setting {key}; leave it out ({owners} can use it).")


def _several(file: File, key: str, values: object) -> list[Any]:
    if not isinstance(values, list) or not values:
        raise file.wrong(key, f"grid of {key} is {quoted(values)}; write a list, such as {key} = [0.1, 0.3].")
    return values


def _recipe(file: File, name: str, called: object, settings: Mapping[str, Any], point: Mapping[str, Any]) -> Recipe:
    for key, value in settings.items():
        if not isinstance(value, str | int | float):
            raise file.wrong(key, f"setting {key} is {quoted(value)}; write a number, a string, true or false.")
    try:
        recipe = Recipe(name, settings)
        if called is None:
            return recipe
        varied = ", ".join(f"{key}={value}" for key, value in point.items())
        return recipe.called(file.text_of("called", called) + (f"({varied})" if varied else ""))
    except EverystepError as error:
        raise file.wrong(_named(error, settings, name), str(error)) from None
