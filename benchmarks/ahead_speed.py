"""How much longer an episode takes if the agent looks ahead: lsvi-ahead compared with lsvi-ae, on one core or a GPU.

What is compared. Whole episodes as the local engine runs them (draws, plan, exact value of the plan, acting, learning)
of lsvi-ae and of lsvi-ahead in both modes: on the paper's lake, where every state has a safe action, and on the
racetrack, where some have none and accelerations may fail; the first episodes of a run, and episodes after many others.
On a CPU an agent that looks ahead first plans as if no harm were to go, and plans again if that is wrong; `whole plan`
is without this shortcut.

How. All variants are compiled first. Then they take turns, with the same seeds, and the shortest time of each counts:
process time on one core, wall time on a GPU. The figures are ratios within one process, because absolute times depend
on the machine.

    python benchmarks/ahead_speed.py [--repeats 20] [--episodes 500] [--after 3000] [--seeds N] [--gpu] [--only NAME]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import common
import jax
import numpy as np

from everystep.agents import lsvi_ae, lsvi_ahead
from everystep.experiments.engines import gpu, local
from everystep.lsvi import loop, reachable
from everystep.mdp.cmdp import FiniteCMDP
from everystep.problems import frozen_lake, racetrack

AGENTS = {"lsvi-ae": lsvi_ae(), "least": lsvi_ahead(mode="least"), "plan": lsvi_ahead(mode="plan")}
PROBLEMS = {
    "frozen-lake": frozen_lake(),
    "racetrack": racetrack(),
    "racetrack, failure 0.1": racetrack(failure=0.1),
}
MOST = 1.6  # the target on the lake
CHUNK = loop.CHUNK


class Variant:
    """Episodes of one agent on one problem, as the local engine runs them; `whole` switches the shortcut off."""

    def __init__(self, problem: FiniteCMDP, agent: str, seeds: int, whole: bool = False) -> None:
        self.pair = local.AgentOnProblem(problem, AGENTS[agent].resolve(problem, 10_000).build())
        self.job, self.seeds = self.pair.job(), np.arange(seeds, dtype=np.uint32)
        self.scan: Any = gpu.scan_seeds
        if whole:  # traced, below, with the shortcut off
            one_call = lambda *args: reachable.scan_seeds.__wrapped__(*args)  # type: ignore[attr-defined]
            self.scan = jax.jit(one_call, static_argnums=4)
        kept, reachable.SHORTCUT = reachable.SHORTCUT, not whole
        self.start = self.pair.start_seeds(seeds)
        self.run(0)
        reachable.SHORTCUT = kept

    @property
    def way(self) -> str:
        return "kernel" if gpu.runs_here(self.job) else "loop" if self.job.reach is None else "reachable"

    def run(self, episodes: int) -> Any:
        carry = self.start
        for done in range(0, max(episodes, 1), CHUNK):
            count = np.int32(min(CHUNK, episodes - done))
            carry, metrics = self.scan(self.job, carry, self.seeds, count, CHUNK)
            jax.tree.map(np.asarray, (metrics, carry.visits))
        return carry


def shortest(calls: dict[str, Callable[[], Any]], repeats: int, clock: Callable[[], float]) -> dict[str, float]:
    """The shortest time of each call; they take turns."""
    times = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats):
        for name, call in calls.items():
            began = clock()
            call()
            times[name] = min(times[name], clock() - began)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--episodes", type=int, default=500, help="that are timed")
    parser.add_argument("--after", type=int, default=3000, help="episodes before those that are timed second")
    parser.add_argument("--seeds", type=int, help="in one call; the default is 1, on a GPU 4096")
    parser.add_argument("--only", default=",".join(PROBLEMS), help="problems")
    parser.add_argument("--gpu", action="store_true", help="on the device, in wall time")
    args = parser.parse_args()
    if args.gpu == (jax.default_backend() == "cpu"):
        raise SystemExit("pass --gpu where JAX finds a GPU, and only there.")
    seeds = args.seeds or (4096 if args.gpu else 1)
    if not args.gpu:
        common.pin()
    print(f"JAX {jax.__version__}, {jax.devices()[0].device_kind}, {seeds} seeds x {args.episodes} episodes")
    with jax.enable_x64(True):
        rows = [row for name in args.only.split(",") for row in measured(name, seeds, args)]
    common.table("time of an episode, lsvi-ahead / lsvi-ae", rows)


def measured(name: str, seeds: int, args: argparse.Namespace) -> list[common.Row]:
    problem, on_lake = PROBLEMS[name], name == "frozen-lake"
    variants = {agent: Variant(problem, agent, seeds) for agent in AGENTS}
    if not args.gpu:
        variants |= {f"{mode}, whole plan": Variant(problem, mode, seeds, whole=True) for mode in ("least", "plan")}
    clock = time.perf_counter if args.gpu else time.process_time
    rows, per_episode = [], 1e6 / (seeds * args.episodes)
    for after in (0, args.after):
        if after:
            for variant in variants.values():
                variant.start = variant.run(after)
        calls = {agent: lambda each=each: each.run(args.episodes) for agent, each in variants.items()}
        best = shortest(calls, args.repeats, clock)
        base = best.pop("lsvi-ae")
        episodes = f"{name}, episodes {after + 1} to {after + args.episodes}"
        print(f"{episodes}: lsvi-ae takes {base * per_episode:.2f} us per episode ({variants['lsvi-ae'].way})")
        for agent, took in best.items():
            what, ratio = f"{episodes}: {agent} ({took * per_episode:.2f} us, {variants[agent].way})", took / base
            target = on_lake and "whole" not in agent
            rows.append(common.at_most(what, ratio, MOST) if target else (what, f"{ratio:,.2f}", "", ""))
    return rows


if __name__ == "__main__":
    main()
