"""Models as users write them, for costs (counts, linear, gp(kernel), a list) and values (counts, linear, kernel(...)).

in Python      cost=gp(RBF(2, on="position") * Categorical(on="action"))        cost=[gp(), "counts"]
               value=kernel(RBF(2, on="position") * Categorical(on="action"))
as text        --set 'cost=gp(rbf(2, on=position)*categorical)'                 --set 'cost=[gp, counts]'
               --set 'value=kernel(rbf(2, on=position)*categorical)'
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from everystep import kernels
from everystep.errors import EverystepError, check_type, quoted, shown
from everystep.kernels import Kernel
from everystep.lsvi.costs.counts import CountSpec
from everystep.lsvi.costs.gp import GP, POINTS
from everystep.lsvi.costs.linear import LinearSpec
from everystep.lsvi.costs.spec import CostSpec

AUTO = "auto"
PLAIN = (AUTO, "counts", "linear")
HOW_VALUE = (
    "write auto, counts, linear, kernel, or kernel(...) with a kernel, such as kernel(rbf(2, on=position)*categorical)"
)


@dataclass(frozen=True)
class InKernel:
    """Values in the space of a kernel (None: the linear kernel on the problem's features)."""

    kernel: Kernel | None = None

    def __str__(self) -> str:
        return "kernel" if self.kernel is None else f"kernel({self.kernel})"


Value = str | InKernel
Cost = str | CostSpec | tuple[str | CostSpec, ...]  # the string is auto


def gp(kernel: Kernel | str | None = None, points: str = "grid") -> GP:
    """A Gaussian-process cost model for `cost=`: see `lsvi.costs.gp.GP`. The kernel may be given as text.

    >>> str(es.gp("rbf(2, on=position)").kernel)
    'rbf(2, on=position)'
    >>> es.agents.lsvi_ae(cost=es.gp()).label
    'lsvi-ae(cost=gp)'
    """
    try:
        return _gp(kernel, points)
    except ValueError as error:
        raise EverystepError(f"gp of {shown(kernel)}: {error}.") from None


def kernel_values(kernel: Kernel | str | None = None) -> InKernel:
    """A kernel value model for `value=`: see `InKernel`. A kernel may be given as text.

    >>> str(es.kernel_values("rbf(0.5, on=observation)*categorical(on=action)").kernel)
    'rbf(0.5, on=observation)*categorical(on=action)'
    """
    try:
        return InKernel(_kernel(kernel))
    except ValueError as error:
        raise EverystepError(f"kernel of {shown(kernel)}: {error}.") from None


def _kernel(kernel: Kernel | str | None) -> Kernel | None:
    kernel = kernels.parse(kernel) if isinstance(kernel, str) else kernel
    if kernel is not None and not isinstance(kernel, Kernel):
        raise ValueError(f"the kernel is {quoted(kernel)}; give one of everystep.kernels, or its text")
    return kernel if kernel is None else kernels.checked(kernel)


def _gp(kernel: Kernel | str | None = None, points: str = "grid") -> GP:
    kernel = _kernel(kernel)
    if not isinstance(points, str) or points not in POINTS:
        raise ValueError(f"points is {shown(points)}; choose grid or growing")
    return GP(kernel, points)


COST_MODELS: dict[str, Callable[..., CostSpec]] = {"counts": CountSpec, "linear": LinearSpec, "gp": _gp}


def register_cost_model(name: str, make: Callable[..., CostSpec]) -> None:
    """Make a cost model available as `cost=name` and `cost=name(...)`.

    `make` returns its specification; its arguments are those in the parentheses: an optional kernel, then keywords.

    >>> es.agents.register_cost_model("process", lambda kernel=None: es.gp(kernel))
    >>> es.agents.lsvi_ae(cost="process").label
    'lsvi-ae(cost=gp)'
    """
    if not isinstance(name, str) or not name.isidentifier() or name == AUTO or name in COST_MODELS:
        raise EverystepError(f"cost model '{shown(name)}' cannot be registered: use a new identifier.")
    check_type("make", make, Callable, "a function that returns the specification of the model")  # type: ignore[arg-type]
    COST_MODELS[name] = make


def read(value: object) -> Cost:
    """A cost model from what the user gave. Raises ValueError with what to write instead."""
    if isinstance(value, CostSpec) or (isinstance(value, str) and value == AUTO):
        return value
    if isinstance(value, Kernel):
        return GP(kernels.checked(value))
    if isinstance(value, list | tuple) and value:
        models = [() if isinstance(model, list | tuple) else read(model) for model in value]
        if any(isinstance(model, tuple) for model in models):
            raise ValueError("give a list of models, not of lists")
        return tuple(model for model in models if not isinstance(model, tuple))
    tree = _parsed(value, _how())
    if isinstance(tree, ast.List | ast.Tuple) and tree.elts:
        return tuple(_from_tree(model) for model in tree.elts)
    return _from_tree(tree)


def _how() -> str:
    return f"write auto, {', '.join(COST_MODELS)}, or gp with a kernel such as gp(rbf(2, on=position))"


def read_value(value: object) -> Value:
    """A value model from what the user gave. Raises ValueError with what to write instead."""
    if isinstance(value, InKernel) or (isinstance(value, str) and value in PLAIN):
        return value
    if isinstance(value, Kernel):
        return InKernel(kernels.checked(value))
    tree = _parsed(value, HOW_VALUE)
    if isinstance(tree, ast.Name) and tree.id in PLAIN:
        return tree.id
    name, call = _call(tree, HOW_VALUE)
    if name != "kernel":
        raise ValueError(HOW_VALUE)
    kernel, words = _arguments(call)
    if words or len(kernel) > 1:
        raise ValueError("kernel takes one kernel")
    return InKernel(*kernel)


def text(cost: Cost) -> str:
    """The text from which `read` makes this model."""
    return f"[{', '.join(map(str, cost))}]" if isinstance(cost, tuple) else str(cost)


def _parsed(value: object, how: str) -> ast.AST:
    if not isinstance(value, str):
        raise ValueError(how)
    try:
        return ast.parse(value.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(how) from None


def _from_tree(tree: ast.AST) -> str | CostSpec:
    if isinstance(tree, ast.Name) and tree.id == AUTO:
        return AUTO
    name, call = _call(tree, _how())
    if name not in COST_MODELS:
        raise ValueError(_how())
    kernel, words = _arguments(call)
    try:
        if len(kernel) > 1:
            raise TypeError
        return COST_MODELS[name](*kernel, **words)
    except TypeError:
        *some, last = inspect.signature(COST_MODELS[name]).parameters or ["nothing"]
        listed = f"{', '.join(some)} and {last}" if some else last
        raise ValueError(f"{name} takes {'a ' if listed.startswith('kernel') else ''}{listed}") from None


def _call(tree: ast.AST, how: str) -> tuple[str, ast.Call]:
    """The name of a model and its call; a name alone is a call without arguments."""
    call = ast.Call(tree, [], []) if isinstance(tree, ast.Name) else tree
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise ValueError(how)
    return call.func.id, call


def _kernel_of(tree: ast.AST) -> Kernel:
    kernel = kernels.build(tree)
    if isinstance(kernel, float):
        raise ValueError(f"the kernel is {kernel:g}; write one such as rbf(2, on=position)")
    return kernel


def _arguments(call: ast.Call) -> tuple[list[Kernel], dict[str, Any]]:
    """The kernel in a call, if there is one, and its keywords."""
    words = {str(word.arg): word.value for word in call.keywords}
    given = [*call.args, *([words.pop("kernel")] if "kernel" in words else [])]
    read = [_kernel_of(argument) for argument in given]
    plain: Any = lambda node: node.value if isinstance(node, ast.Constant) else ast.unparse(node)
    return read, {key: plain(node) for key, node in words.items()}
