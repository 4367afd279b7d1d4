"""The exception that users see: one sentence with the field, the value and the remedy."""

from __future__ import annotations

import difflib
import math
import operator
from collections.abc import Iterable
from pathlib import Path
from typing import Any


class EverystepError(ValueError):
    """A wrong input. Its text is one sentence for the user; the command exits with status 2.

    kept: the result gathered before the error, where the sentence says that it can still be used.
    """

    kept: Any = None


class InfeasibleError(EverystepError):
    """A problem in which some states have no safe action; `states` lists them."""

    states: tuple[int, ...] = ()


def unknown(kind: str, word: str, known: Iterable[str], remedy: str) -> EverystepError:
    """The error for an unknown name, with the most similar names that exist."""
    close = difflib.get_close_matches(word, sorted(known), n=3, cutoff=0.5)
    hint = f" Did you mean {', '.join(close)}?" if close else ""
    return EverystepError(f"no {kind} '{word}'.{hint} {remedy}")


def whole_number(field: str, value: object, at_least: int = 1) -> int:
    """`value` as an integer of at least `at_least`, or the error that names `field`; 5.0 is whole, 5.5 is not."""
    try:
        text = str(value)
        number = int(text) if text.lstrip("+-").isdigit() else int(float(text)) if float(text).is_integer() else None
    except (ValueError, OverflowError):
        number = None
    if number is None or number < at_least:
        raise EverystepError(f"{field} is {value}; give a whole number of at least {at_least}.")
    return number


def real_number(field: str, value: object, least: float = 0.0, most: float = math.inf) -> float:
    """`value` as a finite number from `least` to `most`, or the error that names `field`."""
    try:
        read = float(str(value))
    except ValueError:
        read = math.nan
    if not (math.isfinite(read) and least <= read <= most):
        wanted = f"of at least {least:g}" if most == math.inf else f"from {least:g} to {most:g}"
        raise EverystepError(f"{field} is {value}; give a number {wanted}.")
    return read


def number_below(field: str, value: object, count: int) -> int:
    """`value` as a whole number from 0 to count - 1, or the error that names `field`."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = -1
    if not 0 <= number < count:
        raise EverystepError(f"{field} is {value}; give a whole number from 0 to {count - 1}.")
    return number


def check_openable(path: Path) -> None:
    """Raise an error with the reason if the file cannot be read."""
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise EverystepError(f"the file cannot be opened ({error.strerror}). Check the path.") from None
