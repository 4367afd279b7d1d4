"""How time and memory grow with the size of a lake: 10, 30, 100 and 300 cells a side, with H = 2 n steps.

What is measured, each in a process of its own, on one core:

problem    making and checking a lake whose cells are hazards with probability 0.05, S and G in opposite corners.
planner    `planner.solve`, the exact safe optimum. Its memory is the peak beyond the problem, traced; divided by the
           number of (x, a, successor), the entries of the lists of successors.
episodes   LSVI-AE, as a run calls it (planned only where an episode can be), and with the plain loop (`lsvi/loop.py`),
           which plans all (h, x). The time of a call for K episodes, less that of a call for none, divided by K.
dense      value iteration in NumPy on a table P (S, A, S): H products of a matrix and a vector. It must find the same
           mean of V_1 over all states. Where the table would take more than half of the memory that is free it is not
           run, and its size is printed instead.
peer       rlberry-scool: ValueIterationAgent (backward induction, no constraints: it must find the mean of V_1
           without them) and an episode of UCBVIAgent, which plans all (h, x) on a table as well, and of its variant
           with real-time dynamic programming. What takes longer than --limit seconds is stopped, and the output says
           so.

    python benchmarks/large.py [--peer-python PYTHON] [--sides 10 30 100 300] [--limit 60]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import common
import numpy as np

HAZARDS = 0.05
EPISODES = {10: 500, 30: 100, 100: 20, 300: 4}  # of LSVI-AE, by side
Found = dict[str, Any]


# --- what each process does -------------------------------------------------------------------------------------------
def lake(side: int) -> Any:
    """A random lake in which every cell has a safe action and a path leads to the goal: the first such seed."""
    from everystep.problems.frozen_lake import from_map
    from everystep.problems.grids import landing_cells

    for seed in range(1000):
        cells = np.where(np.random.default_rng(seed).random((side, side)) < HAZARDS, "H", "F")
        cells[0, 0], cells[-1, -1] = "S", "G"
        if (cells == "H").reshape(-1)[landing_cells(np.zeros(cells.shape, bool))].all(1)[:-1].any():
            continue  # a cell without a safe action; the goal is the last
        found = from_map(["".join(row) for row in cells], horizon=2 * side)
        if not found.remarks:
            return found
    raise SystemExit(f"No valid lake of {side} x {side} cells in 1000 seeds.")


def traced(call: Callable[[], Any]) -> tuple[Any, int, int]:
    """What a call returns, the bytes that it left, and its peak of bytes, both beyond what was there before."""
    tracemalloc.start()
    result = call()
    left, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return result, left, peak


def making(side: int) -> Found:
    lake(3)  # imports
    took = common.seconds(lambda: lake(side))
    problem, left, peak = traced(lambda: lake(side))
    return {"seconds": took, "bytes": left, "peak": peak, "lists": entries(problem)}


def entries(problem: Any) -> int:
    """The number of (x, a, successor)."""
    return int(problem.world.P.size)


def planning(side: int) -> Found:
    from everystep.mdp import planner

    problem = lake(side)
    problem.world  # noqa: B018  made once, cached
    took = min(common.seconds(lambda: planner.solve(problem)) for _ in range(3 if side <= 100 else 1))
    solution, _, peak = traced(lambda: planner.solve(problem))
    mean = lambda solution: float(solution.V_1.mean())
    return {"seconds": took, "peak": peak, "value": mean(solution), "unsafe": mean(planner.solve(problem, safe=False))}


def episodes(side: int, plain: bool = False) -> Found:
    import jax

    from everystep.agents import lsvi_ae
    from everystep.experiments.engines import gpu, local
    from everystep.lsvi import loop

    problem, K = lake(side), EPISODES[side]
    with jax.enable_x64(True):
        pair = local.AgentOnProblem(problem, lsvi_ae().resolve(problem, K).build())
        began = time.perf_counter()
        job = pair.job()
        if plain:
            job = replace(job, reach=None, spans=())
        started, seeds = pair.start_seeds(1), np.arange(1, dtype=np.uint32)
        run = lambda count: jax.block_until_ready(gpu.scan_seeds(job, started, seeds, np.int32(count), loop.CHUNK))
        run(0)
        compiling = time.perf_counter() - began
        best = common.best_of(3 if side <= 100 else 1, {"none": lambda: run(0), "all": lambda: run(K)})
    planned = sum((span.stop - span.first) * span.states for span in job.spans) or problem.horizon * problem.states
    return {
        "compiling": compiling,
        "seconds": (best["all"] - best["none"]) / K,
        "planned": planned / (problem.horizon * problem.states),
        "memory": peak_memory(),
    }


def dense(side: int) -> Found:
    """Backward induction over the safe actions on a table of P."""
    problem = lake(side)
    S, A = problem.states, problem.actions
    P, r = problem.dense_P[0].reshape(S * A, S), problem.r[0]
    allowed = (problem.g[0, 0] <= 0) | problem.exempt[:, None]  # (S, A)

    def solve() -> np.ndarray:
        V = np.zeros(S)
        policy = np.zeros((problem.horizon, S), np.int8)
        for h in reversed(range(problem.horizon)):
            Q = np.where(allowed, r + (P @ V).reshape(S, A), -np.inf)
            policy[h], V = Q.argmax(1), Q.max(1)
        return V

    began = time.perf_counter()
    V_1 = solve()
    return {"seconds": time.perf_counter() - began, "value": float(V_1.mean()), "memory": peak_memory()}


def table(side: int, path: str) -> Found:
    """The problem as arrays in a file, for the peer."""
    problem = lake(side)
    np.savez(path, P=problem.dense_P[0], r=problem.r[0], start=int(problem.start[0]), horizon=problem.horizon)
    return {}


def peak_memory() -> int:
    """Bytes of this process at its peak, the interpreter and all programs included."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


