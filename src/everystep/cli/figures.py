"""`everystep figures`: the figures of a run."""

from __future__ import annotations

import argparse
from pathlib import Path

from everystep.cli.shared import add_folder
from everystep.errors import unknown

HELP = "draw the figures of a run again, for the screen or for a paper"
STYLES = ("screen", "paper")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_folder(parser)
    parser.add_argument("--style", default="screen", metavar="S", help="screen (PNG, SVG) or paper (PDF, SVG)")
    parser.add_argument("--out", metavar="DIR", help="folder to write to (DIR/figures, or DIR/figures/paper)")


def run(options: argparse.Namespace) -> None:
    if options.style not in STYLES:
        raise unknown("style", options.style, STYLES, f"Choose {' or '.join(STYLES)}.")

    from everystep import files
    from everystep.experiments import figures, rerun

    folder, paper = Path(options.folder), options.style == "paper"
    result = rerun.read(folder, ("return", *rerun.NEEDED)).result()
    out = Path(options.out) if options.out else folder / "figures" / ("paper" if paper else "")
    with files.replacing(out) as partial:
        drawn = (figures.write_paper if paper else figures.write)(result, partial)
    print("\n".join(["Written to", *(f"  {out / path.name}" for path in drawn)]))
