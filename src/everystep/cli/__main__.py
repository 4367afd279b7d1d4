"""The program: `everystep`, or `python -m everystep.cli`. From here on a signal ends it in one sentence.

Until a command runs (`signals.listening`) there is nothing to save, so the process ends at once. An exception would
be raised in the middle of an import, and print a traceback.
"""

import _signal  # the part of `signal` that is built in: importing it takes no time, in which a signal could come
import os
import sys


def main() -> int:
    """Run the command that was typed, and return its exit status."""
    for each in (_signal.SIGINT, _signal.SIGTERM):
        if _signal.getsignal(each) != _signal.SIG_IGN:  # as after nohup
            _signal.signal(each, _end)

    from everystep.cli.main import main as run_command

    return run_command()


def _end(number: int, frame: object) -> None:
    try:
        os.write(2, b"everystep: stopped.\n")
    finally:  # standard error may be closed
        os._exit(128 + number)


if __name__ == "__main__":
    if sys.path and sys.path[0] in ("", os.getcwd()):
        del sys.path[0]  # put there by `python -m`: the current folder may be one that was received
    sys.exit(main())
