"""`everystep report`: a run as one page for the browser."""

from __future__ import annotations

import argparse
from pathlib import Path

from everystep.cli.shared import add_cache, add_folder, add_force, add_out, progress_bar, use_cache

HELP = "write a run as one page for the browser: curves, tables and a player"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_folder(parser)
    add_out(parser, "the page to write (DIR/report.html)", metavar="FILE")
    add_force(parser)
    parser.add_argument("--no-player", action="store_true", help="run nothing again: no player, no prices")
    add_cache(parser)


def run(options: argparse.Namespace) -> None:
    from everystep.web import report

    use_cache(options)
    out = None if options.out is None else Path(options.out)
    written = report.write(Path(options.folder), progress_bar, out, not options.no_player, options.force)
    print(f"Written to {written}")
