"""Experiments: agents x seeds on a problem, validated, run by an engine, summed up.

result = run(problem, agents=["lsvi-ae", "lsvi"], episodes=1000, seeds=32)
result.summary; result.episodes; result.visits; result.save("out/mine")
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import jax
import numpy as np

from everystep import __version__, problems
from everystep.agents.registry import REGISTERED, Recipe, Resolved, recipe
from everystep.errors import EverystepError, whole_number
from everystep.experiments import reductions, statistics
from everystep.experiments.engines import local
from everystep.lsvi.loop import CHUNK
from everystep.mdp import certificates, planner
from everystep.mdp.arrays import digest
from everystep.mdp.cmdp import FiniteCMDP

if TYPE_CHECKING:
    import pyarrow as pa


class Outcome(Protocol):
    """A finished experiment, wherever its rows are: what a run folder is written from."""

    @property
    def problem(self) -> FiniteCMDP: ...
    @property
    def spec(self) -> dict[str, Any]: ...
    @property
    def visits(self) -> Mapping[str, np.ndarray]: ...
    @property
    def features(self) -> Mapping[str, np.ndarray]: ...
    @property
    def certificates(self) -> Mapping[str, np.ndarray]: ...  # <agent>_lower and _upper, (seeds, T, m, S, A)
    @property
    def fits(self) -> dict[str, list[dict[str, Any]]]: ...  # of agents that fit their kernel
    @property
    def reduced(self) -> dict[str, reductions.Reduced]: ...
    @property
    def summary(self) -> dict[str, Any]: ...

    def batches(self, label: str) -> Iterator[Mapping[str, np.ndarray]]:
        """The columns of an agent, (seeds, K) each, some seeds at a time, in order."""
        ...


@dataclass(frozen=True)
class Result:
    """A finished experiment: everything a run folder holds, as Python objects."""

    problem: FiniteCMDP
    spec: dict[str, Any]
    curves: dict[str, dict[str, np.ndarray]]
    visits: dict[str, np.ndarray]
    features: dict[str, np.ndarray] = field(default_factory=dict)
    certificates: dict[str, np.ndarray] = field(default_factory=dict)  # <agent>_lower and _upper, (seeds, T, m, S, A)
    fits: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # of agents that fit their kernel

    @property
    def seeds(self) -> list[int]:
        return list(self.spec["seeds"])

    @property
    def episodes(self) -> pa.Table:
        """One row for each agent, seed and episode."""
        import pyarrow as pa

        tables = [rows(self.spec, label, self.seeds, curves) for label, curves in self.curves.items()]
        return pa.concat_tables(tables, promote_options="default")  # an agent without cost models has no labels

    def batches(self, label: str) -> Iterator[Mapping[str, np.ndarray]]:
        """All seeds at once: they are in memory."""
        yield self.curves[label]

    @cached_property
    def reduced(self) -> dict[str, reductions.Reduced]:
        """Numbers of each seed, and curves to draw, by agent."""
        return {label: reductions.reduced(self.batches(label)) for label in self.curves}

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Means over seeds with 95 % bootstrap intervals."""
        return summed_up(self)

    @property
    def certified(self) -> dict[str, dict[str, Any]]:
        """What the cost intervals of each agent certify at the end."""
        return dict(self.summary["certificates"])

    def save(self, out: str | Path, figures: bool = True) -> Path:
        """Write the run folder; refuse one that holds a different run."""
        from everystep.experiments import run_folder

        with run_folder.folder(Path(out), self.spec) as folder:
            run_folder.fill(self, folder, figures)
        return Path(out)


