"""Sizes before arrays: what a request would take, compared with what this machine has free before any of it is made.

    memory.check("the problem", {"states": states}, lambda states: 8 * states**2)

raises an error that names the size at fault, what it would take, what is free, and the largest number that would fit.
Free memory is what the system reports as available, or less if a control group (a container) or a limit of the
process allows less.
"""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from everystep.errors import EverystepError

LONGEST = 2**31 - 1  # steps of an episode and episodes of a run: compiled code counts them in 32 bits
PLANNED = 4  # bytes for each (h, x) of the exact planner: the policies of two optima
SPARE = 0.9  # of what is free may be used by a request that is advised
UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")


def check(
    what: str,
    sizes: Mapping[str, int],
    needed: Callable[..., float],
    usual: Mapping[str, int] = MappingProxyType({}),
    free: float | None = None,
    kind: str = "memory",
) -> None:
    """Raise if `needed(**sizes)` bytes are more than are `free` (default: memory, now).

    The error names the size furthest above its `usual` value, and what would fit if that is at least as much.
    """
    free = free_memory() if free is None else free
    taken = _counted(needed, sizes)
    if taken <= free:
        return
    worst = max(sizes, key=lambda name: sizes[name] // max(usual.get(name, 1), 1))
    most = _largest(needed, sizes, worst, free)
    if most and (most >= usual.get(worst, 1) or len(sizes) == 1):
        remedy = f"give at most {most}"
    else:
        remedy = f"give smaller values of {' and '.join(sizes)}" if len(sizes) > 1 else f"give a smaller {worst}"
    would = f"{what} would take {amount(taken)} of {kind}, and {amount(free)} are free"
    raise EverystepError(f"{worst} is {shown(sizes[worst])}: {would}; {remedy}.")


def _counted(needed: Callable[..., float], sizes: Mapping[str, int]) -> float:
    try:
        return float(needed(**sizes))
    except OverflowError:
        return math.inf


def _largest(needed: Callable[..., float], sizes: Mapping[str, int], name: str, free: float) -> int:
    """The largest value of one size with which the others fit and leave a reserve, rounded to two digits; 0: none."""
    low, high = 0, sizes[name]
    while high - low > 1:
        middle = (low + high) // 2
        fits = _counted(needed, {**sizes, name: middle}) <= SPARE * free
        low, high = (middle, high) if fits else (low, middle)
    digits = 10 ** max(0, len(str(low)) - 2)
    return int(low // digits * digits)


def amount(size: float) -> str:
    """Bytes in a readable unit: 3.2 GB."""
    if size < 1000:
        return f"{size:.0f} bytes"
    if size == math.inf:
        return "more bytes than a number holds"
    unit = min(int(math.log10(size) / 3), len(UNITS) - 1)
    scaled = size / 1000**unit
    return f"{scaled:.0f} {UNITS[unit]}" if 99.5 <= scaled < 1e6 else f"{scaled:.2g} {UNITS[unit]}"


def shown(number: int) -> str:
    """A whole number; a very large one by its power of ten."""
    text = str(number)
    return text if len(text) <= 15 else f"about 10^{len(text) - 1}"


# --- problems ---------------------------------------------------------------------------------------------------------
def check_problem(numbers: Callable[..., float], **sizes: int) -> None:
    """Raise if the arrays of a problem would not fit: `numbers(**sizes)` of 8 bytes each."""
    check("the problem", sizes, lambda **given: 8.0 * numbers(**given))


def of_table(states: float, actions: float) -> float:
    """Numbers of a problem whose transitions are a table (S, A, S): the table, its compressed form, their sums."""
    return 6 * states * actions * states


def of_grid(cells: float) -> float:
    """Numbers of a problem on a grid: for every cell the moves to its neighbours, its names and its coordinates."""
    return 300 * cells  # 267 at most while a lake of 100 x 100 cells with realised costs is made and checked


def check_horizon(horizon: int, states: int) -> None:
    """Raise if an episode has too many steps for the exact planner, which every problem is checked by."""
    if horizon > LONGEST:
        raise EverystepError(f"horizon is {shown(horizon)}; give at most {LONGEST}.")
    what = "the optimum of this problem, one value for each step and state,"
    check(what, {"horizon": horizon}, lambda horizon: horizon * states * PLANNED, {"horizon": 15})


# --- this machine -----------------------------------------------------------------------------------------------------
def free_memory(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> float:
    """Bytes of memory that this process can still take; infinite where no system reports it."""
    free = [*_of_the_system(proc), *_of_control_groups(proc, groups), *_of_the_process(proc)]
    return max(0.0, min(free, default=math.inf))


def free_disk(path: Path) -> float:
    """Bytes that can still be written at a path, whose folders need not exist; infinite where no system reports it."""
    for folder in (path.absolute(), *path.absolute().parents):
        with suppress(OSError):
            return float(shutil.disk_usage(folder).free)
    return math.inf


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _number(text: str, name: str = "") -> int | None:
    """The number at the beginning of a text, or after a name at the beginning of one of its lines."""
    found = re.search(rf"^{name}:?\s*(\d+)\b", text, re.MULTILINE)
    return int(found[1]) if found else None


def _of_the_system(proc: Path) -> Iterator[float]:
    available = _number(_read(proc / "meminfo"), "MemAvailable")
    if available is not None:
        yield 1024.0 * available
        return
    with suppress(AttributeError, OSError, ValueError):  # not Linux: all memory, as no more is reported
        yield float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def _of_control_groups(proc: Path, groups: Path) -> Iterator[float]:
    """What is left of the limits of the control groups of this process, its own and those around it.

    Files in memory that were not used recently count as free.
    """
    for line in _read(proc / "self" / "cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers == "":
            top, names, cached = groups, ("memory.max", "memory.current"), "inactive_file"
        elif "memory" in controllers.split(","):  # the older kind
            top, names = groups / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes")
            cached = "total_inactive_file"
        else:
            continue
        inner = top / path.lstrip("/")
        for folder in (inner, *inner.parents):
            most, used = (_number(_read(folder / name)) for name in names)
            if most is not None and used is not None:
                yield float(most - used + (_number(_read(folder / "memory.stat"), cached) or 0))
            if folder == top:
                break


def _of_the_process(proc: Path) -> Iterator[float]:
    """What is left of the limit on the address space (`ulimit -v`)."""
    with suppress(ImportError):
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        pages = _number(_read(proc / "self" / "statm"))
        if limit != resource.RLIM_INFINITY and pages is not None:
            yield float(limit - pages * resource.getpagesize())
