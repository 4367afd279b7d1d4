"""The registry of problems: one decorated function defines everything the package knows about a problem.

Its name (`everystep list`, `everystep run --problem`, experiment files), its gymnasium id and its table in
`everystep compare`: docs/extending.md has an example. A module outside this package registers its problems when it is
imported; the command imports those that installed packages declare as entry points of the group `everystep.problems`.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, NamedTuple, TypeVar

from everystep.errors import EverystepError, check_type, shown, true_or_false
from everystep.mdp.cmdp import FiniteCMDP

ENTRY_POINTS = "everystep.problems"

Maker = TypeVar("Maker", bound=Callable[..., FiniteCMDP])


@dataclass(frozen=True)
class Comparison:
    """How a problem takes part in `everystep compare`.

    episodes    of a run, unless the command sets another number
    parameters  of the problem, where they differ from its defaults
    settings    of the agents; an agent ignores those that it does not have
    ablation    whether `everystep compare --ablation` includes the problem

    >>> es.problems.Comparison(episodes=200, settings={"beta": 0.1}).episodes
    200
    """

    episodes: int = 1000
    parameters: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    ablation: bool = False


class ProblemDefinition(NamedTuple):
    """A registered problem: its name, the function that makes it, its gymnasium id, and its part in comparisons."""

    name: str
    make: Callable[..., FiniteCMDP]
    gym_id: str | None
    comparison: Comparison | None

    @property
    def summary(self) -> str:
        """The first line of the documentation."""
        return (inspect.getdoc(self.make) or "").split("\n")[0]

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names that `make` accepts."""
        return tuple(inspect.signature(self.make).parameters)


REGISTERED: dict[str, ProblemDefinition] = {}
_observers: list[Callable[[ProblemDefinition], None]] = []


def register(name: str, *, gym_id: str | None = None, compared: bool | Comparison = False) -> Callable[[Maker], Maker]:
    """A decorator that registers a function of keyword arguments, which returns a `FiniteCMDP`, as a problem.

    name      in commands and files: lower-case letters, digits and hyphens
    gym_id    the id of its gymnasium environment, such as mine/Pond-v0; None for no environment
    compared  whether `everystep compare` includes it; a `Comparison` also sets the episodes, parameters and settings

    >>> @es.problems.register("two-arms")
    ... def two_arms(gap=0.5):
    ...     r, g = np.array([[0.0, 1.0]]), np.array([[-1.0, gap]])
    ...     return es.FiniteCMDP(np.ones((1, 2, 1)), r, g, horizon=1)
    >>> es.problems.load("two-arms").actions
    2
    """
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise EverystepError(
            f"name is '{shown(name)}'; use lower-case letters, digits and hyphens, such as frozen-lake."
        )
    written = isinstance(gym_id, str) and re.fullmatch(r"([\w-]+/)?[\w.-]+-v\d+", gym_id)
    if gym_id is not None and not written:
        raise EverystepError(
            f"gym_id is '{shown(gym_id)}'; write it as mine/Pond-v0: a namespace, a name and a version."
        )
    if not isinstance(compared, Comparison):
        compared = true_or_false("compared", compared)
    comparison = compared if isinstance(compared, Comparison) else Comparison() if compared else None

    def add(make: Maker) -> Maker:
        check_type("the problem", make, Callable, "a function that returns a FiniteCMDP")  # type: ignore[arg-type]
        definition = ProblemDefinition(name, make, gym_id, comparison)
        for other in REGISTERED.values():
            _check_distinct(definition, other)
        REGISTERED[name] = definition
        for observer in _observers:
            observer(definition)
        return make

    return add


def for_each_problem(observer: Callable[[ProblemDefinition], None]) -> None:
    """Call `observer` with every registered problem, and with each problem that is registered later."""
    for definition in REGISTERED.values():
        observer(definition)
    _observers.append(observer)


def import_entry_points() -> None:
    """Import the modules of installed packages that register problems; a broken one is reported and skipped."""
    for entry in metadata.entry_points(group=ENTRY_POINTS):
        try:
            entry.load()
        except Exception as error:
            warnings.warn(
                f"the problems of {entry.value} are not available ({type(error).__name__}: {error}); "
                "update or uninstall the package that provides them.",
                stacklevel=2,
            )


def _check_distinct(new: ProblemDefinition, old: ProblemDefinition) -> None:
    """Refuse a name or an id of another problem; a module that is imported again replaces its own."""
    here, there = ((each.make.__module__, each.make.__qualname__) for each in (new, old))
    if new.name == old.name and here != there:
        raise EverystepError(f"problem '{new.name}' is registered already ({'.'.join(there)}); choose another name.")
    if new.name != old.name and new.gym_id is not None and new.gym_id == old.gym_id:
        raise EverystepError(f"gym_id {new.gym_id} belongs to the problem '{old.name}'; choose another id.")
