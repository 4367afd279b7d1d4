"""everystep: safe reinforcement learning whose constraints must hold at every step.

    import everystep as es
    problem = es.problems.frozen_lake()
    result = es.run(problem, agents=["lsvi-ae", "lsvi"], episodes=1000, seeds=32)
    result = es.run(problem, es.agents.lsvi_ae(cost=es.gp(es.kernels.Categorical(on="landing"))))

Names are looked up when first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from everystep import registration

if TYPE_CHECKING:
    from everystep import agents, features, kernels, logged, planner, problems
    from everystep.errors import EverystepError
    from everystep.experiment import Result, run
    from everystep.models import gp, kernel, regression
    from everystep.policies import Policy
    from everystep.problem import Factored, FiniteCMDP, Known, Noise
    from everystep.training import Learner, train

__version__ = "0.1.0"
__all__ = [
    "EverystepError",
    "Factored",
    "FiniteCMDP",
    "Known",
    "Learner",
    "Noise",
    "Policy",
    "Result",
    "agents",
    "features",
    "gp",
    "kernel",
    "kernels",
    "logged",
    "planner",
    "problems",
    "regression",
    "run",
    "train",
]

_HOME = {
    "EverystepError": "errors",
    "Factored": "problem",
    "FiniteCMDP": "problem",
    "Known": "problem",
    "Noise": "problem",
    "Result": "experiment",
    "run": "experiment",
    "train": "training",
    "Learner": "training",
    "Policy": "policies",
    "gp": "models",
    "kernel": "models",
    "regression": "models",
}
_EXTRA = ("gym",)  # needs an optional package, so `from everystep import *` leaves it out


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"everystep.{_HOME[name]}"), name)
    if name in __all__ or name in _EXTRA:
        return import_module(f"everystep.{name}")
    raise AttributeError(f"module 'everystep' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*__all__, *_EXTRA, "__version__"])


registration.arrange()
