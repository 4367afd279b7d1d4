"""`everystep train`: an agent on an environment, for several seeds, or a training from a file."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from everystep.cli.shared import (
    a_path,
    add_cache,
    add_engine,
    add_flags,
    add_out,
    chosen_engine,
    connected_cluster,
    environments_at_work,
    given_flags,
    resumable,
    use_cache,
)
from everystep.errors import EverystepError, quoted, shown, whole_number
from everystep.experiments.options import RUN_OPTIONS, EngineChoice, SettingFlag
from everystep.runtime.progress import announced, counting, note
from everystep.training.options import OPTIONS

if TYPE_CHECKING:
    from everystep.training.seeds.request import TrainingRequest
    from everystep.training.seeds.run import Message

HELP = "train an agent on a Gymnasium environment"
EPILOG = (
    "Defaults are in parentheses. For example: everystep train --env CartPole-v1 --constraint "
    "limits:upright --episodes 50 --out out/cartpole, where limits.py is in the current folder."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", nargs="?", type=a_path, metavar="FILE", help="a training in TOML; flags override it (docs/gymnasium.md)"
    )
    add_flags(parser, OPTIONS)
    add_jobs(parser)
    add_engine(parser)
    add_out(parser, "the folder to write: training.json, and seed-0, seed-1, ...")
    add_cache(parser)


def add_jobs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", metavar="J", help="processes that train seeds (as many as cores)")


def run(options: argparse.Namespace) -> None:
    where = _where(options)
    given = given_flags(options, OPTIONS | ({} if options.out is None else {"out": RUN_OPTIONS["out"]}))
    with announced("preparing the training"):
        from everystep.training.seeds import request as training_request

        settings = [SettingFlag.parse(text) for text in options.settings]
        request, out = training_request.read(None if options.file is None else Path(options.file), given, settings)
        with environments_at_work():
            request.check()
    _train(request, out, options, where)


class Where(NamedTuple):
    """Where seeds are trained: in processes on this machine, or on a cluster."""

    jobs: int
    engine: EngineChoice


def _where(options: argparse.Namespace) -> Where:
    """The choice of the flags; what the engine cannot do is refused before any work."""
    jobs = max(1, os.cpu_count() or 1) if options.jobs is None else whole_number("jobs", options.jobs)
    engine = chosen_engine(options)
    if engine.name != "local" and (options.log is not None or options.jobs is not None):
        flag = "--jobs" if options.log is None else "--log"
        raise EverystepError(f"{flag} is for the engine local, and --engine is {engine.name}; leave one of them out.")
    return Where(jobs, engine)


def _train(request: TrainingRequest, out: Path, options: argparse.Namespace, where: Where) -> None:
    """Train what is left of a request, evaluate the policies, and print the table."""
    from everystep import files
    from everystep.experiments import run_progress
    from everystep.reports.training import results as training_results
    from everystep.training.seeds import run as training_seeds

    use_cache(options)
    logs = None if options.log is None else files.absolute(run_progress.log_folder(out))
    continued = lambda: _how_to_continue(out)
    with (
        resumable(continued),
        connected_cluster(where.engine) as cluster,
        _progress(request) as report,
        environments_at_work(),
    ):
        means = training_seeds.Means(where.jobs, not options.no_cache, logs, cluster)
        training_seeds.train(request, files.absolute(out), means, report)
    results = training_results.read(out)
    if request.evaluate and any(results.evaluation_of(each) is None for each in results.seeds):
        from everystep.cli.evaluate import evaluate

        with resumable(continued):
            evaluate(out, request.env, request.constraint, request.evaluate)
        results = training_results.read(out)
    print(training_results.summary(results))
    print(f"\nWritten to {out}")


def _how_to_continue(out: Path) -> str:
    """The command that continues after Ctrl-C; "" if nothing was begun."""
    from everystep.reports.training import results as training_results
    from everystep.training.seeds import run as training_seeds

    try:
        if training_seeds.unfinished(training_seeds.read_begun(out).request, out):
            return training_results.how_to_continue(out)
        how = training_results.how_to_evaluate(training_results.read(out))
    except (EverystepError, OSError):  # there is no such folder
        return ""
    return f"the training is finished; {how}" if how else ""


@contextmanager
def _progress(request: TrainingRequest) -> Iterator[Callable[[Message], None]]:
    """The progress in episodes or steps of all seeds, with the violation so far."""
    by_steps, each = request.steps is not None, request.steps or request.schedule.total
    latest: dict[int, Message] = {}
    remarks: list[str] = []

    def words() -> str:
        if not (all_seeds := list(latest.values())):
            return "compiling"
        other = sum(one.episodes if by_steps else one.steps for one in all_seeds)
        violation = sum(one.violation for one in all_seeds)
        return f"{other:,} {'episodes' if by_steps else 'steps'}, violation {violation:.4g}"

    with counting(each * len(request.seeds), "steps" if by_steps else "episodes", words) as count:

        def report(message: Message) -> None:
            if message.kind in ("progress", "finished"):
                latest[message.seed] = message
            count(sum(min(one.steps if by_steps else one.episodes, each) for one in latest.values()) - count.done)
            if message.kind == "note":
                note(message.words[0])
            if message.kind == "finished" and message.seed == request.seeds[0]:
                remarks.extend(message.words)

        yield report
    for remark in remarks:
        note(remark if len(request.seeds) == 1 else f"seed {request.seeds[0]}: {remark}")


def resume(out: Path, options: argparse.Namespace) -> None:
    """Continue the training of a folder."""
    from everystep.environments.play import trust
    from everystep.experiments.folder import run_folder
    from everystep.experiments.folder.run_folder import TRAINING_REQUEST
    from everystep.training.seeds import run as training_seeds

    where = _where(options)
    if not (out / TRAINING_REQUEST).is_file():
        if (out.parent / TRAINING_REQUEST).is_file():
            raise EverystepError(f"'{out}' is one seed of a training; `everystep resume {out.parent}` continues all.")
        if not run_folder.is_unfinished(out):
            raise EverystepError(f"'{out}' holds a training that is finished; there is nothing to resume.")
        raise EverystepError(run_folder.how_to_finish(out))
    with announced("preparing the training"):
        request, signed = training_seeds.read_begun(out)
        if not training_seeds.unfinished(request, out):
            raise EverystepError(
                f"'{out}' holds a training that is finished; `everystep train` with more episodes, steps or seeds "
                "learns on."
            )
        given = {name: getattr(options, name) for name in request.names}
        for name, value in given.items():
            if value is not None and value != request.names[name]:
                raise EverystepError(
                    f"{trust.FLAGS[name]} is '{shown(value)}', but '{out}' was begun with "
                    f"{quoted(request.names[name])}; leave it out, or give the same."
                )
        trust.check(out, request.names, given, signed or options.trust)
        with trust.nothing_from(out), environments_at_work():
            request.check()
    _train(request, out, options, where)
