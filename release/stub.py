"""Write src/everystep/agents/__init__.pyi, from which editors and mypy know the settings of agents: `make stub`.

Agents are registered by a decorator that gives them a signature while the program runs; type checkers do not run it.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from everystep import agents

STUB = Path(__file__).resolve().parent.parent / "src" / "everystep" / "agents" / "__init__.pyi"
HEAD = '''\
"""The agents with their settings as keywords, for editors and type checkers. Written by release/stub.py."""

from collections.abc import Sequence
from typing import Literal

from numpy.typing import ArrayLike

from everystep.agents.model_syntax import InKernel
from everystep.agents.model_syntax import register_cost_model as register_cost_model
from everystep.agents.registry import REGISTERED as REGISTERED
from everystep.agents.registry import Parts as Parts
from everystep.agents.registry import Recipe as Recipe
from everystep.agents.registry import recipe as recipe
from everystep.agents.registry import register as register
from everystep.kernels import Kernel
from everystep.lsvi.costs.spec import CostSpec
'''


def stub() -> str:
    """The text of the stub, as `ruff format` leaves it."""
    names = [name for name in agents.__all__ if name.replace("_", "-") in agents.REGISTERED]
    return "\n".join([HEAD, *(f"{_function(name)}" for name in names)])


def _function(name: str) -> str:
    parameters = inspect.signature(getattr(agents, name)).parameters.values()
    lines = [f"    {each.name}: {each.annotation} = {_as_written(each.default)},\n" for each in parameters]
    return f"def {name}(\n    *,\n{''.join(lines)}) -> Recipe: ..." if lines else f"def {name}() -> Recipe: ..."


def _as_written(default: object) -> str:
    return re.sub(r"^'(.*)'$", r'"\1"', repr(default))


if __name__ == "__main__":
    STUB.write_text(stub() + "\n", encoding="utf-8")
