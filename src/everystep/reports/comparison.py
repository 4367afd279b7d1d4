"""`everystep compare`: every agent on every problem that provides what it requires, as a table of measurements.

    out/compare/<problem>/   a run folder each
    table1.md, table1.csv    written from these folders alone

The paper's Table 1 lists bounds and assumptions. This one lists measurements for each problem: regret, violations, the
share of episodes with violations, and what an agent requires. Differences to the first agent are paired over seeds,
which have the same random draws of the problem. `ablation` compares LSVI-AE with variants that lack one ingredient.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from everystep import files, problems
from everystep.agents import lsvi_ae, lsvi_priced
from everystep.agents.registry import REGISTERED, Recipe
from everystep.errors import EverystepError, unknown
from everystep.experiments import config, experiment, needs, reductions, runner, statistics, tables
from everystep.experiments.folder import finished, run_folder
from everystep.experiments.folder.run_folder import FolderState
from everystep.experiments.options import Seeds
from everystep.experiments.tables import Table
from everystep.files import forms
from everystep.mdp.cmdp import FiniteCMDP

LEFT_OUT = "left_out.json"
OUTPUTS = ("table1.md", "table1.csv")
PRICES = (0.1, 1.0, 10.0, 100.0)  # of violations inside the reward


ABLATION: dict[str, Recipe] = {
    "lsvi-ae": lsvi_ae(),
    "rectifier off": lsvi_ae(rectify=False),
    "floor off": lsvi_ae(floor=0),
    "floor sqrt k": lsvi_ae(floor="sqrt"),
    "cost optimism off": lsvi_ae(optimism=0),
    "value optimism off": lsvi_ae(beta=0),
}


class PreparedComparison(NamedTuple):
    """The runs by problem, and the reasons why other agents are left out of them."""

    runs: dict[str, experiment.Experiment]
    left_out: dict[str, dict[str, str]]

    def missing(self, out: Path) -> PreparedComparison:
        """The runs that are not finished in `out`; a folder that holds another run is refused."""
        found = {name: run_folder.inspect(out / name, run.spec) for name, run in self.runs.items()}
        runs = {name: run for name, run in self.runs.items() if found[name] is not FolderState.FINISHED}
        return PreparedComparison(runs, self.left_out)

    @property
    def episodes(self) -> int:
        """Episodes over all runs, agents and seeds, for the progress bar."""
        return sum(run.spec["episodes"] * len(run.spec["seeds"]) * len(run.agents) for run in self.runs.values())

    def run(self, out: Path, on_chunk: runner.OnChunk | None = None) -> None:
        """Run everything into folders in `out`."""
        needs.check_in_folders({out / name: run for name, run in self.runs.items()})
        for name, run in self.runs.items():
            left_out = json.dumps(self.left_out[name], indent=2) + "\n"
            runner.run(run, out / name, on_chunk, figures=False, texts={LEFT_OUT: left_out})


def prepare(
    agents: Iterable[Recipe] | None = None,
    names: Sequence[str] | None = None,
    seeds: Seeds = 32,
    episodes: int | None = None,
) -> PreparedComparison:
    """Agents (default: all) on problems (default: all that are compared), without the agents that cannot run there."""
    recipes = _all_agents() if agents is None else list(agents)
    if not recipes or (names is not None and not names):
        raise EverystepError("agents or problems are empty; give at least one of each, or leave the option out.")
    runs, left_out = {}, {}
    compared = {name: (each.make, each.comparison) for name, each in problems.REGISTERED.items() if each.comparison}
    for name in compared if names is None else names:
        if name not in compared:
            raise unknown("problem", name, compared, f"compare knows {', '.join(compared)}.")
        make, how = compared[name]
        problem, K = make(**how.parameters), how.episodes if episodes is None else episodes
        able, left_out[name] = _agents_that_can_run(recipes, how.settings, problem, K)
        if not able:
            raise EverystepError(f"no agent can run on {name}: {'; '.join(left_out[name].values())}")
        runs[name] = experiment.prepare(problem, able, K, seeds)
    return PreparedComparison(runs, left_out)


def _all_agents() -> list[Recipe]:
    """Every agent; the one with a price inside the reward at each of `PRICES`, because the right one is unknown."""
    once = [Recipe(name) for name, each in REGISTERED.items() if name != "lsvi-priced" and not each.networks]
    return [*once, *(lsvi_priced(violation_price=price).called(f"lsvi-priced {price:g}") for price in PRICES)]


def ablation(names: Sequence[str] | None = None, seeds: Seeds = 32, episodes: int | None = None) -> PreparedComparison:
    """LSVI-AE, and LSVI-AE without each of its ingredients."""
    named = [recipe.called(name) for name, recipe in ABLATION.items()]
    if names is None:
        names = [name for name, each in problems.REGISTERED.items() if each.comparison and each.comparison.ablation]
    return prepare(named, names, seeds, episodes)


def _agents_that_can_run(
    recipes: Sequence[Recipe], settings: Mapping[str, Any], problem: FiniteCMDP, episodes: int
) -> tuple[list[Recipe], dict[str, str]]:
    """The agents that can run on a problem, with its settings; and for the others, the sentence that refuses them."""
    able, refused = [], {}
    for recipe in recipes:
        own = config.accepted_settings(recipe.name, settings)
        each = Recipe(recipe.name, own | dict(recipe.settings), recipe.alias or recipe.name)
        try:
            each.resolve(problem, episodes)
        except EverystepError as error:
            refused[each.label] = str(error)
        else:
            able.append(each)
    return able, refused


class ComparisonRow(NamedTuple):
    """The measurements of one agent on one problem; intervals over seeds, differences to the first agent of the run."""

    problem: str
    agent: str
    needs: str
    final_value: statistics.Interval
    optimum: float
    regret: statistics.Interval
    violation: statistics.Interval
    violation_in_the_mean: statistics.Interval  # of the mean cost over the distribution of actions
    violating_episodes: statistics.Interval
    safe_set: float | None  # mean number of certified safe actions per state at the end; None without a cost model
    regret_difference: statistics.Paired | None
    violation_difference: statistics.Paired | None


class ComparisonTable(NamedTuple):
    """The contents of all run folders."""

    rows: list[ComparisonRow]
    runs: dict[str, dict[str, Any]]  # the summary of each problem
    left_out: dict[str, dict[str, str]]
    unfinished: tuple[Path, ...] = ()

    def text(self) -> str:
        unfinished = [run_folder.how_to_finish(folder) for folder in self.unfinished]
        return "\n\n".join([*map(str, self._tables()), *unfinished, FOOTNOTE])

    def markdown(self) -> str:
        return "\n\n".join([*(each.markdown() for each in self._tables()), FOOTNOTE]) + "\n"

    def _tables(self) -> Iterator[Table]:
        for name, summary in self.runs.items():
            heading = (
                f"{name}: H = {summary['problem']['horizon']}, {summary['episodes']} episodes, "
                f"{summary['seeds']} seeds, safe optimum {summary['problem']['optimal_value']:.4f}"
            )
            left_out = [f"left out: {sentence}" for sentence in self.left_out[name].values()]
            yield Table(heading, HEAD, [_cells(row) for row in self.rows if row.problem == name], left_out)

    def write(self, out: Path, force: bool = False) -> None:
        """Write table1.md and table1.csv into `out`."""
        with files.replacing(out, force=force) as folder:
            escape = "backslashreplace"  # a run folder may have any name
            (folder / OUTPUTS[0]).write_text(self.markdown(), encoding="utf-8", errors=escape)
            with (folder / OUTPUTS[1]).open("w", newline="", encoding="utf-8", errors=escape) as file:
                writer = csv.writer(file)
                writer.writerow(["problem", "agent", "needs", "measure", "mean", "low", "high"])
                writer.writerows(line for row in self.rows for line in _csv_lines(row))


HEAD = [
    "agent",
    "requires",
    "final value",
    "total regret",
    "total violations",
    "in the mean",
    "episodes with violations",
    "safe actions",
    "regret, difference",
    "violations, difference",
]
FOOTNOTE = f"""\
final value: mean over the last {reductions.FINAL} episodes. total regret, total violations: sums over all episodes;
regret against the safe optimum is negative if violations increase the return. In brackets: 95 % bootstrap confidence
intervals over seeds. in the mean: violations of the mean cost over the distribution from which an agent draws its
actions. safe actions: certified by the cost intervals at the end, mean number per state. difference: the agent minus
the first agent, paired over seeds, with the p-value of a sign-flip test."""


def _cells(row: ComparisonRow) -> list[str]:
    intervals = (row.final_value, row.regret, row.violation, row.violation_in_the_mean)
    differences = (row.regret_difference, row.violation_difference)
    return [
        row.agent,
        row.needs,
        *map(tables.interval, intervals),
        tables.interval(row.violating_episodes, "{:.1%}".format),
        "" if row.safe_set is None else tables.number(row.safe_set),
        *(
            "" if d is None else f"{tables.number(float(d.difference.mean))} ({tables.p_value(d.p)})"
            for d in differences
        ),
    ]


def _csv_lines(row: ComparisonRow) -> Iterator[list[object]]:
    about = [row.problem, row.agent, row.needs]
    for name in ("final_value", "regret", "violation", "violation_in_the_mean", "violating_episodes"):
        yield [*about, name, *map(float, getattr(row, name))]
    if row.safe_set is not None:
        yield [*about, "safe_set", row.safe_set, "", ""]
    for name in ("regret_difference", "violation_difference"):
        if (paired := getattr(row, name)) is not None:
            yield [*about, name, *map(float, paired.difference)]
            yield [*about, f"{name}_p", paired.p, "", ""]


def claim(out: Path, force: bool = False) -> None:
    """Refuse a folder in which the tables could not be written, or that is a training's, before any work is done."""
    files.check_writable(out)
    run_folder.check_run(out, unfinished=True)
    files.check_places(files.real(out), OUTPUTS, force)


