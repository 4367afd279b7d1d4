"""`everystep run`: agents on a problem, or an experiment from a file."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from everystep.cli.shared import (
    a_path,
    add_cache,
    add_flags,
    connected_cluster,
    given_flags,
    print_summary,
    run_with_progress,
    use_cache,
)
from everystep.errors import EverystepError
from everystep.experiments.options import RUN_OPTIONS, RunOptions, SettingFlag
from everystep.runtime.progress import announced, duration, note

if TYPE_CHECKING:
    from everystep.experiments.experiment import Experiment

HELP = "run agents on a problem, or an experiment from a file"
AGENTS = ("lsvi-ae", "lsvi", "lsvi-primal")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", nargs="?", type=a_path, metavar="FILE", help="an experiment in TOML; flags override it (docs/runs.md)"
    )
    add_flags(parser, RUN_OPTIONS)
    parser.add_argument("--log", metavar="KIND", help="tensorboard: log curves to DIR-logs (extra `logs`)")
    parser.add_argument("--dry-run", action="store_true", help="run nothing: show the runs, their time and memory")
    add_cache(parser)


def run(options: argparse.Namespace) -> None:
    if options.file is None:
        missing = [name for name in ("problem", "out") if getattr(options, name) is None]
        if missing:
            options.parser.error(f"--{' and --'.join(missing)} or a FILE must be given")
    given = given_flags(options, RUN_OPTIONS)
    if options.file is None:
        given.setdefault("agents", AGENTS)
    flags = RunOptions(**given, settings=[SettingFlag.parse(text) for text in options.settings])

    from everystep.experiments import config, needs, run_progress, runner
    from everystep.experiments.folder import run_folder
    from everystep.experiments.folder.run_folder import FolderState

    run_progress.check(options.log)
    use_cache(options)
    with announced("preparing the runs"):
        runs = config.read(None if options.file is None else Path(options.file), flags)
    left = {}
    for out, prepared in runs.folders().items():
        found = run_folder.inspect(out, prepared.spec)
        if found is not FolderState.FINISHED:
            left[out] = prepared
        if found is FolderState.UNFINISHED:
            note(f"'{out}' holds this run, unfinished; it is continued.")
        elif found is FolderState.FINISHED and options.dry_run:
            note(f"'{out}' holds this run, finished; nothing would be run.")
        for remark in prepared.problem.check():
            note(remark)
    with announced("measuring the runs"):
        needs.check_in_folders(left)
        measured = _dry_run(runs.runs) if options.dry_run else ""
    if options.dry_run:
        print(measured)
        return
    failures = []
    with connected_cluster(runs.engine) as cluster:
        for i, (out, prepared) in enumerate(runs.folders().items()):
            run_here = partial(runner.run, prepared, out, cluster=cluster)
            try:
                found = run_with_progress(out, prepared.spec, run_here, options.log)
            except EverystepError as error:
                if not error.kept:
                    raise
                failures.append(str(error))  # of some units: the other problems are still run
                continue
            print("\n" if i else "", end="")
            print_summary(out, "holds this run already: nothing was run" if found is FolderState.FINISHED else "")
    if failures:
        raise EverystepError(" ".join(failures))


def _dry_run(runs: dict[str, Experiment]) -> str:
    """What the runs would take, as text."""
    from everystep.experiments import estimate, tables

    total, lines = 0.0, []
    for name, prepared in runs.items():
        estimates = estimate.probe(prepared)
        seconds, spec = estimate.seconds(prepared, estimates), prepared.spec
        total += seconds
        lines.append(f"{name or spec['problem']['name']}, H = {spec['problem']['horizon']}\n")
        head = ["agent", "seeds", "episodes", "time", "state per seed"]
        lines.append(tables.aligned([head, *estimate.table(prepared, estimates)]))
        lines.append(
            f"\nabout {duration(seconds)}, {estimate.memory(prepared) / 2**20:.0f} MB of memory, "
            f"{estimate.disk(prepared) / 2**20:.0f} MB of disk until it is finished\n"
        )
    lines.append(
        f"About {duration(total)} in total under the present load of this machine, measured by a short probe\n"
        "of each agent, compilation included. Nothing was run or written."
    )
    return "\n".join(lines)
