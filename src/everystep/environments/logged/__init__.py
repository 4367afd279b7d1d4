"""Logged transitions as a plain table: past experience for an agent to learn from.

    batch = es.logged.read("log.parquet")                       # or .csv, .npz
    batch = es.logged.from_minari("cartpole/cautious-v0", constraint=tilt)
    batch = es.logged.from_env(env, policy, episodes=20, seed=0)
    es.logged.write(batch, "log.parquet")

A batch has one row per step; its costs are signed constraints, safe iff <= 0. Nothing is ever unpickled.
"""

from __future__ import annotations

from everystep.environments.logged.files import read, write
from everystep.environments.logged.minari import from_minari
from everystep.environments.logged.play import from_env
from everystep.environments.play.batch import Batch as Batch

__all__ = ["from_env", "from_minari", "read", "write"]
