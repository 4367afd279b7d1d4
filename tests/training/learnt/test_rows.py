"""Rows grow, and keep what was added."""

import numpy as np
import pytest

from everystep.training.learnt.rows import START, Rows

pytestmark = pytest.mark.quick


def test_rows_grow():
    rows = Rows(2, 1)
    numbers = [
        rows.add(x=np.full(2, i), a=i % 3, r=float(i), g=np.ones(1), y=np.zeros(2), ended=0.0, residual=np.zeros(2))
        for i in range(START + 5)
    ]
    assert numbers == list(range(START + 5))
    assert len(rows) == START + 5
    assert rows["r"].tolist() == [float(i) for i in range(START + 5)]
    assert rows["x"].shape == (START + 5, 2)
    assert rows["a"].dtype == np.int64
