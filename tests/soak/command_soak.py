"""Many kills of `everystep train`: `python tests/soak/command_soak.py --kills 200 --jobs 2`. Not a test.

Every process writes a checkpoint each 0.2 s at most, and is killed (SIGKILL) at a random moment after the first one of
its own; the same command then goes on. When a training gets to its end, all files of its folder are compared, byte for
byte, with those of one that nobody killed. Kills are counted by whether there was a checkpoint. Draws depend on
EVERYSTEP_TEST_SEED.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS.parent / "src")]
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_backend_optimization_level=0"

import numpy as np  # noqa: E402
import seeds  # noqa: E402
from soak import drifting  # noqa: E402

from everystep.cli.main import main as command  # noqa: E402
from everystep.files import store  # noqa: E402  imported before the forks
from everystep.reports.training import results as training_results  # noqa: E402, F401  imported before the forks

EVERY = 0.2  # seconds between checkpoints, at least; the cost of writing one is ignored
STEP = 0.004  # seconds of a step, so that there is time for kills
EPISODES, SEEDS = 120, 2
LATE = 1.0  # seconds after the first checkpoint of a process until which it is killed
LONG = 300.0  # seconds after which a process that wrote nothing counts as stuck


def slow():
    """The environment, as the command makes it."""
    return drifting.Drift(on_step=lambda: time.sleep(STEP))


def begin(out: Path) -> int:
    """Start the command in a process of its own, and return its number."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        os.setsid()
        quiet = os.open(out.parent / f"{out.name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        store.EVERY, store.COST = EVERY, 0
        words = ["train", "--env", "command_soak:slow", "--features", "fourier(6)", "--horizon", f"{drifting.LENGTH}"]
        words += ["--length", f"{drifting.LENGTH}", "--episodes", f"{EPISODES}", "--seeds", f"{SEEDS}", "--jobs", "1"]
        status = command([*words, "--evaluate", "2", "--out", str(out)])
    finally:
        os._exit(status)


def checkpoints(out: Path) -> dict[str, int]:
    """The checkpoints of all seeds, by path, with what tells one from a later one of the same name."""
    found = {}
    for path in out.glob("seed-*/.work/checkpoint-*"):
        try:
            found[str(path)] = path.stat().st_mtime_ns
        except FileNotFoundError:
            continue
    return found


def live(out: Path, after: float | None) -> str:
    """One process: killed `after` so many seconds from its first checkpoint, if it lives so long. What became of it."""
    before, pid, began, first = checkpoints(out), begin(out), time.monotonic(), None
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        now = time.monotonic()
        if ended:
            assert os.waitstatus_to_exitcode(status) == 0, (out.parent / f"{out.name}.log").read_text()[-2000:]
            return "finished"
        if first is None and set(checkpoints(out).items()) - set(before.items()):
            first = now
        if (first is not None and after is not None and now - first >= after) or now - began > LONG:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            assert now - began <= LONG, f"stuck: {out}"
            return "with" if checkpoints(out) else "without"
        time.sleep(0.002)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="with a checkpoint present, at least (20)")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time")
    options = parser.parse_args()
    print(seeds.HOW, flush=True)
    place, began = Path(tempfile.mkdtemp(prefix="everystep-soak-")), time.monotonic()
    os.environ["EVERYSTEP_CACHE"] = str(place / "programs")
    os.chdir(TESTS / "environments")
    kills, finished, different = {"with": 0, "without": 0}, 0, []
    try:
        assert live(place / "undisturbed", None) == "finished"
        undisturbed = contents(place / "undisturbed")

        def one(number: int) -> tuple[int, list[str]]:
            """A training, killed again and again until it is finished."""
            out, rng = place / f"{number}", np.random.default_rng([seeds.SEED, number])
            while (end := live(out, float(rng.uniform(0, LATE)))) != "finished":
                kills[end] += 1
                if sum(kills.values()) % 20 == 0:
                    print(f"{sum(kills.values())} kills, {kills['with']} with a checkpoint", flush=True)
            found = contents(out)
            names = [name for name in {*found, *undisturbed} if found.get(name) != undisturbed.get(name)]
            shutil.rmtree(out)
            return number, names

        with ThreadPoolExecutor(options.jobs) as pool:
            while kills["with"] < options.kills:
                for number, names in pool.map(one, range(finished, finished + options.jobs)):
                    different += [f"{number}/{name}" for name in names]
                finished += options.jobs
    finally:
        shutil.rmtree(place, ignore_errors=True)
    alike = f"DIFFERENT: {', '.join(different)}" if different else "all files alike"
    print(
        f"{sum(kills.values())} kills, {kills['with']} of them with a checkpoint present; {finished} trainings, "
        f"{alike}; {time.monotonic() - began:.0f} s"
    )
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
