"""The command `everystep`. Heavy things are imported only by the command that needs them."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everystep import __version__
from everystep.errors import EverystepError, unknown, whole_number

if TYPE_CHECKING:
    from everystep.agents import Recipe
    from everystep.engines.ray_engine import Cluster
    from everystep.experiment_file import Engine, Plan

AGENTS = "lsvi-ae,lsvi,lsvi-primal"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; a wrong input ends in one sentence and exit status 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names that the terminal cannot show, as on standard error
    try:
        try:
            options = parser().parse_args(arguments)
            with interruptible():
                options.command(options)
        finally:
            sys.stdout.flush()  # here, where a reader that has gone can still be answered
    except EverystepError as error:
        return _refuse(str(error))
    except KeyboardInterrupt as stopped:
        print(f"everystep: stopped{f'; {stopped}' if str(stopped) else ''}.", file=sys.stderr)
        return 130
    except MemoryError:
        return _refuse("there is not enough memory for this problem; make it smaller, or its horizon shorter.")
    except BrokenPipeError:
        _silence_output()
    except OSError as error:
        reason = error.strerror or error
        if error.filename is not None:
            return _refuse(f"'{error.filename}' cannot be read or written ({reason}); see that it can.")
        _silence_output()
        return _refuse(f"the output cannot be written ({reason}); send it elsewhere.")
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

    run = commands.add_parser("run", help="run agents on a problem, or an experiment from a file")
    run.add_argument("file", nargs="?", metavar="FILE", help="an experiment in TOML; flags override it (docs/runs.md)")
    run.add_argument("--problem", metavar="P", help="a name, or a file: .txt, .npz, .npy, .csv, .png (see list)")
    run.add_argument("--agents", metavar="A,B", help=f"names with commas ({AGENTS})")
    run.add_argument("--episodes", metavar="K", help="how many episodes (1000)")
    run.add_argument("--seeds", metavar="N", help="how many seeds (32)")
    run.add_argument("--seed0", metavar="S", help="the first seed (0)")
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
    run.add_argument("--out", metavar="DIR", help="the run folder to write; of a FILE: a folder of run folders")
    run.add_argument("--dry-run", action="store_true", help="run nothing: what would be run, its time and memory")
    run.add_argument("--log", metavar="KIND", help="tensorboard: curves to watch, in DIR-logs (extra `logs`)")
    _add_engine(run)
    run.set_defaults(command=_run, parser=run)

    resume = commands.add_parser("resume", help="go on with a run that was stopped, killed or cut off")
    resume.add_argument("folder", metavar="DIR", help="the folder of the run")
    resume.add_argument("--log", metavar="KIND", help="tensorboard: curves to watch, in DIR-logs (extra `logs`)")
    _add_engine(resume)
    resume.set_defaults(command=_resume)

    summary = commands.add_parser("summary", help="the table of a run, finished or not")
    summary.add_argument("folder", metavar="DIR", help="the folder of the run")
    summary.set_defaults(command=_summary)

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

    figures = commands.add_parser("figures", help="the figures of a run again, for a screen or for a paper")
    figures.add_argument("folder", metavar="DIR", help="a run folder")
    figures.add_argument("--style", default="screen", metavar="S", help="screen (PNG, SVG), or paper (PDF, SVG)")
    figures.add_argument("--out", metavar="DIR", help="where to (DIR/figures, or DIR/figures/paper)")
    figures.set_defaults(command=_figures)

    report = commands.add_parser("report", help="a run as one page for a browser: curves, tables, and a player")
    report.add_argument("folder", metavar="DIR", help="a run folder")
    report.add_argument("--out", metavar="FILE", help="the page to write (DIR/report.html)")
    report.add_argument("--no-player", action="store_true", help="run nothing again: no player, no prices")
    report.set_defaults(command=_report)

    compare = commands.add_parser("compare", help="all agents on all problems where they can run: Table 1, measured")
    compare.add_argument("--problems", metavar="P,Q", help="names with commas (all)")
    compare.add_argument("--agents", metavar="A,B", help="names with commas (all)")
    compare.add_argument("--ablation", action="store_true", help="LSVI-AE without each of its ingredients instead")
    compare.add_argument("--seeds", default="32", metavar="N", help="how many seeds (32)")
    compare.add_argument("--episodes", metavar="K", help="how many episodes (each problem's own)")
    compare.add_argument("--table-only", action="store_true", help="run nothing: the table of what is there")
    compare.add_argument("--out", metavar="DIR", help="a folder of run folders (out/compare, or out/ablation)")
    compare.set_defaults(command=_compare)

    play = commands.add_parser("play", help="a playground in the browser: paint a lake, watch agents learn")
    play.add_argument("--host", default="127.0.0.1", metavar="NAME", help="where to listen (127.0.0.1: here only)")
    play.add_argument("--port", metavar="N", help="the port; another is chosen if it is taken (8765)")
    play.add_argument("--no-browser", action="store_true", help="open no browser, only say the address")
    play.set_defaults(command=_play)

    listing = commands.add_parser("list", help="problems, agents, their settings and defaults")
    listing.set_defaults(command=_list)
    return top


def _add_engine(command: argparse.ArgumentParser) -> None:
    command.add_argument("--engine", metavar="E", help="local (this machine), or ray: a cluster (extra `ray`)")
    command.add_argument("--address", metavar="A", help="of a Ray cluster, or auto; without it Ray on this machine")


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, like every other error of the command."""

    def error(self, message: str) -> Any:
        print(f"{self.prog}: {message}. `{self.prog} --help` shows how it is used.", file=sys.stderr)
        raise SystemExit(2)


