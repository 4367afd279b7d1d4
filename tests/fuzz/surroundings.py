"""The surroundings as inputs: the command in a process of its own, with odd variables, limits, outputs and signals."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from fuzz.cases import COMMAND, Bench, Case

VARIABLES = (
    {"LC_ALL": "C"}, {"LC_ALL": "nowhere.UTF-8", "LANG": "xx"}, {"PYTHONIOENCODING": "ascii"},
    {"PYTHONUTF8": "0", "LC_ALL": "C"}, {"HOME": "/nonexistent"},
    {"HOME": ""}, {"TMPDIR": "/nonexistent"}, {"COLUMNS": "0"}, {"COLUMNS": "x"}, {"TERM": "dumb"},
    {"JAX_ENABLE_X64": "true"}, {"JAX_DISABLE_JIT": "true"},
    {"PYTHONWARNINGS": "error"}, {"PYTHONOPTIMIZE": "2"}, {"PYTHONHASHSEED": "1"}, {"TZ": "nowhere"},
    {"XDG_CACHE_HOME": "/nonexistent"}, {"MPLCONFIGDIR": "/nonexistent"},
    {"OMP_NUM_THREADS": "0"}, {"NO_COLOR": "1"}, {"PATH": ""}, {"USER": ""}, {"MPLBACKEND": "nothing"},
    {"JAX_COMPILATION_CACHE_DIR": "/nonexistent"},
)  # fmt: skip


def _until_it_listens(child: subprocess.Popen[bytes]) -> None:
    """Wait until the program has its handler of SIGTERM, which is its first act; before it, Python itself starts."""
    bit = 1 << (signal.SIGTERM - 1)
    status = Path(f"/proc/{child.pid}/status")
    while child.poll() is None and status.exists():
        caught = [line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("SigCgt:")]
        if not caught or int(caught[0].split()[1], 16) & bit:
            return
        time.sleep(0.001)


@COMMAND.kind("surroundings", 1)
def surroundings(bench: Bench) -> Case:
    """A small valid or refused command where something around it is unusual."""
    if bench.quick:
        return Case(["list"])
    shutil.copytree(bench.templates / "run", bench.here / "run")
    (bench.here / "map.txt").write_bytes(b"SF\nFG\n")
    small = [
        "run",
        "--problem",
        "map.txt",
        "--horizon",
        "3",
        "--agents",
        "lsvi",
        "--episodes",
        "2",
        "--seeds",
        "1",
        "--out",
        "new",
    ]
    words = bench.pick(
        (["list"], ["summary", "run"], ["--help"], ["certify", "run"], small, small, ["summary", "missing"])
    )
    how = bench.pick(
        ("variables", "variables", "full", "closed", "reader gone", "signal", "few files", "gone", "small disk")
    )
    environment = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(sys.path)}
    before: list[Callable[[], object]] = []
    output: int | None = None
    stop: tuple[signal.Signals, float] | None = None
    gone: str | None = None
    mute = False
    if how == "variables":
        for chosen in bench.some(VARIABLES, 2):
            environment |= chosen
    elif how == "full":
        output = os.open("/dev/full", os.O_WRONLY) if Path("/dev/full").exists() else None
    elif how == "closed":
        number = int(bench.pick((0, 1, 2)))
        mute = number == 2
        before.append(lambda: os.close(number))
    elif how == "reader gone":
        reading, output = os.pipe()
        os.close(reading)
    elif how == "signal":
        longest = 4.0 if bench.chance(0.5) else 0.3
        stop = bench.pick((signal.SIGINT, signal.SIGTERM)), float(bench.rng.uniform(0, longest))
    elif how == "few files":
        before.append(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)))
    elif how == "small disk":
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)  # shared by all inputs, which would read what was cut off
        limit = int(bench.pick((0, 1000, 20_000)))
        before.append(
            lambda: (
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
            )
        )
    else:
        gone = str(bench.here / "gone")

    def call() -> None:
        if gone is not None:
            os.mkdir(gone)
            os.chdir(gone)
            os.rmdir(gone)
        child = subprocess.Popen(
            [sys.executable, "-m", "everystep.cli", *words],
            env=environment, stdout=output, preexec_fn=lambda: [each() for each in before] and None,
        )  # fmt: skip
        if stop is not None:
            _until_it_listens(child)
            time.sleep(stop[1])
            child.send_signal(stop[0])
        try:
            code = child.wait()
        except KeyboardInterrupt:  # which the child hears, too
            code = child.wait()
        raise SystemExit(code if code >= 0 else 128 - code)

    changed = {key: each for key, each in environment.items() if os.environ.get(key) != each and key != "PYTHONPATH"}
    return Case(
        call=call, shown=f"{' '.join(words)}, {how} {changed or stop or ''}", written=["new", "run"],
        kept=["new", "run"] if how in ("few files", "small disk", "signal", "full", "closed") else [],
        statuses=(130, 143) if stop is not None else (), any_words=how in ("variables", "closed", "few files"),
        mute=mute,
    )  # fmt: skip
