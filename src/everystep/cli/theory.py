"""`everystep theory`: a run compared with the paper's theorems."""

from __future__ import annotations

import argparse
from pathlib import Path

from everystep.cli.shared import add_cache, add_folder, add_force, use_cache
from everystep.errors import whole_number

HELP = "compare a run with the paper's theorems: bounds, errors, coverage"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_folder(parser)
    parser.add_argument("--seeds", default="8", metavar="N", help="number of its seeds to run again and measure (8)")
    add_force(parser)
    add_cache(parser)


def run(options: argparse.Namespace) -> None:
    seeds = whole_number("seeds", options.seeds)

    from everystep.reports.theory import table

    use_cache(options)
    print(table.run(Path(options.folder), seeds, options.force))