# --- commands --------------------------------------------------------------------------------------------------------
def _run(options: argparse.Namespace) -> None:
    given = lambda name, at_least=1: (
        None if getattr(options, name) is None else whole_number(name, getattr(options, name), at_least)
    )
    numbers = {name: given(name) for name in ("episodes", "seeds", "horizon")} | {"seed0": given("seed0", 0)}
    if options.file is None:
        missing = [name for name in ("problem", "out") if getattr(options, name) is None]
        if missing:
            options.parser.error(f"--{' and --'.join(missing)} or a FILE must be given")

    from everystep import progress, runner, store

    progress.check(options.log)
    plan = _planned(options, numbers)
    for out, prepared in plan.folders().items():
        if store.claim_for_work(out, prepared.spec):
            print(f"note: '{out}' holds this run, unfinished; it goes on there.", file=sys.stderr)
        elif options.dry_run and store.holds(out, prepared.spec):
            print(f"note: '{out}' holds this run, finished; nothing would be run.", file=sys.stderr)
        for remark in prepared.problem.remarks:
            print(f"note: {remark}", file=sys.stderr)
    if options.dry_run:
        _print_dry_run(plan.runs)
        return
    failures = []
    with _cluster(plan.engine) as cluster:
        for i, (out, prepared) in enumerate(plan.folders().items()):
            there = store.holds(out, prepared.spec)
            try:
                _until_finished(out, prepared, partial(runner.run, prepared, out, cluster=cluster), options.log)
            except EverystepError as error:
                if not error.kept:
                    raise
                failures.append(str(error))  # of some pieces: the other problems are run all the same
                continue
            print("\n" if i else "", end="")
            _print_summary(out, "was there already: nothing was run" if there else "")
    if failures:
        raise EverystepError(" ".join(failures))


@contextmanager
def _cluster(engine: Engine) -> Iterator[Cluster | None]:
    """The cluster to run on, None for this machine."""
    if engine.name == "local":
        yield None
        return
    from everystep.engines import ray_engine

    with ray_engine.connected(engine.address) as cluster:
        yield cluster


def _planned(options: argparse.Namespace, numbers: dict[str, int | None]) -> Plan:
    """Where to run, and what, from flags alone or from a file and flags."""
    from everystep import experiment, experiment_file, problems

    if options.file is None:
        recipes = with_settings(_names(AGENTS if options.agents is None else options.agents), options.settings)
        problem = problems.load(options.problem, numbers["horizon"])
        told = {name: experiment_file.DEFAULTS[name] for name in ("episodes", "seeds", "seed0")}
        told |= {name: number for name, number in numbers.items() if name in told and number is not None}
        prepared = experiment.prepare(problem, recipes, **told, certify=options.certify)
        engine = experiment_file.Engine(options.engine or "local", options.address).checked()
        return experiment_file.Plan(Path(options.out), {"": prepared}, engine)
    agents = None if options.agents is None else _names(options.agents)
    settings = [parsed(text) for text in options.settings]
    flags = experiment_file.Overrides(
        options.problem, agents, certify=options.certify or None, out=options.out, engine=options.engine,
        address=options.address, settings=settings, **numbers,
    )  # fmt: skip
    return experiment_file.read(Path(options.file), flags)


