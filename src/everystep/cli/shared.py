"""What several commands share: lists of names, progress bars, Ctrl-C, the engine, and the end of a run."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everystep.experiments.config import EngineChoice
    from everystep.experiments.engines.ray import Cluster

_interrupted = threading.Event()


def split_names(text: str) -> list[str]:
    """The names in a list with commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def add_folder(parser: argparse.ArgumentParser) -> None:
    """The argument of commands that read a run folder."""
    parser.add_argument("folder", metavar="DIR", help="the run folder")


# --- progress and interrupts ------------------------------------------------------------------------------------------
@contextmanager
def interruptible() -> Iterator[None]:
    """Remember Ctrl-C until the next chunk: the exception alone may be swallowed where it happens to be raised."""

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
def progress_bar(total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar of episodes with the remaining time; silent when standard error is not a terminal."""
    from tqdm import tqdm

    with tqdm(total=total, unit=" episodes", unit_scale=True, disable=None, leave=False) as progress:

        def advance(episodes: int) -> None:
            if _interrupted.is_set():
                raise KeyboardInterrupt
            progress.update(min(episodes, total - progress.n))

        yield advance


@contextmanager
def run_progress(spec: dict[str, Any]) -> Iterator[Callable[[Any], None]]:
    """Show the progress of a run, and stop it at its next chunk after Ctrl-C."""
    from everystep.experiments import progress

    with progress.shown(spec) as show:

        def report(chunk: Any) -> None:
            if _interrupted.is_set():
                raise KeyboardInterrupt
            show(chunk)

        yield report


# --- runs -------------------------------------------------------------------------------------------------------------
def add_engine(parser: argparse.ArgumentParser) -> None:
    """The arguments that choose where a run is computed, and its log."""
    parser.add_argument("--log", metavar="KIND", help="tensorboard: log curves to DIR-logs (extra `logs`)")
    parser.add_argument("--engine", metavar="E", help="local (this machine) or ray (a cluster; extra `ray`)")
    parser.add_argument("--address", metavar="A", help="address of a Ray cluster, or auto (Ray on this machine)")


@contextmanager
def connected_cluster(engine: EngineChoice) -> Iterator[Cluster | None]:
    """The cluster of an engine; None for this machine."""
    if engine.name == "local":
        yield None
        return
    from everystep.experiments.engines import ray

    with ray.connected(engine.address) as cluster:
        yield cluster


def run_with_progress(
    out: Path, spec: dict[str, Any], run: Callable[[Callable[[Any], None]], Any], log: str | None = None
) -> Any:
    """Return what `run` returns; show its progress, and after Ctrl-C say how to continue."""
    from everystep.experiments import progress, run_folder

    try:
        with progress.logged(log, out) as write_log, run_progress(spec) as show:

            def report(chunk: Any) -> None:
                show(chunk)
                if write_log is not None:
                    write_log(chunk)

            return run(report)
    except KeyboardInterrupt:
        if run_folder.is_unfinished(out):
            raise KeyboardInterrupt(f"`everystep resume {out}` continues") from None
        raise


def print_summary(out: Path, remark: str = "") -> None:
    """The table of a finished run, and where it is."""
    from everystep.experiments import run_folder, tables

    print(tables.summary(run_folder.read_json(out / "summary.json")))
    print(f"\n{out} {remark}" if remark else f"\nWritten to {out}")


def print_note(sentence: str) -> None:
    print(f"note: {sentence}", file=sys.stderr)
