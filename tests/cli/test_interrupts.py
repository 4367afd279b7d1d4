"""Ctrl-C and SIGTERM, whatever the command is doing."""

import gc
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

import everystep as es
from everystep.cli import interrupts, shared
from everystep.experiments import experiment
from everystep.experiments.engines import local

# The main thread is inside a function that no handler interrupts, as it is while XLA compiles there.
BUSY = """
import hashlib, threading
from everystep.cli import interrupts
with interrupts.listening(), interrupts.keeping(lambda: "`everystep resume out` continues"):
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


@pytest.mark.quick
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_busy_command_answers_the_first_signal_and_ends_at_the_second(number, status):
    child = begun(BUSY)
    child.send_signal(number)
    assert child.stderr.readline() == f"{interrupts.STOPPING}\n"
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
    assert re.sub("^note: .*\n", "", said, flags=re.MULTILINE).removeprefix(f"{interrupts.STOPPING}\n") == last
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
        with interrupts.listening():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert found == [before]
    assert not interrupts.received()


@pytest.mark.quick
def test_a_long_silence_is_broken_and_a_short_one_is_not(monkeypatch, capsys):
    monkeypatch.setattr(shared, "PATIENCE", 0.0)
    monkeypatch.setattr(shared, "AGAIN", 600.0)
    with shared.announced("thinking"):
        while "note: thinking" not in (said := capsys.readouterr().err):
            time.sleep(0.01)
    assert said == "note: thinking (0 s so far)\n"
    monkeypatch.setattr(shared, "PATIENCE", 600.0)
    with shared.announced("thinking"):
        pass
    assert capsys.readouterr().err == ""


def test_an_interrupt_in_a_callback_prints_no_traceback_and_is_remembered(capsys):
    class Leaving:
        def __init__(self, error):
            self.error = error

        def __del__(self):
            raise self.error

    def shown(error):
        Leaving(error)
        gc.collect()
        return capsys.readouterr().err

    with interrupts.listening():
        hook, sys.unraisablehook = sys.unraisablehook, interrupts._without_interrupts(sys.__unraisablehook__)
        try:
            assert shown(KeyboardInterrupt()) == ""
            assert "RuntimeError: other" in shown(RuntimeError("other"))
        finally:
            sys.unraisablehook = hook


def test_the_end_of_the_program_is_not_interrupted():
    program = "import atexit, os, signal, sys; from everystep.cli.main import main; sys.argv = ['everystep', 'list']; "
    program += "atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT)); sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
