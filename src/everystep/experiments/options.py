"""Tables of options: how the value of each is read, its help and its default, for flags, TOML, JSON and Python alike.

A table is a dataclass whose fields have `option(...)` as metadata: `RunOptions` below for `everystep run`,
`TrainingOptions` in `training/options.py` for `everystep train`. Both modules import little, because `everystep --help`
reads them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, NamedTuple

from everystep.errors import (
    LARGEST,
    LARGEST_SEED,
    EverystepError,
    as_number,
    count,
    listed,
    quoted,
    real_number,
    seed_number,
    shown,
    unknown,
    whole_number,
)

Seeds = int | str | Iterable[int]
Value = object  # of any option: `Form.read` returns what the field of the table is annotated with


def seed_list(name: str, given: object, largest: int = LARGEST_SEED) -> Sequence[int]:
    """Seeds from a number, a range or a list, alike in Python, in TOML and as a flag.

    5            0, 1, 2, 3, 4; as a flag --seeds 5
    "3:6"        3, 4, 5; also range(3, 6); as a flag --seeds 3:6
    [3, 8]       3, 8; also "3,8"; as a flag --seeds 3,8
    """
    seeds: Sequence[int]
    wrong = EverystepError(f'{name} is {quoted(given)}; give their number, a range such as "10:20", or a list.')
    if isinstance(given, range):
        seeds = given
    elif isinstance(given, str) and (":" in given or "," in given):
        try:
            numbers = [seed_number(name, each) for each in given.replace(":", ",").split(",")]
        except EverystepError:
            raise wrong from None
        if ":" in given and (len(numbers) > 2 or "," in given):
            raise wrong
        seeds = range(*numbers) if ":" in given else numbers
    elif isinstance(given, str) or as_number(given) is not None:
        seeds = range(count(name, given))
    elif isinstance(given, Iterable):
        seeds = [seed_number(name, each) for each in listed(name, given)]
    else:
        raise wrong
    if not seeds or (not isinstance(seeds, range) and len(set(seeds)) < len(seeds)):
        raise EverystepError(f"{name} is {quoted(given)}; give at least one seed, and each once.")
    ends = (seeds[0], seeds[-1]) if isinstance(seeds, range) else (min(seeds), max(seeds))
    if min(ends) < 0 or max(ends) > largest:
        raise EverystepError(f"{name} is {quoted(given)}; give seeds from 0 to {largest}.")
    return seeds


def split_names(text: str) -> list[str]:
    """The names in a list with commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


# --- how values are read ----------------------------------------------------------------------------------------------
class Form(NamedTuple):
    """How a value is read.

    kinds  the types of a value in TOML, JSON and Python; the error says to `write` one of them
    read   from such a value, or from the text of a flag
    """

    kinds: tuple[type, ...]
    write: str
    read: Callable[[str, Value], Value]


def _text(name: str, value: Value) -> Value:
    if not value:
        raise EverystepError(f"{name} is empty; give a text, or leave it out.")
    return value


def _table(name: str, value: Value) -> dict[str, str | int | float]:
    assert isinstance(value, Mapping)
    for key, each in value.items():
        if not isinstance(each, str | int | float):
            raise EverystepError(f"setting {key} is {quoted(each)}; write a number, a string, true or false.")
    return dict(value)


def _names(name: str, value: Value) -> Sequence[str]:
    return value if isinstance(value, list | tuple) else split_names(str(value))


def _pair(name: str, value: Value) -> tuple[float, float]:
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or len(given) != 2:
        raise EverystepError(f"{name} is {quoted(value)}; give two numbers, the lower first, such as -1,1.")
    low, high = (real_number(name, each, -math.inf) for each in given)
    return low, high


def whole(least: int = 1, most: int = LARGEST) -> Form:
    """The form of whole numbers."""
    wanted = f"a whole number of at least {least}"
    return Form((int,), wanted, lambda name, value: whole_number(name, value, least, most))


TEXT = Form((str,), 'it in quotes, such as "lake"', _text)
PATH = Form((str,), 'it in quotes, such as "out/mine"', _text)
COUNT = Form((int,), "a whole number of at least 1", count)
SWITCH = Form((bool,), "true or false", lambda name, value: bool(value))
NUMBER = Form((int, float), "a number", lambda name, value: real_number(name, value, -math.inf))
PAIR = Form((list, tuple), "two numbers, the lower first, such as [-1, 1]", _pair)
NAMES = Form((list, tuple), "names in quotes", _names)
SEEDS_HELP = "their number, a range 10:20 without its end, or a list 3,8"
SEEDS = Form(
    (int, str, list, tuple, range),
    'their number, a range such as "10:20", or a list',
    seed_list,
)
SETTINGS = Form((Mapping,), "a table, such as {beta = 0.3}", _table)


