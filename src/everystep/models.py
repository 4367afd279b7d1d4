"""Cost models as a person says them: counts, linear, gp(kernel), or a list with one for each constraint.

from Python    cost=gp(RBF(2, on="position") * Categorical(on="action"))        cost=[gp(), "counts"]
as text        --set 'cost=gp(rbf(2, on=position)*categorical)'                 --set 'cost=[gp, counts]'
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from everystep.errors import EverystepError
from everystep.parts import kernels
from everystep.parts.kernels import Kernel

AUTO = "auto"
PLAIN = (AUTO, "counts", "linear")
POINTS = ("grid", "growing")
HOW = "write auto, counts, linear, gp, or gp with a kernel such as gp(rbf(2, on=position))"


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


Choice = str | GP
Cost = Choice | tuple[Choice, ...]


def gp(kernel: Kernel | str | None = None, fit: int = 0, points: str = "grid") -> GP:
    """A Gaussian-process cost model for `cost=`: see `GP`. A kernel may be given as text."""
    try:
        return _gp(kernel, fit, points)
    except ValueError as error:
        raise EverystepError(f"gp of {kernel}: {error}.") from None


def _gp(kernel: Kernel | str | None, fit: int = 0, points: str = "grid") -> GP:
    kernel = kernels.read(kernel) if isinstance(kernel, str) else kernel
    if kernel is not None and not isinstance(kernel, Kernel):
        raise ValueError(f"the kernel is {kernel!r}; give one of everystep.kernels, or its text")
    if isinstance(fit, bool) or not isinstance(fit, int) or fit < 0:
        raise ValueError(f"fit is {fit}; give a number of episodes, 0 for never")
    if points not in POINTS:
        raise ValueError(f"points is {points}; choose grid or growing")
    if fit and points == "growing":
        raise ValueError("fit needs points=grid")
    return GP(kernel, fit, points)


def read(value: Any) -> Cost:
    """A cost model from what a person gave. Raises ValueError with what to write instead."""
    if isinstance(value, GP) or (isinstance(value, str) and value in PLAIN):
        return value
    if isinstance(value, Kernel):
        return GP(value)
    if isinstance(value, list | tuple) and value:
        return tuple(_single(read(each)) for each in value)
    if not isinstance(value, str):
        raise ValueError(HOW)
    try:
        tree = ast.parse(value.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(HOW) from None
    if isinstance(tree, ast.List | ast.Tuple) and tree.elts:
        return tuple(_from_tree(each) for each in tree.elts)
    return _from_tree(tree)


def text(cost: Cost) -> str:
    """What `read` turns back into this."""
    return f"[{', '.join(map(str, cost))}]" if isinstance(cost, tuple) else str(cost)


def _single(cost: Cost) -> Choice:
    if isinstance(cost, tuple):
        raise ValueError("give a list of models, not of lists")
    return cost


def _from_tree(tree: ast.AST) -> Choice:
    if isinstance(tree, ast.Name):
        if tree.id in PLAIN:
            return tree.id
        tree = ast.Call(tree, [], [])
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name) or tree.func.id != "gp":
        raise ValueError(HOW)
    words = {word.arg: word.value for word in tree.keywords}
    given = [*tree.args, *([words.pop("kernel")] if "kernel" in words else [])]
    if len(given) > 1 or set(words) - {"fit", "points"}:
        raise ValueError("gp takes a kernel, fit and points")
    kernel = kernels.build(given[0]) if given else None
    if isinstance(kernel, float):
        raise ValueError(f"the kernel is {kernel:g}; write one such as rbf(2, on=position)")
    plain: Any = lambda node: node.value if isinstance(node, ast.Constant) else ast.unparse(node)
    return _gp(kernel, **{str(key): plain(node) for key, node in words.items()})
