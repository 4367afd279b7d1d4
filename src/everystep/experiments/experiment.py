"""Experiments: agents x seeds on a problem, validated, and run by an engine.

result = run(problem, agents=["lsvi-ae", "lsvi"], episodes=1000, seeds=32)
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from typing import Any

import jax
import numpy as np

from everystep import __version__, problems
from everystep.agents.arguments import refuse_unknown
from everystep.agents.registry import REGISTERED, Recipe, recipe, where_settings_belong
from everystep.agents.resolve.agent import Resolved
from everystep.errors import (
    EverystepError,
    count,
    listed,
    quoted,
    seed_number,
    shown,
    true_or_false,
)
from everystep.experiments import needs
from everystep.experiments.engines import local
from everystep.experiments.result import Result, fit_as_json, recorded_columns
from everystep.lsvi.loop import CHUNK
from everystep.mdp import planner
from everystep.mdp.arrays import digest
from everystep.mdp.cmdp import FiniteCMDP


@dataclass(frozen=True)
class Experiment:
    """What to run: a problem, and agents with every setting decided. `spec` holds all of it, ready for JSON."""

    problem: FiniteCMDP
    spec: dict[str, Any]
    agents: dict[str, Resolved]
    certify: bool = False

    def run(self, progress: Callable[[int], None] | None = None) -> Result:
        """Run every agent on every seed in this process; `progress(n)` is called as n more episodes are done."""
        needs.check_in_memory(self)
        with jax.enable_x64(True):
            traces = local.run(self.pairs, self.spec["seeds"], self.spec["episodes"], progress or (lambda n: None))
        baseline = planner.solve(self.problem).baseline
        by_label = dict(zip(self.agents, traces, strict=True))
        curves = {
            label: recorded_columns(trace.metrics, baseline, self.has_costs(label)) for label, trace in by_label.items()
        }
        return self.result(curves, {label: trace.final for label, trace in by_label.items()})

    def result(self, curves: dict[str, dict[str, np.ndarray]], final: Mapping[str, local.FinalState]) -> Result:
        """The columns of each agent, (seeds, K), and its final states, as a result."""
        visits, bounds = {}, {}
        for label, end in final.items():
            visits[f"{label}_{CHUNK}"], visits[f"{label}_end"] = end.visits_early, end.visits_end
            if self.has_costs(label):
                bounds[f"{label}_lower"] = end.lower.swapaxes(-1, -2)
                bounds[f"{label}_upper"] = end.upper.swapaxes(-1, -2)
            if end.ahead_lower.size:
                bounds[f"{label}_ahead_lower"] = end.ahead_lower.swapaxes(-1, -2)
                bounds[f"{label}_ahead_upper"] = end.ahead_upper.swapaxes(-1, -2)
        fits = {label: [fit_as_json(fit) for fit in end.kernel_fits] for label, end in final.items() if end.kernel_fits}
        return Result(self.problem, self.spec, curves, visits, self.features(), bounds, fits)

    @cached_property
    def pairs(self) -> list[local.AgentOnProblem]:
        """The agents built for the problem, for an engine."""
        with jax.enable_x64(True):
            built = [each.build() for each in self.agents.values()]
        return [local.AgentOnProblem(self.problem, each, certify=self.certify) for each in built]

    def has_costs(self, label: str) -> bool:
        """Whether an agent estimates costs at all."""
        return REGISTERED[self.agents[label].recipe.name].uses_costs

    def features(self) -> dict[str, np.ndarray]:
        """The features that were passed to an agent instead of the problem."""
        given = {label: each.phi for label, each in self.agents.items() if "features" in each.recipe.settings}
        return {label: phi for label, phi in given.items() if phi is not None}


@refuse_unknown("run", where_settings_belong())
def run(
    problem: FiniteCMDP | str,
    agents: Sequence[str | Recipe] | str | Recipe = ("lsvi-ae",),
    episodes: int = 1000,
    seeds: int | Iterable[int] = 32,
    seed0: int = 0,
    progress: Callable[[int], None] | None = None,
    certify: bool = False,
) -> Result:
    """Run every agent on every seed. `seeds` is their number, counted from `seed0`, or a list of seeds.

    `problem` may also be a registered name, or the path of a map or of arrays, as for the command.

    `progress(n)` is called as n more episodes (over all agents and seeds) are done; None: a bar on a terminal, lines in
    a log. `certify` also records, for every episode, how many actions the cost intervals call safe and unsafe and how
    many of these labels are false.

    >>> result = es.run("streaming", ["lsvi-ae", "uniform"], episodes=5, seeds=2)
    >>> result.curves["lsvi-ae"]["violation"].shape, sorted(result.summary["agents"])
    ((2, 5), ['lsvi-ae', 'uniform'])
    """
    if progress is not None and not callable(progress):
        raise EverystepError(f"progress is {quoted(progress)}; give a function of the number of episodes.")
    prepared = prepare(problem, agents, episodes, seeds, seed0, certify)
    if progress is not None:
        return prepared.run(progress)
    from everystep.runtime.progress import counting

    total = len(prepared.agents) * len(prepared.spec["seeds"]) * prepared.spec["episodes"]
    with counting(total, "episodes") as progress:
        return prepared.run(progress)


def prepare(
    problem: FiniteCMDP | str,
    agents: Sequence[str | Recipe] | str | Recipe,
    episodes: int,
    seeds: int | Iterable[int],
    seed0: int = 0,
    certify: bool = False,
) -> Experiment:
    """The experiment that `run` would run, checked as far as possible without running it."""
    problem = problems.load(problem) if isinstance(problem, str) else problem
    if not isinstance(problem, FiniteCMDP):
        raise EverystepError(f"problem is {shown(problem)}; give a FiniteCMDP, the name of a problem, or a file.")
    episodes, certify = count("episodes", episodes), true_or_false("certify", certify)
    recipes = _recipes(agents)
    if not recipes:
        raise EverystepError("agents is empty; give at least one, such as lsvi-ae.")
    numbers = _seeds(seeds, seed0, lambda number: needs.check_counts(len(recipes), number, episodes, problem))
    names = Counter(each.name for each in recipes)
    is_unique = lambda each: each.alias is None and names[each.name] == 1
    labels = [each.name if is_unique(each) else each.label for each in recipes]
    if len(set(labels)) < len(labels):
        [(twice, _)] = Counter(labels).most_common(1)
        raise EverystepError(f"agent '{twice}' is given twice; change a setting of one, or leave it out.")
    if np.issubdtype(problem.start.dtype, np.integer) and 1 < len(problem.start) < episodes:
        raise EverystepError(
            f"start has {len(problem.start)} states for {episodes} episodes; give one for each, or a single one."
        )
    resolved = {label: each.resolve(problem, episodes) for label, each in zip(labels, recipes, strict=True)}
    problem.check()
    for each in resolved.values():
        if isinstance(cap := each.recipe.settings.get("cap"), float):  # auto and none hold every value
            problem.check(cap)
    spec = {
        "problem": {"name": problem.name, "horizon": problem.horizon, "digest": digest(problem)},
        "agents": [
            {
                "label": label,
                "agent": each.recipe.name,
                "settings": each.to_json(),
                "confidence": each.confidence,
                **({} if each.labels_ahead is None else {"ahead": each.labels_ahead}),
                **(
                    {}
                    if each.switch is None
                    else {"plans": dict(zip(("scale_of", "scale"), each.plan_scale, strict=True))}
                ),
            }
            for label, each in resolved.items()
        ],
        "episodes": episodes,
        "seeds": numbers,
        "visits_after": min(CHUNK, episodes),
        "remarks": list(dict.fromkeys(remark for each in resolved.values() for remark in each.remarks)),
        **({"certify": True} if certify else {}),
        "versions": versions(),
    }
    return Experiment(problem, spec, resolved, certify)


def _recipes(agents: Any) -> list[Recipe]:
    """The agents, given as one or as several, by name or as recipes."""
    is_scalar = isinstance(agents, np.ndarray) and agents.ndim == 0
    if isinstance(agents, Mapping) or not isinstance(agents, Iterable | Recipe) or is_scalar:
        raise EverystepError(f"agents is {shown(agents)}; give names, or agents such as es.agents.lsvi_ae().")
    return [recipe(agent) for agent in ([agents] if isinstance(agents, str | Recipe) else listed("agents", agents))]


def versions() -> dict[str, str]:
    """The versions that a spec records."""
    packages = {name: metadata.version(name) for name in ("jax", "jaxlib", "numpy")}
    return {"everystep": __version__, "python": platform.python_version(), **packages}


def _seeds(seeds: int | Iterable[int], seed0: int, check: Callable[[int], None]) -> list[int]:
    """The seeds as a list, after `check` of their number."""
    first = seed_number("seed0", seed0)
    if isinstance(seeds, int | np.integer | str) or (isinstance(seeds, np.ndarray) and seeds.ndim == 0):
        number = count("seeds", seeds)
        check(number)
        if first + number > 2**32:
            raise EverystepError(f"seeds is {seeds} from {first} on; give fewer: they must stay below 2**32.")
        numbers = list(range(first, first + number))
    elif not isinstance(seeds, Iterable):
        raise EverystepError(f"seeds is {quoted(seeds)}; give their number, or a list of seeds.")
    else:
        given = listed("seeds", seeds)
        check(len(given))
        numbers = [seed_number("seeds", seed) for seed in given]
    if not numbers or len(set(numbers)) < len(numbers) or max(numbers) >= 2**32:
        raise EverystepError(
            f"seeds are {numbers[:5]}{'...' if len(numbers) > 5 else ''}; give different whole numbers below 2**32."
        )
    return numbers
