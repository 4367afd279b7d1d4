"""Ctrl-C and SIGTERM, whatever the command is doing."""

import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

import everystep as es
from everystep.experiments import experiment
from everystep.experiments.engines import local
from everystep.runtime import signals

# The main thread is inside a function that no handler interrupts, as it is while XLA compiles there.
BUSY = """
import hashlib, threading
from everystep.runtime import signals
with signals.listening(), signals.keeping(lambda: "`everystep resume out` continues"):
    threading.Timer(0.5, print, ("ready",), {"flush": True}).start()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
"""
# A command that waits for its threads, one of which compiles for ten minutes.
COMPILING = """
import sys, time
from everystep.cli import main
from everystep.experiments.engines import local
def measure(pairs, seeds, count):
    print("ready", flush=True)
    time.sleep(600)
local.measure = measure
options = "run --problem bandit --agents lsvi --episodes 5 --seeds 1 --out"
sys.argv[1:] = [*options.split(), sys.argv[1]]
sys.exit(main.main())
"""


def begun(program, *arguments):
    command = [sys.executable, "-c", program, *map(str, arguments)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n", child.stderr.read()
    return child


def without_notes(said):
    """A busy machine is slow enough for notes."""
    return re.sub("^note: .*\n", "", said, flags=re.MULTILINE)


@pytest.mark.quick
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_busy_command_answers_the_first_signal_and_ends_at_the_second(number, status):
    child = begun(BUSY)
    child.send_signal(number)
    assert child.stderr.readline() == f"{signals.STOPPING}\n"
    child.send_signal(number)
    _, said = child.communicate(timeout=60)
    assert (child.returncode, said) == (status, "everystep: stopped at once; `everystep resume out` continues.\n")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_command_that_compiles_stops_at_once_and_can_be_resumed(number, status, tmp_path):
    out = tmp_path / "out"
    child = begun(COMPILING, out)
    child.send_signal(number)
    _, said = child.communicate(timeout=60)
    assert child.returncode == status
    last = f"everystep: stopped; `everystep resume {out}` continues.\n"
    assert without_notes(said).removeprefix(f"{signals.STOPPING}\n") == last
    assert (out / ".work" / "spec.json").is_file()


@pytest.mark.quick
def test_an_error_does_not_wait_for_the_compilation_of_another_agent(monkeypatch):
    held, release = threading.Event(), threading.Event()
    prepared = experiment.prepare(es.problems.bandit(), ["lsvi", "lsvi-ae"], 5, 1)

    def measure(pairs, seeds, count):
        if pairs[0] is prepared.pairs[0]:
            held.wait()
            raise RuntimeError("of the compiler")
        held.set()
        release.wait()

    monkeypatch.setattr(local, "measure", measure)
    monkeypatch.setattr(local, "workers", lambda: 2)
    try:
        with pytest.raises(RuntimeError, match="of the compiler"):
            prepared.run()
        assert not release.is_set()
    finally:
        release.set()


@pytest.mark.quick
def test_in_a_thread_signals_stay_with_the_program_around_it():
    before, found = signal.getsignal(signal.SIGINT), []

    def inside():
        with signals.listening():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert found == [before]
    assert not signals.received()


# --- where the exception is raised ------------------------------------------------------------------------------------
class Leaving:
    """An object at whose end an error is raised, which Python reports and forgets."""

    def __init__(self, fail):
        self.fail = fail

    def __del__(self):
        self.fail()


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def test_an_error_in_a_callback_prints_no_traceback_after_a_signal(capsys, monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)

    def fail():
        raise RuntimeError("other")

    def run():
        Leaving(fail)
        assert "RuntimeError: other" in capsys.readouterr().err
        try:
            interrupt()
            time.sleep(60)
        finally:
            Leaving(fail)

    with pytest.raises(KeyboardInterrupt), signals.listening():
        run()
    assert capsys.readouterr().err == ""
    assert signals.status() == 130


# The exception is raised in a callback, from which it goes no further.
SWALLOWED = """
import os, signal, time
from everystep.runtime import signals
signals.LIMIT = 0.5
class Leaving:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
with signals.listening():
    Leaving()
    print("ready", flush=True)
    time.sleep(60)
"""


def test_a_command_that_swallows_the_exception_is_ended():
    _, said = (child := begun(SWALLOWED)).communicate(timeout=60)
    assert (child.returncode, said) == (143, f"{signals.STOPPING}\neverystep: stopped.\n")


def test_an_import_is_not_interrupted(tmp_path, monkeypatch):
    """C code that is interrupted there may crash, and some packages make other errors of it."""
    (tmp_path / "long_to_import.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nfor _ in range(100): pass\nwhole = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def run():
        import long_to_import  # type: ignore[import-not-found]

        assert long_to_import.whole
        time.sleep(60)

    with pytest.raises(KeyboardInterrupt), signals.listening():
        run()
    assert sys.modules.pop("long_to_import").whole


def test_an_error_that_an_interrupt_has_become_is_a_stop(monkeypatch, capsys):
    from everystep.cli import main, reading

    def run(options):
        try:
            interrupt()
            time.sleep(60)
        except KeyboardInterrupt:
            raise SystemError("initialization of C code raised an exception") from None

    monkeypatch.setattr(reading.Summary, "run", run)
    assert main.main(["summary", "anything"]) == 130
    assert capsys.readouterr().err == "everystep: stopped.\n"


# --- the program ------------------------------------------------------------------------------------------------------
# A signal while a module is imported, which may be one of the command itself.
IMPORTING = """
import os, runpy, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == MODULE:
            os.kill(os.getpid(), NUMBER)
sys.meta_path.insert(0, Finder())
sys.argv[1:] = ["summary", "missing"]
runpy.run_module("everystep.cli", run_name="__main__")
"""


@pytest.mark.parametrize("module", ["everystep.cli.main", "everystep.cli.reading", "numpy"])
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_during_an_import_is_one_sentence(module, number, status, tmp_path):
    program = f"MODULE, NUMBER = {module!r}, {int(number)}\n{IMPORTING}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == status
    assert without_notes(done.stderr).removeprefix(f"{signals.STOPPING}\n") == "everystep: stopped.\n"


def test_a_command_that_does_not_stop_is_ended(tmp_path):
    child = begun(f"from everystep.runtime import signals; signals.LIMIT = 0.5\n{BUSY}")
    child.send_signal(signal.SIGTERM)
    _, said = child.communicate(timeout=60)
    last = "everystep: stopped; `everystep resume out` continues.\n"
    assert (child.returncode, said) == (143, f"{signals.STOPPING}\n{last}")


def test_the_end_of_the_program_is_not_interrupted():
    program = "import atexit, os, signal, sys; from everystep.cli.main import main; sys.argv = ['everystep', 'list']; "
    program += "atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT)); sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, without_notes(done.stderr)) == (0, "")


def test_deferred_calls_the_handler_that_was_there_once_and_at_the_end():
    calls, before = [], signal.signal(signal.SIGINT, lambda *given: calls.append("handler"))
    try:
        with signals.deferred():
            with signals.deferred():
                os.kill(os.getpid(), signal.SIGINT)
                calls.append("inner")
            calls.append("outer")
        assert calls == ["inner", "outer", "handler"]
    finally:
        signal.signal(signal.SIGINT, before)
    assert signal.getsignal(signal.SIGINT) is before
