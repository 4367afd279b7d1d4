"""everystep: safe reinforcement learning whose constraints must hold at every step.

    import everystep as es
    problem = es.problems.frozen_lake()
    result = es.run(problem, agents=["lsvi-ae", "lsvi"], episodes=1000, seeds=32)
    result = es.run(problem, es.agents.lsvi_ae(cost=es.gp(es.kernels.Categorical(on="landing"))))

Names are looked up when first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from everystep.environments.finite import registration

if TYPE_CHECKING:
    from everystep import agents, features, kernels, problems
    from everystep.agents.model_syntax import gp, kernel_values
    from everystep.environments import logged
    from everystep.environments.play import action_sets as actions
    from everystep.environments.play.batch import Batch
    from everystep.errors import EverystepError
    from everystep.experiments.experiment import run
    from everystep.experiments.result import Result
    from everystep.mdp import planner
    from everystep.mdp.cmdp import Factored, FiniteCMDP, Known, Noise, Successors
    from everystep.reports.compare import Comparison, compare
    from everystep.reports.leaderboard.board import Leaderboard, leaderboard
    from everystep.reports.leaderboard.monitor import convert_monitor
    from everystep.training import callbacks
    from everystep.training.diagnosis.check_constraint import ConstraintCheck, check_constraint
    from everystep.training.diagnosis.finding import Diagnosis
    from everystep.training.learner import Learner
    from everystep.training.policy.evaluation import Evaluation, evaluate
    from everystep.training.policy.policy import Policy
    from everystep.training.policy.shield import Shield, shield
    from everystep.training.result import BrokenError, TrainingResult
    from everystep.training.train import train

__version__ = "0.2.0"
__all__ = [
    "Batch",
    "BrokenError",
    "Comparison",
    "ConstraintCheck",
    "Diagnosis",
    "Evaluation",
    "EverystepError",
    "Factored",
    "FiniteCMDP",
    "Known",
    "Leaderboard",
    "Learner",
    "Noise",
    "Policy",
    "Result",
    "Shield",
    "Successors",
    "TrainingResult",
    "actions",
    "agents",
    "callbacks",
    "check_constraint",
    "compare",
    "convert_monitor",
    "evaluate",
    "features",
    "gp",
    "kernel_values",
    "kernels",
    "leaderboard",
    "logged",
    "planner",
    "problems",
    "run",
    "shield",
    "train",
]

# Where the public names are defined; those in `_MODULES` are modules themselves.
_HOME = {
    "agents.model_syntax": ("gp", "kernel_values"),
    "environments.play.batch": ("Batch",),
    "errors": ("EverystepError",),
    "experiments.experiment": ("run",),
    "experiments.result": ("Result",),
    "mdp.cmdp": ("Factored", "FiniteCMDP", "Known", "Noise", "Successors"),
    "reports.compare": ("Comparison", "compare"),
    "reports.leaderboard.board": ("Leaderboard", "leaderboard"),
    "reports.leaderboard.monitor": ("convert_monitor",),
    "training.diagnosis.check_constraint": ("ConstraintCheck", "check_constraint"),
    "training.diagnosis.finding": ("Diagnosis",),
    "training.learner": ("Learner",),
    "training.policy.evaluation": ("Evaluation", "evaluate"),
    "training.policy.policy": ("Policy",),
    "training.policy.shield": ("Shield", "shield"),
    "training.result": ("BrokenError", "TrainingResult"),
    "training.train": ("train",),
}
_MODULES = {
    **{name: name for name in ("agents", "features", "kernels", "problems")},
    "actions": "environments.play.action_sets",
    "callbacks": "training.callbacks",
    "gym": "environments.finite.gym",
    "logged": "environments.logged",
    "planner": "mdp.planner",
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}
_RENAMED = {"Trained": "TrainingResult", "kernel": "kernel_values"}
_EXTRA = ("gym",)  # needs an optional package, so `from everystep import *` leaves it out


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"everystep.{_MODULES[name]}")
    if name in _MODULE_OF:
        return getattr(import_module(f"everystep.{_MODULE_OF[name]}"), name)
    remedy = f"; use {_RENAMED[name]}" if name in _RENAMED else ""
    raise AttributeError(f"module 'everystep' has no attribute '{name}'{remedy}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_EXTRA, "__version__"])


registration.register_ids()