PARTS: dict[str, Callable[..., Found]] = {
    "making": making,
    "planning": planning,
    "episodes": episodes,
    "plain": lambda side: episodes(side, plain=True),
    "dense": dense,
    "table": table,
}


# --- the whole --------------------------------------------------------------------------------------------------------
def process(command: list[str], limit: float | None = None) -> Found | None:
    """The JSON that a process prints; None if it takes longer than `limit`."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return None
    return json.loads(done.stdout.splitlines()[-1])


def part(name: str, side: int, *more: str, limit: float | None = None) -> Found | None:
    return process([sys.executable, __file__, "--part", name, "--sides", str(side), *more], limit)


def measured(side: int, peer_python: Path | None, limit: float) -> None:
    """All figures of one size, printed as they come."""
    from everystep.runtime import memory

    S, A, H = side**2, 4, 2 * side
    print(f"\n{side} x {side} cells, {S:,} states, H = {H}")
    made, planned = part("making", side), part("planning", side)
    assert made
    assert planned
    each = made["lists"]
    row("problem", f"{made['seconds']:.3f} s", of_entries(made["bytes"], each), of_entries(made["peak"], each, "peak"))
    row("planner", f"{planned['seconds']:.4f} s", of_entries(planned["peak"], each, "peak beyond the problem"))
    for name in ("episodes", "plain"):
        found = part(name, side)
        assert found is not None
        work = H * each
        row(
            f"LSVI-AE, {name}",
            f"{1e3 * found['seconds']:.3f} ms per episode",
            f"{1e9 * found['seconds'] / work:.2f} ns per (h, x, a, successor)",
            f"{found['planned']:.0%} of (h, x)",
            f"{megabytes(found['memory'])} in all",
            f"compiling {found['compiling']:.1f} s",
        )

    takes = 8 * S * A * S
    if takes > memory.free_memory() / 2:
        row("dense", f"not run: the table of P alone would take {megabytes(takes)}")
        row("peer", "not run, for the same reason")
        return
    found = part("dense", side, limit=3 * limit)
    if found:
        assert abs(found["value"] - planned["value"]) < 1e-9
        row("dense", f"{found['seconds']:.4f} s", f"{megabytes(found['memory'])} in all, {megabytes(takes)} of it P")
    else:
        row("dense", f"stopped after {3 * limit:.0f} s")
    if peer_python:
        peer(side, peer_python, limit, planned["unsafe"])


def peer(side: int, python: Path, limit: float, optimum: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "problem.npz")
        part("table", side, "--path", path)
        script = str(Path(__file__).with_name("peer_planner.py"))
        for what, count in (("ValueIteration", 1), ("UCBVI", 1), ("UCBVI-RTDP", 3)):
            found = process([str(python), script, path, "--what", what, "--episodes", str(count)], limit)
            if found is None:
                row(f"peer, {what}", f"stopped after {limit:.0f} s")
                continue
            if "value" in found:
                assert abs(found["value"] - optimum) < 1e-9
            unit = "" if "value" in found else " per episode"
            row(f"peer, {what}", f"{found['seconds']:.3f} s{unit}", f"{megabytes(found['memory'])} in all")


def row(what: str, *figures: str) -> None:
    print(f"  {what:<22}" + "; ".join(figures), flush=True)


def of_entries(size: int, each: int, what: str = "kept") -> str:
    return f"{what} {megabytes(size)} = {size / each:.0f} bytes per (x, a, successor)"


def megabytes(size: float) -> str:
    return f"{size / 1e6:,.1f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer-python", type=Path, default=common.PEER_PYTHON, help="one with rlberry-scool")
    parser.add_argument("--sides", type=int, nargs="+", default=list(EPISODES), choices=list(EPISODES))
    parser.add_argument("--limit", type=float, default=60, help="seconds for each part of the peer")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    args = parser.parse_args()
    common.pin()
    if args.part:
        more = [args.path] if args.path else []
        print(json.dumps(PARTS[args.part](args.sides[0], *more)))
        return
    python = args.peer_python if args.peer_python.is_file() else None
    if python is None:
        print(f"Skipped the peer: there is no {args.peer_python}; `make .venv-peers/installed` makes it.")
    for side in args.sides:
        measured(side, python, args.limit)


if __name__ == "__main__":
    main()
