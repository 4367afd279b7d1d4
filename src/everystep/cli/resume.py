"""`everystep resume`: an unfinished run or training, continued."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from everystep.cli.shared import (
    add_cache,
    add_engine,
    add_folder,
    add_trust,
    chosen_engine,
    connected_cluster,
    print_summary,
    run_with_progress,
    use_cache,
)
from everystep.cli.train import add_jobs
from everystep.cli.train import resume as resume_training
from everystep.errors import EverystepError

HELP = "continue a run or a training that was stopped, killed or cut off"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_folder(parser)
    add_engine(parser)
    add_jobs(parser)
    add_trust(parser)
    for flag in ("--env", "--constraint", "--on-episode", "--on-plan"):
        parser.add_argument(
            flag, metavar="NAME", help="of a training of another user: the name that DIR has, instead of --trust"
        )
    add_cache(parser)


def run(options: argparse.Namespace) -> None:
    from everystep.experiments import runner
    from everystep.experiments.folder import run_folder

    if run_folder.is_training(Path(options.folder)):
        resume_training(Path(options.folder), options)
        return
    for name in ("jobs", "trust", "env", "constraint", "on_episode", "on_plan"):
        if getattr(options, name):
            raise EverystepError(f"--{name.replace('_', '-')} is for trainings, and this is none; leave it out.")
    engine = chosen_engine(options)
    use_cache(options)
    out = Path(options.folder)
    runner.check_unfinished(out)
    spec = runner.begun(out).spec
    with connected_cluster(engine) as cluster:
        run_with_progress(out, spec, partial(runner.resume, out, cluster=cluster), options.log)
    print_summary(out)
