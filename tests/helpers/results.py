"""Rows of results for a leaderboard."""

import pyarrow as pa
import pyarrow.parquet as pq


def row(system="a", problem="lake", seed=0, harm=2.0, **others):
    """A valid row."""
    harmed = harm > 0
    return {
        "system": system, "problem": problem, "seed": seed, "steps": 100, "harm": harm, "unsafe_steps": 3 * harmed,
        "last_violation": 50 * harmed, "final_return": 1.0, "final_harm": 0.5, "final_episodes": 20,
        "command": "python train.py", "versions": '{"numpy": "2.1"}',
    } | others  # fmt: skip


def save(rows, path):
    """Write a table, or rows that may lack some of the columns of others."""
    if not isinstance(rows, pa.Table):
        names = dict.fromkeys(name for each in rows for name in each)
        rows = pa.table({name: [each.get(name) for each in rows] for name in names})
    pq.write_table(rows, path)
    return path
