"""`everystep certify DIR`: the certificates of a finished run, read from its folder, as a table and a figure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from everystep import files
from everystep.errors import EverystepError, seed_number, unknown, whole_number
from everystep.experiments import finished, tables
from everystep.mdp import certificates
from everystep.mdp.cmdp import FiniteCMDP

PANELS = 3  # the largest number of agents in the figure


@dataclass(frozen=True)
class CertifiedRun:
    """The cost intervals at the end of a run."""

    folder: Path
    problem: FiniteCMDP
    spec: dict[str, Any]
    bounds: dict[str, np.ndarray]  # <agent>_lower and <agent>_upper, (seeds, T, m, S, A)

    @property
    def summary(self) -> dict[str, dict[str, Any]]:
        return certificates.summary(self.problem, self.spec["agents"], self.bounds)

    @property
    def agents(self) -> list[str]:
        return [agent["label"] for agent in self.spec["agents"] if f"{agent['label']}_lower" in self.bounds]

    def labels(self, agent: str, seed: int, step: int) -> np.ndarray:
        """(S, A): 1 safe, -1 unsafe, 0 unknown, for one seed at one step (counted from 1)."""
        lower, upper = self.bounds[f"{agent}_lower"], self.bounds[f"{agent}_upper"]
        row = self._row(seed)
        if not 1 <= step <= self.problem.horizon:
            raise EverystepError(f"step is {step}; give a whole number from 1 to {self.problem.horizon}.")
        h = step - 1 if lower.shape[1] > 1 else 0
        transposed = lambda array: array[row, h].swapaxes(-1, -2)
        return np.asarray(certificates.labels(transposed(lower), transposed(upper))).T

    def _row(self, seed: int) -> int:
        if seed not in self.spec["seeds"]:
            first, last = self.spec["seeds"][0], self.spec["seeds"][-1]
            raise EverystepError(f"seed is {seed}; the run has {first} to {last}.")
        return int(self.spec["seeds"].index(seed))

    def draw(self, agents: list[str], seed: int, step: int, out: Path) -> list[Path]:
        """Write figures/certificates.png and .svg into `out`; none for a problem that is not drawn on a grid."""
        panels = {label: self.labels(label, seed, step) for label in agents}
        if self.problem.grid is None or self.problem.actions != 4:
            return []
        from everystep.experiments import figures
        from everystep.reports import certificate_figures

        g = self.problem.g[:, step - 1 if self.problem.g.shape[1] > 1 else 0]
        safe = (g <= 0).all(0)
        wrong = {
            label: ((labels == certificates.SAFE) & ~safe) | ((labels == certificates.UNSAFE) & safe)
            for label, labels in panels.items()
        }
        p = {agent["label"]: agent.get("confidence") for agent in self.spec["agents"]}
        drawing = certificate_figures.certificates(self.problem, panels, wrong, p)
        return figures.save(drawing, out / "figures" / "certificates")


def read(folder: Path) -> CertifiedRun:
    """The certificates of a run folder."""
    opened = finished.read(folder)
    if not opened.has("certificates.npz"):
        raise EverystepError(
            f"'{folder}' has no certificates.npz: no agent in it has a cost model; run lsvi-ae or lsvi-primal."
        )
    if not opened.sealed:
        opened.check_rows()  # nothing else of the folder tells whose intervals these are
    problem = opened.problem()
    return CertifiedRun(folder, problem, opened.spec, opened.bounds(problem))


def run(folder: Path, agents: list[str], seed: str | None, step: str, force: bool = False) -> str:
    """Read a run, draw the figure, write certificates.json, and return the table."""
    certified = read(folder)
    for name in agents:
        if name not in certified.agents:
            raise unknown("agent", name, certified.agents, f"The run has {', '.join(certified.agents)}.")
    first = certified.spec["seeds"][0]
    panels = agents or certified.agents[:PANELS]
    number = seed_number("seed", first if seed is None else seed)
    summary = certified.summary
    with files.replacing(folder, force=force) as partial:
        drawn = certified.draw(panels, number, whole_number("step", step), partial)
        files.write_json(partial / "certificates.json", summary)
    lines = [tables.certificates(summary, len(certified.spec["seeds"]))]
    lines += [f"\nFigure for seed {number} at step {step}: {folder / 'figures' / drawn[0].name}"] if drawn else []
    return "\n".join(lines)
