"""Agents with known safe actions on the synthetic problem: their returns, and how often they violate the constraint.

    python studies/known_safe_agents.py [--episodes 10000] [--seeds 16] [--spread 0.15] [--out out/known-safe-agents]

The paper of LSVI-NEW prints (reward / share of episodes with a violation): LSVI-NEW 1.53 / 0, unconstrained UCRL 1.78 /
.91, SLUCB-QVI 1.59 / .83. Why does SLUCB-QVI violate, although it guarantees safety like LSVI-NEW?

1. Is it the estimate? The same problem with valid cost intervals, and with none at all (`beta_cost=0`).
2. Is it what is counted? SLUCB-QVI keeps the mean cost of (x, a) below the threshold, LSVI-NEW the cost of every
   triple (x, a, x'). So costs are made to depend on the next state, c(x, a, x') = c(x, a) + spread * z(x, a, x') with a
   z of mean 0 at every (x, a) and size at most 1, which is a feature of the triple. Violations are counted both ways,
   exactly, for the last policy of each agent.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import everystep as es
from everystep.agents import lsvi, lsvi_new, slucb_qvi
from everystep.lsvi import loop
from everystep.lsvi.choices.ties import ties
from everystep.mdp import planner, successors

ANY = {"kappa": 1, "radius_cost": "tuned", "beta_cost": 0}


def spread_over_next_states(spread: float) -> es.FiniteCMDP:
    """The synthetic problem with costs that depend on the next state, observed on arrival without other noise."""
    p = es.problems.synthetic()
    drawn = np.random.default_rng(0).choice([-0.5, 0.5], p.states)
    z = drawn - (p.dense_P[0] @ drawn)[..., None]  # (S, A, S)
    triples = np.concatenate([p.known.triples, z[..., None]], -1)
    return es.FiniteCMDP(
        p.dense_P[0],
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
    """The value of the last policy, and the probability of an episode with a mean cost, or a triple, above tau."""
    sizes, values, violated = problem.sizes, [], []
    with jax.enable_x64(True):
        built = agent.resolve(problem, episodes).build()
        world = jax.tree.map(jnp.asarray, problem.world)
        numbers = jnp.arange(seeds, dtype=jnp.uint32)
        carry = loop.start_seeds(built.agent, sizes, built.share_values, built.share_costs, seeds)
        job = loop.Job(built.agent, world, sizes, built.share_values, built.share_costs)
        for done in range(0, episodes, loop.CHUNK):
            count = jnp.asarray(min(loop.CHUNK, episodes - done), jnp.int32)
            carry, _ = loop.scan_seeds(job, carry, numbers, count, loop.CHUNK, False)
        for seed in range(seeds):
            state = jax.tree.map(lambda leaf, seed=seed: leaf[seed], carry.agent)
            planned = loop.new_plan(built.agent, world, state, ties(jnp.uint32(seed), sizes.horizon, sizes.states))
            values.append(float(planned.V[problem.start[0]]))
            actions = np.asarray(planned.plan.actions)
            triples = successors.table_at(problem.P, problem.cost_on_arrival)[0, 0] <= 0
            mean = np.broadcast_to(problem.g[0, 0][..., None] <= 0, triples.shape)
            violated.append([max(1 - _kept(problem, actions, each), 0.0) for each in (mean, triples)])
    return {
        "value": float(np.mean(values)),
        **dict(zip(("mean", "triple"), np.mean(violated, 0).tolist(), strict=True)),
    }


def _kept(problem: es.FiniteCMDP, actions: np.ndarray, safe_triples: np.ndarray) -> float:
    """The probability that an episode has safe triples only."""
    probability, x = np.ones(problem.states), np.arange(problem.states)
    for a in actions[::-1]:
        probability = (problem.dense_P[0][x, a] * safe_triples[x, a]) @ probability
    return float(probability[problem.start[0]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--spread", type=float, default=0.15)
    parser.add_argument("--out", type=Path, default=Path("out/known-safe-agents"))
    options = parser.parse_args()
    rows: dict[str, dict[str, dict[str, float]]] = {"estimate": {}, "count": {}}

    problem = es.problems.synthetic()
    safe, free = (planner.solve(problem, safe=each).value for each in (True, False))
    print(f"safe optimum {safe:.4f}, without constraint {free:.4f}")
    agents = [lsvi_new(), slucb_qvi(), slucb_qvi(**ANY).called("slucb-qvi, no intervals"), lsvi()]
    result = es.run(problem, agents, options.episodes, options.seeds)
    print("| agent | mean return | final value | episodes with a violation | runs without a violation | safe set |")
    print("|---" * 6 + "|")
    for label, curves in result.columns.items():
        row = {
            "return": float(curves["return"].mean()),
            "value": float(curves["value"][:, -100:].mean()),
            "violated": float((curves["unsafe_steps"] > 0).mean()),
            "runs_without_a_violation": float((curves["violation"].sum(1) == 0).mean()),
            "safe_set": float(result.certified.get(label, {}).get("safe_set", np.nan)),
        }
        rows["estimate"][label] = row
        print(f"| {label} | {' | '.join(f'{each:.4g}' for each in row.values())} |")

    problem = spread_over_next_states(options.spread)
    print(f"\n{problem.name}; the last policy of each")
    print("| agent | value | episodes above the threshold by mean | by triple |\n" + "|---" * 4 + "|")
    for agent in (lsvi_new(), slucb_qvi(), lsvi()):
        row = at_the_end(problem, agent, options.episodes, options.seeds)
        rows["count"][agent.label] = row
        print(f"| {agent.label} | {' | '.join(f'{each:.4g}' for each in row.values())} |", flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "known-safe-agents.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
