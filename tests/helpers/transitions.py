"""Columns of a batch, and whether two batches are the same."""

from dataclasses import fields

import numpy as np

from everystep.environments.logged import Batch


def table(n=6, **more):
    """Two episodes of three steps with vectors for observations and two constraints."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 2))
    columns = {
        "observations": x,
        "actions": [0, 1, 2, 1, 0, 2],
        "rewards": rng.random(n),
        "costs": rng.uniform(-1, 1, (n, 2)),
        "next_observations": x + 1,
        "terminated": [False, False, True, False, False, False],
        "steps": [0, 1, 2, 0, 1, 2],
        "episode": [4, 4, 4, 9, 9, 9],
    }
    return columns | more


def the_same(one, other):
    return all(
        getattr(one, field.name).dtype == getattr(other, field.name).dtype
        and np.array_equal(getattr(one, field.name), getattr(other, field.name))
        for field in fields(Batch)
    )