def read(out: Path) -> ComparisonTable:
    """The table of all run folders inside `out`."""
    rows: list[ComparisonRow] = []
    runs, left_out = {}, {}
    unfinished = tuple(sorted(path.parent for path in out.glob(f"*/{run_folder.WORK}")))
    for folder in sorted({path.parent for path in out.glob("*/spec.json")} - set(unfinished)):
        opened = finished.read(folder)
        names = ("value", "regret", "violation", "mixture_violation")
        columns, summary = opened.curves(names), opened.summary()
        runs[folder.name], left_out[folder.name] = summary, _left_out(opened)
        rows += _rows(opened, summary, columns)
    return ComparisonTable(rows, runs, left_out, unfinished)


def _left_out(opened: finished.FinishedFolder) -> dict[str, str]:
    """The agents that could not run, each with the sentence that refused it."""
    if not opened.has(LEFT_OUT):
        return {}
    return forms.read(opened.folder / LEFT_OUT, forms.Each(str), "remove the folder.")


def _rows(
    opened: finished.FinishedFolder, summary: Mapping[str, Any], columns: Mapping[str, Mapping[str, np.ndarray]]
) -> Iterator[ComparisonRow]:
    folder, spec = opened.folder, opened.spec
    over_seeds, paired = statistics.mean_over_seeds, statistics.paired
    first: tuple[np.ndarray, np.ndarray] | None = None
    for agent in spec["agents"]:
        curves = columns[agent["label"]]
        regret, violation = curves["regret"].sum(1), curves["violation"].sum(1)
        in_the_mean = curves["mixture_violation"].sum(1) if "mixture_violation" in curves else violation
        yield ComparisonRow(
            problem=folder.name,
            agent=agent["label"],
            needs=REGISTERED[agent["agent"]].needs if agent["agent"] in REGISTERED else "?",
            final_value=over_seeds(statistics.last(curves["value"], reductions.FINAL)),
            optimum=summary["problem"]["optimal_value"],
            regret=over_seeds(regret),
            violation=over_seeds(violation),
            violation_in_the_mean=over_seeds(in_the_mean),
            violating_episodes=over_seeds((curves["violation"] > 0).mean(1)),
            safe_set=summary.get("certificates", {}).get(agent["label"], {}).get("safe_set"),
            regret_difference=None if first is None else paired(regret, first[0]),
            violation_difference=None if first is None else paired(violation, first[1]),
        )
        first = (regret, violation) if first is None else first
