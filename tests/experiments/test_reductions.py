"""Means over seeds, from batches of them."""

import numpy as np
import pytest

from everystep.experiments import reductions


@pytest.mark.quick
def test_batches_of_seeds_reduce_to_what_all_seeds_at_once_do():
    rng = np.random.default_rng(0)
    curves = {name: rng.random((5, 2300)) for name in ("return", "value", "regret", "violation")}
    whole = reductions.reduced([curves])
    parts = reductions.reduced({k: v[i : i + 2] for k, v in curves.items()} for i in range(0, 5, 2))
    for name, numbers in whole.samples.items():
        np.testing.assert_array_equal(parts.samples[name], numbers)
    assert len(whole.bands.episodes) <= reductions.POINTS
    for name, band in whole.bands.curves.items():
        np.testing.assert_array_equal(parts.bands.curves[name].mean, band.mean)