# --- tables -----------------------------------------------------------------------------------------------------------
class Option(NamedTuple):
    """A row of a table: `travels` are the words that say where else its value is used."""

    name: str
    default: Value  # MISSING: it must be given
    form: Form
    help: str
    metavar: str
    travels: tuple[str, ...]

    def checked(self, value: Value) -> Value:
        """A value of TOML, JSON or Python, or the error that names the option. None is one where it is the default."""
        if value is None and self.default is None:
            return None
        if not isinstance(value, self.form.kinds) or (isinstance(value, bool) and bool not in self.form.kinds):
            raise EverystepError(f"{self.name} is {quoted(value)}; write {self.form.write}.")
        if isinstance(value, str) and not value.isprintable():
            raise EverystepError(f"{self.name} is {quoted(value)}; use printable characters only.")
        return self.form.read(self.name, value)


def option(form: Form, metavar: str, help: str, default: Value = None, *travels: str) -> Any:
    """The field of a table."""
    about = {"form": form, "help": help, "metavar": metavar, "travels": travels}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=about)
    return field(default=default, metadata=about)


def rows(table: type[Any]) -> dict[str, Option]:
    """The rows of a table, by name."""
    default = lambda each: each.default if each.default_factory is MISSING else each.default_factory()
    return {each.name: Option(each.name, default(each), **each.metadata) for each in fields(table)}


class SettingFlag(NamedTuple):
    """One --set: the value of a setting, for one agent or (agent None) for all agents that have it."""

    agent: str | None
    key: str
    value: object

    @classmethod
    def parse(cls, text: str) -> SettingFlag:
        """From `key=value` or `agent.key=value`."""
        name, equals, value = text.partition("=")
        agent, dot, key = name.strip().rpartition(".")
        if not equals or not key:
            raise EverystepError(f"--set is '{shown(text)}'; write key=value, such as beta=0.5.")
        return cls(agent if dot else None, key, value.strip())

    def __str__(self) -> str:
        return f"{'' if self.agent is None else f'{self.agent}.'}{self.key}={self.value}"


ENGINES = ("local", "ray")


class EngineChoice(NamedTuple):
    """Where a run is computed: on this machine, or on a Ray cluster by its address (None: Ray on this machine)."""

    name: str = "local"
    address: str | None = None

    def checked(self) -> EngineChoice:
        if self.name not in ENGINES:
            raise unknown("engine", self.name, ENGINES, f"There are {' and '.join(ENGINES)}.")
        if self.address is not None and self.name != "ray":
            raise EverystepError(
                f"address is '{shown(self.address)}', but the engine is {self.name}; choose the engine ray."
            )
        return self


@dataclass(frozen=True)
class RunOptions:
    """The flags of `everystep run`, most of which are also keys of its TOML; None keeps the value of the file."""

    problem: str | None = option(TEXT, "P", "a name, or a file: .txt, .npz, .npy, .csv, .png (see list)")
    agents: Sequence[str] | None = option(NAMES, "A,B", "names separated by commas (lsvi-ae,lsvi,lsvi-primal)")
    episodes: int | None = option(COUNT, "K", "number of episodes (1000)")
    seeds: Seeds | None = option(SEEDS, "N", f"{SEEDS_HELP} (32)")  # noqa: RUF009  it is a field
    horizon: int | None = option(whole(), "H", "steps per episode (the problem's own; 15 for a map, 26 for heights)")
    settings: Sequence[SettingFlag] = option(
        SETTINGS, "", "a setting of all agents that have it, or of one agent: lsvi-ae.beta=0.5; may be repeated", ()
    )
    certify: bool | None = option(SWITCH, "", "record per episode how many actions are certified, and how many falsely")
    out: str | None = option(PATH, "DIR", "the run folder to write; for a FILE, a folder of run folders")
    engine: str | None = option(TEXT, "E", "local (this machine) or ray (a cluster; extra `ray`)")
    address: str | None = option(TEXT, "A", "address of a Ray cluster, or auto (Ray on this machine)")


RUN_OPTIONS = rows(RunOptions)
