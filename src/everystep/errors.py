"""The exception that users see: one sentence with the field, the value and the remedy.

A sentence is printed on a terminal, so the values in it are shortened and made printable here: `shown` for one value,
and `EverystepError` itself for the whole sentence.
"""

from __future__ import annotations

import difflib
import math
import operator
import os
import re
import reprlib
import stat
import sys
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

LONGEST_VALUE = 200  # characters of a value in a sentence
LONGEST_SENTENCE = 500
LONG_WORD = re.compile(rf"\S{{{LONGEST_VALUE + 1},}}")  # a path, or input without a space
ELIDED = " ... "
LARGEST = 2**31 - 1  # of whole numbers: counts are 32-bit integers in compiled code
LARGEST_SEED = 2**63 - 1
LARGEST_TEXT = 2**26  # bytes of a text file: no map, table of heights or experiment is longer
MOST_COPIES = 1024  # of an environment stepped together: each is a separate object, and all wait for the slowest
LARGEST_MEASUREMENT = 1e100  # of observed rewards, costs and coordinates: their squares and sums stay finite
# What Python raises while it reads a complete file whose content has an unexpected form.
UNLIKE = (
    *(KeyError, TypeError, ValueError, AttributeError, IndexError, StopIteration, ArithmeticError, RecursionError),
)
_LIMITED = reprlib.Repr()  # prints the beginning of nested lists and tables
_LIMITED.maxlevel, _LIMITED.maxlist, _LIMITED.maxtuple, _LIMITED.maxdict = 4, 40, 40, 20
_LIMITED.maxset, _LIMITED.maxstring, _LIMITED.maxother = 20, LONGEST_VALUE, LONGEST_VALUE


class EverystepError(ValueError):
    """A wrong input. Its text is one printable line for the user; the command exits with status 2.

    kept: the result gathered before the error, if it can still be used.

    >>> try:
    ...     es.agents.recipe("lsvi-a")
    ... except es.EverystepError as error:
    ...     print(error)
    no agent 'lsvi-a'. Did you mean lsvi-ae, lsvi, lsvi-ahead? `everystep list` shows all.
    """

    kept: object = None

    def __init__(self, sentence: object = "") -> None:
        line = LONG_WORD.sub(lambda word: _shortened(word[0], LONGEST_VALUE), on_one_line(str(sentence)))
        super().__init__(_shortened(line, LONGEST_SENTENCE))


class user_code:  # noqa: N801  used like a function
    """A block that runs user code: any exception in it, sys.exit() included, becomes an `EverystepError`.

    `sentence` makes the text from the name of the exception and its message. Ctrl-C and an `EverystepError` pass.
    """

    def __init__(self, sentence: Callable[[str, str], str]) -> None:
        self._sentence = sentence

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None and not isinstance(error, KeyboardInterrupt | EverystepError):
            raise EverystepError(self._sentence(*raised(error))) from error


def raised(error: BaseException) -> tuple[str, str]:
    """The name of an exception, and its message."""
    words = "it called sys.exit()" if isinstance(error, SystemExit) else shown(error)
    return type(error).__name__, words or "no message"


# --- values in a sentence ---------------------------------------------------------------------------------------------
def shown(value: object) -> str:
    """A value as text for a sentence: one printable line of at most 200 characters; beyond, its middle is left out."""
    try:
        if isinstance(value, str):
            text = value
        elif isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 2000:
            text = f"a whole number of {value.bit_length()} bits"  # Python refuses to print even longer ones
        elif isinstance(value, list | tuple | dict | set | frozenset | bytes | bytearray):
            text = _LIMITED.repr(value)
        else:
            text = str(value)
    except Exception:  # an object that cannot be printed
        text = f"an object of type {type(value).__name__}"
    return _shortened(on_one_line(text), LONGEST_VALUE)


def quoted(value: object) -> str:
    """`shown`, with quotation marks around a string."""
    return f"'{shown(value)}'" if isinstance(value, str) else shown(value)


def _shortened(text: str, most: int) -> str:
    """The text with its middle left out: what is wrong comes first, and the remedy last."""
    if len(text) <= most:
        return text
    kept = most - len(ELIDED)
    return text[: kept - kept // 2] + ELIDED + text[len(text) - kept // 2 :]


def on_one_line(text: str) -> str:
    """Line breaks as spaces, and characters that a terminal would obey as escapes."""
    if text.isprintable():
        return text
    text = " ".join(text.split()) if "\n" in text else text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text)


def unknown(kind: str, word: object, known: Iterable[str], remedy: str) -> EverystepError:
    """The error for an unknown name, with the most similar names that exist."""
    close = difflib.get_close_matches(shown(word), sorted(known), n=3, cutoff=0.5)
    hint = f" Did you mean {', '.join(close)}?" if close else ""
    return EverystepError(f"no {kind} '{shown(word)}'.{hint} {remedy}")


# --- arrays -----------------------------------------------------------------------------------------------------------
def as_array(value: object) -> np.ndarray:
    """`value` as an array of any type; an array of one object if it has no regular shape, or fails while it is read."""
    import numpy as np  # not before it is needed: `everystep --help` needs none

    try:
        return np.asarray(value)
    except Exception:  # lists of different lengths, or an object that fails while it is read
        return np.asarray(None)


def is_masked(value: object) -> bool:
    """Whether a masked array of NumPy, or lists or tuples of them, hides an entry: conversions would drop the mask."""
    if isinstance(value, list | tuple):
        return any(map(is_masked, value))
    numpy = sys.modules.get("numpy")  # without NumPy there are no such arrays
    return numpy is not None and isinstance(value, numpy.ma.MaskedArray) and bool(numpy.ma.is_masked(value))


