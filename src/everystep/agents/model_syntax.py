"""Models as a person says them: of costs counts, linear, gp(kernel) or a list; of values counts, linear, kernel(...).

from Python    cost=gp(RBF(2, on="position") * Categorical(on="action"))        cost=[gp(), "counts"]
               value=kernel(RBF(2, on="position") * Categorical(on="action"))
as text        --set 'cost=gp(rbf(2, on=position)*categorical)'                 --set 'cost=[gp, counts]'
               --set 'value=kernel(rbf(2, on=position)*categorical)'
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from everystep import kernels
from everystep.errors import EverystepError, whole_number
from everystep.kernels import Kernel

AUTO = "auto"
PLAIN = (AUTO, "counts", "linear")
POINTS = ("grid", "growing")
HOW = "write auto, counts, linear, gp, or gp with a kernel such as gp(rbf(2, on=position))"
HOW_VALUE = (
    "write auto, counts, linear, kernel, or kernel(...) with one such as kernel(rbf(2, on=position)*categorical)"
)


@dataclass(frozen=True)
class GP:
    """A Gaussian process with a kernel (None: the one the problem suggests).

    fit     its numbers and the noise are fitted by marginal likelihood after every so many episodes; 0 is never
    points  grid keeps the posterior at all (x, a); growing keeps the points seen, for very many states
    """

    kernel: Kernel | None = None
    fit: int = 0
    points: str = "grid"

    def __str__(self) -> str:
        said = [str(self.kernel)] if self.kernel is not None else []
        said += [f"fit={self.fit}"] if self.fit else []
        said += [f"points={self.points}"] if self.points != "grid" else []
        return f"gp({', '.join(said)})" if said else "gp"


@dataclass(frozen=True)
class InKernel:
    """Values in the space of a kernel (None: the linear kernel on the problem's features)."""

    kernel: Kernel | None = None

    def __str__(self) -> str:
        return "kernel" if self.kernel is None else f"kernel({self.kernel})"


Make = Callable[[], Any]
Bonus = Callable[[Any], Any]
WIDTH, DISAGREEMENT = "features", "disagreement"


@dataclass(frozen=True)
class Regression:
    """A value model to be: how to make a regressor, how many, and the bonus."""

    make: Make
    members: int = 1
    bonus: str | Bonus = WIDTH

    def __str__(self) -> str:
        name = lambda f: getattr(f, "__name__", type(f).__name__)
        said = self.bonus if isinstance(self.bonus, str) else name(self.bonus)
        return f"regression({name(self.make)}, members={self.members}, bonus={said})"


Value = str | InKernel | Regression
Choice = str | GP
Cost = Choice | tuple[Choice, ...]


def gp(kernel: Kernel | str | None = None, fit: int = 0, points: str = "grid") -> GP:
    """A Gaussian-process cost model for `cost=`: see `GP`. A kernel may be given as text."""
    try:
        return _gp(kernel, fit, points)
    except ValueError as error:
        raise EverystepError(f"gp of {kernel}: {error}.") from None


def kernel(kernel: Kernel | str | None = None) -> InKernel:
    """A kernel value model for `value=`: see `InKernel`. A kernel may be given as text."""
    try:
        return InKernel(_kernel(kernel))
    except ValueError as error:
        raise EverystepError(f"kernel of {kernel}: {error}.") from None


def _kernel(kernel: Kernel | str | None) -> Kernel | None:
    kernel = kernels.read(kernel) if isinstance(kernel, str) else kernel
    if kernel is not None and not isinstance(kernel, Kernel):
        raise ValueError(f"the kernel is {kernel!r}; give one of everystep.kernels, or its text")
    return kernel


def _gp(kernel: Kernel | str | None, fit: int = 0, points: str = "grid") -> GP:
    kernel = _kernel(kernel)
    if isinstance(fit, bool) or not isinstance(fit, int) or fit < 0:
        raise ValueError(f"fit is {fit}; give a number of episodes, 0 for never")
    if points not in POINTS:
        raise ValueError(f"points is {points}; choose grid or growing")
    if fit and points == "growing":
        raise ValueError("fit needs points=grid")
    return GP(kernel, fit, points)


def regression(make: Make, members: int = 1, bonus: str | Bonus = WIDTH) -> Regression:
    """A value model for `value=`: `make()` gives a regressor with fit(X, y) and predict(X), as scikit-learn's do.

    bonus    "features": beta ||phi|| in Lambda^-1;  "disagreement": beta times the standard deviation over `members`;
             or a function of inputs (n, o + A) to (n,), times beta
    """
    members = whole_number("members of regression", members)
    if not callable(make) or not all(hasattr(make(), name) for name in ("fit", "predict")):
        raise EverystepError(
            f"make of regression is {make!r}; give a function that makes something with fit and predict."
        )
    if not callable(bonus) and bonus not in (WIDTH, DISAGREEMENT):
        raise EverystepError(f"bonus of regression is {bonus!r}; choose {WIDTH}, {DISAGREEMENT}, or give a function.")
    if bonus == DISAGREEMENT and members < 2:
        raise EverystepError(f"members of regression is {members}, which cannot disagree; give at least 2.")
    return Regression(make, members, bonus)


def read(value: Any) -> Cost:
    """A cost model from what a person gave. Raises ValueError with what to write instead."""
    if isinstance(value, GP) or (isinstance(value, str) and value in PLAIN):
        return value
    if isinstance(value, Kernel):
        return GP(value)
    if isinstance(value, list | tuple) and value:
        return tuple(_single(read(each)) for each in value)
    tree = _parsed(value, HOW)
    if isinstance(tree, ast.List | ast.Tuple) and tree.elts:
        return tuple(_from_tree(each) for each in tree.elts)
    return _from_tree(tree)


def read_value(value: Any) -> Value:
    """A value model from what a person gave. Raises ValueError with what to write instead."""
    if isinstance(value, InKernel | Regression) or (isinstance(value, str) and value in PLAIN):
        return value
    if isinstance(value, Kernel):
        return InKernel(value)
    tree = _plain_or_call(_parsed(value, HOW_VALUE), "kernel", HOW_VALUE)
    return tree if isinstance(tree, str) else InKernel(_arguments(tree, "kernel takes one kernel")[0])


def text(cost: Cost) -> str:
    """What `read` turns back into this."""
    return f"[{', '.join(map(str, cost))}]" if isinstance(cost, tuple) else str(cost)


def _single(cost: Cost) -> Choice:
    if isinstance(cost, tuple):
        raise ValueError("give a list of models, not of lists")
    return cost


def _parsed(value: Any, how: str) -> ast.AST:
    if not isinstance(value, str):
        raise ValueError(how)
    try:
        return ast.parse(value.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(how) from None


def _from_tree(tree: ast.AST) -> Choice:
    call = _plain_or_call(tree, "gp", HOW)
    if isinstance(call, str):
        return call
    kernel, words = _arguments(call, "gp takes a kernel, fit and points", "fit", "points")
    return _gp(kernel, **words)


def _plain_or_call(tree: ast.AST, word: str, how: str) -> str | ast.Call:
    """The name of a model without a kernel, or the call of the one that has, `word(...)`."""
    if isinstance(tree, ast.Name):
        if tree.id in PLAIN:
            return tree.id
        tree = ast.Call(tree, [], [])
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name) or tree.func.id != word:
        raise ValueError(how)
    return tree


def _arguments(call: ast.Call, takes: str, *options: str) -> tuple[Kernel | None, dict[str, Any]]:
    """The kernel in a call, if there is one, and its other words."""
    words = {word.arg: word.value for word in call.keywords}
    given = [*call.args, *([words.pop("kernel")] if "kernel" in words else [])]
    if len(given) > 1 or set(words) - set(options):
        raise ValueError(takes)
    kernel = kernels.build(given[0]) if given else None
    if isinstance(kernel, float):
        raise ValueError(f"the kernel is {kernel:g}; write one such as rbf(2, on=position)")
    plain: Any = lambda node: node.value if isinstance(node, ast.Constant) else ast.unparse(node)
    return kernel, {str(key): plain(node) for key, node in words.items()}
