"""Hundreds of kills: `python tests/soak/run_soak.py --kills 500 --jobs 2`, or `make soak`. Not a test.

Each job kills runs of its own at random moments with SIGKILL, damages a checkpoint now and then, lets the runs finish
and compares their files byte for byte with those of an undisturbed run. Draws depend on the seed (EVERYSTEP_TEST_SEED)
and the number of the job; what a process is doing at a moment depends on the machine.
"""

import argparse
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS.parent / "src")]
os.environ["PYTHONPATH"] = os.pathsep.join([*sys.path[:2], os.environ.get("PYTHONPATH", "")])
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_backend_optimization_level=0"

import numpy as np  # noqa: E402
import seeds  # noqa: E402
from soak import killing  # noqa: E402

DAMAGE = 0.2  # probability that a checkpoint is damaged after a kill


def work(job: int, kills: int, place: Path, whole: killing.Undisturbed, cache: Path, results) -> None:
    """The kills of one job; what it found, or the error that stopped it."""
    multiprocessing.set_forkserver_preload(["everystep.experiments.runner"])
    try:
        rng = np.random.default_rng([seeds.SEED, job])
        results.put((job, killing.kill_often(kills, place, whole, cache, rng, DAMAGE)))
    except BaseException:
        results.put((job, traceback.format_exc()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    options = parser.parse_args()
    jobs = min(options.jobs, options.kills)
    print(seeds.HOW, flush=True)
    place = Path(tempfile.mkdtemp(prefix="everystep-soak-"))
    own = multiprocessing.get_context("spawn")
    began = time.monotonic()
    try:
        for name in ("cache", "undisturbed", *(f"job-{job}" for job in range(jobs))):
            (place / name).mkdir()
        multiprocessing.set_forkserver_preload(["everystep.experiments.runner"])
        whole, results = killing.undisturbed(place / "undisturbed", place / "cache"), own.Queue()
        shares = [options.kills // jobs + (job < options.kills % jobs) for job in range(jobs)]
        processes = [
            own.Process(target=work, args=(job, share, place / f"job-{job}", whole, place / "cache", results))
            for job, share in enumerate(shares)
        ]
        for process in processes:
            process.start()
        found, broken = [], []
        for _ in processes:
            job, result = results.get()
            (broken if isinstance(result, str) else found).append(result)
            print(f"job {job}: {result}", flush=True)
        for process in processes:
            process.join()
    finally:
        shutil.rmtree(place, ignore_errors=True)
    total = killing.Kills(
        [each for kills in found for each in kills.fell], sum(kills.finished for kills in found),
        sum(kills.damaged for kills in found), [each for kills in found for each in kills.different],
    )  # fmt: skip
    print(f"\n{total}\n{jobs} jobs, {len(broken)} broken, {time.monotonic() - began:.0f} s; seed {seeds.SEED}")
    for difference in total.different:
        print(difference)
    return 1 if broken or total.different or len(total.fell) < options.kills else 0


if __name__ == "__main__":
    sys.exit(main())
