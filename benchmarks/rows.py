"""Ten million rows: written as a stream from batches of seeds, and read as whole columns.

    python benchmarks/rows.py [SEEDS EPISODES]

Rows are synthetic (with the shapes of a lake's), so that only writing and reading are measured. Prints seconds, the
size of the file and the peak memory before, during writing and during reading.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from everystep import files
from everystep.experiments.folder import finished, run_folder

SEEDS, EPISODES, BATCH = 1000, 10_000, 2


class MadeUp:
    """As much of a `result.FinishedRun` as rows need."""

    def __init__(self, seeds: int, episodes: int) -> None:
        self.spec = {
            "problem": {"name": "made-up"},
            "agents": [{"label": "lsvi-ae"}],
            "seeds": list(range(seeds)),
            "episodes": episodes,
        }

    def batches(self, label: str) -> Iterator[dict[str, np.ndarray]]:
        K = self.spec["episodes"]
        for first in range(0, len(self.spec["seeds"]), BATCH):
            rng = np.random.default_rng(first)
            harm = rng.poisson(0.05, (BATCH, K)).astype(float)
            value = 5 + rng.random((BATCH, K))
            yield {
                "return": rng.integers(0, 70, (BATCH, K)) / 10, "value": value, "regret": 5.2256 - value,
                "expected_violation": rng.random((BATCH, K)), "violation": harm,
                "unsafe_steps": harm.astype(np.int64), "soft_violation": 2 * harm - 15,
            }  # fmt: skip


def memory() -> float:
    """The most this process has held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(seeds: int = SEEDS, episodes: int = EPISODES) -> None:
    made, before = MadeUp(seeds, episodes), memory()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "episodes.parquet"
        began = time.perf_counter()
        for _ in made.batches(""):
            pass
        making = time.perf_counter() - began
        began = time.perf_counter()
        run_folder.write_episodes(made, path)  # type: ignore[arg-type]
        writing, held = time.perf_counter() - began - making, memory()
        began = time.perf_counter()
        files.seal(path)
        verifying = time.perf_counter() - began
        began = time.perf_counter()
        columns = ("value", "violation", "regret")
        table = files.read_parquet(path, columns, seeds * episodes)
        finished.columns_of_agents(table, ["lsvi-ae"], (seeds, episodes), columns)
        reading = time.perf_counter() - began
        size = path.stat().st_size / 2**20
        print(f"{seeds * episodes:,} rows, {size:.0f} MB: written in {writing:.1f} s, read in {reading:.1f} s")
        print(f"its checksum verified in {verifying:.1f} s")
        print(f"memory: {before:.0f} MB before, {held:.0f} MB after writing, {memory():.0f} MB after reading")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
