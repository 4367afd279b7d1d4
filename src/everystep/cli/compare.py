"""`everystep compare`: all agents on all problems, or trainings side by side."""

from __future__ import annotations

import argparse
from pathlib import Path

from everystep.cli.shared import a_path, add_cache, add_force, add_out, use_cache
from everystep.errors import EverystepError, count
from everystep.experiments.options import seed_list, split_names

HELP = "run all agents on all problems that support them: Table 1, measured; or put trainings side by side"
SEEDS = "32"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folders",
        nargs="*",
        type=a_path,
        metavar="DIR",
        help="folders of trainings: nothing is run, a table is printed",
    )
    parser.add_argument("--problems", metavar="P,Q", help="names separated by commas (all)")
    parser.add_argument("--agents", metavar="A,B", help="names separated by commas (all)")
    parser.add_argument("--ablation", action="store_true", help="LSVI-AE without each of its ingredients instead")
    parser.add_argument(
        "--seeds", metavar="N", help=f"their number, a range 10:20 without its end, or a list 3,8 ({SEEDS})"
    )
    parser.add_argument("--episodes", metavar="K", help="number of episodes (each problem's default)")
    parser.add_argument("--table-only", action="store_true", help="run nothing: the table of the existing runs")
    add_out(parser, "a folder of run folders (out/compare, or out/ablation)")
    add_force(parser)
    add_cache(parser)


def run(options: argparse.Namespace) -> None:
    if options.folders:
        _compare_trainings(options)
        return
    seeds = seed_list("seeds", options.seeds or SEEDS)
    episodes = None if options.episodes is None else count("episodes", options.episodes)
    out = Path(options.out or ("out/ablation" if options.ablation else "out/compare"))
    problems = None if options.problems is None else split_names(options.problems)
    agents = None if options.agents is None else split_names(options.agents)
    if options.table_only:
        if problems is not None or agents is not None:
            raise EverystepError("--table-only reads all run folders; leave --problems and --agents out.")
        text = _table_only(out, options.force)
    else:
        from everystep.reports.compare import compare

        use_cache(options)
        given = {"problems": problems, "agents": agents, "ablation": options.ablation, "episodes": episodes}
        text = str(compare(**given, seeds=seeds, out=out, force=options.force))
    print(f"{text}\n\nWritten to {out}")


def _table_only(out: Path, force: bool) -> str:
    """The table of the runs that a folder holds."""
    from everystep.experiments.folder import run_folder
    from everystep.reports import comparison

    comparison.claim(out, force)
    table = comparison.read(out)
    if not table.rows and table.unfinished:
        raise EverystepError(run_folder.how_to_finish(table.unfinished[0]))
    if not table.rows:
        raise EverystepError(f"out '{out}' holds no run folders; give a folder written by `everystep compare`.")
    table.write(out, force)
    return table.text()


def _compare_trainings(options: argparse.Namespace) -> None:
    for name in ("problems", "agents", "ablation", "seeds", "episodes", "table_only", "out", "force"):
        if getattr(options, name):
            raise EverystepError(
                f"--{name.replace('_', '-')} is for runs of agents on problems; leave it out to compare the trainings "
                f"in '{options.folders[0]}'."
            )
    from everystep.reports.compare import compare

    print(compare(options.folders))
