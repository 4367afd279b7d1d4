"""How fast LSVI-AE runs with dense features, how its cost grows, and against a published implementation.

What is compared. A random linear CMDP, shared over steps: d = 50 features, 100 states, 4 actions, H = 15.
(a) The seconds of 1000 episodes of one seed. (b) The time of 500 episodes early and late in a run of 5000: the model
keeps sums, not a history, so an episode should cost the same at the end as at the start. (c) LSVIUCBAgent of
rlberry-scool on the same features, whose cost per episode grows; it records no costs and no metrics.

How. One core; compilation excluded; the best of several runs of the same seed. The peer is
measured on a few episodes and extrapolated, and the output reports it.

The problem. phi(x, a) is uniform on the simplex, so its norm is at most 1 and its entries sum to 1; the next state
comes from P(. | x, a) = sum_i phi_i mu_i(.), each mu_i uniform on the simplex; r = <phi, theta_r> with theta_r in
[0, 1]; g = <phi, theta_g>, where theta_g is shifted by a constant, which keeps g linear, until the safest action of
every state has g <= -0.1, and scaled until |g| <= 1.

The figures are ratios within one run, because absolute times depend on the machine.

    python benchmarks/dense.py [--peer-python PYTHON] [--repeats 3]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import common
import jax
import jax.numpy as jnp
import numpy as np

from everystep import FiniteCMDP
from everystep.agents import lsvi_ae
from everystep.lsvi import loop

D, HORIZON, ACTIONS, STATES = 50, 15, 4, 100
EPISODES, LONG = 1000, 5000


def linear_problem(seed: int = 0) -> FiniteCMDP:
    """The random linear CMDP described above; its features come with it."""
    rng = np.random.default_rng(seed)
    phi = rng.dirichlet(np.ones(D), (STATES, ACTIONS))
    P = phi @ rng.dirichlet(np.ones(STATES), D)
    theta_g = rng.normal(size=D)
    theta_g -= (phi @ theta_g).min(-1).max()
    theta_g /= max(1.0, np.abs(phi @ theta_g).max())
    theta_g = 0.9 * theta_g - 0.1
    r = phi @ rng.uniform(size=D)
    return FiniteCMDP(P / P.sum(-1, keepdims=True), r, phi @ theta_g, 0, HORIZON, features=phi, name="dense")


def chunk_times(problem: FiniteCMDP, episodes: int) -> np.ndarray:
    """The seconds of each chunk of episodes of seed 0, run as the local engine runs them."""
    agent, share_values, share_costs, *_ = lsvi_ae(features=problem.features).resolve(problem, episodes).build()
    world = jax.tree.map(jnp.asarray, problem.world)
    carry = loop.start(agent, problem.sizes, share_values, share_costs)
    job = loop.Job(agent, world, problem.sizes, share_values, share_costs)
    carry = jax.tree.map(lambda x: x[None], carry)

    seeds, count = jnp.zeros(1, jnp.uint32), jnp.int32(loop.CHUNK)
    times = []
    for _ in range(0, episodes, loop.CHUNK):
        began = time.perf_counter()
        out = loop.scan_seeds(job, carry, seeds, count, loop.CHUNK, False)
        carry, _ = jax.block_until_ready(out)
        times.append(time.perf_counter() - began)
    return np.array(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer-python", type=Path, default=common.PEER_PYTHON, help="one with rlberry-scool")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    common.pin()
    problem = linear_problem()
    problem.check()
    unsafe = float((problem.g > 0).mean())
    print(f"{STATES} states, {ACTIONS} actions, d = {D}, H = {HORIZON}; {unsafe:.0%} of the actions are unsafe.")
    with jax.enable_x64(True):
        first = common.seconds(lambda: chunk_times(problem, loop.CHUNK))
        # The best of each chunk over the repeats: a busy moment of the machine then spoils one chunk of one repeat.
        best = np.min([chunk_times(problem, LONG) for _ in range(args.repeats)], axis=0)
    print(f"Compiling: {max(first - best[0], 0):.1f} s.")
    print("ms an episode, by the hundred episodes passed:")
    each = 1000 * best / loop.CHUNK
    print("  " + "  ".join(f"{(i + 1) * loop.CHUNK // 100}: {ms:.3f}" for i, ms in enumerate(each)))

    chunks = EPISODES // loop.CHUNK
    total = float(best[:chunks].sum())
    linear = 2 * len(best) - 1.0  # the middle of the last chunk against the middle of the first, were it linear
    rows = [
        (f"1 x {EPISODES}: seconds", f"{total:.2f} s", "", ""),
        common.at_most(f"last {loop.CHUNK} of {LONG} episodes / first {loop.CHUNK}", best[-1] / best[0], linear),
    ]
    found = common.peer(args.peer_python, problem.features, problem, EPISODES, at=(10, 20, 40, 80, 160))
    if found:
        print(common.describe_peer(found) + f"; everystep {total:.3f} s.")
        rows.append(common.at_least("1 x 1000: LSVIUCBAgent's time / everystep's", found["total"] / total, 100, ",.0f"))
    common.table("dense features, one core", rows)


if __name__ == "__main__":
    main()
