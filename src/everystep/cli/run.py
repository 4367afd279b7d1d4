"""`everystep run`: agents on a problem, or an experiment from a file."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from everystep.cli.shared import (
    a_path,
    add_cache,
    add_engine,
    add_out,
    connected_cluster,
    print_summary,
    run_with_progress,
    split_names,
    use_cache,
)
from everystep.errors import EverystepError, count, seed_number, whole_number
from everystep.runtime.progress import announced, duration, note

if TYPE_CHECKING:
    from everystep.experiments.config import Overrides
    from everystep.experiments.experiment import Experiment

HELP = "run agents on a problem, or an experiment from a file"
AGENTS = "lsvi-ae,lsvi,lsvi-primal"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", nargs="?", type=a_path, metavar="FILE", help="an experiment in TOML; flags override it (docs/runs.md)"
    )
    parser.add_argument("--problem", metavar="P", help="a name, or a file: .txt, .npz, .npy, .csv, .png (see list)")
    parser.add_argument("--agents", metavar="A,B", help=f"names separated by commas ({AGENTS})")
    parser.add_argument("--episodes", metavar="K", help="number of episodes (1000)")
    parser.add_argument("--seeds", metavar="N", help="number of seeds (32)")
    parser.add_argument("--seed0", metavar="S", help="the first seed (0)")
    parser.add_argument(
        "--horizon", metavar="H", help="steps per episode (the problem's own; 15 for a map, 26 for heights)"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="settings",
        help="a setting of all agents that have it, or of one agent: lsvi-ae.beta=0.5; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--certify", action="store_true", help="record per episode how many actions are certified, and how many falsely"
    )
    add_out(parser, "the run folder to write; for a FILE, a folder of run folders")
    parser.add_argument("--dry-run", action="store_true", help="run nothing: show the runs, their time and memory")
    add_engine(parser)
    add_cache(parser)


def run(options: argparse.Namespace) -> None:
    if options.file is None:
        missing = [name for name in ("problem", "out") if getattr(options, name) is None]
        if missing:
            options.parser.error(f"--{' and --'.join(missing)} or a FILE must be given")
    numbers = {
        name: read(name, getattr(options, name))
        for name, read in (
            *(("episodes", count), ("horizon", whole_number)),
            *(("seeds", count), ("seed0", seed_number)),
        )
        if getattr(options, name) is not None
    }

    from everystep.experiments import config, needs, run_progress, runner
    from everystep.experiments.folder import run_folder
    from everystep.experiments.folder.run_folder import FolderState

    run_progress.check(options.log)
    use_cache(options)
    with announced("preparing the runs"):
        runs = config.read(None if options.file is None else Path(options.file), _overrides(options, numbers))
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


def _overrides(options: argparse.Namespace, numbers: dict[str, int]) -> Overrides:
    """The flags; without a file they are the whole experiment."""
    from everystep.experiments.config import Overrides, SettingFlag

    agents = AGENTS if options.agents is None and options.file is None else options.agents
    return Overrides(
        problem=options.problem,
        agents=None if agents is None else split_names(agents),
        certify=options.certify or None,
        out=options.out,
        engine=options.engine,
        address=options.address,
        settings=[SettingFlag.parse(text) for text in options.settings],
        **numbers,
    )


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
