"""The fuzz itself, small: it notices what it is there to notice, and the command and the API withstand some inputs."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import seeds

ROOT = Path(__file__).resolve().parents[2]
MISDEEDS = """
import os, signal, subprocess, sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from fuzz import harness
from fuzz.cases import SUITES, Case, Suite

suite = Suite()
mischief = {
    "well behaved": lambda: print("done"),
    "traceback": lambda: [][1],
    "status": lambda: sys.exit(3),
    "crash": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "silent": lambda: time.sleep(60),
    "mute": lambda: time.sleep(2),
    "memory": lambda: bytearray(300 * 2**20),
    "file": lambda: Path("left.txt").write_bytes(b"x"),
    "temporary": lambda: Path(os.environ["TMPDIR"], "left.txt").write_bytes(b"x"),
    "home": lambda: Path(os.environ["HOME"], ".left").write_bytes(b"x"),
    "changed": lambda: Path("given.txt").write_bytes(b"another"),
    "process": lambda: subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL),
    "words": lambda: print("warning", file=sys.stderr),
    "long": lambda: (print("everystep: " + "x" * 2000 + ".", file=sys.stderr), sys.exit(2)),
}

def make(name):
    def case(bench):
        bench.path("given.txt", "as given")
        return Case(call=mischief[name], shown=name, mute=name == "mute")
    return case

names = list(mischief)
for name in names:
    suite.kind(name, 1)(make(name))
suite.kind_of = lambda seed, number: names[number]
SUITES["misdeeds"] = suite
harness.SILENCE, harness.MEMORY = 1.0, 200 * 2**20
at_work = harness.Harness(0, Path(sys.argv[2]))
at_work.run([("misdeeds", number) for number in range(len(names))],
            lambda verdict: print(f"{verdict.shown}: {'; '.join(verdict.complaints) or 'nothing'}", flush=True))
"""


@pytest.mark.quick
def test_every_misdeed_is_noticed(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", MISDEEDS, str(ROOT / "tests"), str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    expected = {
        "well behaved": "nothing",
        "traceback": "a traceback; status 1",
        "status": "status 3",
        "crash": "ended by SIGSEGV",
        "silent": "silent for ",
        "mute": "nothing",
        "memory": "took 0.",
        "file": "left.txt was made",
        "temporary": "left.txt is left in tmp",
        "home": ".left is left in home",
        "changed": "given.txt was changed",
        "process": "processes are left",
        "words": "unexpected words: warning",
        "long": "an error of 2012 characters",
    }
    assert set(found) == set(expected)
    assert not {name: said for name, said in found.items() if not said.startswith(expected[name])}


@pytest.mark.quick
def test_every_public_name_is_tried():
    from fuzz import python_api

    tried = {
        name.split(".")[0] if name.startswith(("Learner", "Policy")) else name for name in python_api.names_tried()
    }
    assert python_api.public_names() - tried - python_api.INTERNAL == set()


def test_the_same_number_is_the_same_input(tmp_path):
    from fuzz import kinds, problem_files  # noqa: F401
    from fuzz.cases import COMMAND, Bench

    made = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        for number in range(20):
            here = tmp_path / name / str(number)
            here.mkdir()
            case = COMMAND.makers["arrays"](Bench(np.random.default_rng([seeds.SEED, number]), here, tmp_path, True))
            made.append((name, case.words, [path.read_bytes() for path in sorted(here.glob("*.np*"))]))
    assert [each[1:] for each in made[:20]] == [each[1:] for each in made[20:]]


def test_hostile_inputs_are_refused_in_a_sentence(tmp_path):
    """A hundred and fifty inputs; `make fuzz` runs thousands."""
    words = ["--quick", "--count", "50", "--seed", str(seeds.SEED)]
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "fuzz"), *words],
        capture_output=True, text=True, env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.quick
def test_a_conversion_that_numpy_refuses_leaves_the_array_as_it_is(tmp_path):
    """Such as that of dates to texts of three characters, which is a RuntimeError."""
    from fuzz.cases import Bench
    from fuzz.problem_files import damaged_array

    dates = np.array(["2020-01-01"], "M8[s]")
    with pytest.raises(RuntimeError):
        dates.astype("S3")
    for number in range(200):
        damaged_array(Bench(np.random.default_rng([seeds.SEED, number]), tmp_path, tmp_path), dates)
