"""Kernels: the similarity of two points, as formulas for one pair. A GP learns costs in the space of a kernel.

A point y is a vector, or named coordinates of a state and an action: {"landing": (2,), "action": (1,), ...}. `on` names
the coordinate that a kernel depends on. Kernels can be added, and multiplied by each other and by numbers:

    0.5 * rbf(2, on=landing) + 0.5 * categorical(on=action)                as text, in settings
    0.5 * RBF(2, on="landing") + 0.5 * Categorical(on="action")            in Python

Numbers (length scales, weights) are pytree leaves, so that they have gradients and changing one compiles nothing; names
and functions are static. The theory requires k(y, y) <= 1: `check_gram` checks this, and that the matrix of all pairs
is symmetric and positive semi-definite.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from everystep.errors import EverystepError, as_array, as_number, check_type, quoted, shown, unknown

__all__ = [
    "RBF",
    "Categorical",
    "Constant",
    "Custom",
    "Difference",
    "Kernel",
    "Linear",
    "Matern32",
    "Matern52",
    "read",
]

Point = Any  # a vector (d,), or named vectors
Number = Any  # a float until an agent is built, an array leaf from then on
ALL = "*"
MOST = 1e100  # of lengths and weights: their squares stay finite
PLAIN = (str, bytes, bool, int, float, complex, list, tuple, dict, set, type(None), np.generic)  # never leaves of JAX


def static(default: Any) -> Any:
    return field(default=default, metadata={"static": True})


def _check_argument(kernel: Kernel, name: str, value: object) -> None:
    """Raise if a number or a kernel that a kernel was made of is not one."""
    where = f"{name} of {type(kernel).__name__} is"
    if name in ("field", "kernel", "one", "other"):
        if not isinstance(value, Kernel):
            raise EverystepError(f"{where} {quoted(value)}; give a kernel.")
        return
    number = None if isinstance(value, str) else as_number(value)
    if number is None or not (0 < number < MOST or (name == "alike" and number == 0)):
        raise EverystepError(f"{where} {quoted(value)}; give a number {'at least' if name == 'alike' else 'above'} 0.")


class Kernel:
    """k(y, z) for one pair of points.

    >>> k = 0.5 * es.kernels.RBF(2.0, on="position") + 0.5 * es.kernels.Categorical(on="action")
    >>> here, there = {"position": [0.0], "action": [1.0]}, {"position": [2.0], "action": [1.0]}
    >>> round(float(k(here, there)), 3)
    0.803
    >>> str(k)
    '0.5*rbf(2, on=position) + 0.5*categorical(on=action)'
    """

    def __post_init__(self) -> None:
        """Refuse arguments of the wrong kind. Arrays and JAX's own objects pass, and numbers that a fit derives."""
        name = type(self).__name__
        for each in fields(self):  # type: ignore[arg-type]
            value = getattr(self, each.name)
            if each.name == "on":
                if value is not None and not (isinstance(value, str) and value.isidentifier()):
                    raise EverystepError(f"on of {name} is {quoted(value)}; give the name of a coordinate, or None.")
            elif each.name == "function":
                check_type(f"function of {name}", value, Callable, "a function of two points")  # type: ignore[arg-type]
            elif callable(value) or (isinstance(value, PLAIN) and not isinstance(value, np.floating)):
                _check_argument(self, each.name, value)

    def __call__(self, y: Point, z: Point) -> Number:
        raise NotImplementedError

    def __add__(self, other: Kernel) -> Kernel:
        if not isinstance(other, Kernel):
            raise EverystepError(
                f"a kernel plus {quoted(other)} is not a kernel; add kernels, and Constant(c) for a number."
            )
        return Sum(self, other)

    def __mul__(self, other: Kernel | float) -> Kernel:
        if isinstance(other, Kernel):
            return Product(self, other)
        number = None if isinstance(other, str) else as_number(other)
        if number is None or not 0 < number < MOST:
            raise EverystepError(
                f"a kernel times {quoted(other)} is not a kernel; multiply by kernels and by numbers above 0."
            )
        return Scaled(float(number), self)

    __rmul__ = __mul__
    __array_ufunc__ = None  # numbers of NumPy leave the product to this class

    def __str__(self) -> str:
        """The text that `read` turns back into this kernel."""
        arguments = []
        for each in fields(self):  # type: ignore[arg-type]
            value = getattr(self, each.name)
            if each.name == "on":
                arguments += [] if value is None else [f"on={value}"]
            elif isinstance(value, Kernel) or value != each.default:
                arguments.append(str(value) if isinstance(value, Kernel) else f"{value:.12g}")
        return f"{type(self).__name__.lower()}({', '.join(arguments)})"