def _print_dry_run(runs: dict[str, Any]) -> None:
    from everystep import estimate, tables

    total = 0.0
    for name, prepared in runs.items():
        estimates = estimate.probe(prepared)
        spent, spec = estimate.seconds(prepared, estimates), prepared.spec
        total += spent
        print(f"{name or spec['problem']['name']}, H = {spec['problem']['horizon']}\n")
        head = ["agent", "seeds", "episodes", "time", "state of a seed"]
        print(tables.aligned([head, *estimate.table(prepared, estimates)]))
        print(
            f"\nabout {estimate.duration(spent)}, {estimate.memory(prepared, estimates) / 2**20:.0f} MB of memory, "
            f"{estimate.disk(prepared) / 2**20:.0f} MB of disk until it is finished\n"
        )
    print(
        f"About {estimate.duration(total)} in all, on this machine as busy as it is: measured just now, by a probe of"
    )
    print("some episodes of each agent and its compilation. Nothing was run or written.")


def _resume(options: argparse.Namespace) -> None:
    from everystep import experiment_file, progress, runner

    progress.check(options.log)
    engine = experiment_file.Engine(options.engine or "local", options.address).checked()
    out = Path(options.folder)
    runner.unfinished(out)
    prepared = runner.begun(out)
    with _cluster(engine) as cluster:
        _until_finished(out, prepared, partial(runner.resume, out, cluster=cluster), options.log)
    _print_summary(out)


def _summary(options: argparse.Namespace) -> None:
    from everystep import summaries

    print(summaries.text(Path(options.folder)))


def _until_finished(
    out: Path, prepared: Any, run: Callable[[Callable[[Any], None]], object], log: str | None = None
) -> None:
    """Run and show how far it is; if a person stops it, say how to go on."""
    from everystep import progress, store

    try:
        with progress.logged(log, out) as noted, watching(prepared.spec) as shown:

            def told(step: Any) -> None:
                shown(step)
                if noted is not None:
                    noted(step)

            run(told)
    except KeyboardInterrupt:
        if store.is_unfinished(out):
            raise KeyboardInterrupt(f"`everystep resume {out}` goes on") from None
        raise


def _print_summary(out: Path, remark: str = "") -> None:
    from everystep import store, tables

    print(tables.summary(store.read_json(out / "summary.json")))
    print(f"\n{out} {remark}" if remark else f"\nWritten to {out}")


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

    from everystep.web import report

    print(f"A page to look at: {report.write(Path(options.out), bar)}")


def _certify(options: argparse.Namespace) -> None:
    from everystep import certify

    print(certify.run(Path(options.folder), options.agent, options.seed, options.step))


def _theory(options: argparse.Namespace) -> None:
    seeds = whole_number("seeds", options.seeds)

    from everystep import theory_table

    print(theory_table.run(Path(options.folder), seeds, bar))


def _figures(options: argparse.Namespace) -> None:
    if options.style not in ("screen", "paper"):
        raise unknown("style", options.style, ("screen", "paper"), "Choose screen or paper.")

    from everystep import figures, rerun, store

    folder, paper = Path(options.folder), options.style == "paper"
    result = rerun.read(folder, ("return", *rerun.NEEDED)).result()
    out = Path(options.out) if options.out else folder / "figures" / ("paper" if paper else "")
    with store.replacing(out) as partial:
        made = (figures.write_paper if paper else figures.write)(result, partial)
    print("\n".join(["Written to", *(f"  {out / path.name}" for path in made)]))


def _report(options: argparse.Namespace) -> None:
    from everystep.web import report

    out = None if options.out is None else Path(options.out)
    print(f"Written to {report.write(Path(options.folder), bar, out, not options.no_player)}")


def _compare(options: argparse.Namespace) -> None:
    seeds = whole_number("seeds", options.seeds)
    episodes = None if options.episodes is None else whole_number("episodes", options.episodes)
    out = Path(options.out or ("out/ablation" if options.ablation else "out/compare"))
    names = None if options.problems is None else _names(options.problems)
    if options.table_only and (names is not None or options.agents is not None):
        raise EverystepError("--table-only reads all run folders there are; leave --problems and --agents out.")
    if options.ablation and options.agents is not None:
        raise EverystepError(f"--agents is '{options.agents}', but --ablation has agents of its own; leave one out.")

    from everystep import compare, store
    from everystep.agents import Recipe

    if not options.table_only:
        agents = None if options.agents is None else [Recipe(name) for name in _names(options.agents)]
        told = (names, seeds, episodes)
        prepared = compare.ablation(*told) if options.ablation else compare.prepare(agents, *told)
        total = sum(run.spec["episodes"] * seeds * len(run.agents) for run in prepared.missing(out).values())
        with bar(total) as advanced:
            prepared.run(out, lambda step: advanced(step.episodes))
    table = compare.read(out)
    if not table.rows and table.unfinished:
        raise EverystepError(store.how_to_finish(table.unfinished[0]))
    if not table.rows:
        raise EverystepError(f"out '{out}' holds no run folders; give the folder that `everystep compare` wrote.")
    table.write(out)
    print(table.text())
    print(f"\nWritten to {out}")


