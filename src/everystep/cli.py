"""The command `everystep`. Heavy things are imported only by the command that needs them."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everystep import __version__
from everystep.errors import EverystepError, unknown, whole_number

if TYPE_CHECKING:
    from everystep.agents import Recipe

AGENTS = "lsvi-ae,lsvi,lsvi-primal"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; a wrong input ends in one sentence and exit status 2."""
    try:
        try:
            options = parser().parse_args(arguments)
            with interruptible():
                options.command(options)
        finally:
            sys.stdout.flush()  # here, where a reader that has gone can still be answered
    except EverystepError as error:
        return _refuse(str(error))
    except KeyboardInterrupt:
        print("everystep: stopped.", file=sys.stderr)
        return 130
    except MemoryError:
        return _refuse("there is not enough memory for this problem; make it smaller, or its horizon shorter.")
    except BrokenPipeError:
        _silence_output()
    except OSError as error:
        _silence_output()
        return _refuse(f"the output cannot be written ({error.strerror or error}); send it elsewhere.")
    return 0


def _refuse(sentence: str) -> int:
    print(f"everystep: {sentence}", file=sys.stderr)
    return 2


def _silence_output() -> None:
    """Point standard output at nothing, so that closing it at the end cannot fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def parser() -> argparse.ArgumentParser:
    top = Parser(prog="everystep", description="Safe reinforcement learning whose constraints must hold at every step.")
    top.add_argument("--version", action="version", version=f"everystep {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", required=True)

    reproduce = commands.add_parser("reproduce", help="run the paper's experiment and say what reproduces")
    reproduce.add_argument("--seeds", default="64", metavar="N", help="how many seeds (64)")
    reproduce.add_argument("--episodes", default="1000", metavar="K", help="how many episodes (1000)")
    reproduce.add_argument("--out", default="out/paper", metavar="DIR", help="the run folder (out/paper)")
    reproduce.set_defaults(command=_reproduce)

    run = commands.add_parser("run", help="run agents on a problem")
    run.add_argument(
        "--problem", required=True, metavar="P", help="a name, or a file: .txt, .npz, .npy, .csv, .png (see list)"
    )
    run.add_argument("--agents", default=AGENTS, metavar="A,B", help=f"names with commas ({AGENTS})")
    run.add_argument("--episodes", default="1000", metavar="K", help="how many episodes (1000)")
    run.add_argument("--seeds", default="32", metavar="N", help="how many seeds (32)")
    run.add_argument("--seed0", default="0", metavar="S", help="the first seed (0)")
    run.add_argument(
        "--horizon", metavar="H", help="steps of an episode (the problem's own; 15 for a map, 26 for heights)"
    )
    run.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="settings",
        help="a setting of all agents that have it, or of one: lsvi-ae.beta=0.5; may be repeated",
    )  # fmt: skip
    run.add_argument(
        "--certify", action="store_true", help="record in every episode how many actions are certified, and falsely"
    )
    run.add_argument("--out", required=True, metavar="DIR", help="the run folder to write")
    run.set_defaults(command=_run)

    certify = commands.add_parser("certify", help="which actions a run found to be safe and unsafe")
    certify.add_argument("folder", metavar="DIR", help="a run folder")
    certify.add_argument("--agent", action="append", default=[], metavar="A", help="draw this agent; may be repeated")
    certify.add_argument("--seed", metavar="S", help="the seed to draw (the first)")
    certify.add_argument("--step", default="1", metavar="H", help="the step to draw, if costs depend on it (1)")
    certify.set_defaults(command=_certify)

    theory = commands.add_parser("theory", help="a run beside what the paper proves of it: bounds, errors, coverage")
    theory.add_argument("folder", metavar="DIR", help="a run folder")
    theory.add_argument("--seeds", default="8", metavar="N", help="how many of its seeds to run again and watch (8)")
    theory.set_defaults(command=_theory)

    listing = commands.add_parser("list", help="problems, agents, their settings and defaults")
    listing.set_defaults(command=_list)
    return top


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, like every other error of the command."""

    def error(self, message: str) -> Any:
        print(f"{self.prog}: {message}. `{self.prog} --help` shows how it is used.", file=sys.stderr)
        raise SystemExit(2)


