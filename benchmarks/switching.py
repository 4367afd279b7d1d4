"""What rare switching saves, and what it costs: plans only when det(Lambda) has doubled, against a plan every episode.

What is compared. LSVI-AE with `switch=2` and without, shared over steps, on (a) a random linear CMDP with d = 200
features and (b) the paper's lake: the time of one seed on one core, in turns, without compiling; and total regret, value
lost (the sum of max(V* - V, 0)) and total violation over several seeds. (c) The running inverse of the Gram matrix after
very many updates against a fresh one.

How. Times are of the compiled scan, chunk by chunk as the local engine runs it. Differences in regret and violation are
paired by seed and shown with 95 % bootstrap intervals, relative to planning every episode.

The figures are ratios within one run; seconds alone are a fact about a machine.

    python benchmarks/switching.py [--seeds 8] [--episodes 50000] [--lake-episodes 20000] [--lake-seeds 32] [--updates 100000]
"""

from __future__ import annotations

import argparse

import common
import jax
import jax.numpy as jnp
import numpy as np

import everystep as es
from everystep import drive, stats
from everystep.parts import linalg

FASTER, WITHIN = 2.0, 0.10  # "several times faster" is judged by the reader; below this it is not worth a setting


def seconds(problem: es.FiniteCMDP, recipe: es.agents.Recipe, episodes: int) -> tuple[float, int]:
    """The time of seed 0, compiling apart, and how many plans it made."""
    agent, share_values, share_costs, _ = recipe.resolve(problem, episodes).build()
    world, seeds = jax.tree.map(jnp.asarray, problem.world), np.zeros(1, np.uint32)
    plans = 0

    def run(episodes: int) -> None:
        nonlocal plans
        plans = 0
        carry = drive.start_seeds(agent, problem.sizes, share_values, share_costs, 1)
        for first in range(0, max(episodes, 1), drive.CHUNK):
            count = np.int32(min(drive.CHUNK, episodes - first))
            done = drive.scan_seeds(agent, world, problem.sizes, carry, seeds, count, drive.CHUNK, False)
            carry, metrics = jax.block_until_ready(done)
            plans += int(count if metrics.planned is None else metrics.planned.sum())

    run(0)
    return common.seconds(lambda: run(episodes)), plans


def compare(name: str, problem: es.FiniteCMDP, settings: dict, episodes: int, seeds: int) -> list[common.Row]:
    """Verdicts on time, regret and violation of rare plans relative to a plan every episode."""
    recipes = {"every": es.agents.lsvi_ae(**settings), "rare": es.agents.lsvi_ae(switch=2, **settings)}
    with jax.enable_x64(True):
        timed = {kind: seconds(problem, recipe, episodes) for kind, recipe in recipes.items()}
    scale = "{} = {:.0f}".format(*recipes["rare"].resolve(problem, episodes).plan_scale)
    print(
        f"{name}, {episodes} episodes, seed 0: {timed['every'][0]:.1f} s with a plan every episode, "
        f"{timed['rare'][0]:.1f} s with {timed['rare'][1]} plans ({scale})."
    )
    rows = [common.at_least(f"{name}: times faster", timed["every"][0] / timed["rare"][0], FASTER)]
    result = es.run(problem, [recipe.called(kind) for kind, recipe in recipes.items()], episodes, seeds)
    columns = {
        "regret": lambda curves: curves["regret"].sum(-1),
        "value lost": lambda curves: curves["regret"].clip(min=0).sum(-1),
        "violation": lambda curves: curves["violation"].sum(-1),
    }
    for what, total in columns.items():
        every, rare = (total(result.curves[kind]) for kind in recipes)
        change = stats.mean_over_seeds(rare - every, np.random.default_rng(0))
        relative = np.array(change) / abs(every.mean())
        print(
            f"  {what}: {every.mean():.2f} and {rare.mean():.2f}, "
            f"{relative[0]:+.1%} [{relative[1]:+.1%}, {relative[2]:+.1%}] over {seeds} seeds."
        )
        rows.append(common.at_most(f"{name}: {what}, change", relative[0], WITHIN, show="+.3f"))
    return rows


def drift(d: int, rows_an_update: int, updates: int) -> float:
    """How far the running inverse is from a fresh one, relative, after so many updates with Dirichlet features."""
    rng = np.random.default_rng(d + rows_an_update)
    pool = jnp.asarray(rng.dirichlet(np.full(d, 1 / d), 2000))
    chosen = jnp.asarray(rng.integers(len(pool), size=(updates, rows_an_update), dtype=np.int32))

    @jax.jit
    def run() -> tuple[linalg.Gram, jax.Array]:
        def body(i, both):
            gram, Lambda = both
            X = pool[chosen[i]]
            return linalg.add(gram, pool[None], X), Lambda + X.T @ X

        gram = linalg.fresh(pool[None], 0.01, linalg.OnDemand())
        return jax.lax.fori_loop(0, updates, body, (gram, 0.01 * jnp.eye(d)))

    gram, Lambda = run()
    fresh = np.linalg.inv(np.asarray(Lambda))
    return float(np.linalg.norm(np.asarray(gram.inverse) - fresh) / np.linalg.norm(fresh))


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
        rows += compare("linear, d = 200", problem, {"beta": 0.5}, args.episodes, args.seeds)
    if args.lake_seeds:
        rows += compare("lake", es.problems.frozen_lake(), {}, args.lake_episodes, args.lake_seeds)
    with jax.enable_x64(True):
        for d in (50, 200) if args.updates else ():
            for n in (1, 5):
                what = f"inverse, d = {d}, {args.updates} updates of {n} rows: relative error"
                rows.append(common.at_most(what, drift(d, n, args.updates), 1e-8, show=".1e"))
    common.table("rare switching", rows)


if __name__ == "__main__":
    main()
