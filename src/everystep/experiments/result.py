"""Results: the columns of every episode, visits, cost intervals and their summary. What a run folder is written from.

result.summary; result.episodes; result.visits; result.save("out/mine")
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from everystep.errors import path_from, true_or_false
from everystep.experiments import reductions, statistics
from everystep.mdp import certificates, planner
from everystep.mdp.cmdp import FiniteCMDP

if TYPE_CHECKING:
    import pyarrow as pa


class FinishedRun(Protocol):
    """A finished run, in memory or in checkpoints: what a run folder is written from."""

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
    def reduced(self) -> dict[str, reductions.Reduced]: ...
    @property
    def summary(self) -> dict[str, Any]: ...

    def batches(self, label: str) -> Iterator[Mapping[str, np.ndarray]]:
        """The columns of an agent, (seeds, K) each, for some seeds at a time, in order."""
        ...


@dataclass(frozen=True, repr=False)
class Result:
    """A finished run in memory: everything a run folder holds, as Python objects. `print` shows its table.

    columns    for each agent, by its label, an array (seeds, episodes) for each column: return, violation, regret, ...
    spec       what was run: the problem, the agents with all settings, the seeds
    visits     how often each seed of each agent was in each state, after 500 episodes and at the end

    >>> result = es.run("streaming", "lsvi-ae", episodes=5, seeds=2)
    >>> result.seeds, result.episodes.num_rows, result.summary["episodes"]
    ([0, 1], 10, 5)
    >>> result.certified["lsvi-ae"]["actions"], list(result.reduced)
    (12, ['lsvi-ae'])
    >>> [columns["return"].shape for columns in result.batches("lsvi-ae")]
    [(2, 5)]
    >>> result.save("out/stream", figures=False).name
    'stream'
    """

    problem: FiniteCMDP
    spec: dict[str, Any]
    columns: dict[str, dict[str, np.ndarray]]
    visits: dict[str, np.ndarray]
    features: dict[str, np.ndarray] = field(default_factory=dict)
    certificates: dict[str, np.ndarray] = field(default_factory=dict)  # <agent>_lower and _upper, (seeds, T, m, S, A)

    @property
    def seeds(self) -> list[int]:
        return list(self.spec["seeds"])

    @property
    def episodes(self) -> pa.Table:
        """One row for each agent, seed and episode."""
        import pyarrow as pa

        tables = [episode_table(self.spec, label, self.seeds, curves) for label, curves in self.columns.items()]
        return pa.concat_tables(tables, promote_options="default")  # an agent without cost models has no labels

    def batches(self, label: str) -> Iterator[Mapping[str, np.ndarray]]:
        """All seeds at once: they are in memory."""
        yield self.columns[label]

    @cached_property
    def reduced(self) -> dict[str, reductions.Reduced]:
        """The numbers of each seed, and the curves to draw, by agent."""
        return {label: reductions.reduced(self.batches(label)) for label in self.columns}

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Means over seeds with 95 % bootstrap intervals."""
        return summarize(self)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            remedy = "; use columns" if name == "curves" else ""
            raise AttributeError(f"a Result has no '{name}'{remedy}")

    def __str__(self) -> str:
        from everystep.experiments import tables

        return tables.summary(self.summary)

    def __repr__(self) -> str:
        problem, K = self.spec["problem"]["name"], self.spec["episodes"]
        return f"<Result of {problem}: {', '.join(self.columns)}; {len(self.seeds)} seeds, {K:,} episodes>"

    @property
    def certified(self) -> dict[str, dict[str, Any]]:
        """What the cost intervals of each agent certify at the end."""
        return dict(self.summary["certificates"])

    def save(self, out: str | Path, figures: bool = True, force: bool = False) -> Path:
        """Write the run folder; refuse one that holds a different run.

        A file that another program wrote or changed is replaced only with `force`.
        """
        from everystep.experiments.folder import run_folder

        target, figures = path_from("out", out), true_or_false("figures", figures)
        force = true_or_false("force", force)
        with run_folder.folder(target, self.spec, force) as folder:
            run_folder.fill(self, folder, figures)
        return target


