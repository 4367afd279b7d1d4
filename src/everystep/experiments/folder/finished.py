"""A finished run folder, for everything that reads one: only what the run wrote is read, and only as the run wrote it.

The record of a folder (`files.RECORD`) holds the checksum of every file that was written there. A file is read if its
checksum is the recorded one; otherwise the error says that it was altered. A folder from before there were records, or
whose record was removed, is read with a note: what is read is then checked against its spec alone. Both are checked for
their form, and the rows for their agents, seeds, episodes and order (rows.py).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from everystep import files, problems
from everystep.errors import EverystepError
from everystep.experiments.folder import rows, run_folder
from everystep.experiments.tables import AVOIDABLE, COLUMNS
from everystep.files import forms, read_npz
from everystep.files.forms import COUNT, NOT_NEGATIVE, NUMBER, POSITIVE, PROBABILITY, Each, Maybe
from everystep.lsvi.loop import CHUNK
from everystep.mdp.arrays import digest
from everystep.mdp.cmdp import FiniteCMDP
from everystep.runtime import memory

ROUNDING = 1e-8  # relative: the order of sums differs
PLANS = {"scale_of": str, "scale": NUMBER}
SPEC = {
    "problem": {"name": str, "horizon": POSITIVE, "digest": str},
    "agents": [
        {
            **{"label": str, "agent": str, "settings": dict, "confidence?": Maybe(PROBABILITY), "plans?": PLANS},
            "ahead?": {"p": Maybe(PROBABILITY), "tolerance": NUMBER, "events": bool},
        },
    ],
    "episodes": POSITIVE,
    "seeds": [COUNT],
    "visits_after": POSITIVE,
    "remarks": [str],
    "certify?": bool,
    "versions?": Each(str),
}
INTERVAL = {"mean": NUMBER, "low": NUMBER, "high": NUMBER}
LABELS = {
    "p": Maybe(PROBABILITY),
    **dict.fromkeys(("safe", "unsafe", "unknown", "false", "safe_set?"), NUMBER),
    "seeds_with_a_false_label": COUNT,
}
SUMMARY = {
    "problem": {
        "name": str,
        "horizon": POSITIVE,
        "optimal_value": NUMBER,
        "unconstrained_value": NUMBER,
        "least_violation?": NOT_NEGATIVE,  # not in folders of earlier versions
    },
    "episodes": POSITIVE,
    "seeds": POSITIVE,
    "remarks": [str],
    "agents": Each(dict.fromkeys(COLUMNS, INTERVAL) | {f"{AVOIDABLE}?": INTERVAL, "plans?": INTERVAL | PLANS}),
    "certificates?": Each(LABELS),
}


@dataclass(frozen=True)
class FinishedFolder:
    """A finished run folder. Each of its files is checked when it is read; `sealed`: whether its record lists it."""

    folder: Path
    spec: dict[str, Any]
    sealed: bool = False

    @property
    def labels(self) -> list[str]:
        return [agent["label"] for agent in self.spec["agents"]]

    @property
    def remarks(self) -> list[str]:
        """What a reader has to know of the folder."""
        return [] if self.sealed else [f"'{self.folder}' {UNSEALED}"]

    def has(self, name: str) -> bool:
        """Whether the folder holds a file, or did when it was written."""
        return (self.folder / name).is_file() or (self.sealed and name in files.recorded(self.folder))

    def file(self, name: str) -> Path:
        """The path of a file that is the one that was written."""
        path = self.folder / name
        if not path.is_file():
            raise EverystepError(f"'{self.folder}' has no readable {name}; {AGAIN}")
        if self.sealed and (fault := files.altered(self.folder, name)):
            raise EverystepError(f"'{path}' {fault}; restore it, or {AGAIN}")
        return path

    def summary(self) -> dict[str, Any]:
        """summary.json, which must be about the run of the spec."""
        content, spec = run_folder.read_json(self.file("summary.json")), self.spec
        _check_form(self.folder / "summary.json", content, SUMMARY)
        about = {
            "problem": ({key: content["problem"][key] for key in ("name", "horizon")}, _without_digest(spec)),
            "episodes": (content["episodes"], spec["episodes"]),
            "seeds": (content["seeds"], len(spec["seeds"])),
            "agents": (sorted(content["agents"]), sorted(self.labels)),
        }
        for key, (found, wanted) in about.items():
            if found != wanted:
                raise EverystepError(f"'{self.folder}' has a summary.json with other {key} than its spec.json; {AGAIN}")
        return content

    def checked_summary(self, samples: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, Any]:
        """summary.json, whose means must be those of the rows; `samples` are `reductions.samples` of each agent.

        A sum of violations has no negative terms, so it may differ by relative rounding only. Without
        `avoidable_violation` (an earlier version) all of it was avoidable.
        """
        content = self.summary()
        for label, numbers in samples.items():
            value = self.spec["episodes"] * np.abs(numbers["final_value"]).max() + np.abs(numbers["total_regret"]).max()
            terms = np.abs(numbers["total_violation"]).max() + np.abs(numbers[AVOIDABLE]).max()
            allowed = {"final_value": value, "total_regret": value, AVOIDABLE: terms}
            written = {AVOIDABLE: content["agents"][label]["total_violation"]} | content["agents"][label]
            for name in (*COLUMNS, AVOIDABLE):
                mean, found = written[name]["mean"], numbers[name].mean()
                if not np.isclose(mean, found, ROUNDING, ROUNDING * allowed.get(name, 0.0)):
                    raise EverystepError(
                        f"'{self.folder}' has another {name} of {label} in its summary.json than in its "
                        f"episodes.parquet, so one of them is not of this run; {AGAIN}"
                    )
        return content

    def columns_of_starts(self) -> tuple[str, ...]:
        """The columns that summary.json says were recorded because some start has violations that no policy avoids."""
        return ("least_violation",) if self.summary()["problem"].get("least_violation", 0) > 0 else ()

    def problem(self) -> FiniteCMDP:
        """The problem, which must be the one that the spec identifies."""
        path = self.file("problem.npz")
        try:
            problem = problems.from_arrays(path)
        except MemoryError:
            raise
        except Exception:  # the errors of damaged files are not documented
            raise EverystepError(f"'{self.folder}' has a problem.npz that cannot be read; {AGAIN}") from None
        described = {"name": problem.name, "horizon": problem.horizon, "digest": self.spec["problem"]["digest"]}
        if not self.sealed:
            described["digest"] = digest(problem)
        if described != self.spec["problem"]:
            raise EverystepError(f"'{self.folder}' holds another problem than the one in its spec.json; {AGAIN}")
        return problem

    def curves(self, columns: Sequence[str]) -> dict[str, dict[str, np.ndarray]]:
        """Columns of episodes.parquet as (seeds, K), by agent, without those that an agent does not have."""
        shape = (len(self.spec["seeds"]), self.spec["episodes"])
        count, free = len(self.labels) * shape[0] * shape[1], memory.free_memory()
        if (taken := 16.0 * count * len(columns)) > free:
            raise EverystepError(
                f"'{self.folder}' has {count} rows, whose columns would take {memory.amount(taken)} of memory, and "
                f"{memory.amount(free)} are free; `everystep summary {self.folder}` reads them in parts."
            )
        found: dict[str, dict[str, np.ndarray]] = {label: {} for label in self.labels}
        counted: dict[tuple[str, str], int] = {}
        for part in rows.stream(self.file("episodes.parquet"), self.spec, columns):
            start = part.first % (shape[0] * shape[1])
            for name, numbers in part.columns.items():
                curve = found[part.label].setdefault(name, np.empty(shape, numbers.dtype))
                curve.reshape(-1)[start : start + len(numbers)] = numbers
                counted[part.label, name] = counted.get((part.label, name), 0) + len(numbers)
        for (label, name), count in counted.items():
            if count != shape[0] * shape[1]:
                raise EverystepError(f"'{self.folder}' has an episodes.parquet with half of {name} of {label}; {AGAIN}")
        return found

    def check_rows(self) -> None:
        """Raise if the rows are not those of the agents, seeds and episodes of the spec; no column is read."""
        for _ in rows.stream(self.file("episodes.parquet"), self.spec, ()):
            pass

    def visits(self, states: int) -> dict[str, np.ndarray]:
        """visits.npz: how often each seed of each agent was in each state, (seeds, S)."""
        arrays = self._arrays("visits.npz")
        for label in self.labels:
            for key in (f"{label}_{CHUNK}", f"{label}_end"):
                found = arrays.get(key)
                if found is None or found.shape != (len(self.spec["seeds"]), states) or found.dtype.kind not in "iu":
                    raise EverystepError(f"'{self.folder}' has a visits.npz without the visits of {label}; {AGAIN}")
        return arrays

    def bounds(self, problem: FiniteCMDP) -> dict[str, np.ndarray]:
        """certificates.npz: the ends of the cost intervals, (seeds, T, m, S, A), of agents that have them."""
        arrays = self._arrays("certificates.npz")
        shape = (len(self.spec["seeds"]), problem.constraints, problem.states, problem.actions)
        kept: dict[str, np.ndarray] = {}
        for agent in self.spec["agents"]:
            names = [f"{agent['label']}_{end}" for end in ("lower", "upper")]
            if "confidence" not in agent or not any(name in arrays for name in names):
                continue
            for name in names:
                end = arrays.get(name)
                if end is None or end.dtype.kind != "f" or end.ndim != 5 or np.isnan(end).any():
                    raise self._no_intervals(agent["label"])
                if (len(end), *end.shape[2:]) != shape or end.shape[1] not in (1, problem.horizon):
                    raise self._no_intervals(agent["label"])
                kept[name] = end
            kept |= self._bounds_ahead(agent["label"], arrays, problem) if "ahead" in agent else {}
        if not kept:
            raise self._no_intervals("any agent")
        return kept

    def _bounds_ahead(self, label: str, arrays: Mapping[str, np.ndarray], problem: FiniteCMDP) -> dict[str, np.ndarray]:
        """Bounds on the harm that each action leads to, (seeds, H, S, A), of an agent that looks ahead."""
        found = {name: arrays[name] for end in ("lower", "upper") if (name := f"{label}_ahead_{end}") in arrays}
        shape = (len(self.spec["seeds"]), problem.horizon, problem.states, problem.actions)
        for end in found.values():
            if len(found) < 2 or end.dtype.kind != "f" or end.shape != shape or np.isnan(end).any():
                raise self._no_intervals(label)
        return found

    def _no_intervals(self, label: str) -> EverystepError:
        return EverystepError(
            f"'{self.folder}' has a certificates.npz without the cost intervals of {label} on this problem; {AGAIN}"
        )

    def _arrays(self, name: str) -> dict[str, np.ndarray]:
        try:
            return read_npz(self.file(name), lambda key: key.startswith(tuple(f"{label}_" for label in self.labels)))
        except EverystepError as error:
            if str(error).startswith("it "):
                raise EverystepError(f"'{self.folder}' has a {name} that cannot be read; {AGAIN}") from None
            raise


AGAIN = "run it again into another folder."
UNSEALED = (
    "has no record of what was written there (it is older than these records, or its record was removed), "
    "so only the form and the order of its files were checked."
)


def read(folder: Path, quiet: bool = False) -> FinishedFolder:
    """A finished run folder; raises if it is none. A note on standard error says that it has no record."""
    run_folder.refuse_unfinished(folder)
    run_folder.refuse_training_of_seeds(folder)
    if not (folder / "spec.json").is_file():
        raise EverystepError(f"'{folder}' holds no run; give a folder written by `everystep run`.")
    sealed = "spec.json" in files.recorded(folder)
    if sealed and (fault := files.altered(folder, "spec.json")):
        raise EverystepError(f"'{folder / 'spec.json'}' {fault}; restore it, or {AGAIN}")
    spec = run_folder.read_spec(folder)
    check_spec(folder, spec)
    found = FinishedFolder(folder, spec, sealed)
    for remark in [] if quiet else found.remarks:
        print(f"note: {remark}", file=sys.stderr)
    return found


def check_spec(folder: Path, spec: Mapping[str, Any]) -> None:
    """Raise if a spec does not have the form of one."""
    _check_form(folder / "spec.json", spec, SPEC)
    labels, seeds = [agent["label"] for agent in spec["agents"]], spec["seeds"]
    for name, each in (("agents", labels), ("seeds", seeds)):
        if not each or len(set(each)) < len(each):
            raise EverystepError(f"'{folder}' has a spec.json in which {name} are empty or given twice; {AGAIN}")
    if max(seeds) >= 2**32 or spec["visits_after"] != min(CHUNK, spec["episodes"]):
        raise EverystepError(f"'{folder}' has a spec.json not written by `everystep run`; {AGAIN}")


def _check_form(path: Path, content: Any, form: Any) -> None:
    if where := forms.fault(content, form):
        raise EverystepError(
            f"'{path.parent}' has a {path.name} not written by `everystep run` ({where} is missing or wrong); {AGAIN}"
        )


def _without_digest(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in spec["problem"].items() if key != "digest"}