def part(y: Point, on: str | None) -> Point:
    """The coordinate that a kernel depends on; the whole point if it names none."""
    if isinstance(y, Mapping) and on is not None:
        if on not in y:
            raise unknown("coordinate of a point called", on, map(str, y), "Choose another on=.")
        return y[on]
    return y


def pair(y: Point, z: Point, on: str | None) -> tuple[Any, Any]:
    """The coordinate that a kernel depends on, of both points; raise if they are not vectors of one length."""
    one, other = (each if isinstance(each, jax.Array) else _vector(each) for each in (part(y, on), part(z, on)))
    if one.shape != other.shape:
        raise EverystepError(f"two points have shapes {one.shape} and {other.shape}; give vectors of one length.")
    return one, other


def _vector(given: object) -> np.ndarray:
    array = as_array(given)
    if array.dtype.kind not in "biuf":
        raise EverystepError(f"a point is {shown(given)}; give a vector of numbers.")
    return array


def distance2(y: Point, z: Point, on: str | None) -> Number:
    one, other = pair(y, z, on)
    return ((one - other) ** 2).sum()


def distance(y: Point, z: Point, on: str | None) -> Number:
    """||y - z||, with a gradient of 0 instead of NaN where the two are the same."""
    square = distance2(y, z, on)
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class RBF(Kernel):
    """exp(-||y - z||^2 / (2 length^2)): very smooth.

    >>> round(float(es.kernels.RBF(2.0)([0.0], [2.0])), 3)
    0.607
    """

    length: Number = 1.0
    on: str | None = static(None)

    def __call__(self, y: Point, z: Point) -> Number:
        return jnp.exp(-distance2(y, z, self.on) / (2 * self.length**2))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Matern32(Kernel):
    """(1 + s) exp(-s), s = sqrt(3) ||y - z|| / length: one derivative.

    >>> round(float(es.kernels.Matern32(2.0)([0.0], [2.0])), 3)
    0.483
    """

    length: Number = 1.0
    on: str | None = static(None)

    def __call__(self, y: Point, z: Point) -> Number:
        s = math.sqrt(3) * distance(y, z, self.on) / self.length
        return (1 + s) * jnp.exp(-s)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Matern52(Kernel):
    """(1 + s + s^2 / 3) exp(-s), s = sqrt(5) ||y - z|| / length: two derivatives.

    >>> round(float(es.kernels.Matern52(2.0)([0.0], [2.0])), 3)
    0.524
    """

    length: Number = 1.0
    on: str | None = static(None)

    def __call__(self, y: Point, z: Point) -> Number:
        s = math.sqrt(5) * distance(y, z, self.on) / self.length
        return (1 + s + s**2 / 3) * jnp.exp(-s)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Linear(Kernel):
    """weight <y, z>: with features of norm at most 1 this is ridge regression.

    >>> float(es.kernels.Linear()([0.6, 0.8], [1.0, 0.0]))
    0.6
    """

    weight: Number = 1.0
    on: str | None = static(None)

    def __call__(self, y: Point, z: Point) -> Number:
        one, other = pair(y, z, self.on)
        return self.weight * (one * other).sum()


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Categorical(Kernel):
    """1 where y and z are equal, `alike` (0 to 1) where they differ: actions, cells, names.

    >>> k = es.kernels.Categorical(alike=0.25, on="cell")
    >>> float(k({"cell": [1.0]}, {"cell": [1.0]})), float(k({"cell": [1.0]}, {"cell": [2.0]}))
    (1.0, 0.25)
    """

    alike: Number = 0.0
    on: str | None = static("action")

    def __call__(self, y: Point, z: Point) -> Number:
        one, other = pair(y, z, self.on)
        return jnp.where((one == other).all(), 1.0, self.alike)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Constant(Kernel):
    """The same number for every pair: an unknown constant common to all points.

    >>> float(es.kernels.Constant(0.5)([0.0], [3.0]))
    0.5
    """

    value: Number = 1.0

    def __call__(self, y: Point, z: Point) -> Number:
        return jnp.asarray(self.value, jnp.result_type(float))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Difference(Kernel):
    """The covariance of f(q) - f(p), as for a slope: of a move from p to q over a field f with kernel `field`.

    k((p, q), (p', q')) = field(q, q') - field(q, p') - field(p, q') + field(p, p')

    The first half of the coordinate is p, the second half q.

    >>> slope = es.kernels.Difference(es.kernels.RBF(1.0))
    >>> up, down = [0.0, 1.0], [1.0, 0.0]  # from 0 to 1, and back
    >>> round(float(slope(up, up)), 3), round(float(slope(up, down)), 3)
    (0.787, -0.787)
    """

    field: Kernel
    on: str | None = static(None)

    def __call__(self, y: Point, z: Point) -> Number:
        one, other = pair(y, z, self.on)
        p, q = jnp.split(one, 2)
        p2, q2 = jnp.split(other, 2)
        return self.field(q, q2) - self.field(q, p2) - self.field(p, q2) + self.field(p, p2)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Scaled(Kernel):
    """weight * kernel."""

    weight: Number
    kernel: Kernel

    def __call__(self, y: Point, z: Point) -> Number:
        return self.weight * self.kernel(y, z)

    def __str__(self) -> str:
        return f"{self.weight:.12g}*{_in_product(self.kernel)}"


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Sum(Kernel):
    """one + other: costs that are the sum of two causes."""

    one: Kernel
    other: Kernel

    def __call__(self, y: Point, z: Point) -> Number:
        return self.one(y, z) + self.other(y, z)

    def __str__(self) -> str:
        return f"{self.one} + {self.other}"


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Product(Kernel):
    """one * other: similar only where both are."""

    one: Kernel
    other: Kernel

    def __call__(self, y: Point, z: Point) -> Number:
        return self.one(y, z) * self.other(y, z)

    def __str__(self) -> str:
        return f"{_in_product(self.one)}*{_in_product(self.other)}"


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Custom(Kernel):
    """A custom function k(y, z) of one pair, written with jax.numpy.

    >>> import jax.numpy as jnp
    >>> periodic = es.kernels.Custom(lambda y, z: jnp.cos(y - z).sum())
    >>> float(periodic(np.array([0.0]), np.array([2 * np.pi])))
    1.0
    """

    function: Callable[[Point, Point], Any] = field(metadata={"static": True})
    on: str | None = static(None)

    def __call__(self, y: Point, z: Point) -> Number:
        try:
            value = self.function(part(y, self.on), part(z, self.on))
            shape, kind = jnp.shape(value), jnp.result_type(value).kind
        except EverystepError:
            raise
        except Exception as error:
            raise EverystepError(
                f"function of Custom raised {type(error).__name__} ({shown(error)}); write it with jax.numpy, for one "
                "pair of points."
            ) from error
        if value is None or shape != () or kind not in "biuf":
            found = "None" if value is None else f"an array of shape {shape}"
            raise EverystepError(f"function of Custom returned {found}; return one number.")
        return value

    def __str__(self) -> str:
        on = "" if self.on is None else f", on={self.on}"
        return f"custom({getattr(self.function, '__name__', 'function')}{on})"


