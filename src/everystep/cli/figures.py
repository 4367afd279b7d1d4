"""`everystep figures`: the figures of a run, or of a training."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

from everystep.cli.shared import add_folder, add_force, add_out
from everystep.errors import unknown

HELP = "draw the figures of a run or a training, for the screen or for a paper"
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
    from everystep.experiments.folder import run_folder

    folder, paper = Path(options.folder), options.style == "paper"
    read_and_draw = _of_training if run_folder.is_training(folder) else _of_run
    draw = read_and_draw(folder, paper)
    out, inside = (Path(options.out), "") if options.out else (folder, "figures/paper" if paper else "figures")
    with files.replacing(out, force=options.force) as filled:
        drawn = draw(filled / inside)
    print("\n".join(["Written to", *(f"  {out / inside / path.name}" for path in drawn)]))


def _of_run(folder: Path, paper: bool) -> Callable[[Path], list[Path]]:
    from everystep.experiments import figures
    from everystep.experiments.folder import rerun

    result = rerun.read(folder, ("return", *rerun.NEEDED)).result()
    return partial(figures.write_paper if paper else figures.write, result)


def _of_training(folder: Path, paper: bool) -> Callable[[Path], list[Path]]:
    from everystep.reports.training import figures as training_figures
    from everystep.reports.training import results as training_results

    results = training_results.read(folder)
    return partial(training_figures.write_paper if paper else training_figures.write, results)
