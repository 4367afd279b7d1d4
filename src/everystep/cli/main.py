"""The command `everystep`.

A command is a module of this package with a line of help (`HELP`), its arguments (`add_arguments`) and what it does
(`run`), or a class with these in `reading.py`. To add one, write its module and name it in `COMMANDS`. The modules
import heavy packages inside `run`, so that `everystep --help` takes less than a tenth of a second.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

from everystep import __version__
from everystep.cli import reading
from everystep.cli.shared import printable, reopen
from everystep.errors import EverystepError, shown
from everystep.runtime import progress, signals

POOL = "everystep-run"  # names of threads that compute, which end by themselves only when a compilation does
COMMANDS = (  # in the order in which `everystep --help` lists them
    "reproduce",
    "run",
    "train",
    "resume",
    "summary",
    "evaluate",
    "certify",
    "theory",
    "figures",
    "report",
    "compare",
    "leaderboard",
    "play",
    "list",
)

# Importing JAX and matplotlib, tracing and drawing make hundreds of thousands of objects that stay. With Python's usual
# 700 new objects between collections, searching them for garbage was a tenth of the time of a short run.
NEW_OBJECTS = 100_000

NO_MEMORY = "there was not enough memory; use fewer seeds or episodes, a smaller problem, or a shorter horizon."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status. A wrong input ends with one sentence and status 2.

    As the program itself (without arguments) it collects garbage less often, and not at the end, where Python would
    search all objects once more. It does not wait for a compilation whose result is no longer needed, and Ctrl-C no
    longer interrupts the end of Python, which would print a traceback. After a signal it ends at once: if C code has
    met its exception, Python would end with the status of Ctrl-C, even after SIGTERM.
    """
    if arguments is None:
        gc.set_threshold(NEW_OBJECTS)
        os.environ["MPLBACKEND"] = "agg"  # figures are files: no window, whatever the user has chosen for others
    with printable():
        status = _main(sys.argv[1:] if arguments is None else arguments)
        computing = any(thread.name.startswith(POOL) for thread in threading.enumerate())
        if arguments is None and status and (computing or status > 128):
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()
            os._exit(status)
        if arguments is None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    if arguments is None:
        gc.freeze()  # collections ignore all that exists now; modules and files are closed as always
    return status


def _main(arguments: Sequence[str]) -> int:
    try:
        try:
            options = parser().parse_args(arguments)
            try:
                if options.own_interrupts:
                    with signals.left_to_python():
                        options.run(options)
                else:
                    with signals.listening(), progress.working():
                        options.run(options)
            except SystemExit as left:
                if isinstance(left, _UsageError):
                    raise
                raise EverystepError("a module that was imported called sys.exit(); remove the call.") from None
        finally:
            reopen()
            sys.stdout.flush()  # here, where a closed pipe can still be handled
    except EverystepError as error:
        return _refuse(str(error))
    except KeyboardInterrupt as stopped:
        print(f"everystep: stopped{f'; {stopped}' if str(stopped) else ''}.", file=sys.stderr)
        return signals.status()
    except MemoryError:
        return _refuse(NO_MEMORY)
    except RuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):  # what JAX reports instead of a MemoryError
            raise
        return _refuse(NO_MEMORY)
    except ValueError as error:
        if "closed file" not in str(error):
            raise
        return _refuse("standard output or error was closed while the command ran; let no environment close them.")
    except BrokenPipeError:
        _silence_output()
    except OSError as error:
        reason = error.strerror or error
        if error.filename is not None:
            return _refuse(
                f"'{shown(error.filename)}' cannot be read or written ({reason}); check the path and permissions."
            )
        _silence_output()
        return _refuse(f"the output cannot be written ({reason}); redirect it elsewhere.")
    return 0


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    top = Parser(prog="everystep", description="Safe reinforcement learning whose constraints must hold at every step.")
    top.add_argument("--version", action="version", version=f"everystep {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    for name in COMMANDS:
        module: Any = reading.COMMANDS.get(name) or import_module(f"everystep.cli.{name}")
        command = commands.add_parser(
            name,
            help=module.HELP,
            description=f"{module.HELP[0].upper()}{module.HELP[1:]}.",
            epilog=getattr(module, "EPILOG", None),
        )
        module.add_arguments(command)
        own = getattr(module, "OWN_INTERRUPTS", False)
        command.set_defaults(run=module.run, parser=command, own_interrupts=own)
    return top


class Parser(argparse.ArgumentParser):
    """Reports an error in one line, like every other error of the command."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # as argparse has it
        for each in args or ():
            if re.fullmatch("--[a-z0-9-]+=--", each):  # which argparse takes for an empty list
                self.error(f"{each[:-3]} is '--'; give a value")
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        if message.startswith("unrecognized arguments: --seed0"):
            message = "there is no --seed0: use --seeds 7:20 for the seeds from 7 to 19"
        print(f"{self.prog}: {EverystepError(message)}. `{self.prog} --help` shows the usage.", file=sys.stderr)
        raise _UsageError(2)


class _UsageError(SystemExit):
    """Wrong arguments; the error was printed."""


def _refuse(sentence: str) -> int:
    reopen()
    print(f"everystep: {sentence}", file=sys.stderr)
    return 2


def _silence_output() -> None:
    """Point standard output at the null device, so that closing it at the end cannot fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
