"""Experiments: agents x seeds on a problem, validated, run by an engine, summed up.

result = run(problem, agents=["lsvi-ae", "lsvi"], episodes=1000, seeds=32)
result.summary; result.episodes; result.visits; result.save("out/mine")
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from everystep import __version__, certificates, planner, problems, stats
from everystep.agents import REGISTERED, Recipe, Resolved, recipe
from everystep.drive import CHUNK
from everystep.engines import local
from everystep.errors import EverystepError, whole_number
from everystep.problem import Factored, FiniteCMDP

if TYPE_CHECKING:
    import pyarrow as pa

FINAL = 100  # "final" is the mean over this many last episodes


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

        K, n = self.spec["episodes"], len(self.seeds)
        tables = []
        for label, curves in self.curves.items():
            columns: dict[str, Any] = {
                "problem": pa.repeat(self.problem.name, n * K),
                "agent": pa.repeat(label, n * K),
                "seed": np.repeat(np.array(self.seeds, np.int64), K),
                "episode": np.tile(np.arange(1, K + 1, dtype=np.int64), n),
            }
            tables.append(pa.table(columns | {name: curve.reshape(-1) for name, curve in curves.items()}))
        return pa.concat_tables(tables, promote_options="default")  # an agent without cost models has no labels

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Means over seeds with 95 % bootstrap intervals."""
        return {
            "problem": {
                "name": self.problem.name,
                "horizon": self.problem.horizon,
                "optimal_value": planner.solve(self.problem).value,
                "unconstrained_value": planner.solve(self.problem, safe=False).value,
            },
            "episodes": self.spec["episodes"],
            "seeds": len(self.seeds),
            "violation_of": "mean",
            "remarks": self.spec["remarks"],
            "agents": {each["label"]: _summary(self.curves[each["label"]], each) for each in self.spec["agents"]},
            "certificates": self.certified,
        }

    @cached_property
    def certified(self) -> dict[str, dict[str, Any]]:
        """How many (h, x, a) the cost intervals of each agent call safe and unsafe at the end, and how many falsely."""
        told = certificates.summary(self.problem, self.spec["agents"], self.certificates)
        for label, numbers in told.items():
            if "false_labels" in self.curves[label]:
                at_the_end = certificates.at_the_end(self.problem, label, self.certificates).false
                false = self.curves[label]["false_labels"].max(1) + at_the_end
                numbers["seeds_with_a_false_label_at_any_time"] = int((false > 0).sum())
        return told

    def save(self, out: str | Path, figures: bool = True) -> Path:
        """Write the run folder; refuse one that holds a different run."""
        from everystep import store

        with store.folder(Path(out), self.spec) as folder:
            store.fill(self, folder, figures)
        return Path(out)


@dataclass(frozen=True)
class Experiment:
    """What to run: a problem, and agents with every setting decided. `spec` is all of it, ready for JSON."""

    problem: FiniteCMDP
    spec: dict[str, Any]
    agents: dict[str, Resolved]
    certify: bool = False

    def run(self, progress: Callable[[int], None] | None = None) -> Result:
        problem, episodes = self.problem, self.spec["episodes"]
        with jax.enable_x64(True):
            cells = [local.Cell(problem, each.build()) for each in self.agents.values()]
            traces = local.run(cells, self.spec["seeds"], episodes, progress or (lambda n: None), self.certify)
        optimal = planner.solve(problem).V[0]
        curves, visits, bounds, fits = {}, {}, {}, {}
        has_costs = lambda label: REGISTERED[self.agents[label].recipe.name].has_costs
        for label, trace in zip(self.agents, traces, strict=True):
            curves[label] = _curves(trace.metrics, optimal, has_costs(label))
            visits[f"{label}_{CHUNK}"], visits[f"{label}_end"] = trace.visits_early, trace.visits_end
            if has_costs(label):
                bounds[f"{label}_lower"] = trace.lower.swapaxes(-1, -2)
                bounds[f"{label}_upper"] = trace.upper.swapaxes(-1, -2)
            if trace.fits:
                fits[label] = [_told(fitted) for fitted in trace.fits]
        given = {label: each.phi for label, each in self.agents.items() if "features" in each.recipe.settings}
        features = {label: phi for label, phi in given.items() if phi is not None}
        return Result(problem, self.spec, curves, visits, features, bounds, fits)


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


def digest(problem: FiniteCMDP) -> str:
    """A fingerprint of everything that decides what happens in a problem."""
    noise = problem.noise
    sha = hashlib.sha256(str(problem.horizon).encode())
    parts = (
        *(problem.P if isinstance(problem.P, Factored) else (problem.P,)),
        problem.r,
        problem.g,
        problem.start,
        noise.reward_on_arrival,
        noise.cost_on_arrival,
        noise.reward_sigma,
    )
    for name, array in sorted(problem.coordinates.items()):
        sha.update(name.encode() + np.ascontiguousarray(array).tobytes())
    told = (*parts, noise.cost_sigma, problem.features, problem.exempt)
    if problem.known.told:
        told = (*told, problem.known.threshold, problem.known.safe_action, problem.known.triples)
    for part in told:
        sha.update(b"-" if part is None else str(np.shape(part)).encode() + np.ascontiguousarray(part).tobytes())
    return sha.hexdigest()


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


def _curves(metrics: Any, optimal: np.ndarray, has_costs: bool) -> dict[str, np.ndarray]:
    """The recorded columns, each (seeds, K), from an engine's metrics and V* at the start of each episode."""
    m = metrics.violation.shape[-1]
    curves = {
        "return": metrics.earned,
        "value": metrics.value,
        "regret": optimal[metrics.start] - metrics.value,
        "expected_violation": metrics.expected_violation,
        "violation": metrics.violation.sum(-1),
        "unsafe_steps": metrics.unsafe_steps.astype(np.int64),
        "soft_violation": metrics.soft_violation,
    }
    each = {f"violation_{i + 1}": metrics.violation[..., i] for i in range(m)} if m > 1 else {}
    plans = {} if metrics.planned is None else {"planned": metrics.planned.astype(np.int64)}
    mixed = {} if metrics.mixture_violation is None else {"mixture_violation": metrics.mixture_violation}
    labels = metrics.labels._asdict() if metrics.labels is not None and has_costs else {}
    return (
        curves | each | mixed | plans | {f"{name}_labels": counts.astype(np.int64) for name, counts in labels.items()}
    )


def _told(fitted: Any) -> dict[str, Any]:
    return {
        "seed": fitted.seed,
        "after": fitted.after,
        "model": fitted.model + 1,
        "kernel": str(fitted.fit.kernel),
        "noise": fitted.fit.lam,
        "log_likelihood": fitted.fit.log_likelihood,
    }


def _summary(curves: dict[str, np.ndarray], agent: dict[str, Any]) -> dict[str, dict[str, Any]]:
    samples = {
        "final_value": stats.last(curves["value"], FINAL),
        "final_violation": stats.last(curves["violation"], FINAL),
        "total_violation": curves["violation"].sum(-1),
        "total_regret": curves["regret"].sum(-1),
        **({"plans": curves["planned"].sum(-1)} if "planned" in curves else {}),
    }
    # The same resamples of seeds for every number: they differ only by what was measured.
    intervals = {name: stats.mean_over_seeds(values, np.random.default_rng(0)) for name, values in samples.items()}
    return {
        name: {key: float(value) for key, value in interval._asdict().items()}
        | (agent["plans"] if name == "plans" else {})
        for name, interval in intervals.items()
    }
