"""Environments and constraints by name, for the command: an id of gymnasium, or `module:name`, which is imported.

Modules are looked for in the current folder, then where Python looks. An id may name the module that registers it, as
in `everystep:everystep/FrozenLake-v0`: what follows the colon of a factory is an identifier, and of an id it is not,
because it ends in a version. Whether a name that a folder records may be imported is decided in trust.py.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import Any

from everystep.environments.play import trust
from everystep.environments.play.constraints import Constraint
from everystep.environments.play.making import by_id
from everystep.environments.protocols import AnyEnv
from everystep.errors import EverystepError, quoted, shown, user_code


def environment(name: str, **options: Any) -> AnyEnv:
    """A new environment; `options`, such as render_mode, go to `gymnasium.make`, not to a factory."""
    if not is_imported(name):
        return _by_id(name, **options)
    factory = imported("env", name)
    if not callable(factory):
        raise EverystepError(f"env is '{shown(name)}', which is {quoted(factory)}; name a function that makes one.")
    failed = lambda error, words: (
        f"env '{shown(name)}' raised {error} ({words}); make it return an environment when it is called without "
        "arguments."
    )
    with user_code(failed), _here():
        made: AnyEnv = factory()
    return made


def environments(name: str, copies: int) -> AnyEnv:
    """A new environment, or several copies as one vector environment."""
    if copies == 1:
        return environment(name)
    from gymnasium.vector import SyncVectorEnv

    if is_imported(name):
        factories: list[Callable[[], Any]] = [lambda: environment(name)] * copies
        return SyncVectorEnv(factories)
    return _by_id(name, copies)


def function(field: str, name: str | None) -> Callable[..., Any] | None:
    """The function called `module:function`; None for none."""
    if name is None:
        return None
    if not is_imported(name) or not callable(found := imported(field, name)):
        raise EverystepError(
            f"{field} is '{shown(name)}'; write module:function, such as mine:{field} for {field} in mine.py."
        )
    return found


def constraint(name: str | None) -> Constraint | None:
    """The constraint function with this name; None for none."""
    return function("constraint", name)


def is_imported(name: str) -> bool:
    """Whether a name is `module:name`, and no id of gymnasium."""
    module, colon, inside = name.partition(":")
    return bool(colon) and all(part.isidentifier() for part in (*module.split("."), *inside.split(".")))


def imported(field: str, name: str) -> object:
    """What `module:name` names; the error names `field`."""
    module, _, inside = name.partition(":")
    failed = lambda error, words: (
        f"{field} '{shown(name)}' cannot be imported: the module raised {error} ({words}); correct it."
    )
    try:
        with user_code(failed), _here():
            found: object = import_module(module)
    except EverystepError as error:
        if isinstance(error.__cause__, trust.InsideError):
            raise EverystepError(
                f"{field} '{shown(name)}' is refused: {shown(error.__cause__)}; move the module elsewhere."
            ) from None
        if not isinstance(error.__cause__, ImportError):
            raise
        raise EverystepError(
            f"{field} '{shown(name)}' cannot be imported ({shown(error.__cause__)}); check the module, or run the "
            "command in its folder."
        ) from error
    for part in inside.split("."):
        if not hasattr(found, part):
            raise EverystepError(f"{field} is '{shown(name)}', but {module} has no '{shown(part)}'; check the name.")
        found = getattr(found, part)
    return found


def _by_id(name: str, copies: int = 1, **options: Any) -> AnyEnv:
    with _here() if trust.module_of(name) else nullcontext():  # the module of an id may be here
        return by_id(name, copies, **options)


@contextmanager
def _here() -> Iterator[None]:
    """Modules of the current folder can be imported, as with `python -m`, unless it is closed (see trust.py)."""
    try:
        here = os.getcwd()
    except OSError:  # an environment has removed it
        yield
        return
    if here in sys.path or "" in sys.path or trust.is_closed(here):
        yield
        return
    sys.path.insert(0, here)
    try:
        yield
    finally:
        if here in sys.path:
            sys.path.remove(here)
