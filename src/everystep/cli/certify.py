"""`everystep certify`: the safe and unsafe actions that a run found."""

from __future__ import annotations

import argparse
from pathlib import Path

from everystep.cli.shared import add_folder, add_force

HELP = "which actions the cost intervals of a run certify as safe or unsafe"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_folder(parser)
    parser.add_argument("--agent", action="append", default=[], metavar="A", help="draw this agent; may be repeated")
    parser.add_argument("--seed", metavar="S", help="the seed to draw (the first)")
    parser.add_argument("--step", default="1", metavar="H", help="the step to draw, if costs depend on it (1)")
    parser.add_argument(
        "--tolerance", metavar="T", help="violation up to which an action is safe ahead (that of the agent)"
    )
    add_force(parser)


def run(options: argparse.Namespace) -> None:
    from everystep.reports import certificates

    settings = (options.agent, options.seed, options.step, options.tolerance, options.force)
    print(certificates.run(Path(options.folder), *settings))
