"""Sizes before arrays: what a request would take, compared with what this machine has free before any of it is made.

    memory.check("the problem", {"states": states}, lambda states: 8 * states**2, usual={"states": 8})

raises an error that names the size to blame, what it would take, what is free, and the largest number that would fit.
Free memory is what the system calls available, less if a control group (a container) or a limit of the process allows
less.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from everystep.errors import EverystepError

LONGEST = 2**31 - 1  # steps of an episode and episodes of a run: compiled code counts them in 32 bits
PLANNED = 4  # bytes for each (h, x) of the exact planner: the policies of two optima
SPARE = 0.9  # of what is free may be used by a request that is advised
UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")


def check(
    what: str,
    sizes: Mapping[str, int],
    needed: Callable[..., float],
    usual: Mapping[str, int],
    free: float | None = None,
    kind: str = "memory",
) -> None:
    """Raise if `needed(**sizes)` bytes are more than are `free` (default: memory, now).

    To blame is the size furthest above its `usual` value, among those that need not go below it to fit; if there is
    none, all that are above.
    """
    free = free_memory() if free is None else free
    taken = _counted(needed, sizes)
    if taken <= free:
        return
    fits = {name: _largest(needed, sizes, name, free) for name in sizes}
    excess = lambda name: sizes[name] // max(usual.get(name, 1), 1)
    above = sorted((name for name in sizes if excess(name) > 1), key=excess, reverse=True) or list(sizes)
    enough = [name for name in above if fits[name] >= min(usual.get(name, 1), sizes[name])]
    worst = enough[0] if enough else above[0] if len(above) == 1 and fits[above[0]] else None
    would = f"{what} would take {amount(taken)} of {kind}, and {amount(free)} are free"
    if worst is not None:
        raise EverystepError(f"{worst} is {shown(sizes[worst])}: {would}; give at most {fits[worst]}.")
    remedy = f"give a smaller {above[0]}" if len(above) == 1 else "make all of them smaller"
    raise EverystepError(f"{' and '.join(f'{name} is {shown(sizes[name])}' for name in above)}: {would}; {remedy}.")


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
    return low // digits * digits


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
def check_problem(sizes: Mapping[str, int], numbers: Callable[..., float], usual: Mapping[str, int]) -> None:
    """Raise if the arrays of a problem would not fit: `numbers` of 8 bytes each, from its parameters."""
    check("the problem", sizes, lambda **given: 8.0 * numbers(**given), usual)


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
    """Bytes of memory that this process can still take; infinite where no system tells."""
    return max(
        0.0, min([*_of_the_system(proc), *_of_control_groups(proc, groups), *_of_the_process(proc)], default=math.inf)
    )


def free_disk(path: Path) -> float:
    """Bytes that can still be written at a path, whose folders need not exist; infinite where no system tells."""
    for folder in (path.absolute(), *path.absolute().parents):
        try:
            return float(shutil.disk_usage(folder).free)
        except OSError:
            continue
    return math.inf


def _of_the_system(proc: Path) -> Iterator[float]:
    try:
        for line in (proc / "meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                yield 1024.0 * int(line.split()[1])
                return
    except (OSError, ValueError, IndexError):
        pass
    try:  # not Linux: all memory, because what is available is not told
        yield float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return


def _of_control_groups(proc: Path, groups: Path) -> Iterator[float]:
    """What is left of the limits of the control groups of this process: of its own and of those around it."""
    try:
        lines = (proc / "self" / "cgroup").read_text(encoding="ascii").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers == "":
            top, names = groups, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            top, names = groups / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        inner = top / path.lstrip("/")
        for folder in (inner, *inner.parents):
            yield from _left_in(folder, *names)
            if folder == top:
                break


def _left_in(folder: Path, limit: str, used: str, cached: str) -> Iterator[float]:
    """The limit of one group less what it uses; files in memory that were not used recently count as free."""
    try:
        most, now = ((folder / name).read_text(encoding="ascii").strip() for name in (limit, used))
        if most == "max":
            return
        left = float(int(most) - int(now))
        for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines():
            if line.split()[:1] == [cached]:
                left += int(line.split()[1])
        yield left
    except (OSError, ValueError, IndexError):
        return


def _of_the_process(proc: Path) -> Iterator[float]:
    """What is left of the limit on the address space (`ulimit -v`)."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            yield float(
                limit - int((proc / "self" / "statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
            )
    except (ImportError, OSError, ValueError, IndexError):
        return
