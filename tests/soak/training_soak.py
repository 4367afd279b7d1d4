"""Many kills of a training: `python tests/soak/training_soak.py --kills 20`. Not a test.

Each kill is a SIGKILL of a process that trains with out=, at a random moment: before the first step, at a step, or
while a checkpoint or the finished folder is written. When a training gets to its end, its result and its files are
compared, bit for bit, with those of one that nobody killed. Draws depend on EVERYSTEP_TEST_SEED.
"""

import argparse
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS.parent / "src")]
os.environ["PYTHONPATH"] = os.pathsep.join([*sys.path[:2], os.environ.get("PYTHONPATH", "")])
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_backend_optimization_level=0"

import seeds  # noqa: E402
from soak import drifting  # noqa: E402

EPISODES = 30


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    options = parser.parse_args()
    print(seeds.HOW, flush=True)
    multiprocessing.set_forkserver_preload(["everystep.training.folder.training_folder", "soak.drifting"])
    place, rng, began = Path(tempfile.mkdtemp(prefix="everystep-soak-")), seeds.generator(), time.monotonic()
    fell = {"before the first step": 0, "between or at steps": 0, "while writing": 0}
    finished, different = 0, []
    try:
        whole = drifting.train(place / "undisturbed", episodes=EPISODES)
        undisturbed = contents(place / "undisturbed")
        life = EPISODES * (drifting.LENGTH + 2)  # letters that a training sends
        while sum(fell.values()) < options.kills:
            out = place / str(finished)
            heard = drifting.kill_after(int(rng.integers(0, life // 2)), out, EPISODES)
            if heard is not None:
                writing = heard.count("c") > heard.count("C")
                where = "while writing" if writing else "between or at steps" if heard else "before the first step"
                fell[where] += 1
                continue
            finished += 1
        for each in range(finished + 1):
            drifting.check_same(drifting.train(place / str(each), episodes=EPISODES), whole)
            found = contents(place / str(each))
            different += [
                f"{each}/{name}" for name in {*found, *undisturbed} if found.get(name) != undisturbed.get(name)
            ]
    finally:
        shutil.rmtree(place, ignore_errors=True)
    where = ", ".join(f"{count} {name}" for name, count in fell.items())
    alike = f"DIFFERENT: {', '.join(different)}" if different else "all alike"
    print(f"{sum(fell.values())} kills: {where}; {finished + 1} trainings, {alike}; {time.monotonic() - began:.0f} s")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
