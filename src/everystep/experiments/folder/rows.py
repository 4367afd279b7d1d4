"""The rows of episodes.parquet, read as a stream that is checked against the spec: what does not fit is no result.

A reader gets no number that the run did not write: a column that is missing, has another type or holds no number is
refused, and so are rows that are not those of the agents, seeds and episodes of the spec, in their order. Memory holds
one slice of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from everystep import files
from everystep.errors import EverystepError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

SLICE = 2**17  # rows in memory at a time
LARGEST_GROUP, LARGEST_BYTES = 2**17, 2**28  # rows and bytes of a row group, at most
NAMES, PLACES = ("problem", "agent"), ("seed", "episode")
ALWAYS = ("return", "value", "regret", "expected_violation", "violation", "soft_violation", "unsafe_steps")
WHOLE = ("unsafe_steps", "planned", "safe_labels", "unsafe_labels", "false_labels")  # columns of whole numbers
NEVER_NEGATIVE = ("expected_violation", "mixture_violation", "least_violation", *WHOLE)
MIXING = ("rslucb-qvi",)  # agents that draw actions from mixtures, whose rows have `mixture_violation`


class Rows(NamedTuple):
    """Rows from number `first` on, all of one agent, and their columns, without those that the agent does not have."""

    first: int
    label: str
    columns: dict[str, np.ndarray]


class _WrongError(Exception):
    """What is wrong with the rows, in words."""


def stream(path: Path, spec: Mapping[str, Any], columns: Sequence[str], size: int | None = None) -> Iterator[Rows]:
    """All rows of a run, at most `size` at a time (SLICE); raises as soon as they are not those of the spec."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        files.check_regular(path)
        # Given a path, pyarrow would interpret the names of its folders, and it cannot encode some of them.
        with (
            path.open("rb") as opened,
            pq.ParquetFile(opened, page_checksum_verification=True, read_dictionary=list(NAMES)) as file,
        ):
            yield from _checked(file, spec, columns, size or SLICE)
    except _WrongError as wrong:
        raise _not_of_this_run(path, f" ({wrong})") from None
    except (OSError, ValueError, KeyError, pa.ArrowException):
        raise _not_of_this_run(path) from None


def _not_of_this_run(path: Path, reason: str = "") -> EverystepError:
    return EverystepError(f"'{path}' cannot be read as the rows of this run{reason}; run it again into another folder.")


def _checked(file: pq.ParquetFile, spec: Mapping[str, Any], columns: Sequence[str], size: int) -> Iterator[Rows]:
    agents, seeds, K = spec["agents"], np.asarray(spec["seeds"], np.int64), spec["episodes"]
    count = len(seeds) * K  # rows of an agent
    there = _columns(file.schema_arrow, columns)
    groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
    if any(group.num_rows > LARGEST_GROUP or group.total_byte_size > LARGEST_BYTES for group in groups):
        raise _WrongError("its row groups are larger than this software writes them")
    if file.metadata.num_rows != len(agents) * count:
        raise _WrongError(f"it has {file.metadata.num_rows} rows instead of {len(agents) * count}")
    row = 0
    for batch in file.iter_batches(size, columns=[*NAMES, *PLACES, *there]):
        at = np.arange(row, row + len(batch))
        expected = {
            "problem": _codes(batch["problem"], [spec["problem"]["name"]]) == 0,
            "agent": _codes(batch["agent"], [each["label"] for each in agents]) == at // count,
            "seed": _whole(batch["seed"]) == seeds[at // K % len(seeds)],
            "episode": _whole(batch["episode"]) == at % K + 1,
        }
        if wrong := {name: int(np.argmin(right)) for name, right in expected.items() if not right.all()}:
            name = min(wrong, key=lambda name: wrong[name])
            raise _WrongError(f"row {row + wrong[name] + 1} has another {name} than the spec")
        for i in range(row // count, (row + len(batch) - 1) // count + 1 if len(batch) else 0):
            first, last = max(row, i * count), min(row + len(batch), (i + 1) * count)
            part = batch.slice(first - row, last - first)
            named = {name: _numbers(name, part[name], agents[i]) for name in there}
            mine = {name: numbers for name, numbers in named.items() if numbers is not None}
            if lost := [name for name in columns if _has(agents[i], name) and name not in mine]:
                raise _WrongError(f"it has no {lost[0]} of {agents[i]['label']}")
            yield Rows(first, agents[i]["label"], mine)
        row += len(batch)
    if row != len(agents) * count:
        raise _WrongError(f"it has {row} rows instead of {len(agents) * count}")


def _columns(schema: pa.Schema, columns: Sequence[str]) -> list[str]:
    """The wanted columns that are there; each must have the type that the run gave it."""
    import pyarrow as pa

    if twice := [name for name in schema.names if schema.names.count(name) > 1]:
        raise _WrongError(f"it has {schema.names.count(twice[0])} columns {twice[0]}")
    if lost := [name for name in (*NAMES, *PLACES, *columns) if name not in schema.names and name not in _optional()]:
        raise _WrongError(f"it has no column {lost[0]}")
    there = [name for name in columns if name in schema.names]
    wanted = dict.fromkeys(there, pa.float64()) | {name: pa.int64() for name in there if name in WHOLE}
    wanted |= dict.fromkeys(PLACES, pa.int64())
    for name, kind in wanted.items():
        if schema.field(name).type != kind:
            raise _WrongError(f"its column {name} is {schema.field(name).type} instead of {kind}")
    for name in NAMES:
        kind = schema.field(name).type
        if not pa.types.is_dictionary(kind) or kind.value_type != pa.string():
            raise _WrongError(f"its column {name} is {kind} instead of text")
    return there


def _optional() -> tuple[str, ...]:
    """Columns that only some agents have."""
    return ("mixture_violation", *(name for name in WHOLE if name not in ALWAYS))


def _has(agent: Mapping[str, Any], name: str) -> bool:
    """Whether the rows of an agent certainly have a column."""
    rarely = {"planned": "plans" in agent, "mixture_violation": agent.get("agent") in MIXING}
    return name in ALWAYS or name == "least_violation" or rarely.get(name, False)  # which all agents have or none


def _codes(column: pa.Array, known: Sequence[str]) -> np.ndarray:
    """The position of each text among those that are known; -1 for another, or for none."""
    places = {text: i for i, text in enumerate(known)}
    of_code = np.array([places.get(text, -1) for text in column.dictionary.to_pylist()] + [-1])
    return of_code[column.indices.fill_null(len(of_code) - 1).to_numpy(zero_copy_only=False)]


def _whole(column: pa.Array) -> np.ndarray:
    return np.asarray(column.fill_null(-1).to_numpy(zero_copy_only=False))


def _numbers(name: str, column: pa.Array, agent: Mapping[str, Any]) -> np.ndarray | None:
    """The numbers of one agent; None if it has no such column at all."""
    if column.null_count == len(column):
        return None
    numbers = column.to_numpy(zero_copy_only=False)
    if column.null_count or not np.isfinite(numbers).all():
        raise _WrongError(f"its column {name} has rows of {agent['label']} without a number")
    if (name in NEVER_NEGATIVE or name.startswith("violation")) and (numbers < 0).any():
        raise _WrongError(f"its column {name} has a negative number for {agent['label']}")
    return np.asarray(numbers)
