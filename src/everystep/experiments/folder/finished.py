"""A finished run folder, for everything that reads one: files are read only if they are unchanged.

The record of a folder (`files.RECORD`) holds the checksum of every file that was written there. A file is read if its
checksum is the recorded one; otherwise the error says that it was altered. Checksums do not show who wrote a file, so
the form of what is read is checked, too: a crafted file is refused in a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everystep import files, problems
from everystep.errors import EverystepError
from everystep.experiments.folder import run_folder
from everystep.experiments.tables import AVOIDABLE, COLUMNS
from everystep.files import forms, read_npz
from everystep.files.forms import COUNT, NOT_NEGATIVE, NUMBER, POSITIVE, PROBABILITY, Each, Maybe
from everystep.lsvi.loop import CHUNK
from everystep.mdp.cmdp import FiniteCMDP
from everystep.runtime import memory

if TYPE_CHECKING:
    import pyarrow as pa

KEYS = ("problem", "agent", "seed", "episode")  # the columns that say which episode a row is of
WHOLE = ("unsafe_steps", "planned", "safe_labels", "unsafe_labels", "false_labels")  # columns of whole numbers
OF_SOME = ("mixture_violation", *WHOLE[1:])  # columns that only some agents have
AGAIN = "run it again into another folder."
PLANS = {"scale_of": str, "scale": NUMBER}
SPEC = {
    "problem": {"name": str, "horizon": POSITIVE, "digest": str},
    "agents": [
        {
            **{"label": str, "agent": str, "settings": dict, "confidence?": Maybe(PROBABILITY), "plans?": PLANS},
            "ahead?": {"p": Maybe(PROBABILITY), "tolerance": NUMBER, "events": bool},
        }
    ],
    "episodes": POSITIVE,
    "seeds": [COUNT],
    "visits_after": POSITIVE,
    "remarks": [str],
    "certify?": bool,
    "versions": Each(str),
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
        "least_violation": NOT_NEGATIVE,
    },
    "episodes": POSITIVE,
    "seeds": POSITIVE,
    "remarks": [str],
    "agents": Each(dict.fromkeys((*COLUMNS, AVOIDABLE), INTERVAL) | {"plans?": INTERVAL | PLANS}),
    "certificates?": Each(LABELS),
}


@dataclass(frozen=True)
class FinishedFolder:
    """A finished run folder. Each of its files is checked when it is read."""

    folder: Path
    spec: dict[str, Any]

    @property
    def labels(self) -> list[str]:
        return [agent["label"] for agent in self.spec["agents"]]

    def has(self, name: str) -> bool:
        """Whether the folder holds a file, or did when it was written."""
        return (self.folder / name).is_file() or name in files.recorded(self.folder)

    def file(self, name: str) -> Path:
        """The path of a file that is the one that was written."""
        return files.check_unaltered(self.folder / name, AGAIN)

    def summary(self) -> dict[str, Any]:
        """summary.json, of the agents, seeds and episodes of the spec."""
        content = forms.read(self.folder / "summary.json", SUMMARY, AGAIN)
        own = (sorted(self.labels), len(self.spec["seeds"]), self.spec["episodes"])
        if (sorted(content["agents"]), content["seeds"], content["episodes"]) != own:
            raise EverystepError(f"'{self.folder}' has a summary.json of another run than its spec.json; {AGAIN}")
        return content

    def columns_of_starts(self) -> tuple[str, ...]:
        """The columns that summary.json says were recorded because some start has violations that no policy avoids."""
        return ("least_violation",) if self.summary()["problem"]["least_violation"] > 0 else ()

    def problem(self) -> FiniteCMDP:
        """The problem, which must be the one that the spec identifies."""
        path = self.file("problem.npz")
        try:
            problem = problems.from_arrays(path)
        except MemoryError:
            raise
        except Exception:  # the errors of damaged files are not documented
            raise EverystepError(f"'{self.folder}' has a problem.npz that cannot be read; {AGAIN}") from None
        if (problem.name, problem.horizon) != tuple(self.spec["problem"][key] for key in ("name", "horizon")):
            raise EverystepError(f"'{self.folder}' holds another problem than the one in its spec.json; {AGAIN}")
        return problem

    def curves(self, columns: Sequence[str]) -> dict[str, dict[str, np.ndarray]]:
        """Columns of episodes.parquet as (seeds, K), by agent, without those that an agent does not have."""
        shape = (len(self.spec["seeds"]), self.spec["episodes"])
        count, free = len(self.labels) * shape[0] * shape[1], memory.free_memory()
        if (taken := 16.0 * count * len(columns)) > free:
            raise EverystepError(
                f"'{self.folder}' has {count} rows, whose columns would take {memory.amount(taken)} of memory, and "
                f"{memory.amount(free)} are free; `everystep summary {self.folder}` needs none of them."
            )
        import pyarrow as pa

        path = self.file("episodes.parquet")
        try:
            table = files.read_parquet(path, columns, count, int(taken))
            return columns_of_agents(table, self.labels, shape, columns)
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            reason = f" ({error})" if type(error) is ValueError else ""
            raise EverystepError(f"'{path}' cannot be read as the rows of this run{reason}; {AGAIN}") from None

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
        """certificates.npz: the ends of the cost intervals, (seeds, T, m, S, A), of agents that have them.

        Of an agent that looks ahead also bounds on the violation that each action leads to, (seeds, H, S, A).
        """
        arrays = self._arrays("certificates.npz")
        n, H, S, A = len(self.spec["seeds"]), problem.horizon, problem.states, problem.actions
        kept: dict[str, np.ndarray] = {}
        for agent in self.spec["agents"]:
            if "confidence" in agent:
                kept |= self._ends(agent["label"], arrays, [(n, T, problem.constraints, S, A) for T in (1, H)])
            if "ahead" in agent:
                kept |= self._ends(f"{agent['label']}_ahead", arrays, [(n, H, S, A)])
        if not kept:
            raise self._no_intervals("any agent")
        return kept

    def _ends(
        self, name: str, arrays: Mapping[str, np.ndarray], shapes: Sequence[tuple[int, ...]]
    ) -> dict[str, np.ndarray]:
        """Both ends of some intervals, if they are there."""
        found = {key: arrays[key] for end in ("lower", "upper") if (key := f"{name}_{end}") in arrays}
        fit = all(end.dtype.kind == "f" and end.shape in shapes and not np.isnan(end).any() for end in found.values())
        if found and not (fit and len(found) == 2 and len({end.shape for end in found.values()}) == 1):
            raise self._no_intervals(name)
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


def columns_of_agents(
    table: pa.Table, labels: Sequence[str], shape: tuple[int, int], columns: Sequence[str]
) -> dict[str, dict[str, np.ndarray]]:
    """Columns (seeds, K) by agent; rows are ordered by agent, seed and episode."""
    count = shape[0] * shape[1]
    if len(table) != len(labels) * count:
        raise ValueError(f"it has {len(table)} rows instead of {len(labels) * count}")
    found: dict[str, dict[str, np.ndarray]] = {label: {} for label in labels}
    for name in columns:
        if table.column_names.count(name) != 1 and (name not in OF_SOME or name in table.column_names):
            raise ValueError(f"it has {table.column_names.count(name)} columns {name}")
        for i, label in enumerate(labels if name in table.column_names else ()):
            column = table[name].slice(i * count, count)
            if column.null_count == count and name in OF_SOME:
                continue
            numbers = np.asarray(column.to_numpy(), np.int64 if name in WHOLE else np.float64)
            if column.null_count or not np.isfinite(numbers).all():
                raise ValueError(f"its column {name} has rows of {label} without a number")
            found[label][name] = numbers.reshape(shape)
    return found


def read(folder: Path) -> FinishedFolder:
    """A finished run folder; raises if it is none."""
    run_folder.check_run(folder)
    if not (folder / "spec.json").is_file():
        raise EverystepError(f"'{folder}' holds no run; give a folder written by `everystep run`.")
    return FinishedFolder(folder, read_spec(folder))


def read_spec(folder: Path) -> dict[str, Any]:
    """The spec.json of a finished run, or of an unfinished one."""
    spec = forms.read(folder / "spec.json", SPEC, AGAIN)
    labels, seeds = [agent["label"] for agent in spec["agents"]], spec["seeds"]
    for name, each in (("agents", labels), ("seeds", seeds)):
        if not each or len(set(each)) < len(each):
            raise EverystepError(f"'{folder}' has a spec.json in which {name} are empty or given twice; {AGAIN}")
    if max(seeds) >= 2**32 or spec["visits_after"] != min(CHUNK, spec["episodes"]):
        raise EverystepError(f"'{folder}' has a spec.json not written by `everystep run`; {AGAIN}")
    return spec