@dataclass(frozen=True)
class Experiment:
    """What to run: a problem, and agents with every setting decided. `spec` is all of it, ready for JSON."""

    problem: FiniteCMDP
    spec: dict[str, Any]
    agents: dict[str, Resolved]
    certify: bool = False

    def run(self, progress: Callable[[int], None] | None = None) -> Result:
        with jax.enable_x64(True):
            traces = local.run(self.cells(), self.spec["seeds"], self.spec["episodes"], progress or (lambda n: None))
        optimal = planner.solve(self.problem).V[0]
        by_label = dict(zip(self.agents, traces, strict=True))
        curves = {label: columns(trace.metrics, optimal, self.has_costs(label)) for label, trace in by_label.items()}
        return self.result(curves, {label: trace.ending for label, trace in by_label.items()})

    def result(self, curves: dict[str, dict[str, np.ndarray]], endings: Mapping[str, local.Ending]) -> Result:
        """What the agents did, (seeds, K) in each column, and how they ended, as a result."""
        visits, bounds = {}, {}
        for label, end in endings.items():
            visits[f"{label}_{CHUNK}"], visits[f"{label}_end"] = end.visits_early, end.visits_end
            if self.has_costs(label):
                bounds[f"{label}_lower"] = end.lower.swapaxes(-1, -2)
                bounds[f"{label}_upper"] = end.upper.swapaxes(-1, -2)
        fits = {label: [told(fit) for fit in end.fits] for label, end in endings.items() if end.fits}
        return Result(self.problem, self.spec, curves, visits, self.features(), bounds, fits)

    def cells(self) -> list[local.Cell]:
        """The agents made for the problem, for an engine; call it with 64-bit numbers on."""
        return [local.Cell(self.problem, each.build(), certify=self.certify) for each in self.agents.values()]

    def has_costs(self, label: str) -> bool:
        return REGISTERED[self.agents[label].recipe.name].has_costs

    def features(self) -> dict[str, np.ndarray]:
        """Those that were given to an agent, not to the problem."""
        given = {label: each.phi for label, each in self.agents.items() if "features" in each.recipe.settings}
        return {label: phi for label, phi in given.items() if phi is not None}


def run(
    problem: FiniteCMDP | str,
    agents: Sequence[str | Recipe] | str | Recipe = ("lsvi-ae",),
    episodes: int = 1000,
    seeds: int | Iterable[int] = 32,
    seed0: int = 0,
    progress: Callable[[int], None] | None = None,
    certify: bool = False,
) -> Result:
    """Run every agent on every seed. `seeds` is how many, counted from `seed0`, or the seeds themselves.

    `problem` may also be what the command takes: a registered name, a map or arrays by path.

    `progress(n)` is called as n more episodes (over all agents and seeds) are done. `certify` also records, for every
    episode, how many actions the cost intervals call safe and unsafe and how many of these labels are false.
    """
    return prepare(problem, agents, episodes, seeds, seed0, certify).run(progress)


