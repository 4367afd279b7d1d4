"""Features written as text, as on a command line: auto, one-hot, fourier(100), tiles(8, bins=6), polynomial(2, low=-1).

The text is parsed, never evaluated: a name from the list below, and numbers, lists of numbers, true and false as its
arguments. joined(...) and mirrored(...) take features.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import TypeVar

from everystep.errors import EverystepError, quoted, shown, unknown
from everystep.features import specs
from everystep.features.automatic import AUTO
from everystep.features.specs import Spec

Made = TypeVar("Made")
LONGEST = 1000  # characters
NAMED: dict[str, Callable[..., Spec]] = {
    "one_hot": specs.one_hot,
    "fourier": specs.fourier,
    "centres": specs.centres,
    "polynomial": specs.polynomial,
    "tiles": specs.tiles,
    "joined": specs.joined,
    "mirrored": specs.mirrored,
}
TAKES_FEATURES = ("joined", "mirrored")
HOW = "write auto, one-hot, or fourier(100), centres(5), polynomial(2), tiles(8), joined(fourier(50), polynomial(1))"


def read(text: object, field: str = "features") -> Spec | str:
    """Features from their text; "auto" stays itself. The error names `field`."""
    return AUTO if isinstance(text, str) and text.strip() == AUTO else called(text, field, NAMED, HOW)


def called(text: object, field: str, named: Mapping[str, Callable[..., Made]], how: str) -> Made:
    """What a function of the list returns for the arguments in a text; `how` is the remedy of an error."""
    if not isinstance(text, str) or len(text) > LONGEST:
        raise EverystepError(f"{field} is {quoted(text)}; {how}.")
    try:
        tree = ast.parse(text.strip().replace("one-hot", "one_hot"), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise EverystepError(f"{field} is {quoted(text)}; {how}.") from None
    try:
        return _made(tree, field, named, how)
    except _NotReadError:
        raise EverystepError(f"{field} is {quoted(text)}; {how}.") from None
    except EverystepError as error:
        raise EverystepError(f"{field} is {quoted(text)}: {error}") from None
    except TypeError as error:  # wrong names or numbers of arguments
        raise EverystepError(f"{field} is {quoted(text)}, which has wrong arguments ({shown(error)}); {how}.") from None


class _NotReadError(ValueError):
    """Something that is no features."""


def _made(tree: ast.AST, field: str, named: Mapping[str, Callable[..., Made]], how: str) -> Made:
    if isinstance(tree, ast.Name):
        tree = ast.Call(tree, [], [])
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
        raise _NotReadError
    name = tree.func.id
    if name not in named:
        raise unknown(field.removeprefix("cost_"), name, named, f"{how[0].upper()}{how[1:]}.")

    def read_one(inner: ast.AST) -> object:
        is_features = isinstance(inner, ast.Call | ast.Name) and name in TAKES_FEATURES
        return _made(inner, field, named, how) if is_features else _value(inner)

    words = {each.arg: read_one(each.value) for each in tree.keywords if each.arg is not None}
    if len(words) < len(tree.keywords):
        raise _NotReadError
    return named[name](*map(read_one, tree.args), **words)


def _value(tree: ast.AST) -> object:
    """A number, a boolean, none, or a list of numbers."""
    if isinstance(tree, ast.Name) and tree.id in ("true", "false", "none"):
        return {"true": True, "false": False, "none": None}[tree.id]
    if isinstance(tree, ast.List | ast.Tuple):
        return [_value(each) for each in tree.elts]
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        number = _value(tree.operand)
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise _NotReadError
        return -number
    if isinstance(tree, ast.Constant) and isinstance(tree.value, bool | int | float | None):
        return tree.value
    raise _NotReadError
