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
    from everystep.agents.model_syntax import gp, kernel_values, regression
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
    "regression",
    "run",
    "shield",
    "train",
]

# Where each public name lives: modules by their full name, anything else as module:name.
_HOME = {
    "Batch": "environments.play.batch:Batch",
    "BrokenError": "training.result:BrokenError",
    "Comparison": "reports.compare:Comparison",
    "ConstraintCheck": "training.diagnosis.check_constraint:ConstraintCheck",
    "Diagnosis": "training.diagnosis.finding:Diagnosis",
    "Evaluation": "training.policy.evaluation:Evaluation",
    "EverystepError": "errors:EverystepError",
    "Factored": "mdp.cmdp:Factored",
    "FiniteCMDP": "mdp.cmdp:FiniteCMDP",
    "Known": "mdp.cmdp:Known",
    "Leaderboard": "reports.leaderboard.board:Leaderboard",
    "Learner": "training.learner:Learner",
    "Noise": "mdp.cmdp:Noise",
    "Policy": "training.policy.policy:Policy",
    "Result": "experiments.result:Result",
    "Shield": "training.policy.shield:Shield",
    "Successors": "mdp.cmdp:Successors",
    "TrainingResult": "training.result:TrainingResult",
    "actions": "environments.play.action_sets",
    "agents": "agents",
    "callbacks": "training.callbacks",
    "check_constraint": "training.diagnosis.check_constraint:check_constraint",
    "compare": "reports.compare:compare",
    "convert_monitor": "reports.leaderboard.monitor:convert_monitor",
    "evaluate": "training.policy.evaluation:evaluate",
    "features": "features",
    "gp": "agents.model_syntax:gp",
    "gym": "environments.finite.gym",
    "kernel_values": "agents.model_syntax:kernel_values",
    "kernels": "kernels",
    "leaderboard": "reports.leaderboard.board:leaderboard",
    "logged": "environments.logged",
    "planner": "mdp.planner",
    "problems": "problems",
    "regression": "agents.model_syntax:regression",
    "run": "experiments.experiment:run",
    "shield": "training.policy.shield:shield",
    "train": "training.train:train",
}
_RENAMED = {"Trained": "TrainingResult", "kernel": "kernel_values"}
_EXTRA = ("gym",)  # needs an optional package, so `from everystep import *` leaves it out


def __getattr__(name: str) -> object:
    if name not in _HOME:
        remedy = f"; use {_RENAMED[name]}" if name in _RENAMED else ""
        raise AttributeError(f"module 'everystep' has no attribute '{name}'{remedy}")
    module, _, attribute = _HOME[name].partition(":")
    found = import_module(f"everystep.{module}")
    return getattr(found, attribute) if attribute else found


def __dir__() -> list[str]:
    return sorted([*__all__, *_EXTRA, "__version__"])


registration.register_ids()
