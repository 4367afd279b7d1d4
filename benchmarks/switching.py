"""The savings and the cost of rare switching: plans only when det(Lambda) has doubled, or in every episode.

What is compared. LSVI-AE with `switch=2` and without, shared over steps, on (a) a random linear CMDP with d = 200
features and (b) the paper's lake: the time of one seed, without compilation; and cumulative regret, value lost (the sum
of max(V* - V, 0)) and total violations over several seeds. (c) The running inverse of the Gram matrix after very many
updates compared with a recomputed inverse, and with a more exact one by singular values; features of full rank, and of
rank 3.

How. Times are of the compiled scan, chunk by chunk as the local engine runs it. Differences in regret and violation are
paired by seed and shown with 95 % bootstrap intervals, relative to planning every episode.

The figures are ratios within one run, because absolute times depend on the machine.

    python benchmarks/switching.py [--seeds 8] [--episodes 50000] [--lake-seeds 32] [--updates 100000]
"""

from __future__ import annotations

import argparse
import time

import common
import jax
import jax.numpy as jnp
import numpy as np

import everystep as es
from everystep.experiments import statistics
from everystep.lsvi import loop
from everystep.lsvi.regression import linalg

LAM, SEED = 0.01, np.zeros(1, np.uint32)
FASTER, WITHIN = 2.0, 0.10  # "several times faster" is judged by the reader; below this it is not worth a setting


class Timed:
    """One agent on seed 0, a chunk of episodes at a time as the local engine runs them; compiling is not counted."""

    def __init__(self, problem: es.FiniteCMDP, recipe: es.agents.Recipe, episodes: int) -> None:
        agent, share_values, share_costs, *_ = recipe.resolve(problem, episodes).build()
        world = jax.tree.map(jnp.asarray, problem.world)
        self.job = loop.Job(agent, world, problem.sizes, share_values, share_costs)
        self.carry = loop.start_seeds(agent, problem.sizes, share_values, share_costs, 1)
        self.seconds, self.plans = 0.0, 0
        self.more(0)
        self.seconds = 0.0

    def more(self, episodes: int) -> None:
        began = time.perf_counter()
        done = loop.scan_seeds(self.job, self.carry, SEED, np.int32(episodes), loop.CHUNK, False)
        self.carry, metrics = jax.block_until_ready(done)
        self.seconds += time.perf_counter() - began
        self.plans += episodes if metrics.planned is None else int(metrics.planned.sum())


def compare(name: str, problem: es.FiniteCMDP, settings: dict, episodes: int, seeds: int) -> list[common.Row]:
    """Verdicts on time, regret and violation of rare plans relative to a plan every episode."""
    recipes = {"every": es.agents.lsvi_ae(**settings), "rare": es.agents.lsvi_ae(switch=2, **settings)}
    with jax.enable_x64(True):
        timed = {kind: Timed(problem, recipe, episodes) for kind, recipe in recipes.items()}
        for done in range(0, episodes, loop.CHUNK):  # in turns, so that a busy moment of the machine hits both
            for each in timed.values():
                each.more(min(loop.CHUNK, episodes - done))
    every, rare = timed["every"], timed["rare"]
    scale = "{} = {:.0f}".format(*recipes["rare"].resolve(problem, episodes).plan_scale)
    print(
        f"{name}, {episodes} episodes, seed 0: {every.seconds:.1f} s with a plan every episode, "
        f"{rare.seconds:.1f} s with {rare.plans} plans ({scale}).",
        flush=True,
    )
    rows = [common.at_least(f"{name}: times faster", every.seconds / rare.seconds, FASTER)]
    result = es.run(problem, [recipe.called(kind) for kind, recipe in recipes.items()], episodes, seeds)
    columns = {
        "regret": lambda curves: curves["regret"].sum(-1),
        "value lost": lambda curves: curves["regret"].clip(min=0).sum(-1),
        "violation": lambda curves: curves["violation"].sum(-1),
    }
    for what, total in columns.items():
        before, after = (total(result.columns[kind]) for kind in recipes)
        change = statistics.mean_over_seeds(after - before, np.random.default_rng(0))
        relative = np.array(change) / abs(before.mean())
        print(
            f"  {what}: {before.mean():.2f} and {after.mean():.2f}, "
            f"{relative[0]:+.1%} [{relative[1]:+.1%}, {relative[2]:+.1%}] over {seeds} seeds."
        )
        rows.append(common.at_most(f"{name}: {what}, change", relative[0], WITHIN, show="+.3f"))
    return rows


def drift(d: int, rank: int, rows_an_update: int, updates: int) -> tuple[float, float]:
    """How far the running inverse is, relative, from a fresh one, and from a better one."""
    rng = np.random.default_rng(d + rows_an_update)
    pool = rng.dirichlet(np.ones(d), 300)
    if rank < d:
        pool = rng.dirichlet(np.ones(rank), 300) @ pool[:rank]
    pool /= np.linalg.norm(pool, axis=-1).max()
    phi = jnp.asarray(pool)[None]
    chosen = rng.integers(len(pool), size=(updates, rows_an_update), dtype=np.int32)
    add = lambda i, gram, chosen: linalg.add(gram, phi, phi[0][chosen[i]])
    start = linalg.fresh(phi, LAM, linalg.OnDemand())
    run = jax.jit(lambda chosen: jax.lax.fori_loop(0, updates, lambda i, gram: add(i, gram, chosen), start))
    running = np.asarray(run(chosen).inverse)
    visits = np.bincount(chosen.reshape(-1), minlength=len(pool)).astype(float)
    fresh = np.linalg.inv(LAM * np.eye(d) + pool.T @ (visits[:, None] * pool))
    # From the singular values of F = sqrt(n) phi, Lambda = lam I + F^T F: no condition number is squared.
    _, sizes, directions = np.linalg.svd(np.sqrt(visits)[:, None] * pool, full_matrices=False)
    exact = directions.T @ (directions / (sizes**2 + LAM)[:, None])
    off = lambda inverse, other: float(np.linalg.norm(inverse - other) / np.linalg.norm(other))
    return off(running, fresh), off(running, exact)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--episodes", type=int, default=50_000)
    parser.add_argument("--states", type=int, default=200)
    parser.add_argument("--lake-seeds", type=int, default=32)
    parser.add_argument("--lake-episodes", type=int, default=20_000)
    parser.add_argument("--updates", type=int, default=100_000)
    args = parser.parse_args()
    problem = es.problems.linear(states=args.states, d=200)
    rows = []
    if args.seeds:
        rows += compare("linear, d = 200", problem, {"beta": 0.5, "lam": 0.01}, args.episodes, args.seeds)
    if args.lake_seeds:
        rows += compare("lake", es.problems.frozen_lake(), {}, args.lake_episodes, args.lake_seeds)
    with jax.enable_x64(True):
        for d in (50, 200) if args.updates else ():
            for rank in (d, 3):
                for n in (1, 15):
                    fresh, better = drift(d, rank, n, args.updates)
                    what = f"inverse, d = {d}, rank {rank}, {args.updates} x {n} rows: off a fresh one"
                    rows.append(common.at_most(f"{what} (a better one: {better:.0e})", fresh, 1e-8, show=".0e"))
    common.table("rare switching", rows)


if __name__ == "__main__":
    main()
