"""Results of trainings made by hand: rows of episodes, without a folder behind them."""

from pathlib import Path

import numpy as np

from everystep.reports.training.results import SeedResult, TrainingResults

ROWS = {  # of two seeds
    "return": [np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.0, 4.0, 6.0])],
    "length": [np.array([10.0, 10.0, 20.0, 10.0]), np.array([20.0, 10.0, 10.0])],
    "violation": [np.array([4.0, 2.0, 1.0, 0.0]), np.array([6.0, 0.0, 0.5])],
    "unsafe_steps": [np.array([5.0, 3.0, 2.0, 0.0]), np.array([7.0, 0.0, 1.0])],
}


def made(seeds: int = 2, folder: Path = Path("training"), finished: bool = True) -> TrainingResults:
    """The results of one or two seeds."""
    of = lambda seed: {name: columns[seed] for name, columns in ROWS.items()}
    found = [SeedResult(seed, folder / f"seed-{seed}", of(seed), finished, "Ring", "lsvi-ae") for seed in range(seeds)]
    return TrainingResults(folder, found, None, None)
