"""`everystep play`: the playground in the browser."""

from __future__ import annotations

import argparse
import os
import threading

from everystep.cli.shared import add_cache, use_cache
from everystep.errors import EverystepError, whole_number

OWN_INTERRUPTS = True  # of the server
HELP = "open the playground in the browser: paint a lake or a racetrack, watch agents learn"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", metavar="NAME", help="host name (127.0.0.1: this machine only)")
    parser.add_argument("--port", metavar="N", help="port; a free one is chosen if it is taken (8765)")
    parser.add_argument("--no-browser", action="store_true", help="print the address without opening a browser")
    add_cache(parser)


def run(options: argparse.Namespace) -> None:
    port = None if options.port is None else whole_number("port", options.port)
    if port is not None and port >= 2**16:
        raise EverystepError(f"port is {port}; give a whole number from 1 to {2**16 - 1}.")

    from everystep.web.playground import server

    use_cache(options)
    server.serve(options.host, port, browser=not options.no_browser)
    if any(thread.name.startswith(server.COMPILING) for thread in threading.enumerate()):
        os._exit(0)  # a compilation takes seconds and cannot be stopped, and its result is no longer needed