# --- numbers ----------------------------------------------------------------------------------------------------------
def as_number(value: object) -> int | float | None:
    """A number given as one or as its text; None for anything else: booleans, complex numbers, lists, masked values."""
    try:
        if is_masked(value):
            return None
        if isinstance(value, str):
            return int(value) if value.strip().lstrip("+-").isdecimal() else float(value)
        kind = getattr(getattr(value, "dtype", None), "kind", "")
        if isinstance(value, bool) or kind == "b" or getattr(value, "ndim", 0) != 0:
            return None
        if hasattr(value, "__index__"):
            return operator.index(value)
        return float(value) if hasattr(value, "__float__") and kind != "c" else None
    except Exception:  # an object that cannot be read as a number
        return None


def whole_number(field: str, value: object, at_least: int = 1, at_most: int = LARGEST) -> int:
    """`value` as an integer from `at_least` to `at_most`, or the error that names `field`; 5.0 is whole, 5.5 is not."""
    number = as_number(value)
    whole = number is not None and (isinstance(number, int) or number.is_integer())
    if number is None or not whole or number < at_least:
        raise EverystepError(f"{field} is {shown(value)}; give a whole number of at least {at_least}.")
    if number > at_most:
        raise EverystepError(f"{field} is {shown(value)}; give a whole number from {at_least} to {at_most}.")
    return int(number)


def count(field: str, value: object) -> int:
    """`value` as a number of episodes or seeds of any size: whether they fit is checked where more is known."""
    return whole_number(field, value, at_most=LARGEST_SEED)


def seed_number(field: str, value: object) -> int:
    """`value` as the seed of a random generator, or the error that names `field`."""
    return whole_number(field, value, at_least=0, at_most=LARGEST_SEED)


def real_number(field: str, value: object, least: float = 0.0, most: float = math.inf) -> float:
    """`value` as a finite number from `least` to `most`, or the error that names `field`."""
    number = as_number(value)
    try:
        read = math.nan if number is None else float(number)
    except OverflowError:
        read = math.inf
    if not (math.isfinite(read) and least <= read <= most):
        if least == -math.inf:
            wanted = "a finite number"
        else:
            wanted = f"a number of at least {least:g}" if most == math.inf else f"a number from {least:g} to {most:g}"
        raise EverystepError(f"{field} is {shown(value)}; give {wanted}.")
    return read


def number_below(field: str, value: object, count: int) -> int:
    """`value` as a whole number from 0 to count - 1, or the error that names `field`."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except Exception:  # an object that cannot be read as a number
        number = -1
    if not 0 <= number < count:
        raise EverystepError(f"{field} is {shown(value)}; give a whole number from 0 to {count - 1}.")
    return number


# --- other arguments --------------------------------------------------------------------------------------------------
def listed(field: str, given: object, most: int = 10**6) -> list[Any]:
    """The entries of `given` as a list, or the error that names `field`; it may be a generator without an end."""
    try:
        values = list(islice(iter(given), most + 1))  # type: ignore[call-overload]
    except Exception:  # no sequence, or one that fails while it is read
        raise EverystepError(f"{field} is {quoted(given)}; give a list.") from None
    if len(values) > most:
        raise EverystepError(f"{field} has more than {most} entries; give fewer.")
    return values


def one_of(field: str, value: object, options: Iterable[str]) -> str:
    """`value` if it is one of the words, or the error that names `field`."""
    words = list(options)
    if not isinstance(value, str) or value not in words:
        raise EverystepError(f"{field} is {quoted(value)}; choose {' or '.join(words)}.")
    return value


def true_or_false(field: str, value: object) -> bool:
    """`value` if it is a boolean, or the error that names `field`."""
    is_boolean = isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", "") == "b"
    if is_boolean and getattr(value, "ndim", 0) == 0:
        return bool(value)
    raise EverystepError(f"{field} is {shown(value)}; give True or False.")


def path_from(field: str, value: object) -> Path:
    """`value` as a path, or the error that names `field`."""
    try:
        path = Path(value)  # type: ignore[arg-type]
    except TypeError:
        raise EverystepError(f"{field} is {shown(value)}; give a path.") from None
    if value == "":
        raise EverystepError(f"{field} is empty; give a path.")  # it would mean the current folder
    if "\0" in str(path):
        raise EverystepError(f"{field} is {shown(value)}; give a path without null characters.")
    return path


def check_type(field: str, value: object, kind: type | tuple[type, ...], wanted: str) -> None:
    """Raise the error that names `field` unless `value` is an instance of `kind`; `wanted` names what to give."""
    if not isinstance(value, kind):
        raise EverystepError(f"{field} is {shown(value)}; give {wanted}.")


def check_openable(path: Path, at_most: int | None = None) -> None:
    """Raise an error with the reason if the file cannot be read, or has more than `at_most` bytes.

    Pipes and devices are refused, because they could be read for ever.
    """
    try:
        found = os.stat(path)
        if stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode):
            with path.open("rb"):
                pass
    except OSError as error:
        raise EverystepError(f"the file cannot be opened ({error.strerror}). Check the path.") from None
    except ValueError:
        raise EverystepError("the file cannot be opened (its name has a null character). Check the path.") from None
    if not stat.S_ISREG(found.st_mode):
        raise EverystepError("the file cannot be opened (it is a pipe, a socket or a device). Give a regular file.")
    if at_most is not None and found.st_size > at_most:
        raise EverystepError(f"the file has {found.st_size} bytes. Give one of at most {at_most}.")
