"""`everystep summary`: the table of a run."""

from __future__ import annotations

import argparse
from pathlib import Path

from everystep.cli.shared import add_folder

HELP = "the table of a run, finished or not"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_folder(parser)


def run(options: argparse.Namespace) -> None:
    from everystep.experiments import summary

    print(summary.text(Path(options.folder)))
