"""The leaderboard: what the files of results say about each problem, and about all problems together.

    violation, normalised   violation / unit  unit: the mean of the best rival on the problem, else of the worst system
    return, normalised      (R - low) / (high - low)
                            low: 0; where means are negative, the mean final return of "random", else the lowest mean
                            high: the best mean of systems whose final policies keep the limit

References, which know more than the others, set none of these. In files of results the violation of a training is the
column `harm`, and so it is in the names here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from everystep.errors import EverystepError, listed, unknown
from everystep.experiments import statistics
from everystep.experiments.statistics import Interval
from everystep.reports.leaderboard import measures, results_files

if TYPE_CHECKING:
    import pyarrow as pa

RANDOM = "random"  # the name of the system that sets the units
ENOUGH = 0.9  # of the best final return, for a rival to be compared with
KEPT = 0.1  # of the final violation of the worst system, for a final policy that keeps the limit
NOTHING = ""  # no system: a return of 0
MEASURED = ("harm", "last_violation", "final_return", "final_harm", "steps")
OURS, RIVAL, REFERENCE = "ours", "rival", "reference"


class Runs(NamedTuple):
    """One system on one problem: its seeds in ascending order, and the columns of the format in the same order."""

    seeds: np.ndarray
    columns: dict[str, np.ndarray]

    def mean(self, name: str) -> float:
        return float(self.columns[name].mean())


class Difference(NamedTuple):
    """A system minus the baseline over the seeds that both have; p after Holm's correction."""

    seeds: int
    mean: float
    p: float


class SystemRow(NamedTuple):
    """One system on one problem: means over seeds with their intervals."""

    system: str
    kind: str
    seeds: int
    harm: Interval
    last_violation: float  # the median over seeds
    final_return: Interval
    final_harm: Interval
    share: float  # of the best final return
    harm_difference: Difference | None
    return_difference: Difference | None


class Units(NamedTuple):
    """What is 0 and 1 on a problem; `*_of` are the systems that set it."""

    low: float
    high: float
    harm: float
    low_of: str
    high_of: str
    harm_of: str
    best_rival: str | None

    def returns(self, values: np.ndarray) -> np.ndarray:
        return measures.share(values, self.low, self.high)

    def harms(self, values: np.ndarray) -> np.ndarray:
        return measures.share(values, 0.0, self.harm) if self.harm > 0 else np.zeros_like(values, float)


class ProblemTable(NamedTuple):
    """All systems on one problem, by violation."""

    problem: str
    rows: list[SystemRow]
    units: Units
    best_rival: SystemRow | None
    steps: tuple[int, int]  # the fewest and the most of a training

    @property
    def ours(self) -> list[SystemRow]:
        return [row for row in self.rows if row.kind == OURS]


class AggregateRow(NamedTuple):
    """One system over all problems: interquartile means, profiles, and the probability that it beats the baseline."""

    system: str
    kind: str
    harm: Interval
    final_return: Interval
    less_harm: Interval | None
    more_return: Interval | None
    harm_at_most: Interval  # at `Aggregate.harms`
    return_above: Interval  # at `Aggregate.returns`


class Aggregate(NamedTuple):
    """The systems that are on all problems, by violation, and the problems that each of the others lacks."""

    rows: list[AggregateRow]
    left_out: dict[str, list[str]]
    harms: np.ndarray
    returns: np.ndarray


