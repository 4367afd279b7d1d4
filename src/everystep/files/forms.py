"""The form of JSON content: what must be there, and of which type, before a number in it is believed.

A form is a type (`str`, `int`, `dict`, `NUMBER`), a list with the form of its members, `Each(form)` for an object with
any keys, `Maybe(form)` for null or a form, or a dict of forms by key, where a key that ends in `?` may be missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

LARGEST = 1e300  # a whole number in JSON may have any number of digits


class Each(NamedTuple):
    """An object whose values all have one form."""

    form: Any


class Maybe(NamedTuple):
    """Null, or a form."""

    form: Any


def NUMBER(content: Any) -> bool:
    """A finite number, whole or not."""
    return isinstance(content, int | float) and not isinstance(content, bool) and -LARGEST < content < LARGEST


def PROBABILITY(content: Any) -> bool:
    """A number above 0 and at most 1."""
    return NUMBER(content) and 0 < content <= 1


def NOT_NEGATIVE(content: Any) -> bool:
    """A finite number of at least 0."""
    return NUMBER(content) and content >= 0


def COUNT(content: Any) -> bool:
    """A whole number of at least 0."""
    return isinstance(content, int) and not isinstance(content, bool) and content >= 0


def POSITIVE(content: Any) -> bool:
    """A whole number of at least 1."""
    return COUNT(content) and content >= 1


def fault(content: Any, form: Any, where: str = "") -> str | None:
    """Where content does not have its form; None if it has."""
    wrong = where or "it"
    if isinstance(form, Maybe):
        return None if content is None else fault(content, form.form, where)
    if isinstance(form, Each):
        if not isinstance(content, dict):
            return wrong
        return _first(fault(each, form.form, f"{where}[{key!r}]") for key, each in content.items())
    if isinstance(form, list):
        if not isinstance(content, list):
            return wrong
        return _first(fault(each, form[0], f"{where}[{i}]") for i, each in enumerate(content))
    if isinstance(form, dict):
        return _fault_of_object(content, form, where) if isinstance(content, dict) else wrong
    if form is str:
        return None if isinstance(content, str) and _is_text(content) else wrong
    if isinstance(form, type):
        return None if isinstance(content, form) and (form is bool or not isinstance(content, bool)) else wrong
    check: Callable[[Any], bool] = form
    return None if check(content) else wrong


def _fault_of_object(content: dict[str, Any], form: dict[str, Any], where: str) -> str | None:
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


def _first(found: Any) -> str | None:
    return next((each for each in found if each), None)
