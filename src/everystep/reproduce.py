"""The paper's experiment, and what of it reproduces.

Three runs on the paper's lake (H = 15): the three agents of its Figure 2 at their defaults, which share estimators over
steps; and the literal, step-indexed Algorithm 1, at as many episodes and at twenty times as many, once with the tuned
widths and once with the printed ones.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from everystep import agents, figures, store, tables
from everystep.experiment import Experiment, Result, prepare
from everystep.problems import frozen_lake

AGENTS = ("lsvi-ae", "lsvi", "lsvi-primal")
TUNED = agents.lsvi_ae(share_values=False, share_costs=False)
PRINTED = agents.lsvi_ae(share_values=False, share_costs=False, radius="paper")
LONGER, LITERAL_SEEDS, LONG_SEEDS = 20, 16, 4


class Findings(NamedTuple):
    """The three results, and the words they amount to."""

    main: Result
    literal: Result
    longer: Result

    def save(self, out: Path) -> None:
        """One run folder for the paper's experiment, with those of the literal algorithm inside it."""
        with store.folder(out, self.main.spec) as folder:
            store.fill(self.main, folder)
            figures.write_literal(self.main, self.literal, self.longer, folder / "figures")
            for name, result in (("literal", self.literal), ("literal-long", self.longer)):
                (folder / name).mkdir()
                store.fill(result, folder / name, figures=False)
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
            for label, name in ((TUNED.label, "tuned widths"), (PRINTED.label, "printed widths")):
                numbers = result.summary["agents"][label]
                middle = _middle(result, label)[1]
                means = [numbers[key]["mean"] for key in ("final_value", "final_violation", "total_violation")]
                rows.append(
                    [name, str(result.spec["episodes"]), str(len(result.seeds)), *map(tables.number, [middle, *means])]
                )
        return tables.aligned(rows)

    def _paragraph(self) -> str:
        """What reproduces, what does not, and why, with the numbers of these very runs."""
        summary = self.main.summary
        optimum, free = summary["problem"]["optimal_value"], summary["problem"]["unconstrained_value"]
        ae, lsvi, primal = (summary["agents"][name] for name in AGENTS)
        total = ae["total_violation"]["mean"]
        ratio = [numbers["total_violation"]["mean"] / max(total, 1e-9) for numbers in (lsvi, primal)]
        short, later = self._final(self.literal, TUNED), self._final(self.longer, TUNED)
        printed = self._final(self.longer, PRINTED)
        K, long = self.literal.spec["episodes"], self.longer.spec["episodes"]
        (first, last), value = _middle(self.main, "lsvi-ae")
        learnt = ae["final_value"]["mean"] >= 0.97 * optimum
        claims = [
            "With estimators shared over steps the paper's picture "
            f"{'reproduces' if learnt else 'is not reached in so few episodes'}: "
            f"LSVI-AE is at {value:.2f} in episodes {first} to {last} and ends at {ae['final_value']['mean']:.2f} "
            f"(the safe optimum is {optimum:.2f}), with "
            f"{ae['final_violation']['mean']:.3f} violations per episode and {total:.0f} in all, while LSVI and "
            f"LSVI-Primal suffer {ratio[0]:.0f} and {ratio[1]:.0f} times as many and never stop.",
            "That LSVI-AE earns a reward comparable to unconstrained LSVI's holds up to the price of safety: "
            f"the best safe policy earns {optimum:.2f}, the best policy {free:.2f}.",
            f"LSVI-Primal does learn here (final value {primal['final_value']['mean']:.2f}); that it makes limited "
            f"progress, as the paper says, does not reproduce with shared estimators.",
            f"Algorithm 1 as printed, one estimator for each step, does not reproduce: after {K} episodes it ends at "
            f"{short:.2f} with the same widths, after {long} at {later:.2f}, and with "
            f"the printed radii at {printed:.2f}, because each of its H x S x A = 6,000 counters must be "
            f"filled alone and the printed widths (d = 400) stay above every reward and cost that there is.",
        ]
        return " ".join(claims)

    @staticmethod
    def _final(result: Result, recipe: agents.Recipe) -> float:
        return float(result.summary["agents"][recipe.label]["final_value"]["mean"])


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
        store.claim(out, self.main.spec)

    def run(self, advanced: Callable[[int], None] | None = None) -> Findings:
        return Findings(*(run.run(advanced) for run in self))


def plan(seeds: int = 64, episodes: int = 1000) -> Plan:
    lake = frozen_lake()
    return Plan(
        prepare(lake, AGENTS, episodes, seeds),
        prepare(lake, (TUNED, PRINTED), episodes, min(seeds, LITERAL_SEEDS)),
        prepare(lake, (TUNED, PRINTED), LONGER * episodes, min(seeds, LONG_SEEDS)),
    )
