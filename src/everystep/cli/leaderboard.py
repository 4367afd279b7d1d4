"""`everystep leaderboard`: systems compared by files of results; or such a file, from monitor files or a training."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from everystep.cli.shared import a_path, add_force, add_out
from everystep.errors import EverystepError, seed_number, shown
from everystep.experiments.options import split_names
from everystep.runtime.progress import announced

HELP = "compare systems by files of results, of everystep or of other software: tables, intervals, tests, figures"
OUT = "out/leaderboard"
CONVERTING = ("system", "problem", "kind", "harm_column", "final", "seeds", "command", "versions")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folders",
        nargs="*",
        type=a_path,
        metavar="DIR",
        help="files of results (.parquet), or folders that hold some; docs/reference/files.md describes them",
    )
    parser.add_argument(
        "--baseline", metavar="SYSTEM", help="compare the others with it (that of kind ours with the least violation)"
    )
    add_out(parser, f"the folder to write ({OUT}); with --convert the .parquet file to write")
    parser.add_argument(
        "--page",
        type=a_path,
        metavar="FILE",
        help="also write the page to FILE.md, with its figures in figures/ beside it",
    )
    add_force(parser)
    parser.add_argument(
        "--convert",
        type=a_path,
        metavar="DIR",
        help="write a file of results instead, from monitor files of stable-baselines3 or a training of everystep",
    )
    parser.add_argument("--system", metavar="S", help="with --convert: what learnt")
    parser.add_argument("--problem", metavar="P", help="with --convert: on what")
    parser.add_argument("--kind", metavar="K", help="with --convert: ours, rival or reference (rival)")
    parser.add_argument(
        "--harm-column",
        metavar="NAME",
        help="with --convert: the column of monitor files with the violation of an episode (harm)",
    )
    parser.add_argument(
        "--final",
        type=a_path,
        metavar="DIR",
        help="with --convert: monitor files of the final policies (the episodes at the end of training)",
    )
    parser.add_argument(
        "--seeds",
        metavar="I,J",
        help="with --convert: seeds of the files in alphabetical order (numbers in their names)",
    )
    parser.add_argument("--command", metavar="WORDS", help="with --convert: what was run")
    parser.add_argument("--versions", metavar="JSON", help='with --convert: of packages, such as {"torch": "2.4"}')


def run(options: argparse.Namespace) -> None:
    if options.convert is not None:
        _convert(options)
        return
    for name in CONVERTING:
        if getattr(options, name) is not None:
            raise EverystepError(
                f"--{name.replace('_', '-')} is for --convert DIR; leave it out to compare files of results."
            )
    if not options.folders:
        raise EverystepError("no files of results; give files or folders, or --convert DIR to make a file.")
    with announced("reading the results"):
        from everystep.reports.leaderboard import text
        from everystep.reports.leaderboard.board import leaderboard

        out, page = Path(options.out or OUT), None if options.page is None else Path(options.page)
        text.check(out, options.force)
        if page is not None:
            text.check_page(page, options.force)
        board = leaderboard(options.folders, options.baseline)
        words = board.text()
    with announced("drawing"):
        text.write(board, out, options.force)
        if page is not None:
            text.write_page(board, page, options.force)
    print(words)
    print(f"\nWritten to {out}{'' if page is None else f' and {page}'}")


# --- converting -------------------------------------------------------------------------------------------------------
def _convert(options: argparse.Namespace) -> None:
    for name in ("folders", "baseline", "page"):
        if getattr(options, name):
            flag = "DIR" if name == "folders" else f"--{name}"
            raise EverystepError(f"{flag} is for comparing files of results; leave it out with --convert.")
    for name in ("system", "problem", "out"):
        if getattr(options, name) is None:
            raise EverystepError(f"--{name} is missing; --convert needs --system, --problem and --out FILE.parquet.")
    from everystep.reports.leaderboard import monitor, results_files

    given = {name: getattr(options, name) for name in ("harm_column", "kind", "command", "final")}
    given["seeds"] = options.seeds and [seed_number("seeds", each) for each in split_names(options.seeds)]
    with announced("reading the episodes"):
        out = monitor.convert_monitor(
            options.convert, options.out, system=options.system, problem=options.problem,
            versions=_versions(options.versions), force=options.force,
            **{name: value for name, value in given.items() if value is not None},
        )  # fmt: skip
    rows = results_files.read([out]).to_pylist()
    settings = json.loads(rows[0]["settings"])  # with how the numbers that episodes do not contain were decided
    print(f"{len(rows)} row{'s' if len(rows) > 1 else ''} of {options.system} on {options.problem}")
    print("; ".join(f"{name}: {settings[name]}" for name in ("last_violation", "unsafe_steps", "final")))
    print(f"\nWritten to {out}")


def _versions(text: str | None) -> dict[str, str] | None:
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise EverystepError(f'--versions is \'{shown(text)}\'; give a JSON object, such as {{"torch": "2.4"}}.')
    return found