def _in_product(kernel: Kernel) -> str:
    return f"({kernel})" if isinstance(kernel, Sum) else str(kernel)


# --- all pairs -------------------------------------------------------------------------------------------------------
def gram(kernel: Kernel, Y: Point, Z: Point) -> Array:
    """k(y_i, z_j) for all pairs: (n, d) and (k, d), or named ones, to (n, k)."""
    K: Array = jax.vmap(lambda y: jax.vmap(lambda z: kernel(y, z))(Z))(Y)
    return K


def diagonal(kernel: Kernel, Y: Point) -> Array:
    """k(y_i, y_i)."""
    k: Array = jax.vmap(lambda y: kernel(y, y))(Y)
    return k


def check_gram(K: np.ndarray, kernel: object) -> None:
    """Raise if a matrix of all pairs is not that of a kernel with k(y, y) <= 1."""
    K = np.asarray(K)
    if not np.isfinite(K).all():
        raise EverystepError(f"kernel {kernel} gives {K[~np.isfinite(K)][0]} for some pair; it must be finite.")
    if (gap := float(np.abs(K - K.T).max(initial=0))) > 1e-9:
        raise EverystepError(f"kernel {kernel} is not symmetric: k(y, z) and k(z, y) differ by {gap:.3g}.")
    if (top := float(K.diagonal().max(initial=0))) > 1 + 1e-9:
        raise EverystepError(
            f"kernel {kernel} has k(y, y) = {top:.6g}; multiply it by {1 / top:.3g} or less, k(y, y) must be at most 1."
        )
    try:
        np.linalg.cholesky(K + 1e-8 * np.eye(len(K)))
    except np.linalg.LinAlgError:
        low = float(np.linalg.eigvalsh(K)[0])
        raise EverystepError(
            f"kernel {kernel} is not positive semi-definite: its matrix has an eigenvalue of {low:.3g}; "
            "use another, or sums and products of valid kernels."
        ) from None


def parts_of(kernel: Kernel) -> list[Kernel]:
    """A kernel and all kernels it is composed of."""
    inner = [getattr(kernel, each.name) for each in fields(kernel)]  # type: ignore[arg-type]
    return [kernel, *(part for each in inner if isinstance(each, Kernel) for part in parts_of(each))]


def checked(kernel: Kernel) -> Kernel:
    """A kernel that a user made, if all its arguments are numbers and kernels; raise what is wrong by name."""
    for each in parts_of(kernel):
        for argument in fields(each):  # type: ignore[arg-type]
            if argument.name not in ("on", "function"):
                _check_argument(each, argument.name, getattr(each, argument.name))
    return kernel