@dataclass(frozen=True)
class Leaderboard:
    """What `es.leaderboard` returns: tables, figures and all rows.

    rows      every row of the files, a table of pyarrow: `rows.to_pandas()`
    baseline  the system that the others are compared with

    >>> import pathlib, tempfile
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> row = {"system": "mine", "problem": "lake", "seed": 0, "steps": 100, "harm": 2.0, "unsafe_steps": 3,
    ...        "last_violation": 9, "final_return": 1.0, "final_harm": 0.0, "final_episodes": 5,
    ...        "command": "python train.py", "versions": "{}", "kind": "ours"}
    >>> rows = [row, row | {"seed": 1, "harm": 4.0}, row | {"system": "theirs", "harm": 12.0, "kind": "rival"}]
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> pq.write_table(pa.Table.from_pylist(rows), folder / "lake.parquet")
    >>> board = es.leaderboard(folder)
    >>> board.seeds_in_words
    '1 to 2'
    >>> board.baseline, board.kinds, board.rows.num_rows
    ('mine', {'mine': 'ours', 'theirs': 'rival'}, 3)
    >>> board.runs["lake"]["mine"].columns["harm"].tolist()
    [2.0, 4.0]
    >>> board.problems[0].best_rival.system, [float(row.harm.mean) for row in board.aggregate.rows]
    ('theirs', [0.25, 1.0])
    >>> "mine (ours): 0.25 times the violation of the best rival" in board.text()
    True
    >>> board.markdown().splitlines()[0]
    '# Leaderboard'
    >>> sorted(path.name for path in board.write(folder / "board").iterdir() if not path.name.startswith("."))
    ['leaderboard.md', 'leaderboard.parquet', 'overview.png', 'profiles.png']
    """

    rows: pa.Table
    baseline: str

    @cached_property
    def runs(self) -> dict[str, dict[str, Runs]]:
        """The runs of each system on each problem, problems in alphabetical order."""
        return grouped(self.rows)

    @cached_property
    def kinds(self) -> dict[str, str]:
        """The kind of each system."""
        return kinds(self.rows)

    @cached_property
    def problems(self) -> list[ProblemTable]:
        """A table for each problem."""
        return [problem_table(name, runs, self.kinds, self.baseline) for name, runs in self.runs.items()]

    @cached_property
    def aggregate(self) -> Aggregate:
        """All problems together."""
        return aggregate(self.runs, self.kinds, self.baseline)

    @property
    def seeds_in_words(self) -> str:
        """The fewest and the most seeds of a system on a problem."""
        seeds = {len(runs.seeds) for each in self.runs.values() for runs in each.values()}
        return f"{min(seeds)} to {max(seeds)}" if len(seeds) > 1 else f"{min(seeds)}"

    def text(self) -> str:
        """The tables for a terminal."""
        from everystep.reports.leaderboard import text

        return text.plain(self)

    def markdown(self, figures: Mapping[str, str] | None = None) -> str:
        """The page: definitions, tables, and the figures if their files are given (profiles, overview)."""
        from everystep.reports.leaderboard import text

        return text.page_text(self, figures or {})

    def write(self, out: str | Path, force: bool = False) -> Path:
        """Write leaderboard.md, leaderboard.parquet, profiles.png and overview.png into a folder."""
        from everystep.reports.leaderboard import text

        return text.write(self, results_files.path_of("out", out), force)

    def __str__(self) -> str:
        return self.text()


def leaderboard(paths: str | Path | Sequence[str | Path], baseline: str | None = None) -> Leaderboard:
    """Compare systems by files of results: tables for each problem and for all, with intervals and tests.

    paths     files of results, or folders that hold some (docs/reference/files.md describes the format)
    baseline  the system that the others are compared with; by default that of kind "ours" with the least violation,
              or the first

    >>> import pathlib, tempfile
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> same = {"problem": "lake", "steps": 100, "unsafe_steps": 1, "last_violation": 9, "final_return": 1.0,
    ...         "final_harm": 0.0, "final_episodes": 5, "command": "python train.py", "versions": "{}"}
    >>> rows = [
    ...     {"system": system, "seed": seed, "harm": harm, **same}
    ...     for seed in range(3) for system, harm in (("mine", 2.0 + seed), ("theirs", 8.0))
    ... ]
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "lake.parquet"
    >>> pq.write_table(pa.Table.from_pylist(rows), file)
    >>> board = es.leaderboard(file, baseline="theirs")
    >>> [(row.system, float(row.harm.mean)) for row in board.problems[0].rows]
    [('mine', 3.0), ('theirs', 8.0)]
    """
    given = [paths] if isinstance(paths, str | Path) else listed("paths", paths)
    if not given:
        raise EverystepError("paths are empty; give at least one file or folder of results.")
    rows = results_files.read([results_files.path_of("paths", each) for each in given])
    names = list(kinds(rows))
    if baseline is not None and (not isinstance(baseline, str) or baseline not in names):
        raise unknown("system", baseline, names, f"The files have {', '.join(names[:20])}.")
    return Leaderboard(rows, _default_baseline(rows) if baseline is None else baseline)


