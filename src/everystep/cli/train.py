"""`everystep train`: an agent on an environment, for several seeds, or a training from a file."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from everystep.cli.shared import (
    a_path,
    add_cache,
    add_engine,
    add_out,
    connected_cluster,
    environments_at_work,
    use_cache,
)
from everystep.errors import EverystepError, quoted, shown, whole_number
from everystep.runtime import signals
from everystep.runtime.progress import announced, counting, note

if TYPE_CHECKING:
    from everystep.experiments.config import EngineChoice
    from everystep.training.seeds.request import TrainingRequest
    from everystep.training.seeds.run import Message

HELP = "train an agent on a Gymnasium environment"
EPILOG = (
    "In parentheses: what holds if a flag is left out. For example: everystep train --env CartPole-v1 --constraint "
    "limits:upright --episodes 50 --out out/cartpole, where limits.py is in the current folder."
)
FLAGS = (
    *("env", "constraint", "features", "cost_features", "actions", "agent", "horizon", "length", "episodes", "steps"),
    *("without_exploration", "reward_range", "memory", "envs", "reseed", "on_episode", "on_plan", "stop_at_return"),
    *("seeds", "seed0", "evaluate", "out"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", nargs="?", type=a_path, metavar="FILE", help="a training in TOML; flags override it (docs/gymnasium.md)"
    )
    parser.add_argument("--env", metavar="E", help="an id of gymnasium, or module:factory")
    parser.add_argument(
        "--constraint", metavar="C", help="module:function of (obs, action, obs_next, info) (from info)"
    )
    parser.add_argument(
        "--features", metavar="F", help="auto, one-hot, fourier(100), polynomial(2), tiles(8) ... (auto)"
    )
    parser.add_argument("--cost-features", metavar="F", help="features of the cost model (the same)")
    parser.add_argument(
        "--actions", metavar="A", help="candidates of a Box: grid(5), sobol(64), listed([...]) (grid(5))"
    )
    parser.add_argument("--agent", metavar="A", help="an agent of `everystep list` (lsvi-ahead)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="settings",
        help="a setting of the agent, of `everystep list`; may be repeated",
    )  # fmt: skip
    parser.add_argument("--horizon", metavar="H", help="steps that a plan looks ahead (an episode, at most 50)")
    parser.add_argument("--length", metavar="N", help="the most steps of an episode (the environment's own limit)")
    parser.add_argument("--episodes", metavar="N", help="number of episodes of each seed")
    parser.add_argument("--steps", metavar="N", help="or of steps: the episode that reaches them is the last")
    parser.add_argument("--without-exploration", metavar="N", help="the last N episodes are played as the policy plays")
    parser.add_argument(
        "--reward-range", metavar="LOW,HIGH", help="of rewards, write --reward-range=-1,1 (as observed)"
    )
    parser.add_argument("--memory", metavar="N", help="most states that plans compute values at; 0: no limit (4096)")
    parser.add_argument("--envs", metavar="N", help="copies of the environment stepped together (1)")
    parser.add_argument("--reseed", action="store_true", help="begin every episode with reset(seed=...)")
    parser.add_argument("--on-episode", metavar="F", help="module:function of the learner, called after every episode")
    parser.add_argument("--on-plan", metavar="F", help="the same after every plan; True ends the training")
    parser.add_argument("--stop-at-return", metavar="R", help="end once the mean return of 20 episodes is R")
    parser.add_argument("--seeds", metavar="M", help="number of seeds (1)")
    parser.add_argument("--seed0", metavar="S", help="the first seed (0)")
    parser.add_argument("--evaluate", metavar="N", help="episodes that each policy plays afterwards (10)")
    add_jobs(parser)
    add_engine(parser)
    add_out(parser, "the folder to write: training.json, and seed-0, seed-1, ...")
    add_cache(parser)


def add_jobs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", metavar="J", help="processes that train seeds (as many as cores)")


def run(options: argparse.Namespace) -> None:
    number_of_jobs(options)
    check_engine(options)
    given = {name: value for name in FLAGS if (value := getattr(options, name))}
    with announced("preparing the training"):
        from everystep.experiments.config import SettingFlag
        from everystep.training.seeds import request as training_request

        settings = [SettingFlag.parse(text) for text in options.settings]
        request, out = training_request.read(None if options.file is None else Path(options.file), given, settings)
        with environments_at_work():
            request.check()
    train_with_progress(request, out, options)


def check_engine(options: argparse.Namespace) -> EngineChoice:
    """The engine that was asked for; refuse what it cannot do before any work."""
    from everystep.experiments import config, run_progress

    engine = config.EngineChoice(options.engine or "local", options.address).checked()
    run_progress.check(options.log)
    if engine.name != "local" and (options.log is not None or options.jobs is not None):
        flag = "--jobs" if options.log is None else "--log"
        raise EverystepError(f"{flag} is for the engine local, and --engine is {engine.name}; leave one of them out.")
    return engine


def number_of_jobs(options: argparse.Namespace) -> int:
    return max(1, os.cpu_count() or 1) if options.jobs is None else whole_number("jobs", options.jobs)


def train_with_progress(request: TrainingRequest, out: Path, options: argparse.Namespace) -> None:
    """Train what is left of a request, evaluate the policies, and print the table."""
    from everystep import files
    from everystep.experiments import run_progress
    from everystep.reports.training import results as training_results
    from everystep.training.seeds import run as training_seeds

    use_cache(options)
    logs = None if options.log is None else files.absolute(run_progress.log_folder(out))
    try:
        with (
            connected_cluster(check_engine(options)) as cluster,
            signals.keeping(lambda: _how_to_go_on(out)),
            _progress(request) as report,
            environments_at_work(),
        ):
            means = training_seeds.Means(number_of_jobs(options), not options.no_cache, logs, cluster)
            training_seeds.train(request, files.absolute(out), means, report)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or signals.received():
            raise KeyboardInterrupt(_how_to_go_on(out)) from None
        raise
    results = training_results.read(out)
    if request.evaluate and any(results.evaluation_of(each) is None for each in results.seeds):
        from everystep.cli.evaluate import evaluate

        with signals.keeping(lambda: _how_to_go_on(out)):
            try:
                evaluate(out, request.env, request.constraint, request.evaluate)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(_how_to_go_on(out)) from None
        results = training_results.read(out)
    print(training_results.summary(results))
    print(f"\nWritten to {out}")


def _how_to_go_on(out: Path) -> str:
    """The command that does what is left after Ctrl-C, "" if nothing was begun: never one that would be refused."""
    from everystep.reports.training import results as training_results
    from everystep.training.seeds import run as training_seeds

    try:
        request, signed = training_seeds.read_begun(out)
        if training_seeds.unfinished(request, out):
            return f"{training_results.with_trust(f'everystep resume {out}', request.names, signed)} continues"
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
    train_with_progress(request, out, options)
