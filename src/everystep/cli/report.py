"""`everystep report`: a run or a training as one page for the browser."""

from __future__ import annotations

import argparse
from pathlib import Path

from everystep.cli.shared import add_cache, add_folder, add_force, add_out, use_cache
from everystep.errors import EverystepError, shown
from everystep.runtime.progress import announced

HELP = "write a run or a training as one page for the browser: curves, tables, and a player or pictures"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_folder(parser)
    add_out(parser, "the page to write (DIR/report.html)", metavar="FILE")
    add_force(parser)
    parser.add_argument(
        "--no-player", action="store_true", help="no player, no prices, no pictures: nothing is run again"
    )
    parser.add_argument(
        "--along", metavar="I,J", help="of a training: show the cost model along these two numbers of the observation"
    )
    add_cache(parser)


def run(options: argparse.Namespace) -> None:
    along = None if options.along is None else _along(options.along)
    from everystep.experiments.folder import run_folder

    folder, out = Path(options.folder), None if options.out is None else Path(options.out)
    if run_folder.is_training(folder):
        with announced("reading the training"):
            from everystep.web import training_report

            use_cache(options)
            written = training_report.write(folder, out, not options.no_player, options.force, along)
    else:
        if along is not None:
            raise EverystepError(
                f"--along is '{shown(options.along)}', but '{folder}' holds no training; leave it out."
            )
        from everystep.web import report

        use_cache(options)
        written = report.write(folder, out, not options.no_player, options.force)
    print(f"Written to {written}")


def _along(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise EverystepError(f"--along is '{shown(text)}'; give two numbers from 0, such as 0,1.")
    return tuple(map(int, parts))