def _default_baseline(rows: pa.Table) -> str:
    """The system of kind "ours" on the most problems, of these the one with the least violation; or the first."""
    runs, of = grouped(rows), kinds(rows)
    candidates = [name for name, kind in of.items() if kind == OURS]
    if not candidates:
        return next(iter(of))

    def harm(name: str) -> tuple[int, float]:
        there = [units(each, of).harms(each[name].columns["harm"]) for each in runs.values() if name in each]
        return -len(there), float(measures.interquartile_mean(there, np.random.default_rng(0), 1).mean)

    return min(candidates, key=harm)


def kinds(rows: pa.Table) -> dict[str, str]:
    """The kind of each system, in the order of the files."""
    given = rows["kind"].to_pylist() if "kind" in rows.column_names else [None] * rows.num_rows
    return {system: kind or RIVAL for system, kind in zip(rows["system"].to_pylist(), given, strict=True)}


def grouped(rows: pa.Table) -> dict[str, dict[str, Runs]]:
    """The runs by problem (in alphabetical order) and system (in the order of the files)."""
    problems, systems = (rows[name].to_pylist() for name in ("problem", "system"))
    seeds = rows["seed"].to_numpy()
    columns = {name: rows[name].to_numpy() for name in MEASURED}
    places: dict[tuple[str, str], list[int]] = {}
    for i, key in enumerate(zip(problems, systems, strict=True)):
        places.setdefault(key, []).append(i)
    found: dict[str, dict[str, Runs]] = {name: {} for name in sorted(set(problems))}
    for (problem, system), rows_of in places.items():
        order = np.array(rows_of)[np.argsort(seeds[rows_of])]
        found[problem][system] = Runs(seeds[order], {name: each[order] for name, each in columns.items()})
    return found


def keeping(runs: Mapping[str, Runs], kinds: Mapping[str, str]) -> list[str]:
    """The systems whose final policies keep the limit, references aside: returns that break it are not comparable.

    They do at most `KEPT` of the final violation of the worst. If none does, all count.
    """
    fair = [name for name in runs if kinds[name] != REFERENCE] or list(runs)
    most = max(runs[name].mean("final_harm") for name in fair)
    return [name for name in fair if runs[name].mean("final_harm") <= KEPT * most] or fair


def units(runs: Mapping[str, Runs], kinds: Mapping[str, str]) -> Units:
    """What is 0 and 1 on a problem.

    1 of the return is the best mean of those that keep the limit; 0 is 0, or, where there are negative means, the mean
    of a system named random or else the lowest. 1 of violation is that of the best rival: of the rivals that keep the
    limit and whose share of the return is enough, the least. If there is none, or it has no violation, the worst system
    is 1. (Chance is no unit: where limits are hard to reach, it has no violation.)
    """
    fair, kept = [name for name in runs if kinds[name] != REFERENCE] or list(runs), keeping(runs, kinds)
    returns = {name: runs[name].mean("final_return") for name in {*fair, *({RANDOM} & runs.keys())}}
    harms = {name: runs[name].mean("harm") for name in returns}
    high_of, lowest = max(kept, key=lambda name: returns[name]), min(fair, key=lambda name: returns[name])
    low_of = RANDOM if RANDOM in returns and returns[RANDOM] < returns[high_of] else lowest
    low, low_of = (0.0, NOTHING) if returns[lowest] >= 0 < returns[high_of] else (returns[low_of], low_of)
    enough = lambda name: measures.share(np.array(returns[name]), low, returns[high_of]) >= ENOUGH
    rivals = [name for name in kept if kinds[name] == RIVAL and enough(name)]
    worst = max(fair, key=lambda name: harms[name])
    best = min(rivals, key=lambda name: (harms[name], -returns[name]), default=None)
    harm_of = best if best is not None and harms[best] > 0 else worst
    return Units(low, returns[high_of], harms[harm_of], low_of, high_of, harm_of, best)