def prepare(
    problem: FiniteCMDP | str,
    agents: Sequence[str | Recipe] | str | Recipe,
    episodes: int,
    seeds: int | Iterable[int],
    seed0: int = 0,
    certify: bool = False,
) -> Experiment:
    """What `run` would do, checked in every way that needs no running."""
    problem = problems.load(problem) if isinstance(problem, str) else problem
    episodes = whole_number("episodes", episodes)
    numbers = _seeds(seeds, seed0)
    recipes = [recipe(agent) for agent in ([agents] if isinstance(agents, str | Recipe) else agents)]
    if not recipes:
        raise EverystepError("agents is empty; give at least one, such as lsvi-ae.")
    names = [each.name for each in recipes]
    short = lambda each: each.alias is None and names.count(each.name) == 1
    labels = [each.name if short(each) else each.label for each in recipes]
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise EverystepError(f"agent '{twice}' is given twice; change a setting of one, or leave it out.")
    if np.issubdtype(problem.start.dtype, np.integer) and 1 < len(problem.start) < episodes:
        raise EverystepError(
            f"start has {len(problem.start)} states for {episodes} episodes; give one for each, or a single one."
        )
    resolved = {label: each.resolve(problem, episodes) for label, each in zip(labels, recipes, strict=True)}
    for each in resolved.values():
        problem.check(cap=each["cap"])
    spec = {
        "problem": {"name": problem.name, "horizon": problem.horizon, "digest": digest(problem)},
        "agents": [
            {
                "label": label,
                "agent": each.recipe.name,
                "settings": each.shown(),
                "confidence": each.confidence,
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


def versions() -> dict[str, str]:
    packages = {name: metadata.version(name) for name in ("jax", "jaxlib", "numpy")}
    return {"everystep": __version__, "python": platform.python_version(), **packages}


def _seeds(seeds: int | Iterable[int], seed0: int) -> list[int]:
    first = whole_number("seed0", seed0, at_least=0)
    if isinstance(seeds, int | np.integer | str):
        count = whole_number("seeds", seeds)
        if first + count > 2**32:
            raise EverystepError(f"seeds is {seeds} from {first} on; give fewer, they must stay below 2**32.")
        numbers = list(range(first, first + count))
    elif not isinstance(seeds, Iterable):
        raise EverystepError(f"seeds is {seeds}; give how many, or the seeds themselves.")
    else:
        numbers = [whole_number("seeds", seed, at_least=0) for seed in seeds]
    if not numbers or len(set(numbers)) < len(numbers) or max(numbers) >= 2**32:
        raise EverystepError(
            f"seeds are {numbers[:5]}{'...' if len(numbers) > 5 else ''}; give different whole numbers below 2**32."
        )
    return numbers


def columns(metrics: Any, optimal: np.ndarray, has_costs: bool) -> dict[str, np.ndarray]:
    """The recorded columns, each (seeds, K), from an engine's metrics and V* at the start of each episode."""
    m = metrics.violation.shape[-1]
    curves = {
        "return": metrics.earned,
        "value": metrics.value,
        "regret": optimal[metrics.start] - metrics.value,
        "expected_violation": metrics.expected_violation,
        "violation": metrics.violation.sum(-1),
        "unsafe_steps": metrics.unsafe_steps,
        "soft_violation": metrics.soft_violation,
    }
    each = {f"violation_{i + 1}": metrics.violation[..., i] for i in range(m)} if m > 1 else {}
    plans = {} if metrics.planned is None else {"planned": metrics.planned}
    mixed = {} if metrics.mixture_violation is None else {"mixture_violation": metrics.mixture_violation}
    labels = metrics.labels._asdict() if metrics.labels is not None and has_costs else {}
    named = curves | each | mixed | plans | {f"{name}_labels": counts for name, counts in labels.items()}
    kind = lambda column: np.float64 if column.dtype.kind == "f" else np.int64
    return {name: column.astype(kind(column), copy=False) for name, column in named.items()}


def told(fitted: local.Fitted) -> dict[str, Any]:
    """A fit as kernels.json has it; people count cost models from 1."""
    return fitted._asdict() | {"model": fitted.model + 1}


def rows(spec: Mapping[str, Any], label: str, seeds: Sequence[int], curves: Mapping[str, np.ndarray]) -> pa.Table:
    """Columns (seeds, K) of an agent as rows, one for each seed and episode."""
    import pyarrow as pa

    n, K = next(iter(curves.values())).shape
    named: dict[str, Any] = {
        "problem": pa.repeat(spec["problem"]["name"], n * K),
        "agent": pa.repeat(label, n * K),
        "seed": np.repeat(np.array(seeds, np.int64), K),
        "episode": np.tile(np.arange(1, K + 1, dtype=np.int64), n),
    }
    return pa.table(named | {name: np.ascontiguousarray(curve).reshape(-1) for name, curve in curves.items()})


def summed_up(outcome: Outcome) -> dict[str, Any]:
    """summary.json: means over seeds with 95 % bootstrap intervals, and what certificates say."""
    problem, spec = outcome.problem, outcome.spec
    return {
        "problem": {
            "name": problem.name,
            "horizon": problem.horizon,
            "optimal_value": planner.solve(problem).value,
            "unconstrained_value": planner.solve(problem, safe=False).value,
        },
        "episodes": spec["episodes"],
        "seeds": len(spec["seeds"]),
        "violation_of": "mean",
        "remarks": spec["remarks"],
        "agents": {
            each["label"]: agent_summary(outcome.reduced[each["label"]].samples, each) for each in spec["agents"]
        },
        "certificates": _certified(outcome),
    }


def _certified(outcome: Outcome) -> dict[str, dict[str, Any]]:
    """How many (h, x, a) the cost intervals of each agent call safe and unsafe at the end, and how many falsely."""
    said = certificates.summary(outcome.problem, outcome.spec["agents"], outcome.certificates)
    for label, numbers in said.items():
        if (most := outcome.reduced[label].samples.get("most_false_labels")) is not None:
            false = most + certificates.at_the_end(outcome.problem, label, outcome.certificates).false
            numbers["seeds_with_a_false_label_at_any_time"] = int((false > 0).sum())
    return said


def agent_summary(samples: Mapping[str, np.ndarray], agent: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Means with intervals of the numbers of each seed."""
    numbers = {name: values for name, values in samples.items() if name != "most_false_labels"}
    # The same resamples of seeds for every number: they differ only by what was measured.
    intervals = {name: statistics.mean_over_seeds(values, np.random.default_rng(0)) for name, values in numbers.items()}
    return {
        name: {key: float(value) for key, value in interval._asdict().items()}
        | (agent["plans"] if name == "plans" else {})
        for name, interval in intervals.items()
    }
