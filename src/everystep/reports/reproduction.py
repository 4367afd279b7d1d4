"""`everystep reproduce`: the paper's experiment, and which of its findings reproduce.

Three runs on the paper's lake (H = 15): the three agents of its Figure 2 at their defaults, which share estimators over
steps; and the literal, step-indexed Algorithm 1, for the same number of episodes and for twenty times as many, with the
default widths, with a wider bonus, and with the printed radii.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from everystep import agents
from everystep.agents.settings import DEFAULTS
from everystep.experiments import figures, needs, tables
from everystep.experiments.experiment import Experiment, prepare
from everystep.experiments.folder import run_folder
from everystep.experiments.result import Result
from everystep.problems import frozen_lake

AGENTS = ("lsvi-ae", "lsvi", "lsvi-primal")
DEFAULT_BONUS = float(DEFAULTS["beta"].table) / float(DEFAULTS["lam"].table) ** 0.5
LEARNED = 0.97  # the share of the safe optimum that counts as learned
STEP_INDEXED: dict[str, Any] = {"share_values": False, "share_costs": False}
LITERAL = {
    "same widths": agents.lsvi_ae(**STEP_INDEXED),
    "wider bonus, beta = 0.1": agents.lsvi_ae(**STEP_INDEXED, beta=0.1),
    "printed radii": agents.lsvi_ae(**STEP_INDEXED, radius="paper"),
}
LONGER, LITERAL_SEEDS, LONG_SEEDS = 20, 16, 4


class Findings(NamedTuple):
    """The results of the three runs, and the text that follows from them."""

    main: Result
    literal: Result
    longer: Result

    def save(self, out: Path, force: bool = False) -> None:
        """One run folder for the paper's experiment, with the folders of the literal algorithm inside it."""
        with run_folder.folder(out, self.main.spec, force) as folder:
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
                "final violations per episode",
                "total violations",
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
        """What reproduces, what does not, and why: every sentence follows from the numbers of these runs."""
        return " ".join([self._about_lsvi_ae(), self._about_lsvi_primal(), self._about_the_literal_algorithm()])

    def _about_lsvi_ae(self) -> str:
        problem, (ae, lsvi, primal) = self.main.summary["problem"], self._agents()
        optimum, end, total = problem["optimal_value"], ae["final_value"]["mean"], ae["total_violation"]["mean"]
        (first, last), middle = _middle(self.main, "lsvi-ae")
        times = [numbers["total_violation"]["mean"] / max(total, 1e-9) for numbers in (lsvi, primal)]
        learned = end >= LEARNED * optimum and min(times) >= 25
        return (
            f"With shared estimators the paper's result {'reproduces' if learned else 'does not reproduce'}: "
            f"LSVI-AE is at {middle:.2f} in episodes {first} to {last} and ends at {end:.2f} (the safe optimum is "
            f"{optimum:.2f}, the unconstrained optimum {problem['unconstrained_value']:.2f}), with "
            f"{ae['final_violation']['mean']:.3f} violations per episode at the end and {total:.0f} in total; LSVI and "
            f"LSVI-Primal have {times[0]:.1f} and {times[1]:.1f} times as many and end at "
            f"{lsvi['final_violation']['mean']:.1f} and {primal['final_violation']['mean']:.1f} per episode."
        )

    def _about_lsvi_primal(self) -> str:
        end = self._agents()[2]["final_value"]["mean"]
        learned = end >= LEARNED * self.main.summary["problem"]["optimal_value"]
        return (
            f"The claim that LSVI-Primal makes limited progress {'does not reproduce' if learned else 'reproduces'}: "
            f"it ends at {end:.2f}."
        )

    def _about_the_literal_algorithm(self) -> str:
        optimum = self.main.summary["problem"]["optimal_value"]
        K, long = self.literal.spec["episodes"], self.longer.spec["episodes"]
        short, later = ([self._end(result, name) for name in LITERAL] for result in (self.literal, self.longer))
        learned = max(short) >= LEARNED * optimum
        why = (
            f"an episode updates only 15 of its H x S x A = 6,000 counters, which is too few in {K} episodes"
            if not learned
            else "these widths suffice"
        )
        return (
            f"Algorithm 1 as printed, one estimator for each step, {'reproduces' if learned else 'does not reproduce'} "
            f"in {K} episodes: it ends at {short[0]:.2f} with the same widths, {short[1]:.2f} with a wider bonus and "
            f"{short[2]:.2f} with the printed radii, because {why}. In {long} episodes it ends at {later[1]:.2f} with "
            f"the wider bonus, but at {later[0]:.2f} with the same widths, whose bonus (at most beta / sqrt(lam) = "
            f"{DEFAULT_BONUS:.2f} of the range of rewards per step) was tuned for shared estimators, and at "
            f"{later[2]:.2f} with the printed radii, which exceed every reward and cost at d = 400."
        )

    def _agents(self) -> list[dict[str, dict[str, float]]]:
        return [self.main.summary["agents"][name] for name in AGENTS]

    @staticmethod
    def _end(result: Result, name: str) -> float:
        return float(result.summary["agents"][LITERAL[name].label]["final_value"]["mean"])


def _middle(result: Result, label: str) -> tuple[tuple[int, int], float]:
    """The last 51 episodes of the first half (first and last, counted from 1), and the mean value of their policies."""
    value = result.columns[label]["value"]
    last = max(value.shape[1] // 2, 1)
    first = max(last - 50, 1)
    return (first, last), float(value[:, first - 1 : last].mean())


class PaperRuns(NamedTuple):
    """The three runs, prepared."""

    main: Experiment
    literal: Experiment
    longer: Experiment

    @property
    def episodes(self) -> int:
        """The number of episodes over all agents and seeds, for the progress bar."""
        return sum(run.spec["episodes"] * len(run.spec["seeds"]) * len(run.agents) for run in self)

    def claim(self, out: Path, force: bool = False) -> None:
        run_folder.claim(out, self.main.spec, force)

    def run(self, advanced: Callable[[int], None] | None = None) -> Findings:
        for run in self:
            needs.check_in_memory(run)
        return Findings(*(run.run(advanced) for run in self))


def prepare_paper_runs(seeds: int = 64, episodes: int = 1000) -> PaperRuns:
    lake = frozen_lake()
    return PaperRuns(
        prepare(lake, AGENTS, episodes, seeds),
        prepare(lake, tuple(LITERAL.values()), episodes, min(seeds, LITERAL_SEEDS)),
        prepare(lake, tuple(LITERAL.values()), LONGER * episodes, min(seeds, LONG_SEEDS)),
    )
