"""Experiments: agents x seeds on a problem, validated, and run by an engine.

result = run(problem, agents=["lsvi-ae", "lsvi"], episodes=1000, seeds=32)
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np

from everystep import __version__, problems
from everystep.agents.arguments import SEVERAL_SEEDS, refuse_unknown
from everystep.agents.registry import REGISTERED, Recipe, recipe, where_settings_belong
from everystep.agents.resolve.agent import Resolved
from everystep.errors import (
    EverystepError,
    check_type,
    count,
    listed,
    path_from,
    shown,
    true_or_false,
)
from everystep.experiments import needs
from everystep.experiments.engines import local
from everystep.experiments.options import Seeds, seed_list
from everystep.experiments.result import Result, recorded_columns
from everystep.lsvi.loop import CHUNK
from everystep.mdp import planner
from everystep.mdp.arrays import digest
from everystep.mdp.cmdp import FiniteCMDP

LARGEST_SEED = 2**32 - 1  # of a run, whose random words have 32 bits


@dataclass(frozen=True)
class Experiment:
    """What to run: a problem, and agents with all settings resolved. `spec` holds all of it, ready for JSON."""

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

    def run_in(self, out: Path, progress: Callable[[int], None]) -> Result:
        """Run in a folder, continue there, or read what it holds."""
        import pyarrow.parquet as pq

        from everystep.experiments import runner
        from everystep.experiments.folder import finished

        needs.check_in_memory(self)
        runner.run(self, out, lambda chunk: progress(chunk.episodes))
        opened = finished.read(out)
        recorded = pq.read_schema(opened.file("episodes.parquet")).names
        return Result(
            self.problem,
            self.spec,
            opened.curves([name for name in recorded if name not in finished.KEYS]),
            opened.visits(self.problem.states),
            self.features(),
            opened.bounds(self.problem) if opened.has("certificates.npz") else {},
        )

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
        return Result(self.problem, self.spec, curves, visits, self.features(), bounds)

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


@refuse_unknown("run", {**where_settings_belong(), **SEVERAL_SEEDS})
def run(
    problem: FiniteCMDP | str,
    agents: Sequence[str | Recipe] | str | Recipe = ("lsvi-ae",),
    episodes: int = 1000,
    seeds: Seeds = 32,
    progress: Callable[[int], None] | None = None,
    certify: bool = False,
    out: str | Path | None = None,
) -> Result:
    """Run every agent on every seed.

    problem    a FiniteCMDP, the name of a problem, or the path of a map or of arrays, as for the command
    agents     one or several, each a name or an agent with settings: es.agents.lsvi_ae(beta=0.3)
    episodes   the number of episodes of each seed, of `problem.horizon` steps each
    seeds      their number (32: seeds 0 to 31), a range ("10:42": 10 to 41) or a list
    progress   called with n whenever n more episodes, over all agents and seeds, are done; None: a bar on a terminal,
               lines in a log
    certify    also record, for every episode, how many actions the cost intervals call safe and unsafe and how many
               of these labels are false
    out        a run folder: the run is written there with checkpoints; the same call, or `everystep resume`, continues
               it after a kill, and returns the result of a finished one

    >>> result = es.run("streaming", ["lsvi-ae", "uniform"], episodes=5, seeds=2)
    >>> result.columns["lsvi-ae"]["violation"].shape, sorted(result.summary["agents"])
    ((2, 5), ['lsvi-ae', 'uniform'])
    """
    if progress is not None:
        check_type("progress", progress, Callable, "a function of the number of episodes")  # type: ignore[arg-type]
    place = None if out is None else path_from("out", out)
    prepared = prepare(problem, agents, episodes, seeds, certify)
    run_it = prepared.run if place is None else partial(prepared.run_in, place)
    if progress is not None:
        return run_it(progress)
    from everystep.runtime.progress import counting

    total = len(prepared.agents) * len(prepared.spec["seeds"]) * prepared.spec["episodes"]
    with counting(total, "episodes") as progress:
        return run_it(progress)


def prepare(
    problem: FiniteCMDP | str,
    agents: Sequence[str | Recipe] | str | Recipe,
    episodes: int,
    seeds: Seeds,
    certify: bool = False,
) -> Experiment:
    """The experiment that `run` runs, checked as far as possible without running it."""
    problem = problems.load(problem) if isinstance(problem, str) else problem
    if not isinstance(problem, FiniteCMDP):
        raise EverystepError(f"problem is {shown(problem)}; give a FiniteCMDP, the name of a problem, or a file.")
    episodes, certify = count("episodes", episodes), true_or_false("certify", certify)
    recipes = _recipes(agents)
    if not recipes:
        raise EverystepError("agents is empty; give at least one, such as lsvi-ae.")
    numbers = seed_list("seeds", seeds)
    needs.check_counts(len(recipes), len(numbers), episodes, problem)
    seed_list("seeds", numbers, LARGEST_SEED)
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
        "seeds": list(numbers),
        "visits_after": min(CHUNK, episodes),
        "remarks": list(dict.fromkeys(remark for each in resolved.values() for remark in each.remarks)),
        **({"certify": True} if certify else {}),
        "versions": versions(),
    }
    return Experiment(problem, spec, resolved, certify)


def _recipes(agents: object) -> list[Recipe]:
    """The agents, given as one or as several, by name or as recipes."""
    is_scalar = isinstance(agents, np.ndarray) and agents.ndim == 0
    if isinstance(agents, Mapping) or not isinstance(agents, Iterable | Recipe) or is_scalar:
        raise EverystepError(f"agents is {shown(agents)}; give names, or agents such as es.agents.lsvi_ae().")
    return [recipe(agent) for agent in ([agents] if isinstance(agents, str | Recipe) else listed("agents", agents))]


def versions() -> dict[str, str]:
    """The versions that a spec records."""
    packages = {name: metadata.version(name) for name in ("jax", "jaxlib", "numpy")}
    return {"everystep": __version__, "python": platform.python_version(), **packages}
