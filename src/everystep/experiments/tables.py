"""Tables: what summaries and comparisons print on a terminal, or write as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from everystep.errors import on_one_line
from everystep.experiments import statistics
from everystep.experiments.reductions import FINAL
from everystep.experiments.statistics import Interval

COLUMNS = ("final_value", "final_violation", "total_violation", "total_regret")
AVOIDABLE = "avoidable_violation"  # shown where some violation cannot be avoided; otherwise it is the total


class Table(NamedTuple):
    """Rows under a head, with a heading above and notes below.

    Texts may come from a folder of another user: characters that a terminal would obey are printed as escapes.
    """

    heading: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def __str__(self) -> str:
        rows = [[on_one_line(cell) for cell in row] for row in (self.head, *self.rows)]
        notes = "\n".join(map(on_one_line, self.notes))
        parts = [on_one_line(self.heading), aligned(rows) if self.rows else "", notes]
        return "\n\n".join(part for part in parts if part)

    def markdown(self, level: str = "##", mark: str = "") -> str:
        """The same in Markdown; `mark` stands before each note."""
        notes = "\n".join(f"{mark}{note}" for note in self.notes)
        parts = [f"{level} {self.heading}", markdown([self.head, *self.rows]) if self.rows else "", notes]
        return "\n\n".join(part for part in parts if part)


def summary(content: Mapping[str, Any]) -> str:
    """The summary of a run: one line per agent, means over seeds with their intervals."""
    problem = content["problem"]
    columns = shown_columns(content)
    least = f", least violation {problem['least_violation']:.4f} per episode" if AVOIDABLE in columns else ""
    return str(
        Table(
            f"{problem['name']}, H = {problem['horizon']}: safe optimum {problem['optimal_value']:.4f}, "
            f"unconstrained {problem['unconstrained_value']:.4f}{least}; "
            f"{content['episodes']} episodes, {content['seeds']} seeds",
            ["agent", *(column.replace("_", " ") for column in columns)],
            [[label, *(_interval(own[column]) for column in columns)] for label, own in content["agents"].items()],
            [
                f"final: mean over the last {min(FINAL, content['episodes'])} episodes; total: sum over all episodes; "
                "in brackets: 95 % bootstrap interval over seeds",
                *(["avoidable: total violation less what no policy avoids"] if least else []),
                *(_plans(label, own["plans"]) for label, own in content["agents"].items() if "plans" in own),
                *(f"note: {remark}" for remark in content["remarks"]),
            ],
        )
    )


def shown_columns(content: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns of the table of a summary."""
    if not content["problem"]["least_violation"] > 0:
        return COLUMNS
    return (*COLUMNS[:3], AVOIDABLE, *COLUMNS[3:])


LABELS = ("safe", "unsafe", "unknown", "false")


def certificates(content: Mapping[str, Mapping[str, Any]], seeds: int) -> str:
    """What the cost intervals of each agent certify at the end: means over seeds."""
    notes = (
        "actions (h, x, a) by label at the end of the run, mean over seeds; false according to the true costs",
        "p: all labels of a seed, at all times, hold with probability at least 1 - p; heuristic: no guarantee",
    )
    head = ["agent", *LABELS, "seeds with a false label", "confidence"]
    return str(Table("", head, [_labels(label, each, seeds) for label, each in content.items()], notes))


def certificates_ahead(content: Mapping[str, Mapping[str, Any]], seeds: int) -> str:
    """What agents that look ahead certify at the end about the violation that each action leads to."""
    notes = (
        "actions (h, x, a) by the violation that they make unavoidable, now or later: safe ahead if it is at most",
        "the tolerance, unsafe ahead if it is above; with a tolerance of 0, before the last step, only where every",
        "state that may come next has an action that is safe ahead",
    )
    head = ["agent", "safe ahead", "unsafe ahead", *LABELS[2:], "seeds with a false label", "tolerance", "confidence"]
    labelled = {label: each["ahead"] for label, each in content.items() if "ahead" in each}
    rows = [_labels(label, each, seeds, f"{each['tolerance']:g}") for label, each in labelled.items()]
    return str(Table("", head, rows, notes))


def _labels(label: str, each: Mapping[str, Any], seeds: int, *more: str) -> list[str]:
    """How many actions of an agent have each label."""
    numbers = (number(each[column]) for column in LABELS)
    confidence = "heuristic" if each["p"] is None else f"p = {each['p']:g}"
    return [label, *numbers, f"{each['seeds_with_a_false_label']} of {seeds}", *more, confidence]


def _plans(label: str, plans: Mapping[str, Any]) -> str:
    return f"{label} made {_interval(plans)} plans; {plans['scale_of']} = {number(plans['scale'])}"


# --- layout -----------------------------------------------------------------------------------------------------------
def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width, the first aligned left and the others right, with a rule under the head."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    cells = [
        [cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))]
        for row in rows
    ]
    lines = ["  ".join(row).rstrip() for row in cells]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """The same as a Markdown table."""
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


# --- numbers ----------------------------------------------------------------------------------------------------------
def interval(found: Interval, written: Callable[[float], str] | None = None) -> str:
    """A mean with its interval, each number as `written`."""
    mean, low, high = map(written or number, map(float, found))
    return f"{mean} [{low}, {high}]"


def over_seeds(samples: np.ndarray, written: Callable[[float], str] | None = None) -> str:
    """The mean over seeds with its interval; of a single seed the number alone."""
    found = statistics.mean_over_seeds(samples)
    return interval(found, written) if len(samples) > 1 else (written or number)(float(found.mean))


def p_value(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def _interval(numbers: Mapping[str, float]) -> str:
    return f"{number(numbers['mean'])} [{number(numbers['low'])}, {number(numbers['high'])}]"


def number(value: float) -> str:
    """A short number: three significant digits, no exponent."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}"


def count_or_number(value: float) -> str:
    """A count without decimals, another number with a few; nothing for what is not known."""
    if np.isnan(value):
        return ""
    return f"{value:.0f}" if value == round(value) else number(value)
