"""`everystep reproduce`: the paper's experiment."""

from __future__ import annotations

import argparse
from pathlib import Path

from everystep.cli.shared import add_cache, add_force, add_out, use_cache
from everystep.errors import count
from everystep.runtime.progress import announced, counting

HELP = "run the paper's experiment and report what reproduces"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", default="64", metavar="N", help="number of seeds (64)")
    parser.add_argument("--episodes", default="1000", metavar="K", help="number of episodes (1000)")
    add_out(parser, "the run folder (out/paper)", default="out/paper")
    add_force(parser)
    add_cache(parser)


def run(options: argparse.Namespace) -> None:
    episodes, seeds = count("episodes", options.episodes), count("seeds", options.seeds)

    from everystep.reports import reproduction
    from everystep.web import report

    use_cache(options)
    out = Path(options.out)
    runs = reproduction.prepare_paper_runs(seeds, episodes)
    runs.claim(out, options.force)
    if out.is_dir():
        report.check_place(out, None, options.force)
    with counting(runs.episodes, "episodes") as advance:
        findings = runs.run(advance)
    with announced("writing"):
        findings.save(out, options.force)
    print(findings.text())
    print(f"\nWritten to {out}")
    print(f"Report for the browser: {report.write(out, force=options.force)}")
