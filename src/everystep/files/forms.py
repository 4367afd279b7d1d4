"""The form of JSON content: which keys and types it must have before it is used.

A form is a type (`str`, `int`, `dict`, `NUMBER`), a list with the form of its members, `Each(form)` for an object with
any keys, `Maybe(form)` for null or a form, or a dict of forms by key, where a key that ends in `?` may be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard, cast

from everystep import files
from everystep.errors import LARGEST_SEED, EverystepError

LARGEST = 1e300  # a whole number in JSON may have any number of digits


class Each(NamedTuple):
    """An object whose values all have one form."""

    form: object


class Maybe(NamedTuple):
    """Null, or a form."""

    form: object


def NUMBER(content: object) -> bool:
    """A finite number, whole or not."""
    return _is_number(content)


def _is_number(content: object) -> TypeGuard[int | float]:
    return isinstance(content, int | float) and not isinstance(content, bool) and -LARGEST < content < LARGEST


def PROBABILITY(content: object) -> bool:
    """A number above 0 and at most 1."""
    return _is_number(content) and 0 < content <= 1


def NOT_NEGATIVE(content: object) -> bool:
    """A finite number of at least 0."""
    return _is_number(content) and content >= 0


def COUNT(content: object) -> bool:
    """A whole number of at least 0, as large as a seed may be."""
    return isinstance(content, int) and not isinstance(content, bool) and 0 <= content <= LARGEST_SEED


def POSITIVE(content: object) -> bool:
    """A whole number of at least 1."""
    return COUNT(content) and content != 0


def read(path: Path, form: object, otherwise: str, ever: bool = False) -> dict[str, Any]:
    """The object in a JSON file, if it is the one that was written (see `files.altered`) and has its form."""
    files.check_unaltered(path, otherwise, ever)
    try:
        content = files.read_json(path)
        where = fault(content, form)
    except (OSError, ValueError):
        raise EverystepError(f"'{path}' cannot be read; restore it, or {otherwise}") from None
    if where is not None:
        raise EverystepError(f"'{path}' is not of this version ({where} is missing or wrong); {otherwise}")
    return cast("dict[str, Any]", content)


def fault(content: object, form: object, where: str = "") -> str | None:
    """Where content does not have its form; None if it has."""
    fits, inside = True, None
    if isinstance(form, Maybe):
        return None if content is None else fault(content, form.form, where)
    if isinstance(form, Each):
        fits = isinstance(content, dict)
        items = cast("dict[str, object]", content).items() if fits else ()
        inside = _first(fault(each, form.form, f"{where}[{key!r}]") for key, each in items)
    elif isinstance(form, list):
        fits = isinstance(content, list)
        members = enumerate(cast("list[object]", content) if fits else ())
        inside = _first(fault(each, form[0], f"{where}[{i}]") for i, each in members)
    elif isinstance(form, dict):
        fits = isinstance(content, dict)
        inside = _fault_of_object(cast("dict[str, object]", content), form, where) if fits else None
    elif form is str:
        fits = isinstance(content, str) and _is_text(content)
    elif isinstance(form, type):
        fits = isinstance(content, form) and (form is bool or not isinstance(content, bool))
    else:
        fits = cast("Callable[[object], bool]", form)(content)
    return inside if fits else where or "it"


def _fault_of_object(content: Mapping[str, object], form: Mapping[str, object], where: str) -> str | None:
    for key, inner in form.items():
        name = key.removesuffix("?")
        inside = f"{where}.{name}" if where else name
        if name not in content:
            if key.endswith("?"):
                continue
            return inside
        if found := fault(content[name], inner, inside):
            return found
    return None


def _is_text(content: str) -> bool:
    """Whether a text can be written: half of a surrogate pair cannot."""
    try:
        content.encode()
    except UnicodeEncodeError:
        return False
    return True


def _first(found: Iterable[str | None]) -> str | None:
    return next((each for each in found if each), None)
