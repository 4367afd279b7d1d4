"""`everystep summary`: the table of a run, or of a training."""

from __future__ import annotations

import argparse
from pathlib import Path

from everystep.cli.shared import add_folder

HELP = "the table of a run or a training, finished or not"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_folder(parser)


def run(options: argparse.Namespace) -> None:
    from everystep.experiments import summary
    from everystep.experiments.folder import run_folder

    folder = Path(options.folder)
    if run_folder.is_training(folder):
        from everystep.reports.training import results as training_results

        print(training_results.summary(training_results.read(folder)))
        return
    print(summary.text(folder))
