"""What several commands share: flags, the engine, Ctrl-C, and the end of a run."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from everystep.experiments.options import PATH, RUN_OPTIONS, SETTINGS, SWITCH, EngineChoice, Option
from everystep.runtime import signals

if TYPE_CHECKING:
    from everystep.experiments.engines.ray import Cluster
    from everystep.experiments.runner import ChunkReport


def a_path(text: str) -> str:
    """The type of every argument that is a path: an empty one would mean the current folder."""
    if not text or "\0" in text:
        raise argparse.ArgumentTypeError(f"a path is {text!r}; give the name of a file or a folder")
    return text


def add_flags(parser: argparse.ArgumentParser, table: Mapping[str, Option]) -> None:
    """The flags of a table of options (`experiments/options.py`)."""
    for name, each in table.items():
        flag = f"--{name.replace('_', '-')}"
        if each.form is SETTINGS:
            parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest=name, help=each.help)
        elif each.form is SWITCH:
            parser.add_argument(flag, action="store_true", help=each.help)
        else:
            kind = a_path if each.form is PATH else str
            parser.add_argument(flag, type=kind, metavar=each.metavar, help=each.help)


def given_flags(options: argparse.Namespace, table: Mapping[str, Option]) -> dict[str, Any]:
    """The values of the flags that were given; settings are read apart, because one flag has one of them."""
    texts = {name: getattr(options, name) for name, each in table.items() if each.form is not SETTINGS}
    return {name: table[name].form.read(name, text) for name, text in texts.items() if text not in (None, False)}


def add_folder(parser: argparse.ArgumentParser) -> None:
    """The argument of commands that read a run folder."""
    parser.add_argument("folder", type=a_path, metavar="DIR", help="the run folder")


def add_out(parser: argparse.ArgumentParser, help: str, metavar: str = "DIR", default: str | None = None) -> None:
    """The path that a command writes to."""
    parser.add_argument("--out", type=a_path, default=default, metavar=metavar, help=help)


def add_force(parser: argparse.ArgumentParser) -> None:
    """The permission to replace files that everystep did not write."""
    parser.add_argument(
        "--force", action="store_true", help="also replace files that everystep did not write, or that were changed"
    )


def add_trust(parser: argparse.ArgumentParser) -> None:
    """The permission to import modules named by a folder of another user."""
    parser.add_argument(
        "--trust", action="store_true", help="import the modules that DIR names, although another user began it"
    )


# --- printing ---------------------------------------------------------------------------------------------------------
@contextmanager
def printable() -> Iterator[None]:
    """Make standard output and error printable: characters that a terminal cannot show are escaped.

    The name of a file may hold bytes that are not text, and a terminal may support ASCII only. A stream that the caller
    has closed is replaced by the null device; otherwise the next file to be opened would take its number.
    """
    before = sys.stdout, sys.stderr
    with ExitStack() as opened:
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            with suppress(OSError, ValueError, AttributeError):
                _spare[name] = os.dup(stream.fileno())
                opened.callback(_close_spare, name)
            if stream is None:
                setattr(sys, name, opened.enter_context(open(os.devnull, "w", encoding="utf-8")))
            elif isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
            elif getattr(stream, "encoding", None):
                setattr(sys, name, _Escaping(stream))
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before
            while _opened:
                with suppress(OSError):
                    _opened.pop().close()


_spare: dict[str, int] = {}  # a second descriptor of each stream that has one
_opened: list[Any] = []  # streams that `reopen` made


def _close_spare(name: str) -> None:
    os.close(_spare.pop(name))


def reopen() -> None:
    """Open the streams again that an environment has closed, so that results can be printed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not _is_as_before(name, stream):
            where = os.dup(_spare[name]) if name in _spare else os.devnull
            if name in _spare or getattr(stream, "closed", False):
                _opened.append(open(where, "w", encoding="utf-8", errors="backslashreplace"))  # noqa: SIM115
                setattr(sys, name, _opened[-1])
                if name == "stderr" and _opened[-1].isatty():
                    _opened[-1].write("\n")  # below a bar, which could not end its line


def _is_as_before(name: str, stream: TextIO) -> bool:
    """Whether a stream is open, and leads to where it did: the next file that is opened takes a closed number."""
    try:
        now = os.fstat(stream.fileno())
        return name not in _spare or os.path.samestat(now, os.fstat(_spare[name]))
    except (OSError, ValueError, AttributeError):
        return False


@contextmanager
def environments_at_work() -> Iterator[None]:
    """A block in which environments run; the current folder and the streams are restored after it."""
    try:
        here = os.getcwd()
    except OSError:  # it was removed
        here = None
    try:
        yield
    finally:
        if here is not None:
            with suppress(OSError):
                os.chdir(here)
        reopen()


class _Escaping:
    """A stream that escapes what its encoding cannot express."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def write(self, text: str) -> int:
        encoding = self._stream.encoding
        self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


# --- compiled programs ------------------------------------------------------------------------------------------------
def add_cache(parser: argparse.ArgumentParser) -> None:
    """The argument of commands that compile."""
    parser.add_argument("--no-cache", action="store_true", help="compile everything, and keep no compiled programs")


def use_cache(options: argparse.Namespace) -> None:
    """Keep compiled programs between commands, unless --no-cache is given."""
    from everystep.runtime import program_cache

    program_cache.disable() if options.no_cache else program_cache.enable()


# --- runs -------------------------------------------------------------------------------------------------------------
def add_engine(parser: argparse.ArgumentParser) -> None:
    """The arguments that choose where a run is computed, and its log."""
    parser.add_argument("--log", metavar="KIND", help="tensorboard: log curves to DIR-logs (extra `logs`)")
    add_flags(parser, {name: RUN_OPTIONS[name] for name in ("engine", "address")})


def chosen_engine(options: argparse.Namespace) -> EngineChoice:
    """The engine and the log that were asked for, checked before any work."""
    from everystep.experiments import run_progress

    run_progress.check(options.log)
    return EngineChoice(options.engine or "local", options.address).checked()


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
    from everystep.experiments import run_progress

    with (
        resumable(lambda: _how_to_continue(out)),
        run_progress.logged(log, out) as write_log,
        run_progress.shown(spec) as show,
    ):

        def report(chunk: ChunkReport) -> None:
            show(chunk)
            if write_log is not None:
                write_log(chunk)

        return run(report)


@contextmanager
def resumable(how: Callable[[], str]) -> Iterator[None]:
    """A block whose work is kept after a signal, which then says how to continue it."""
    with signals.keeping(how):
        try:
            yield
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) or signals.received():  # the exception may have become another one
                raise KeyboardInterrupt(how()) from None
            raise


def _how_to_continue(out: Path) -> str:
    """For a run that was stopped; "" if it had not begun."""
    from everystep.experiments.folder import run_folder

    return run_folder.how_to_continue(out) if run_folder.is_unfinished(out) else ""


def print_summary(out: Path, remark: str = "") -> None:
    """The table of a finished run, and where it is."""
    from everystep.experiments import summary

    print(summary.of_finished(out))
    print(f"\n{out} {remark}" if remark else f"\nWritten to {out}")
