"""`everystep reproduce`: the paper's experiment."""

from __future__ import annotations

import argparse
from pathlib import Path

from everystep.cli.shared import add_cache, progress_bar, use_cache
from everystep.errors import count

HELP = "run the paper's experiment and report what reproduces"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", default="64", metavar="N", help="number of seeds (64)")
    parser.add_argument("--episodes", default="1000", metavar="K", help="number of episodes (1000)")
    parser.add_argument("--out", default="out/paper", metavar="DIR", help="the run folder (out/paper)")
    add_cache(parser)


def run(options: argparse.Namespace) -> None:
    episodes, seeds = count("episodes", options.episodes), count("seeds", options.seeds)

    from everystep.reports import reproduction
    from everystep.web import report

    use_cache(options)
    out = Path(options.out)
    runs = reproduction.prepare_paper_runs(seeds, episodes)
    runs.claim(out)
    with progress_bar(runs.episodes) as advance:
        findings = runs.run(advance)
    findings.save(out)
    print(findings.text())
    print(f"\nWritten to {out}")
    print(f"Report for the browser: {report.write(out, progress_bar)}")
