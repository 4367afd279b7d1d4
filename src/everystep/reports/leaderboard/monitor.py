"""Rows of results from episodes, for software that records episodes and not steps, and from its monitor files.

What happened inside an episode is not known, so `last_violation` is the end of the last episode with a violation,
and `unsafe_steps`, if they were not counted, all steps of the episodes with a violation: both are upper bounds.

A monitor file is CSV: a first line '#' with JSON (t_start, env_id), then the columns r, l and t (return, length and
time of each episode) and one for each of `info_keywords`. The violation is such a column: the environment puts the
sum of max(g, 0) of the episode so far into its info, under "harm", and `Monitor(env, path, info_keywords=("harm",))`
records its last value.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from everystep import __version__, files
from everystep.errors import (
    LARGEST_MEASUREMENT,
    EverystepError,
    check_openable,
    check_type,
    listed,
    one_of,
    seed_number,
    shown,
    true_or_false,
)
from everystep.experiments import statistics
from everystep.experiments.folder import run_folder
from everystep.reports.leaderboard import results_files

SHARES = 50  # equal parts of the training, for the curves
ENDING = "monitor.csv"
HARM, UNSAFE = "harm", "unsafe_steps"
LARGEST_FILE = 2**30
KINDS = ("ours", "rival", "reference")


class Episodes(NamedTuple):
    """Returns, lengths and violations of episodes in their order; unsafe steps if they were counted."""

    returns: np.ndarray
    lengths: np.ndarray
    harm: np.ndarray
    unsafe_steps: np.ndarray | None = None


def row(
    system: str,
    problem: str,
    seed: int,
    training: Episodes,
    final: Episodes | None = None,
    *,
    kind: str = "rival",
    command: str = "",
    versions: Mapping[str, str] | None = None,
    seconds: float | None = None,
    about: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """One row; without `final` the episodes at the end of the training stand for the final policy."""
    results_files.check_name("system", system)
    results_files.check_name("problem", problem)
    ends = np.cumsum(training.lengths)
    steps, harmful = int(ends[-1]), training.harm > 0
    counted = training.unsafe_steps is not None
    unsafe = training.unsafe_steps if training.unsafe_steps is not None else training.lengths * harmful
    last = statistics.episodes_at_the_end(training.lengths)
    evaluated = Episodes(*(part[-last:] for part in training[:3])) if final is None else final
    cumulative = np.cumsum(training.harm)
    # A share of the training ends at step j steps / SHARES; episodes that ended by then count.
    ended = np.searchsorted(ends, steps * np.arange(1, SHARES + 1) / SHARES + 1e-9, side="right")
    curve = np.where(ended > 0, cumulative[np.maximum(ended, 1) - 1], 0.0)
    parts = np.split(training.returns, ended[:-1])
    settings = {
        "last_violation": "the end of the last episode with a violation",
        "unsafe_steps": "counted" if counted else "all steps of the episodes with a violation",
        "final": f"the end of the training (episodes: {last})" if final is None else "evaluation",
    }
    return {
        "system": system,
        "problem": problem,
        "seed": seed,
        "steps": steps,
        "harm": float(cumulative[-1]),
        "unsafe_steps": int(unsafe.sum()),
        "last_violation": int(ends[harmful][-1]) if harmful.any() else 0,
        "final_return": float(evaluated.returns.mean()),
        "final_harm": float(evaluated.harm.mean()),
        "final_episodes": len(evaluated.returns),
        "command": command,
        "versions": json.dumps(dict(versions or {})),
        "kind": kind,
        "settings": json.dumps({**(about or {}), **settings}),
        "seconds": seconds,
        "harm_curve": curve.tolist(),
        "return_curve": [float(part.mean()) if len(part) else np.nan for part in parts],
    }


# --- monitor files ----------------------------------------------------------------------------------------------------
class MonitorFile(NamedTuple):
    """The episodes of one file, its environment, and the seconds from its start to its last episode."""

    episodes: Episodes
    environment: str
    seconds: float | None


def convert_monitor(
    folder: str | Path,
    out: str | Path,
    *,
    system: str,
    problem: str,
    harm_column: str = HARM,
    final: str | Path | None = None,
    seeds: Sequence[int] | None = None,
    kind: str = "rival",
    command: str = "",
    versions: Mapping[str, str] | None = None,
    force: bool = False,
) -> Path:
    """Write a file of results for `es.leaderboard`, from monitor files of stable-baselines3 or from a training.

    folder       holds a file for each seed, such as seed-3.monitor.csv (of one environment, not of several at once); or
                 a finished training of `everystep train` or es.train: its evaluation is of the final policies
    out          the Parquet file to write
    system       what learnt, as the leaderboard names it
    problem      on what, as the leaderboard names it
    harm_column  the column with the violation of each episode, one of info_keywords of `Monitor`
    final        a folder of monitor files of the final policies, for the same seeds; without one, the
                 episodes at the end of training (`experiments.statistics.episodes_at_the_end`)
    seeds        of the files in alphabetical order; without them the number in the name of each file
    kind         ours, rival, or reference for one that knows what the others lack
    command      what was run
    versions     of packages, by name
    force        also replace a file that everystep did not write

    A file records episodes, not steps: `last_violation` is the end of the last episode with a violation, and
    `unsafe_steps`, unless there is a column of this name, all steps of episodes with a violation. An
    episode that the end of the training cut off is not in the file.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> lines = ['#{"t_start": 0.0, "env_id": "Cart"}', "r,l,t,harm", "9,10,0.1,2.5", "12,10,0.2,0", "14,10,0.3,0"]
    >>> _ = (folder / "seed-0.monitor.csv").write_text(chr(10).join(lines), encoding="utf-8")
    >>> file = es.convert_monitor(folder, folder / "ppo.parquet", system="ppo", problem="cart pole")
    >>> row = es.leaderboard(file).rows.to_pylist()[0]
    >>> row["steps"], row["harm"], row["last_violation"], row["final_episodes"]
    (30, 2.5, 10, 1)
    """
    place = output_path(out, true_or_false("force", force))
    check_type("harm_column", harm_column, str, "the name of a column")
    check_type("command", command, str, "a text")
    one_of("kind", kind, KINDS)
    if versions is not None and not (
        isinstance(versions, Mapping) and all(isinstance(word, str) for each in versions.items() for word in each)
    ):
        raise EverystepError(f"versions is {shown(versions)}; give the version of each package, by its name, as texts.")
    source = results_files.path_of("folder", folder)
    if run_folder.is_training(source):
        for name, given in (("harm_column", harm_column != HARM), ("final", final), ("seeds", seeds)):
            if given:
                raise EverystepError(f"{name} is for monitor files, but '{source}' holds a training; leave it out.")
        return write(_rows_of_training(source, system, problem, kind, command, versions), place, force)
    training = by_seed(source, seeds)
    finals = {} if final is None else by_seed(results_files.path_of("final", final), seeds)
    if final is not None and (missing := training.keys() - finals.keys()):
        raise EverystepError(f"'{final}' has no monitor file for seed {min(missing)}; evaluate every seed.")
    rows = []
    for seed, path in training.items():
        read = read_monitor(path, harm_column)
        evaluated = None if final is None else read_monitor(finals[seed], harm_column).episodes
        about = {"source": "monitor files of stable-baselines3", "environment": read.environment}
        rows.append(
            row(
                system, problem, seed, read.episodes, evaluated, kind=kind, command=command, versions=versions,
                seconds=read.seconds, about=about,
            )
        )  # fmt: skip
    return write(rows, place, force)


def _rows_of_training(
    folder: Path, system: str, problem: str, kind: str, command: str, versions: Mapping[str, str] | None
) -> list[dict[str, Any]]:
    from everystep.reports.training import results as training_results

    results = training_results.read(folder)
    if results.unfinished:
        raise EverystepError(f"'{folder}' is not finished; {training_results.how_to_continue(folder)} it.")
    of = lambda columns: Episodes(
        columns["return"], columns["length"].astype(int), columns["violation"], columns["unsafe_steps"].astype(int)
    )
    command, versions = command or f"everystep train: {results.title}", versions or {"everystep": __version__}
    rows = []
    for seed in results.seeds:
        found = results.evaluation_of(seed)
        final = None if found is None else of(found.columns)
        training = of(seed.columns)
        rows.append(row(system, problem, seed.seed, training, final, kind=kind, command=command, versions=versions))
    return rows


def output_path(out: str | Path, force: bool) -> Path:
    """The path of a file of results; raises if it could not be written."""
    path = results_files.path_of("out", out)
    if path.suffix != results_files.ENDING:
        raise EverystepError(f"out '{path}' is no Parquet file; give a name that ends with {results_files.ENDING}.")
    with files.writing(path):
        if files.exists(path.parent):
            files.check_place(path, force)
    return path


def write(rows: Sequence[Mapping[str, Any]], path: Path, force: bool) -> Path:
    """Write rows as a file of results."""
    table = results_files.table_of(rows)
    with files.writing(path):
        files.make_folder(path.parent)
        files.write_output(path, lambda file: results_files.write(table, file), force)
    return path


# --- reading ----------------------------------------------------------------------------------------------------------
def by_seed(folder: Path, seeds: Sequence[int] | None = None) -> dict[int, Path]:
    """The monitor files below a folder, by seed."""
    found = sorted(results_files.below(folder, ENDING))
    if not found:
        raise EverystepError(f"'{folder}' holds no file *{ENDING}; give a folder with monitor files.")
    if seeds is not None:
        numbers = [seed_number("seeds", each) for each in listed("seeds", seeds)]
        if len(numbers) != len(found):
            raise EverystepError(
                f"seeds are {shown(numbers)}, but '{folder}' has {len(found)} files; give one for each."
            )
    else:
        numbers = [_seed_in(path.relative_to(folder)) for path in found]
    of: dict[int, Path] = {}
    for number, path in zip(numbers, found, strict=True):
        if number in of:
            raise EverystepError(
                f"'{of[number]}' and '{path}' are both of seed {number}; name them by seed, or give seeds."
            )
        of[number] = path
    return dict(sorted(of.items()))


def _seed_in(path: Path) -> int:
    """The number after the word seed in the name of a file or of its folders, or the only number there."""
    name = str(path).removesuffix(ENDING)
    numbers = re.findall(r"seed[-_ =]?(\d{1,18})", name, re.IGNORECASE | re.ASCII) or re.findall(r"\d+", name, re.ASCII)
    if len(set(numbers)) != 1 or len(numbers[0]) > 18:
        raise EverystepError(f"'{path}' does not name one seed; rename it to seed-N.{ENDING}, or give seeds.")
    return int(numbers[0])


def read_monitor(path: Path, harm_column: str = HARM) -> MonitorFile:
    """The episodes of a monitor file; raises if it is none."""
    try:
        check_openable(path, LARGEST_FILE)
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except EverystepError as error:
        raise EverystepError(f"'{path}': {error}") from None
    except (OSError, ValueError):
        raise EverystepError(f"'{path}' cannot be read as text; give a monitor file of stable-baselines3.") from None
    header = _header(path, lines[0] if lines else "")
    names, rows = _cells(path, lines[1:])
    if missing := [name for name in ("r", "l", harm_column) if name not in names]:
        raise EverystepError(
            f"'{path}' has no column {shown(missing[0])}, only {shown(', '.join(names))}; record it with "
            "info_keywords of Monitor, or choose another column for the violation."
        )
    numbers = lambda name, least, whole=False: _numbers(
        path, name, [row[names.index(name)] for row in rows], least, whole
    )
    unsafe = numbers(UNSAFE, 0, True) if UNSAFE in names else None
    lengths, harm = numbers("l", 1, True), numbers(harm_column, 0)
    if unsafe is not None and ((unsafe > lengths) | ((unsafe > 0) != (harm > 0))).any():
        at = int(np.argmax((unsafe > lengths) | ((unsafe > 0) != (harm > 0))))
        raise EverystepError(
            f"'{path}': {UNSAFE} of episode {at + 1} is {unsafe[at]:g}, but its length is {lengths[at]:g} and its "
            f"violation {harm[at]:g}; record steps with g > 0, and their sum of max(g, 0)."
        )
    times = numbers("t", -math.inf) if "t" in names else None
    environment = header.get("env_id")
    counted = None if unsafe is None else unsafe.astype(np.int64)
    return MonitorFile(
        Episodes(numbers("r", -math.inf), lengths.astype(np.int64), harm, counted),
        environment if isinstance(environment, str) else "",
        None if times is None or times[-1] < 0 else float(times[-1]),
    )


def _header(path: Path, line: str) -> dict[str, Any]:
    try:
        content = json.loads(line.removeprefix("#")) if line.startswith("#") else None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise EverystepError(
            f"'{path}' begins with {shown(line[:60])!r}, not # and JSON; give a monitor file of stable-baselines3."
        )
    return content


def _cells(path: Path, lines: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    try:
        names, *rows = list(csv.reader(line for line in lines if line.strip() and line[0] != "#"))
    except (ValueError, csv.Error):
        raise EverystepError(
            f"'{path}' has no line of column names; give a monitor file of stable-baselines3."
        ) from None
    if not rows:
        raise EverystepError(f"'{path}' has no episode; train longer, or leave it out.")
    if wrong := [i for i, each in enumerate(rows) if len(each) != len(names)]:
        raise EverystepError(
            f"'{path}': episode {wrong[0] + 1} has {len(rows[wrong[0]])} values instead of {len(names)}; remove its "
            "line if it was cut off."
        )
    return names, rows


def _numbers(path: Path, name: str, texts: Sequence[str], least: float, whole: bool) -> np.ndarray:
    found = np.empty(len(texts))
    for i, text in enumerate(texts):
        try:
            found[i] = float(text)
        except ValueError:
            found[i] = np.nan
        fits = abs(found[i]) <= LARGEST_MEASUREMENT and found[i] >= least
        if not fits or (whole and not (found[i].is_integer() and found[i] < 2**53)):
            kind = "whole" if whole else "finite"
            wanted = f"a {kind} number" + (f" of at least {least:g}" if least > -math.inf else "")
            raise EverystepError(f"'{path}': {name} of episode {i + 1} is {shown(text)!r}; it must be {wanted}.")
    return found
