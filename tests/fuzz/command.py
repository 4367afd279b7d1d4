"""The command line: which inputs to run, and what to print about them."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from pathlib import Path

import seeds

SOURCE = Path(__file__).resolve().parents[2] / "src"
COUNTS = {"command": 10_000, "api": 3_000, "foreign": 2_000}
PROGRESS = 20.0  # seconds


def main(arguments: list[str] | None = None) -> int:
    """Run inputs; 0 if nothing was wrong with any of them."""
    parser = argparse.ArgumentParser(prog="python tests/fuzz", description=__doc__)
    parser.add_argument(
        "--suite", choices=(*COUNTS, "all"), default="all", help="the command, the Python API, what others made, or all"
    )
    parser.add_argument("--count", type=int, help="number of inputs of each suite (10,000, 3,000 and 2,000)")
    parser.add_argument("--first", type=int, default=0, help="number of the first one (0)")
    parser.add_argument("--only", type=int, action="append", help="this input alone; may be repeated")
    parser.add_argument("--kind", action="append", help="only inputs of this kind; may be repeated")
    parser.add_argument("--seed", type=int, help=f"seed of all draws ({seeds.NAME}, or a random one)")
    parser.add_argument("--jobs", type=int, default=1, help="inputs at a time (1)")
    parser.add_argument("--quick", action="store_true", help="only inputs that need no compiled program")
    parser.add_argument("--keep", metavar="DIR", help="work in this folder, and keep it")
    parser.add_argument("--show", type=int, default=40, help="failures to print in full (40)")
    options = parser.parse_args(arguments)
    seed = seeds.SEED if options.seed is None else options.seed
    place = Path(options.keep or tempfile.mkdtemp(prefix="everystep-fuzz-")).resolve()
    place.mkdir(parents=True, exist_ok=True)
    try:
        return _run(options, seed, place)
    finally:
        if not options.keep:
            shutil.rmtree(place, ignore_errors=True)


def _run(options: argparse.Namespace, seed: int, place: Path) -> int:
    prepare(place / "cache")
    from fuzz import harness, kinds
    from fuzz.cases import SUITES

    suites = list(COUNTS) if options.suite == "all" else [options.suite]
    at_work = harness.Harness(seed, place, jobs=options.jobs, quick=options.quick, keep=bool(options.keep))
    kinds.make_templates(at_work.templates, options.quick)
    tally, told = harness.Tally(), time.monotonic()

    def tell(verdict: harness.Verdict) -> None:
        nonlocal told
        tally.add(verdict)
        if verdict.complaints:  # at once, in case this process is ended before its report
            about = f"{verdict.suite} {verdict.number} ({verdict.kind})"
            print(f"FAILED {about}: {verdict.complaints[0][:150]}; {verdict.signature[-90:]}", flush=True)
        if options.only:
            print(f"{verdict.shown}\n{verdict.said}\nstatus {verdict.status}, {verdict.seconds:.1f} s")
        if time.monotonic() - told > PROGRESS:
            told = time.monotonic()
            print(f"{sum(tally.inputs.values())} inputs, {len(tally.failures)} failures", flush=True)

    inputs = [
        (suite, number)
        for suite in suites
        for number in options.only or range(options.first, options.first + (options.count or COUNTS[suite]))
        if not options.kind or SUITES[suite].kind_of(seed, number) in options.kind
    ]
    print(f"{len(inputs)} inputs with seed {seed}, {options.jobs} at a time", flush=True)
    at_work.run(inputs, tell)
    report(tally, seed, options)
    return 1 if tally.failures else 0


def report(tally: object, seed: int, options: argparse.Namespace) -> None:
    """Failures, those alike together, and the table."""
    from fuzz.harness import Tally

    assert isinstance(tally, Tally)
    alike = defaultdict(list)
    for failure in tally.failures:
        alike[failure.signature].append(failure)
    for rank, (signature, failures) in enumerate(sorted(alike.items(), key=lambda each: -len(each[1]))):
        first = failures[0]
        again = f"python tests/fuzz --suite {first.suite} --seed {seed} --only"
        quick = " --quick" if options.quick else ""
        print(f"\n{len(failures)} x {signature}\n  again: {again} {first.number}{quick}")
        print(f"  inputs: {' '.join(f'{each.kind}:{each.number}' for each in failures[:12])}")
        if rank < options.show:
            shown = " ".join(first.shown.split())
            print(f"  {shown if len(shown) <= 400 else f'{shown[:300]} ... {shown[-90:]}'}")
            print(f"  {'; '.join(first.complaints)[:600]}")
            ours = [line for line in first.said.strip().splitlines() if "tests/fuzz/" not in line and "^^^" not in line]
            print("\n".join(f"    {line[:200]}" for line in ours[-10:]))
    print(f"\n{tally.table()}\nseed {seed}")


def prepare(cache: Path) -> None:
    """The surroundings of all inputs: what is compiled or looked up once is shared, and no accelerator is used."""
    cache.mkdir(parents=True, exist_ok=True)
    if SOURCE.is_dir():
        sys.path.insert(0, str(SOURCE))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "COLUMNS"):
        os.environ.pop(name, None)
    os.environ["EVERYSTEP_STATE"] = str(cache.parent / "state")  # the key of the user who runs inputs
    os.environ |= {"XDG_CACHE_HOME": str(cache), "MPLCONFIGDIR": str(cache / "matplotlib"), "MPLBACKEND": "Agg"}
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_backend_optimization_level=0"
    os.environ |= {"JAX_COMPILATION_CACHE_DIR": str(cache / "jax"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    # JAX does not write the entries of this cache of the fuzz at once, so another input may meet half of one.
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache entry")
    from importlib import import_module

    for module in IMPORTED:
        import_module(module)


# Imported once, before the processes of inputs are forked. None of them starts a thread or a compiler.
IMPORTED = (
    *(f"everystep.cli.{name}" for name in ("run", "resume", "reading")),
    *(f"everystep.cli.{name}" for name in ("compare", "leaderboard", "play", "list", "reproduce", "main")),
    *("everystep.experiments.runner", "everystep.experiments.config", "everystep.experiments.figures"),
    *("everystep.experiments.folder.rerun", "everystep.experiments.estimate", "everystep.experiments.run_progress"),
    *("everystep.reports.comparison", "everystep.reports.certificates", "everystep.reports.reproduction"),
    *("everystep.reports.leaderboard.text", "everystep.reports.leaderboard.figures"),
    *("everystep.reports.leaderboard.monitor", "everystep.reports.leaderboard.board"),
    *("everystep.reports.theory.table", "everystep.web.report", "everystep.training.learner"),
    *("everystep.environments.logged", "everystep.environments.finite.gym"),
    *(f"everystep.cli.{name}" for name in ("train", "evaluate")),
    *(f"everystep.reports.training.{name}" for name in ("results", "comparison", "figures")),
    *("everystep.training.policy.evaluation_file", "everystep.training.policy.shield"),
    *("everystep.training.seeds.filmstrip", "everystep.web.training_report"),
    *("matplotlib.font_manager", "matplotlib.pyplot", "pyarrow.parquet", "scipy.stats", "plotly", "jinja2"),
)