def _play(options: argparse.Namespace) -> None:
    port = None if options.port is None else whole_number("port", options.port)
    if port is not None and port >= 2**16:
        raise EverystepError(f"port is {port}; give a whole number from 1 to {2**16 - 1}.")

    from everystep.web import server

    server.serve(options.host, port, browser=not options.no_browser)
    if any(thread.name.startswith(server.COMPILING) for thread in threading.enumerate()):
        os._exit(0)  # a compilation cannot be stopped, takes seconds, and nobody waits for it any more


def _list(options: argparse.Namespace) -> None:
    from everystep import agents, problems
    from everystep.settings import SETTINGS

    print(f"Problems (or a path to {problems.FILES})")
    _print_columns([[name, problems.summary(name)] for name in problems.REGISTERED])
    print("\nAgents, and what they must be told in advance")
    _print_columns([["name", "needs", "what it is"], *([n, a.needs, a.summary] for n, a in agents.REGISTERED.items())])
    groups: dict[str, list[str]] = {}
    for key in SETTINGS:
        having = [name for name, agent in agents.REGISTERED.items() if key in agent.settings]
        groups.setdefault(", ".join(having), []).append(key)
    shown = lambda value: str(value).lower() if isinstance(value, bool) else str(value)
    print("\nSettings (--set key=value): name, default, and what it does")
    for who, keys in groups.items():
        print(f"\n  of {who}")
        _print_columns([[key, shown(SETTINGS[key].default), SETTINGS[key].help] for key in keys])
    print("\nDefaults of an agent's own")
    own = {name: agent.defaults for name, agent in agents.REGISTERED.items() if agent.defaults}
    _print_columns([[name, ", ".join(f"{key}={shown(value)}" for key, value in d.items())] for name, d in own.items()])


def _print_columns(rows: list[list[str]]) -> None:
    """Rows with all columns but the last made equally wide."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    for *cells, last in rows:
        print("  " + "  ".join([*(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)), last]))


# --- helpers ---------------------------------------------------------------------------------------------------------
def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def parsed(text: str) -> tuple[str | None, str, str]:
    """`key=value` or `agent.key=value`: the agent, if there is one, the key and the value."""
    key, equals, value = text.partition("=")
    agent, dot, setting = key.strip().rpartition(".")
    if not equals or not setting:
        raise EverystepError(f"--set is '{text}'; write key=value, such as beta=0.5.")
    return agent if dot else None, setting, value.strip()


def with_settings(names: Sequence[str], settings: Sequence[str]) -> list[Recipe]:
    """Agents by name with every `key=value` given to those that have it, and `agent.key=value` to one."""
    from everystep.agents import REGISTERED, Recipe
    from everystep.settings import SETTINGS

    for name in names:
        Recipe(name)  # an unknown name is said before anything else
    given: dict[str, dict[str, str]] = {name: {} for name in names}
    for text in settings:
        agent, setting, value = parsed(text)
        if agent is not None and agent not in given:
            raise EverystepError(f"--set is '{text}', but {agent} is not in this run; add it to --agents.")
        candidates = list(names) if agent is None else [agent]
        having = [name for name in candidates if setting in REGISTERED[name].settings]
        if not having and setting in SETTINGS:
            owners = ", ".join(name for name, each in REGISTERED.items() if setting in each.settings)
            raise EverystepError(
                f"--set is '{text}', but {', '.join(candidates)} has no setting {setting}; {owners} has."
            )
        if not having:
            raise unknown("setting", setting, SETTINGS, "`everystep list` shows all.")
        for name in having:
            given[name][setting] = value
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
def watching(spec: dict[str, Any]) -> Iterator[Callable[[Any], None]]:
    """Show how far a run is, and stop it at its next chunk if a person wants that."""
    from everystep import progress

    with progress.shown(spec) as shown:

        def told(step: Any) -> None:
            if _interrupted.is_set():
                raise KeyboardInterrupt
            shown(step)

        yield told


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
