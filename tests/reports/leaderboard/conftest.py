"""Results that several files use."""

import numpy as np
import pytest
from helpers.results import row


@pytest.fixture(scope="session")
def contest():
    """Four systems on two problems with five seeds, one system on one of them only."""
    rng = np.random.default_rng(1)
    rows = []
    for problem, low in (("lake", 0.0), ("pump", -300.0)):
        for system, kind, harm, share in (
            ("random", "rival", 9.0, 0.0),
            ("wild", "rival", 6.0, 1.0),
            ("careful", "rival", 3.0, 0.95),
            ("timid", "rival", 1.0, 0.5),
            ("mine", "ours", 0.5, 0.97),
            ("oracle", "reference", 0.0, 1.2),
        ):
            if (system, problem) == ("timid", "pump"):
                continue
            for seed in range(5 if system != "wild" else 4):
                noise = rng.uniform(0.8, 1.2)
                rows.append(
                    row(
                        system, problem, seed, harm * noise, kind=kind, last_violation=int(50 * noise) if harm else 0,
                        final_return=low + 100 * share * rng.uniform(0.99, 1.01),
                    )
                )  # fmt: skip
    return rows
