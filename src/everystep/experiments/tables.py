"""Tables for the terminal: summaries in, text out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from everystep.experiments.reductions import FINAL

COLUMNS = ("final_value", "final_violation", "total_violation", "total_regret")
AVOIDABLE = "avoidable_violation"  # shown where some violation cannot be avoided; otherwise it is the total


def summary(content: Mapping[str, Any]) -> str:
    """The summary of a run: one line per agent, means over seeds with their intervals."""
    problem = content["problem"]
    columns = shown_columns(content)
    rows = [
        [label, *(_interval(numbers[column]) for column in columns)] for label, numbers in content["agents"].items()
    ]
    head = ["agent", *(column.replace("_", " ") for column in columns)]
    least = f", least violation {problem['least_violation']:.4f} per episode" if AVOIDABLE in columns else ""
    return "\n".join(
        [
            f"{problem['name']}, H = {problem['horizon']}: safe optimum {problem['optimal_value']:.4f}, "
            f"unconstrained {problem['unconstrained_value']:.4f}{least}; "
            f"{content['episodes']} episodes, {content['seeds']} seeds",
            "",
            aligned([head, *rows]),
            "",
            f"final: mean over the last {min(FINAL, content['episodes'])} episodes; total: sum over all episodes; "
            "in brackets: 95 % bootstrap interval over seeds",
            *(["avoidable: total violation less what no policy avoids"] if least else []),
            *(_plans(label, numbers["plans"]) for label, numbers in content["agents"].items() if "plans" in numbers),
            *(f"note: {remark}" for remark in content["remarks"]),
        ]
    )


def shown_columns(content: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns of the table of a summary."""
    if not content["problem"]["least_violation"] > 0:
        return COLUMNS
    return (*COLUMNS[:3], AVOIDABLE, *COLUMNS[3:])


def certificates(content: Mapping[str, Mapping[str, Any]], seeds: int) -> str:
    """What the cost intervals of each agent certify at the end: means over seeds."""
    rows = [
        [
            label,
            *(number(each[column]) for column in ("safe", "unsafe", "unknown", "false")),
            f"{each['seeds_with_a_false_label']} of {seeds}",
            "heuristic" if each["p"] is None else f"p = {each['p']:g}",
        ]
        for label, each in content.items()
    ]
    head = ["agent", "safe", "unsafe", "unknown", "false", "seeds with a false label", "confidence"]
    return "\n".join(
        [
            aligned([head, *rows]),
            "",
            "actions (h, x, a) by label at the end of the run, mean over seeds; false according to the true costs",
            "p: all labels of a seed, at all times, hold with probability at least 1 - p; heuristic: no guarantee",
        ]
    )


def certificates_ahead(content: Mapping[str, Mapping[str, Any]], seeds: int) -> str:
    """What agents that look ahead certify at the end about the harm that each action leads to."""
    labelled = {label: each["ahead"] for label, each in content.items() if "ahead" in each}
    rows = [
        [
            label,
            *(number(each[column]) for column in ("safe", "unsafe", "unknown", "false")),
            f"{each['seeds_with_a_false_label']} of {seeds}",
            f"{each['tolerance']:g}",
            "heuristic" if each["p"] is None else f"p = {each['p']:g}",
        ]
        for label, each in labelled.items()
    ]
    head = ["agent", "safe ahead", "unsafe ahead", "unknown", "false", "seeds with a false label", "tolerance"]
    return "\n".join(
        [
            aligned([[*head, "confidence"], *rows]),
            "",
            "actions (h, x, a) by the violation that they make unavoidable, now or later: safe ahead if it is at most",
            "the tolerance, unsafe ahead if it is above; with a tolerance of 0, before the last step, only where every",
            "state that may come next has an action that is safe ahead",
        ]
    )


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
    line = lambda cells: f"| {' | '.join(cells)} |"
    return "\n".join([line(rows[0]), line(["---"] * len(rows[0])), *map(line, rows[1:])])


def interval(numbers: Any) -> str:
    """A mean with its interval, from a `statistics.Interval`."""
    return _interval({key: float(value) for key, value in numbers._asdict().items()})


def _plans(label: str, plans: Mapping[str, Any]) -> str:
    return f"{label} made {_interval(plans)} plans; {plans['scale_of']} = {number(plans['scale'])}"


def _interval(numbers: Mapping[str, float]) -> str:
    return f"{number(numbers['mean'])} [{number(numbers['low'])}, {number(numbers['high'])}]"


def number(value: float) -> str:
    """A short number: three significant digits, no exponent."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}"
