"""`everystep certify DIR`: the certificates of a finished run, read from its folder, as a table and a figure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from everystep import files
from everystep.errors import EverystepError, real_number, seed_number, unknown, whole_number
from everystep.experiments import tables
from everystep.experiments.folder import finished
from everystep.mdp import certificates
from everystep.mdp.cmdp import FiniteCMDP

PANELS = 3  # the largest number of agents in the figure


@dataclass(frozen=True)
class CertifiedRun:
    """The cost intervals at the end of a run, and the bounds of agents that look ahead.

    tolerance  of labels ahead; None for that of each agent
    """

    folder: Path
    problem: FiniteCMDP
    spec: dict[str, Any]
    bounds: dict[str, np.ndarray]  # <agent>_lower and _upper (seeds, T, m, S, A), _ahead_lower and _upper (.., H, S, A)
    tolerance: float | None = None

    @property
    def summary(self) -> dict[str, dict[str, Any]]:
        return certificates.summary(self.problem, self.spec["agents"], self.bounds, self.tolerance)

    @property
    def agents(self) -> list[str]:
        return [agent["label"] for agent in self.spec["agents"] if f"{agent['label']}_lower" in self.bounds]

    def labels(self, agent: str, seed: int, step: int) -> np.ndarray:
        """(S, A): 1 safe, -1 unsafe, 0 unknown, for one seed at one step (counted from 1)."""
        lower, upper = self.bounds[f"{agent}_lower"], self.bounds[f"{agent}_upper"]
        row, h = self._row(seed), self._step(step) if lower.shape[1] > 1 else 0
        transposed = lambda array: array[row, h].swapaxes(-1, -2)
        return np.asarray(certificates.labels(transposed(lower), transposed(upper))).T

    def labels_ahead(self, agent: str, seed: int, step: int) -> np.ndarray:
        """The same for labels ahead."""
        row, h = self._row(seed), self._step(step)
        lower, upper = (self.bounds[f"{agent}_ahead_{end}"][row, h] for end in ("lower", "upper"))
        return np.asarray(certificates.labels_ahead(lower, upper, self._ahead(agent)["tolerance"]))

    def _ahead(self, agent: str) -> dict[str, Any]:
        """What the labels ahead of an agent mean."""
        [own] = (each["ahead"] for each in self.spec["agents"] if each["label"] == agent)
        return dict(own) if self.tolerance is None else {**own, "tolerance": self.tolerance}

    def _step(self, step: int) -> int:
        if not 1 <= step <= self.problem.horizon:
            raise EverystepError(f"step is {step}; give a whole number from 1 to {self.problem.horizon}.")
        return step - 1

    def _row(self, seed: int) -> int:
        if seed not in self.spec["seeds"]:
            first, last = self.spec["seeds"][0], self.spec["seeds"][-1]
            raise EverystepError(f"seed is {seed}; the run has {first} to {last}.")
        return int(self.spec["seeds"].index(seed))

    def draw(self, agents: list[str], seed: int, step: int, out: Path) -> list[Path]:
        """Write figures/certificates.png and .svg into `out`; none for a problem that is not drawn on a grid.

        Labels ahead are drawn in figures/certificates-ahead.
        """
        self._step(step)
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
        drawn = figures.save(drawing, out / "figures" / "certificates")
        ahead = {label: self._ahead(label) for label in agents if f"{label}_ahead_lower" in self.bounds}
        if not ahead:
            return drawn
        panels = {label: self.labels_ahead(label, seed, step) for label in ahead}
        wrong = {}
        for label, own in ahead.items():
            G = certificates.led_to(self.problem, own["events"])[step - 1].T
            wrong[label] = certificates.false_ahead(panels[label], G, own["tolerance"])
        names = {label: f"{label}, ahead (tolerance {own['tolerance']:g})" for label, own in ahead.items()}
        renamed = lambda by_label: {names[label]: each for label, each in by_label.items()}
        p = {names[label]: own["p"] for label, own in ahead.items()}
        drawing = certificate_figures.certificates(self.problem, renamed(panels), renamed(wrong), p)
        return [*drawn, *figures.save(drawing, out / "figures" / "certificates-ahead")]


def read(folder: Path) -> CertifiedRun:
    """The certificates of a run folder."""
    opened = finished.read(folder)
    if not opened.has("certificates.npz"):
        raise EverystepError(
            f"'{folder}' has no certificates.npz: no agent in it has a cost model; run lsvi-ae or lsvi-primal."
        )
    problem = opened.problem()
    return CertifiedRun(folder, problem, opened.spec, opened.bounds(problem))


def run(
    folder: Path, agents: list[str], seed: str | None, step: str, tolerance: str | None = None, force: bool = False
) -> str:
    """Read a run, draw the figures, write certificates.json, and return the tables."""
    certified = read(folder)
    if tolerance is not None:
        certified = replace(certified, tolerance=_tolerance(tolerance, certified))
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
    if any("ahead" in each for each in summary.values()):
        lines.append("\n" + tables.certificates_ahead(summary, len(certified.spec["seeds"])))
    shown = [folder / "figures" / path.name for path in drawn if path.suffix == ".png"]
    lines += [f"\nFigure for seed {number} at step {step}: {', '.join(map(str, shown))}"] if shown else []
    return "\n".join(lines)


def _tolerance(text: str, certified: CertifiedRun) -> float:
    if not any("ahead" in agent for agent in certified.spec["agents"]):
        raise EverystepError("tolerance is for agents that look ahead, and the run has none; leave --tolerance out.")
    return real_number("tolerance", text)
