"""`everystep report`: a run as one page for the browser."""

from __future__ import annotations

import argparse
from pathlib import Path

from everystep.cli.shared import add_cache, add_folder, progress_bar, use_cache

HELP = "write a run as one page for the browser: curves, tables and a player"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_folder(parser)
    parser.add_argument("--out", metavar="FILE", help="the page to write (DIR/report.html)")
    parser.add_argument("--no-player", action="store_true", help="run nothing again: no player, no prices")
    add_cache(parser)


def run(options: argparse.Namespace) -> None:
    from everystep.web import report

    use_cache(options)
    out = None if options.out is None else Path(options.out)
    print(f"Written to {report.write(Path(options.folder), progress_bar, out, not options.no_player)}")
