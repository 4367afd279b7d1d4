"""Commands that read a folder: `everystep summary`, `certify`, `theory`, `figures` and `report`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

from everystep.cli.shared import add_cache, add_folder, add_force, add_out, use_cache
from everystep.errors import EverystepError, shown, unknown, whole_number
from everystep.runtime.progress import announced

STYLES = ("screen", "paper")


class Summary:
    """The table of a run, or of a training."""

    HELP = "the table of a run or a training, finished or not"
    add_arguments = staticmethod(add_folder)

    @staticmethod
    def run(options: argparse.Namespace) -> None:
        from everystep.experiments import summary
        from everystep.experiments.folder import run_folder

        folder = Path(options.folder)
        if run_folder.is_training(folder):
            from everystep.reports.training import results as training_results

            print(training_results.summary(training_results.read(folder)))
            return
        print(summary.text(folder))


class Certify:
    """The safe and unsafe actions that a run found."""

    HELP = "which actions the cost intervals of a run certify as safe or unsafe"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        add_folder(parser)
        parser.add_argument(
            "--agent", action="append", default=[], metavar="A", help="draw this agent; may be repeated"
        )
        parser.add_argument("--seed", metavar="S", help="the seed to draw (the first)")
        parser.add_argument("--step", default="1", metavar="H", help="the step to draw, if costs depend on it (1)")
        parser.add_argument(
            "--tolerance", metavar="T", help="violation up to which an action is safe ahead (that of the agent)"
        )
        add_force(parser)

    @staticmethod
    def run(options: argparse.Namespace) -> None:
        from everystep.reports import certificates

        settings = (options.agent, options.seed, options.step, options.tolerance, options.force)
        print(certificates.run(Path(options.folder), *settings))


class Theory:
    """A run compared with the paper's theorems."""

    HELP = "compare a run with the paper's theorems: bounds, errors, coverage"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        add_folder(parser)
        parser.add_argument(
            "--seeds", default="8", metavar="N", help="number of its seeds to run again and measure (8)"
        )
        add_force(parser)
        add_cache(parser)

    @staticmethod
    def run(options: argparse.Namespace) -> None:
        seeds = whole_number("seeds", options.seeds)

        from everystep.reports.theory import table

        use_cache(options)
        print(table.run(Path(options.folder), seeds, options.force))


class Figures:
    """The figures of a run, or of a training."""

    HELP = "draw the figures of a run or a training, for the screen or for a paper"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        add_folder(parser)
        parser.add_argument("--style", default="screen", metavar="S", help="screen (PNG, SVG) or paper (PDF, SVG)")
        add_out(parser, "folder to write to (DIR/figures, or DIR/figures/paper)")
        add_force(parser)

    @staticmethod
    def run(options: argparse.Namespace) -> None:
        if options.style not in STYLES:
            raise unknown("style", options.style, STYLES, f"Choose {' or '.join(STYLES)}.")

        from everystep import files
        from everystep.experiments.folder import run_folder

        folder, paper = Path(options.folder), options.style == "paper"
        draw = (_figures_of_training if run_folder.is_training(folder) else _figures_of_run)(folder, paper)
        out, inside = (Path(options.out), "") if options.out else (folder, "figures/paper" if paper else "figures")
        with files.replacing(out, force=options.force) as filled:
            drawn = draw(filled / inside)
        print("\n".join(["Written to", *(f"  {out / inside / path.name}" for path in drawn)]))


def _figures_of_run(folder: Path, paper: bool) -> Callable[[Path], list[Path]]:
    from everystep.experiments import figures
    from everystep.experiments.folder import rerun

    result = rerun.read(folder, ("return", *rerun.NEEDED)).result()
    return partial(figures.write_paper if paper else figures.write, result)


def _figures_of_training(folder: Path, paper: bool) -> Callable[[Path], list[Path]]:
    from everystep.reports.training import figures as training_figures
    from everystep.reports.training import results as training_results

    results = training_results.read(folder)
    return partial(training_figures.write, results, paper=paper)


class Report:
    """A run or a training as one page for the browser."""

    HELP = "write a run or a training as one page for the browser: curves, tables, and a player or pictures"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        add_folder(parser)
        add_out(parser, "the page to write (DIR/report.html)", metavar="FILE")
        add_force(parser)
        parser.add_argument(
            "--no-player", action="store_true", help="no player, no prices, no pictures: nothing is run again"
        )
        parser.add_argument(
            "--along",
            metavar="I,J",
            help="of a training: show the cost model along these two numbers of the observation",
        )
        add_cache(parser)

    @staticmethod
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


COMMANDS = {"summary": Summary, "certify": Certify, "theory": Theory, "figures": Figures, "report": Report}
