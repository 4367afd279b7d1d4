"""`everystep figures`: the figures of a run."""

from __future__ import annotations

import argparse
from pathlib import Path

from everystep.cli.shared import add_folder, add_force, add_out
from everystep.errors import unknown

HELP = "draw the figures of a run again, for the screen or for a paper"
STYLES = ("screen", "paper")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_folder(parser)
    parser.add_argument("--style", default="screen", metavar="S", help="screen (PNG, SVG) or paper (PDF, SVG)")
    add_out(parser, "folder to write to (DIR/figures, or DIR/figures/paper)")
    add_force(parser)


def run(options: argparse.Namespace) -> None:
    if options.style not in STYLES:
        raise unknown("style", options.style, STYLES, f"Choose {' or '.join(STYLES)}.")

    from everystep import files
    from everystep.experiments import figures, rerun

    folder, paper = Path(options.folder), options.style == "paper"
    result = rerun.read(folder, ("return", *rerun.NEEDED)).result()
    out, inside = (Path(options.out), "") if options.out else (folder, "figures/paper" if paper else "figures")
    with files.replacing(out, force=options.force) as partial:
        drawn = (figures.write_paper if paper else figures.write)(result, partial / inside)
    print("\n".join(["Written to", *(f"  {out / inside / path.name}" for path in drawn)]))