# --- commands --------------------------------------------------------------------------------------------------------
def _run(options: argparse.Namespace) -> None:
    episodes, seeds = whole_number("episodes", options.episodes), whole_number("seeds", options.seeds)
    seed0 = whole_number("seed0", options.seed0, at_least=0)
    horizon = None if options.horizon is None else whole_number("horizon", options.horizon)

    from everystep import experiment, problems, store, tables

    recipes = with_settings([name.strip() for name in options.agents.split(",") if name.strip()], options.settings)
    problem = problems.load(options.problem, horizon)
    prepared = experiment.prepare(problem, recipes, episodes, seeds, seed0, options.certify)
    store.claim(Path(options.out), prepared.spec)
    for remark in problem.remarks:
        print(f"note: {remark}", file=sys.stderr)
    with bar(episodes * seeds * len(recipes)) as advanced:
        result = prepared.run(advanced)
    result.save(options.out)
    print(tables.summary(result.summary))
    print(f"\nWritten to {options.out}")


def _reproduce(options: argparse.Namespace) -> None:
    episodes, seeds = whole_number("episodes", options.episodes), whole_number("seeds", options.seeds)

    from everystep import reproduce

    plan = reproduce.plan(seeds, episodes)
    plan.claim(Path(options.out))
    with bar(plan.episodes) as advanced:
        findings = plan.run(advanced)
    findings.save(Path(options.out))
    print(findings.text())
    print(f"\nWritten to {options.out}")


def _certify(options: argparse.Namespace) -> None:
    from everystep import certify

    print(certify.run(Path(options.folder), options.agent, options.seed, options.step))


def _theory(options: argparse.Namespace) -> None:
    seeds = whole_number("seeds", options.seeds)

    from everystep import theory_table

    print(theory_table.run(Path(options.folder), seeds, bar))


def _list(options: argparse.Namespace) -> None:
    from everystep import agents, problems
    from everystep.settings import SETTINGS

    print(f"Problems (or a path to {problems.FILES})")
    for name in problems.REGISTERED:
        print(f"  {name:<13} {problems.summary(name)}")
    print(f"\nAgents\n  {'name':<13} {'needs':<9} what it is")
    for name, agent in agents.REGISTERED.items():
        print(f"  {name:<13} {agent.needs:<9} {agent.summary}")
    print(f"\nSettings (--set key=value)\n  {'name':<13} {'default':<9} {'agents':<22} what it does")
    for key, setting in SETTINGS.items():
        having = [name for name, agent in agents.REGISTERED.items() if key in agent.settings]
        who = "all" if len(having) == len(agents.REGISTERED) else ", ".join(having)
        default = str(setting.default).lower() if isinstance(setting.default, bool) else setting.default
        print(f"  {key:<13} {default!s:<9} {who:<22} {setting.help}")


# --- helpers ---------------------------------------------------------------------------------------------------------
def with_settings(names: Sequence[str], settings: Sequence[str]) -> list[Recipe]:
    """Agents by name with every `key=value` given to those that have it, and `agent.key=value` to one."""
    from everystep.agents import REGISTERED, Recipe
    from everystep.settings import SETTINGS

    for name in names:
        Recipe(name)  # an unknown name is said before anything else
    given: dict[str, dict[str, str]] = {name: {} for name in names}
    for text in settings:
        key, equals, value = text.partition("=")
        agent, dot, setting = key.strip().rpartition(".")
        if not equals or not setting:
            raise EverystepError(f"--set is '{text}'; write key=value, such as beta=0.5.")
        if dot and agent not in given:
            raise EverystepError(f"--set is '{text}', but {agent} is not in this run; add it to --agents.")
        candidates = [agent] if dot else names
        having = [name for name in candidates if setting in REGISTERED[name].settings]
        if not having and setting in SETTINGS:
            owners = ", ".join(name for name, each in REGISTERED.items() if setting in each.settings)
            raise EverystepError(
                f"--set is '{text}', but {', '.join(candidates)} has no setting {setting}; {owners} has."
            )
        if not having:
            raise unknown("setting", setting, SETTINGS, "`everystep list` shows all.")
        for name in having:
            given[name][setting] = value.strip()
    return [Recipe(name, given[name]) for name in names]


_interrupted = threading.Event()


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C is remembered until the next chunk: an exception alone may be swallowed where it happens to be raised."""

    def remember(signum: int, frame: object) -> None:
        _interrupted.set()
        raise KeyboardInterrupt

    _interrupted.clear()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def bar(total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar of episodes with the time left; silent when standard error is not a terminal."""
    from tqdm import tqdm

    with tqdm(total=total, unit=" episodes", unit_scale=True, disable=None, leave=False) as progress:

        def advanced(n: int) -> None:
            if _interrupted.is_set():
                raise KeyboardInterrupt
            progress.update(min(n, total - progress.n))

        yield advanced


if __name__ == "__main__":
    sys.exit(main())
