"""The leaderboard as text: tables for a terminal, and a page in Markdown from templates/page.md, with its files."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from string import Template
from typing import NamedTuple

from everystep import files
from everystep.errors import EverystepError, true_or_false
from everystep.experiments import tables
from everystep.experiments.statistics import Interval
from everystep.experiments.tables import Table
from everystep.reports.leaderboard import results_files
from everystep.reports.leaderboard.board import (
    ENOUGH,
    KEPT,
    OURS,
    REFERENCE,
    AggregateRow,
    Difference,
    Leaderboard,
    ProblemTable,
    SystemRow,
)

TEMPLATE = Path(__file__).parent / "templates" / "page.md"
PAGE, ROWS = "leaderboard.md", results_files.OWN
FIGURES = {"profiles": "profiles.png", "overview": "overview.png"}
WIDTH = 120  # of the lines of the page
FORMAT_PAGE = Path("reference", "files.md")  # beside a page of the documentation
FOOTNOTE = """\
violation: the sum of max(g, 0) over the steps of the training; in brackets: 95 % bootstrap intervals over seeds
last violation: the number of the last unsafe step of the training, median over seeds; final: the policy at the end
difference: the system minus the baseline over common seeds; p: sign-flip test, after Holm's correction
over all problems: interquartile means of violation / unit and (R - low) / (high - low); intervals resample seeds
less violation, more return: the probability that a run is better than one of the baseline, mean over problems"""


class Style(NamedTuple):
    """How a table and the names in it are written."""

    table: Callable[[Table], str]
    name: Callable[[str, str], str]  # of a system and its kind
    word: Callable[[str], str]  # of any other name


def literal(name: str) -> str:
    """A name as Markdown shows it unchanged, also in a table."""
    return re.sub(r"([\\`*_{}\[\]<>#|$~])", r"\\\1", name)


def _marked(name: str, kind: str) -> str:
    mark = {OURS: "**{}**", REFERENCE: "*{}* (reference)"}.get(kind, "{}")
    return mark.format(literal(name))


def _unbroken(table: Table) -> str:
    """A Markdown table in which a p-value stays on one line, however narrow the page is."""
    rows = [[cell.replace("(p = ", "(p\u00a0=\u00a0") for cell in row] for row in table.rows]
    return table._replace(rows=rows).markdown("###", "- ")


PLAIN = Style(str, lambda name, kind: f"{name} ({kind})" if kind in (OURS, REFERENCE) else name, str)
MARKDOWN = Style(_unbroken, _marked, literal)


def _wrapped(line: str) -> str:
    """A line of prose in lines of at most `WIDTH` columns; rows of tables and pictures stay as they are."""
    if len(line) <= WIDTH or line.startswith(("|", "!", "#")):
        return line
    indent = "  " if line.startswith(("- ", "  ")) else ""
    return textwrap.fill(line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def plain(board: Leaderboard) -> str:
    """The tables for a terminal."""
    return "\n\n".join([*(PLAIN.table(each) for each in _tables(board, PLAIN)), FOOTNOTE])


def page_text(board: Leaderboard, figures: Mapping[str, str], format_at: str = "`docs/reference/files.md`") -> str:
    """The page; `figures` are the paths of its pictures, and `format_at` says where the format is described."""
    overview, profiles = (
        f"![{words}]({figures[name]})" if name in figures else ""
        for name, words in (
            ("overview", "Interquartile means of normalised violation and return, with 95 % intervals"),
            ("profiles", "Shares of runs by normalised violation and return, with 95 % bands"),
        )
    )
    *per_problem, together = (MARKDOWN.table(each) for each in _tables(board, MARKDOWN))
    systems, spread = len(board.kinds), board.seeds_in_words
    filled = Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        counts=f"{_count(systems, 'system')} on {_count(len(board.runs), 'problem')}, {spread} seeds each",
        baseline=literal(board.baseline),
        enough=_percent(ENOUGH),
        kept=_percent(KEPT),
        format=format_at,
        aggregate=together.partition("\n\n")[2],
        overview=overview,
        profiles=profiles,
        problems="\n\n".join(per_problem),
        commands=_commands(board),
    )
    return "\n".join(map(_wrapped, re.sub(r"\n{3,}", "\n\n", filled).split("\n")))


def _tables(board: Leaderboard, style: Style) -> Iterator[Table]:
    """A table for each problem, and the one over all problems."""
    for each in board.problems:
        yield _problem(each, board.baseline, style)
    yield _all(board, style)


# --- one problem ------------------------------------------------------------------------------------------------------
def _problem(table: ProblemTable, baseline: str, style: Style) -> Table:
    base = style.word(baseline)
    head = ["system", "seeds", "violation", "last violation", "final return", "final violation"]
    head += [f"violation minus {base}", f"return minus {base}"]
    rows = [
        [
            style.name(row.system, row.kind), f"{row.seeds}", interval(row.harm, row.seeds), number(row.last_violation),
            interval(row.final_return, row.seeds), interval(row.final_harm, row.seeds),
            _difference(row.harm_difference), _difference(row.return_difference),
        ]
        for row in table.rows
    ]  # fmt: skip
    steps = f"{table.steps[0]:,}" if len(set(table.steps)) == 1 else f"{table.steps[0]:,} to {table.steps[1]:,}"
    return Table(f"{style.word(table.problem)}: {steps} steps", head, rows, _notes(table, style))


def _notes(table: ProblemTable, style: Style) -> list[str]:
    """The best rival, and each of ours against it."""
    units, name = table.units, style.word
    best = table.best_rival
    notes = []
    if best is None:
        notes.append(f"Best rival: none that keeps the limit reaches {_percent(ENOUGH)} of the best final return.")
    else:
        notes.append(
            f"Best rival: {name(best.system)}, violation {number(float(best.harm.mean))}, {_percent(best.share)} of "
            "the best final return."
        )
    notes += [f"{style.name(row.system, OURS)}: {_against(row, best)}." for row in table.ours]
    low = f"{number(units.low)} ({name(units.low_of)})" if units.low_of else "0"
    high = f"{number(units.high)} ({name(units.high_of)})"
    scale = f"0 % of the return is {low}, 100 % {high}"
    scale = scale if units.high > units.low else "All mean final returns are equal: each is 100 %"
    unit = f"the unit of violation is {number(units.harm)} ({name(units.harm_of)})"
    unit = unit if units.harm > 0 else "no system violated the limit"
    uneven = "; the numbers of steps differ between systems" if len(set(table.steps)) > 1 else ""
    return [*notes, f"{scale}; {unit}{uneven}."]


def _against(row: SystemRow, best: SystemRow | None) -> str:
    share = f"{_percent(row.share)} of the best final return"
    if best is None:
        return share
    harm, theirs = float(row.harm.mean), float(best.harm.mean)
    if theirs == 0:
        own = "no violation, like the best rival" if harm == 0 else f"violation {number(harm)}, the best rival none"
        return f"{own}; {share}"
    return f"{_ratio(harm / theirs)} times the violation of the best rival; {share}"


# --- all problems -----------------------------------------------------------------------------------------------------
def _all(board: Leaderboard, style: Style) -> Table:
    found, n, base = board.aggregate, len(board.runs), style.word(board.baseline)
    heading = "Over all problems" if n > 1 else "In units of the problem"
    left = [
        f"{style.name(system, board.kinds[system])} (not on {', '.join(map(style.word, missing[:5]))}"
        f"{', ...' if len(missing) > 5 else ''})"
        for system, missing in found.left_out.items()
    ]
    without = [f"Left out, because they are not on all problems: {'; '.join(left)}."] if left else []
    if not found.rows:
        return Table(heading, [], [], ["No system is on all problems.", *without])
    head = ["system", "normalised violation", "normalised return"]
    head += [f"less violation than {base}", f"more return than {base}"]
    seeds = lambda row: max(len(each[row.system].seeds) for each in board.runs.values())
    return Table(heading, head, [_aggregate_row(row, seeds(row) * n, style) for row in found.rows], without)


def _aggregate_row(row: AggregateRow, runs: int, style: Style) -> list[str]:
    chances = ["" if each is None else interval(each, runs) for each in (row.less_harm, row.more_return)]
    return [style.name(row.system, row.kind), interval(row.harm, runs), interval(row.final_return, runs), *chances]


def _commands(board: Leaderboard) -> str:
    """What was run, as the rows say it: systems with the same commands together, at most three commands of each."""
    of: dict[str, dict[str, None]] = {}
    for system, command in zip(*(board.rows[name].to_pylist() for name in ("system", "command")), strict=True):
        of.setdefault(system, {}).setdefault(" ".join(command.split()) or "not recorded")
    together: dict[tuple[str, ...], list[str]] = {}
    for system, commands in of.items():
        together.setdefault(tuple(commands), []).append(_marked(system, board.kinds[system]))
    lines = []
    for several, systems in together.items():
        shown = [f"`{_shortened(each).replace('`', chr(39))}`" for each in several[:3]]
        more = f" and {len(several) - 3} others" if len(several) > 3 else ""
        lines.append(f"- {', '.join(systems)}: " + ",\n  ".join(shown) + more)
    return "\n".join(lines)


def _shortened(text: str, most: int = 300) -> str:
    return text if len(text) <= most else f"{text[: most - 4]} ..."


# --- numbers ----------------------------------------------------------------------------------------------------------
def number(value: float) -> str:
    """Three significant digits, two below 1; whole numbers as they are."""
    size = abs(value)
    if size >= 1e7 or 0 < size < 1e-4:
        return f"{value:.2g}"
    if size >= 100 or value == round(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 0.1 else f"{value:.2g}"


def interval(found: Interval, runs: int) -> str:
    """A mean with its interval; of a single run the number alone."""
    return number(float(found.mean)) if runs == 1 else tables.interval(found, number)


def _difference(found: Difference | None) -> str:
    if found is None:
        return ""
    return f"{'+' if found.mean > 0 else ''}{number(found.mean)} ({tables.p_value(found.p)})"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _ratio(value: float) -> str:
    return f"{value:.2g}" if value < 10 else number(value)


def _count(n: int, word: str) -> str:
    return f"{n} {word}{'' if n == 1 else 's'}"


# --- files ------------------------------------------------------------------------------------------------------------
def check(out: Path, force: bool = False) -> None:
    """Raise if `write` could not write into this folder, before any work is done."""
    files.check_writable(out)
    files.check_places(files.real(out), (PAGE, ROWS, *FIGURES.values()), force)


def write(board: Leaderboard, out: Path, force: bool = False) -> Path:
    """Write the page, all rows and the figures into `out`, and return it."""
    from everystep.reports.leaderboard import figures

    check(out, true_or_false("force", force))
    with files.replacing(out, last=PAGE, force=force) as folder:
        figures.write(board, {name: folder / file for name, file in FIGURES.items()})
        with (folder / ROWS).open("wb") as file:
            results_files.write(board.rows, file)
        (folder / PAGE).write_text(board.markdown(FIGURES), encoding="utf-8", errors="backslashreplace")
    return out


def check_page(page: Path, force: bool = False) -> None:
    """Raise if `write_page` could not write this page."""
    if page.suffix != ".md":
        raise EverystepError(f"page '{page}' is no Markdown file; give a name that ends with .md.")
    for path in (page, *_figures_of(page).values()):
        if path.parent.is_dir() or path is page:
            files.check_place(path, force)


def write_page(board: Leaderboard, page: Path, force: bool = False) -> Path:
    """Write the page for a folder of documentation: FILE.md, and its figures into figures/FILE-NAME.png beside it.

    Nothing is recorded beside them, because such folders are under version control; so an existing page is replaced
    only with `force`.
    """
    from everystep.reports.leaderboard import figures

    check_page(page, force)
    pictures = _figures_of(page)
    format_at = (
        f"[the format]({FORMAT_PAGE}#results-for-the-leaderboard)"
        if (page.parent / FORMAT_PAGE).is_file()
        else "see File formats"
    )
    files.make_folder(page.parent / "figures")
    figures.write(board, pictures)
    links = {name: path.relative_to(page.parent).as_posix() for name, path in pictures.items()}
    files.write_text(page, page_text(board, links, format_at))
    return page


def _figures_of(page: Path) -> dict[str, Path]:
    return {name: page.parent / "figures" / f"{page.stem}-{file}" for name, file in FIGURES.items()}