# --- one problem ------------------------------------------------------------------------------------------------------
def problem_table(problem: str, runs: Mapping[str, Runs], kinds: Mapping[str, str], baseline: str) -> ProblemTable:
    """The systems on a problem by mean violation, each compared with the baseline, and the best rival."""
    unit = units(runs, kinds)
    of_harm, of_return = (_differences(runs, baseline, name) for name in ("harm", "final_return"))
    over_seeds = lambda each, name: statistics.mean_over_seeds(each.columns[name])
    rows = [
        SystemRow(
            system, kinds[system], len(each.seeds), over_seeds(each, "harm"),
            float(np.median(each.columns["last_violation"])), over_seeds(each, "final_return"),
            over_seeds(each, "final_harm"), float(unit.returns(np.array(each.mean("final_return")))),
            of_harm.get(system), of_return.get(system),
        )
        for system, each in runs.items()
    ]  # fmt: skip
    rows.sort(key=lambda row: (float(row.harm.mean), -float(row.final_return.mean)))
    rivals = [row for row in rows if row.system == unit.best_rival]
    steps = np.concatenate([each.columns["steps"] for each in runs.values()])
    return ProblemTable(problem, rows, unit, rivals[0] if rivals else None, (int(steps.min()), int(steps.max())))


def _differences(runs: Mapping[str, Runs], baseline: str, name: str) -> dict[str, Difference]:
    """Each system minus the baseline, over common seeds (two or more); p-values corrected for the number of systems."""
    if baseline not in runs:
        return {}
    base, found = runs[baseline], {}
    for system, each in runs.items():
        common, own, other = np.intersect1d(each.seeds, base.seeds, assume_unique=True, return_indices=True)
        if system != baseline and len(common) > 1:
            pair = (each.columns[name][own], base.columns[name][other])
            found[system] = (len(common), statistics.paired(*pair))
    corrected = measures.holm([paired.p for _, paired in found.values()])
    return {
        system: Difference(n, float(paired.difference.mean), p)
        for (system, (n, paired)), p in zip(found.items(), corrected, strict=True)
    }


# --- all problems -----------------------------------------------------------------------------------------------------
def aggregate(runs: Mapping[str, Mapping[str, Runs]], kinds: Mapping[str, str], baseline: str) -> Aggregate:
    """The systems that are on all problems, in units of each problem."""
    complete = [system for system in kinds if all(system in each for each in runs.values())]
    left_out = {
        system: [problem for problem, each in runs.items() if system not in each]
        for system in kinds
        if system not in complete
    }
    unit = {problem: units(each, kinds) for problem, each in runs.items()}
    harm = {s: [unit[p].harms(each[s].columns["harm"]) for p, each in runs.items()] for s in complete}
    returns = {s: [unit[p].returns(each[s].columns["final_return"]) for p, each in runs.items()] for s in complete}
    harms, shares = _harm_taus(harm.values()), _return_taus(returns.values())
    rng = lambda: np.random.default_rng(0)
    rows = []
    for system in complete:
        less = more = None
        if baseline in complete and system != baseline:
            less = measures.probability_of_improvement([-x for x in harm[system]], [-y for y in harm[baseline]], rng())
            more = measures.probability_of_improvement(returns[system], returns[baseline], rng())
        above = measures.profile(harm[system], harms, rng())
        rows.append(
            AggregateRow(
                system, kinds[system], measures.interquartile_mean(harm[system], rng()),
                measures.interquartile_mean(returns[system], rng()), less, more,
                Interval(1 - above.mean, 1 - above.high, 1 - above.low),
                measures.profile(returns[system], shares, rng()),
            )
        )  # fmt: skip
    rows.sort(key=lambda row: (float(row.harm.mean), -float(row.final_return.mean)))
    return Aggregate(rows, left_out, harms, shares)


POINTS = 201  # of a profile


def _harm_taus(scores: Collection[measures.Scores]) -> np.ndarray:
    """Equally spaced logarithms, from below the least positive violation (no less than 1/1000) to the largest."""
    runs = np.concatenate([each for system in scores for each in system] or [np.ones(1)])
    least = np.min(runs[runs > 0], initial=1.0)
    most = max(1.0, runs.max())
    return np.geomspace(max(0.5 * least, 1e-3 * most), most, POINTS)


def _return_taus(scores: Collection[measures.Scores]) -> np.ndarray:
    """From 0, or from what all but the lowest hundredth of the runs reach if that is less, to the best run."""
    runs = np.concatenate([each for system in scores for each in system] or [np.ones(1)])
    return np.linspace(min(0.0, max(-1.0, float(np.quantile(runs, 0.01)))), max(1.0, float(runs.max())), POINTS)
