"""The paper's experiment, and what of it reproduces.

Three runs on the paper's lake (H = 15): the three agents of its Figure 2 at their defaults, which share estimators over
steps; and the literal, step-indexed Algorithm 1, at as many episodes and at twenty times as many, with the default
widths, with a wider bonus, and with the printed radii.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from everystep.agents import registry
from everystep.experiments import figures, run_folder, tables
from everystep.experiments.experiment import Experiment, prepare
from everystep.experiments.result import Result
from everystep.problems import frozen_lake

AGENTS = ("lsvi-ae", "lsvi", "lsvi-primal")
LEARNT = 0.97  # of the safe optimum
STEP_INDEXED = {"share_values": False, "share_costs": False}
LITERAL = {
    "same widths": registry.lsvi_ae(**STEP_INDEXED),
    "wider bonus, beta = 1": registry.lsvi_ae(**STEP_INDEXED, beta=1.0),
    "printed radii": registry.lsvi_ae(**STEP_INDEXED, radius="paper"),
}
LONGER, LITERAL_SEEDS, LONG_SEEDS = 20, 16, 4


class Findings(NamedTuple):
    """The three results, and the words they amount to."""

    main: Result
    literal: Result
    longer: Result

    def save(self, out: Path) -> None:
        """One run folder for the paper's experiment, with those of the literal algorithm inside it."""
        with run_folder.folder(out, self.main.spec) as folder:
            run_folder.fill(self.main, folder)
            figures.write_literal(self.main, self.longer, folder / "figures")
            for name, result in (("literal", self.literal), ("literal-long", self.longer)):
                (folder / name).mkdir()
                run_folder.fill(result, folder / name, figures=False)
            (folder / "findings.txt").write_text(self.text() + "\n", encoding="utf-8")

    def text(self) -> str:
        return "\n\n".join([tables.summary(self.main.summary), self._literal_table(), self._paragraph()])

    def _literal_table(self) -> str:
        rows = [
            [
                "step-indexed Algorithm 1",
                "episodes",
                "seeds",
                "mid value",
                "final value",
                "violation, last 100",
                "total violation",
            ]
        ]
        for result in (self.literal, self.longer):
            for name, recipe in LITERAL.items():
                numbers = result.summary["agents"][recipe.label]
                means = [numbers[key]["mean"] for key in ("final_value", "final_violation", "total_violation")]
                cells = [_middle(result, recipe.label)[1], *means]
                rows.append([name, str(result.spec["episodes"]), str(len(result.seeds)), *map(tables.number, cells)])
        return tables.aligned(rows)

    def _paragraph(self) -> str:
        """What reproduces, what does not, and why: every sentence follows the numbers of these very runs."""
        return " ".join([self._about_lsvi_ae(), self._about_lsvi_primal(), self._about_the_literal_algorithm()])

    def _about_lsvi_ae(self) -> str:
        problem, (ae, lsvi, primal) = self.main.summary["problem"], self._agents()
        optimum, end, total = problem["optimal_value"], ae["final_value"]["mean"], ae["total_violation"]["mean"]
        (first, last), middle = _middle(self.main, "lsvi-ae")
        times = [numbers["total_violation"]["mean"] / max(total, 1e-9) for numbers in (lsvi, primal)]
        learnt = end >= LEARNT * optimum and min(times) >= 25
        return (
            f"With estimators shared over steps the paper's picture {'reproduces' if learnt else 'is not reached'}: "
            f"LSVI-AE is at {middle:.2f} in episodes {first} to {last} and ends at {end:.2f} (the safe optimum is "
            f"{optimum:.2f}, the best policy without the constraint earns {problem['unconstrained_value']:.2f}), with "
            f"{ae['final_violation']['mean']:.3f} violations per episode at the end and {total:.0f} in all; LSVI and "
            f"LSVI-Primal suffer {times[0]:.1f} and {times[1]:.1f} times as many and end at "
            f"{lsvi['final_violation']['mean']:.1f} and {primal['final_violation']['mean']:.1f} per episode."
        )

    def _about_lsvi_primal(self) -> str:
        end = self._agents()[2]["final_value"]["mean"]
        learns = end >= LEARNT * self.main.summary["problem"]["optimal_value"]
        return (
            f"That LSVI-Primal makes limited progress {'does not reproduce' if learns else 'holds in this run'}: "
            f"it ends at {end:.2f}."
        )

    def _about_the_literal_algorithm(self) -> str:
        optimum = self.main.summary["problem"]["optimal_value"]
        K, long = self.literal.spec["episodes"], self.longer.spec["episodes"]
        short, later = ([self._end(result, name) for name in LITERAL] for result in (self.literal, self.longer))
        learnt = max(short) >= LEARNT * optimum
        why = (
            f"its H x S x A = 6,000 counters, 15 of them filled in an episode, cannot have been filled in {K} episodes"
            if not learnt
            else "these widths suffice"
        )
        return (
            f"Algorithm 1 as printed, one estimator for each step, {'reproduces' if learnt else 'does not reproduce'} "
            f"in {K} episodes: it ends at {short[0]:.2f} with the same widths, {short[1]:.2f} with a wider bonus and "
            f"{short[2]:.2f} with the printed radii, because {why}. In {long} episodes it ends at {later[1]:.2f} with "
            f"the wider bonus, but at {later[0]:.2f} with the same widths, whose bonus (at most beta / sqrt(lam) = 2 a "
            f"step) was tuned for shared estimators, and at {later[2]:.2f} with the printed radii, which at d = 400 "
            "stay above every reward and cost that there is."
        )

    def _agents(self) -> list[dict[str, dict[str, float]]]:
        return [self.main.summary["agents"][name] for name in AGENTS]

    @staticmethod
    def _end(result: Result, name: str) -> float:
        return float(result.summary["agents"][LITERAL[name].label]["final_value"]["mean"])


def _middle(result: Result, label: str) -> tuple[tuple[int, int], float]:
    """The last 51 episodes of the first half, first and last counted from 1, and the mean value of their policies."""
    value = result.curves[label]["value"]
    last = max(value.shape[1] // 2, 1)
    first = max(last - 50, 1)
    return (first, last), float(value[:, first - 1 : last].mean())


class Plan(NamedTuple):
    """The three runs, checked and ready."""

    main: Experiment
    literal: Experiment
    longer: Experiment

    @property
    def episodes(self) -> int:
        """Episodes over all agents and seeds, for the progress bar."""
        return sum(run.spec["episodes"] * len(run.spec["seeds"]) * len(run.agents) for run in self)

    def claim(self, out: Path) -> None:
        run_folder.claim(out, self.main.spec)

    def run(self, advanced: Callable[[int], None] | None = None) -> Findings:
        return Findings(*(run.run(advanced) for run in self))


def plan(seeds: int = 64, episodes: int = 1000) -> Plan:
    lake = frozen_lake()
    return Plan(
        prepare(lake, AGENTS, episodes, seeds),
        prepare(lake, tuple(LITERAL.values()), episodes, min(seeds, LITERAL_SEEDS)),
        prepare(lake, tuple(LITERAL.values()), LONGER * episodes, min(seeds, LONG_SEEDS)),
    )
