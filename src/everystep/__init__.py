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

from everystep.environments.finite import registration

if TYPE_CHECKING:
    from everystep import agents, features, kernels, problems
    from everystep.agents.model_syntax import gp, kernel_values
    from everystep.environments import logged
    from everystep.environments.play import action_sets as actions
    from everystep.errors import EverystepError
    from everystep.experiments.experiment import run
    from everystep.experiments.result import Result
    from everystep.mdp import planner
    from everystep.mdp.cmdp import Factored, FiniteCMDP, Known, Noise, Successors
    from everystep.reports.leaderboard.board import leaderboard
    from everystep.reports.leaderboard.monitor import convert_monitor
    from everystep.training import callbacks
    from everystep.training.diagnosis.check_constraint import check_constraint
    from everystep.training.learner import Learner
    from everystep.training.policy.evaluation import evaluate
    from everystep.training.policy.policy import Policy
    from everystep.training.policy.shield import shield
    from everystep.training.train import train

__version__ = "0.2.0"
__all__ = [
    "EverystepError",
    "Factored",
    "FiniteCMDP",
    "Known",
    "Learner",
    "Noise",
    "Policy",
    "Result",
    "Successors",
    "actions",
    "agents",
    "callbacks",
    "check_constraint",
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

# Where each public name lives: modules by their full name, anything else as module:name.
_HOME = {
    "EverystepError": "errors:EverystepError",
    "Factored": "mdp.cmdp:Factored",
    "Successors": "mdp.cmdp:Successors",
    "FiniteCMDP": "mdp.cmdp:FiniteCMDP",
    "Known": "mdp.cmdp:Known",
    "Learner": "training.learner:Learner",
    "Noise": "mdp.cmdp:Noise",
    "Policy": "training.policy.policy:Policy",
    "Result": "experiments.result:Result",
    "actions": "environments.play.action_sets",
    "agents": "agents",
    "callbacks": "training.callbacks",
    "check_constraint": "training.diagnosis.check_constraint:check_constraint",
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
    "run": "experiments.experiment:run",
    "shield": "training.policy.shield:shield",
    "train": "training.train:train",
}
_EXTRA = ("gym",)  # needs an optional package, so `from everystep import *` leaves it out


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'everystep' has no attribute '{name}'")
    module, _, attribute = _HOME[name].partition(":")
    found = import_module(f"everystep.{module}")
    return getattr(found, attribute) if attribute else found


def __dir__() -> list[str]:
    return sorted([*__all__, *_EXTRA, "__version__"])


registration.register_ids()