def looks_at(kernel: Kernel) -> set[str | None]:
    """The names of the coordinates a kernel is on; None for one that names none, ALL for a function of everything."""
    if isinstance(kernel, Difference):
        return {kernel.on}
    if isinstance(kernel, Custom) and kernel.on is None:
        return {ALL}
    inner = [getattr(kernel, each.name) for each in fields(kernel)]  # type: ignore[arg-type]
    own = {kernel.on} if hasattr(kernel, "on") else set()
    return own.union(*(looks_at(each) for each in inner if isinstance(each, Kernel)))  # not of a difference's field


# --- text ------------------------------------------------------------------------------------------------------------
NAMES: dict[str, type[Kernel]] = {
    each.__name__.lower(): each for each in (RBF, Matern32, Matern52, Linear, Categorical, Constant, Difference)
}


def read(text: str) -> Kernel:
    """A kernel from its text.

    >>> kernel = es.kernels.read("0.5*rbf(2, on=position)")
    >>> str(kernel), float(kernel([0.0], [0.0]))
    ('0.5*rbf(2, on=position)', 0.5)
    """
    check_type("kernel", text, str, "a text such as rbf(2, on=position)*categorical(on=action)")
    try:
        return parse(text)
    except ValueError as error:
        raise EverystepError(f"kernel is '{shown(text)}'; {error}.") from None


def parse(text: str) -> Kernel:
    """A kernel from its text. Raises a ValueError with a remedy, to be completed with where the text was given."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError("write a kernel such as rbf(2, on=position)*categorical(on=action)") from None
    kernel = build(tree)
    if not isinstance(kernel, Kernel):
        raise ValueError("write a kernel such as rbf(2, on=position), not a number")
    return kernel


def build(tree: ast.AST) -> Kernel | float:
    """A kernel from a parsed text of names, numbers, + and *; nothing is evaluated."""
    try:
        return _build(tree)
    except (OverflowError, RecursionError):
        raise ValueError("write a kernel with fewer parts and smaller numbers") from None


def _build(tree: ast.AST) -> Kernel | float:
    if (
        isinstance(tree, ast.UnaryOp)
        and isinstance(tree.op, ast.USub)
        and isinstance(number := build(tree.operand), float)
    ):
        return -number
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int | float) and not isinstance(tree.value, bool):
        return float(tree.value)
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Add | ast.Mult):
        one, other = build(tree.left), build(tree.right)
        adding = isinstance(tree.op, ast.Add)
        if isinstance(one, float) and isinstance(other, float):
            return one + other if adding else one * other
        if adding and (isinstance(one, float) or isinstance(other, float)):
            raise ValueError("add kernels, and write constant(c) for a number")
        if min((each for each in (one, other) if isinstance(each, float)), default=1.0) <= 0:
            raise ValueError("multiply kernels by numbers above 0")
        return one + other if adding else one * other  # type: ignore[operator]
    if isinstance(tree, ast.Name):
        tree = ast.Call(tree, [], [])
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
        raise ValueError("use names of kernels, numbers, + and * only")
    if tree.func.id not in NAMES:
        raise ValueError(str(unknown("kernel", tree.func.id, NAMES, f"There are {', '.join(NAMES)}.")).rstrip("."))
    return _called(tree)


def _called(tree: ast.Call) -> Kernel:
    assert isinstance(tree.func, ast.Name)
    kind = NAMES[tree.func.id]
    numbers = [each.name for each in fields(kind) if each.name != "on"]  # type: ignore[arg-type]
    accepted = f"{tree.func.id} takes {', '.join(numbers)}" + (" and on" if kind is not Constant else "")
    given: dict[str, Any] = {}
    for name, value in [*zip(numbers, tree.args, strict=False), *((word.arg, word.value) for word in tree.keywords)]:
        if name not in [each.name for each in fields(kind)] or name in given:  # type: ignore[arg-type]
            raise ValueError(accepted)
        if name == "on":
            word = value.id if isinstance(value, ast.Name) else value.value if isinstance(value, ast.Constant) else None
            if not isinstance(word, str):
                raise ValueError("write on= with a name, such as on=position")
            given[name] = word
        else:
            given[name] = build(value)
            if isinstance(given[name], Kernel) != (name == "field"):
                raise ValueError(accepted)
            if isinstance(given[name], float) and not (given[name] > 0 or (name == "alike" and given[name] == 0)):
                raise ValueError(f"{name} of {tree.func.id} is {given[name]:g}; give a number above 0")
    if len(tree.args) > len(numbers) or (kind is Difference and "field" not in given):
        raise ValueError(accepted)
    return kind(**given)