# --- columns ----------------------------------------------------------------------------------------------------------
def episode_columns(
    *, earned: Any, violation: Any, by_constraint: Sequence[Any], unsafe_steps: Any, soft_violation: Any
) -> dict[str, Any]:
    """The columns of every recorded episode, in a run on a problem and in training on an environment alike.

    return          the sum of rewards
    violation       the hard violation: the sum over steps and constraints of max(g, 0)
    violation_1 ... the same for each of several constraints
    unsafe_steps    the number of steps at which some g > 0
    soft_violation  the sum of g over steps and constraints, where safe steps cancel unsafe ones
    """
    several = len(by_constraint) > 1
    return {
        "return": earned,
        "violation": violation,
        **({f"violation_{i}": each for i, each in enumerate(by_constraint, 1)} if several else {}),
        "unsafe_steps": unsafe_steps,
        "soft_violation": soft_violation,
    }


def recorded_columns(metrics: Any, baseline: planner.Baseline, has_costs: bool) -> dict[str, np.ndarray]:
    """The columns of a run, each (seeds, K), from the metrics of an engine and the optimum from each start.

    regret           V*_1(x_1) - V^pi_1(x_1), where V* is the best value among the policies of least violation
    least_violation  C*_1(x_1), the violation that no policy avoids; only where some start has any
    """
    common = episode_columns(
        earned=metrics.earned,
        violation=metrics.violation.sum(-1),
        by_constraint=[metrics.violation[..., i] for i in range(metrics.violation.shape[-1])],
        unsafe_steps=metrics.unsafe_steps,
        soft_violation=metrics.soft_violation,
    )
    by_constraint = {name: common.pop(name) for name in list(common) if name.startswith("violation_")}
    exact = {
        "return": common["return"],
        "value": metrics.value,
        "regret": baseline.V_1[metrics.start] - metrics.value,
        "expected_violation": metrics.expected_violation,
        **({} if baseline.C_1 is None else {"least_violation": baseline.C_1[metrics.start]}),
    }
    mixed = {} if metrics.mixture_violation is None else {"mixture_violation": metrics.mixture_violation}
    plans = {} if metrics.planned is None else {"planned": metrics.planned}
    labels = metrics.labels._asdict() if metrics.labels is not None and has_costs else {}
    labels = {f"{name}_labels": counts for name, counts in labels.items()}
    columns = exact | common | by_constraint | mixed | plans | labels
    kind = lambda column: np.float64 if column.dtype.kind == "f" else np.int64
    return {name: column.astype(kind(column), copy=False) for name, column in columns.items()}


def episode_table(
    spec: Mapping[str, Any], label: str, seeds: Sequence[int], curves: Mapping[str, np.ndarray]
) -> pa.Table:
    """The columns (seeds, K) of an agent as a table with one row for each seed and episode."""
    import pyarrow as pa

    n, K = next(iter(curves.values())).shape
    columns: dict[str, Any] = {
        "problem": pa.repeat(spec["problem"]["name"], n * K),
        "agent": pa.repeat(label, n * K),
        "seed": np.repeat(np.array(seeds, np.int64), K),
        "episode": np.tile(np.arange(1, K + 1, dtype=np.int64), n),
    }
    return pa.table(columns | {name: np.ascontiguousarray(curve).reshape(-1) for name, curve in curves.items()})


# --- summary.json -----------------------------------------------------------------------------------------------------
def summarize(run: FinishedRun) -> dict[str, Any]:
    """summary.json: means over seeds with 95 % bootstrap intervals, and the certificates."""
    problem, spec = run.problem, run.spec
    best = planner.solve(problem)
    return {
        "problem": {
            "name": problem.name,
            "horizon": problem.horizon,
            "optimal_value": best.value,
            "unconstrained_value": planner.solve(problem, safe=False).value,
            "least_violation": best.least_violation,
        },
        "episodes": spec["episodes"],
        "seeds": len(spec["seeds"]),
        "violation_of": "mean",
        "remarks": spec["remarks"],
        "agents": {each["label"]: agent_summary(run.reduced[each["label"]].samples, each) for each in spec["agents"]},
        "certificates": _certificates_at_the_end(run),
    }


def _certificates_at_the_end(run: FinishedRun) -> dict[str, dict[str, Any]]:
    """How many (h, x, a) the cost intervals of each agent call safe and unsafe at the end, and how many falsely."""
    summary = certificates.summary(run.problem, run.spec["agents"], run.certificates)
    for label, numbers in summary.items():
        if (most := run.reduced[label].samples.get("most_false_labels")) is not None:
            false = most + certificates.final_counts(run.problem, label, run.certificates).false
            numbers["seeds_with_a_false_label_at_any_time"] = int((false > 0).sum())
    return summary


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
