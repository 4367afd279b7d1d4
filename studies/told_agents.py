"""Agents that are told what is safe, on the synthetic problem: what they earn, and how often they do harm.

    python studies/told_agents.py [--episodes 10000] [--seeds 16] [--spread 0.15] [--out out/told-agents]

The paper of LSVI-NEW prints (reward / share of episodes with a violation): LSVI-NEW 1.53 / 0, unconstrained UCRL 1.78 /
.91, SLUCB-QVI 1.59 / .83. Two questions are asked of its third row, for SLUCB-QVI promises what LSVI-NEW does.

1. Is it the estimate? The same problem with valid cost intervals, and with none at all (`beta_cost=0`).
2. Is it what is counted? SLUCB-QVI keeps the mean cost of (x, a) below the threshold, LSVI-NEW the cost of every
   triple (x, a, x'). So costs are made to depend on the next state, c(x, a, x') = c(x, a) + spread * z(x, a, x') with a
   z of mean 0 at every (x, a) and size at most 1, which is a feature of the triple. Harm is counted both ways, exactly,
   for the policy that each agent ends with.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import everystep as es
from everystep import drive, planner
from everystep.agents import lsvi, lsvi_new, slucb_qvi
from everystep.parts.choices import ties

ANY = {"kappa": 1, "radius_cost": "tuned", "beta_cost": 0}


def spread_over_next_states(spread: float) -> es.FiniteCMDP:
    """The synthetic problem with costs that depend on where (x, a) leads, seen on arrival without other noise."""
    p = es.problems.synthetic()
    drawn = np.random.default_rng(0).choice([-0.5, 0.5], p.states)
    z = drawn - (p.P[0] @ drawn)[..., None]  # (S, A, S)
    triples = np.concatenate([p.known.triples, z[..., None]], -1)
    return es.FiniteCMDP(
        p.P[0],
        p.r[0],
        p.g[0, 0],
        start=p.start,
        horizon=p.horizon,
        noise=es.Noise(cost_on_arrival=p.g[0, 0][..., None] + spread * z),
        features=p.features,
        known=es.Known(p.known.threshold, p.known.safe_action, triples / np.linalg.norm(triples, axis=-1).max()),
        name=f"synthetic, costs spread by {spread:g}",
    )


def at_the_end(problem: es.FiniteCMDP, agent: es.agents.Recipe, episodes: int, seeds: int) -> dict[str, float]:
    """The last policy's value, and the chances that an episode of it meets a mean cost, and a triple's, above tau."""
    sizes, values, harms = problem.sizes, [], []
    with jax.enable_x64(True):
        built = agent.resolve(problem, episodes).build()
        world = jax.tree.map(jnp.asarray, problem.world)
        numbers = jnp.arange(seeds, dtype=jnp.uint32)
        carry = drive.start_seeds(built.agent, sizes, built.share_values, built.share_costs, seeds)
        for done in range(0, episodes, drive.CHUNK):
            count = jnp.asarray(min(drive.CHUNK, episodes - done), jnp.int32)
            carry, _ = drive.scan_seeds(built.agent, world, sizes, carry, numbers, count, drive.CHUNK, False)
        for seed in range(seeds):
            state = jax.tree.map(lambda leaf, seed=seed: leaf[seed], carry.agent)
            planned = drive.plan_anew(built.agent, world, state, ties(jnp.uint32(seed), sizes.horizon, sizes.states))
            values.append(float(planned.V[problem.start[0]]))
            actions = np.asarray(planned.plan.actions)
            triples = np.asarray(problem.noise.cost_on_arrival) <= 0
            mean = np.broadcast_to(problem.g[0, 0][..., None] <= 0, triples.shape)
            harms.append([max(1 - _kept(problem, actions, each), 0.0) for each in (mean, triples)])
    return {"value": float(np.mean(values)), **dict(zip(("mean", "triple"), np.mean(harms, 0).tolist(), strict=True))}


def _kept(problem: es.FiniteCMDP, actions: np.ndarray, harmless: np.ndarray) -> float:
    """The chance that an episode has harmless triples only."""
    chance, x = np.ones(problem.states), np.arange(problem.states)
    for a in actions[::-1]:
        chance = (problem.P[0][x, a] * harmless[x, a]) @ chance
    return float(chance[problem.start[0]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--spread", type=float, default=0.15)
    parser.add_argument("--out", type=Path, default=Path("out/told-agents"))
    options = parser.parse_args()
    told: dict[str, dict[str, dict[str, float]]] = {"estimate": {}, "count": {}}

    problem = es.problems.synthetic()
    safe, free = (planner.solve(problem, safe=each).value for each in (True, False))
    print(f"safe optimum {safe:.4f}, without constraint {free:.4f}")
    agents = [lsvi_new(), slucb_qvi(), slucb_qvi(**ANY).called("slucb-qvi, no intervals"), lsvi()]
    result = es.run(problem, agents, options.episodes, options.seeds)
    print("| agent | mean return | final value | episodes with a violation | runs without one | safe set |")
    print("|---" * 6 + "|")
    for label, curves in result.curves.items():
        row = {
            "return": float(curves["return"].mean()),
            "value": float(curves["value"][:, -100:].mean()),
            "violated": float((curves["unsafe_steps"] > 0).mean()),
            "harmless": float((curves["violation"].sum(1) == 0).mean()),
            "safe_set": float(result.certified.get(label, {}).get("safe_set", np.nan)),
        }
        told["estimate"][label] = row
        print(f"| {label} | {' | '.join(f'{each:.4g}' for each in row.values())} |")

    problem = spread_over_next_states(options.spread)
    print(f"\n{problem.name}; the last policy of each")
    print("| agent | value | episodes above the threshold by mean | by triple |\n" + "|---" * 4 + "|")
    for agent in (lsvi_new(), slucb_qvi(), lsvi()):
        row = at_the_end(problem, agent, options.episodes, options.seeds)
        told["count"][agent.label] = row
        print(f"| {agent.label} | {' | '.join(f'{each:.4g}' for each in row.values())} |", flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "told.json").write_text(json.dumps(told, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
