"""`everystep resume`: an unfinished run, continued."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from everystep.cli.shared import (
    add_cache,
    add_engine,
    add_folder,
    connected_cluster,
    print_summary,
    run_with_progress,
    use_cache,
)

HELP = "continue a run that was stopped, killed or cut off"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_folder(parser)
    add_engine(parser)
    add_cache(parser)


def run(options: argparse.Namespace) -> None:
    from everystep.experiments import config, progress, runner

    progress.check(options.log)
    use_cache(options)
    engine = config.EngineChoice(options.engine or "local", options.address).checked()
    out = Path(options.folder)
    runner.check_unfinished(out)
    spec = runner.begun(out).spec
    with connected_cluster(engine) as cluster:
        run_with_progress(out, spec, partial(runner.resume, out, cluster=cluster), options.log)
    print_summary(out)
