"""Do the proofs of docs/look-ahead.md hold step by step, and how loose are their bounds?

    python studies/look_ahead.py [--instances 3] [--seeds 32] [--episodes 1000] [--out DIR]

1. The estimates of `lsvi-ahead` on random tables with dead ends, noise and random transitions (5 states, 3 actions,
   H = 3): Ghat <= G*, C <= C*, V >= V* at viable states and Glow <= G* <= Gup, each at all (k, h, x, a) of a run, with
   the valid radii (radius = coordinate) and with parts of them, in both modes; harm against its bound.
2. A start that is not viable and two actions of equal harm: without a tolerance the regret is linear.
3. The radius of harm-to-go in the linear case with all constants, as a multiple of d H sqrt(iota).
"""

import argparse
import json
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from ahead_probe import SLACK, AheadProbe, Margins

import everystep as es
from everystep.experiments import tables
from everystep.lsvi import loop
from everystep.mdp.cmdp import FiniteCMDP, Noise
from everystep.reports.theory import bounds

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--instances", type=int, default=3)
parser.add_argument("--seeds", type=int, default=32)
parser.add_argument("--episodes", type=int, default=1000)
parser.add_argument("--out", default="out/studies/look_ahead")
options = parser.parse_args()
P, H, K = 0.05, 3, options.episodes


def with_dead_ends(seed: int, sigma: float = 0.1) -> FiniteCMDP:
    """States 0 to 2 are viable by action 0 alone; 3 leads to 4 whatever is done, and in 4 every action is unsafe."""
    rng = np.random.default_rng(seed)
    S, A = 5, 3
    P = np.zeros((S, A, S))
    for x in range(3):
        P[x, 0, rng.permutation(3)[:2]] = rng.dirichlet(np.ones(2))
        P[x, 1, [rng.integers(3), 3, 4]] = rng.dirichlet((2, 1, 2))
        P[x, 2, rng.integers(3, 5)] = 1
    P[3, :, 4] = 1
    P[4, :, [0, 4]] = rng.dirichlet((1, 3), A).T
    r = rng.uniform(0, 0.5, (S, A)) + 0.5 * (np.arange(A) > 0)
    g = -rng.uniform(0.3, 1, (S, A))
    g[1, 1], g[2, 2] = rng.uniform(0.1, 0.9, 2)
    g[4] = rng.uniform(0.6, 0.9, A)
    return FiniteCMDP(P, r, g, horizon=H, noise=Noise(cost_sigma=sigma))


def measured(problem: FiniteCMDP, recipe: es.agents.Recipe, first_seed: int) -> Margins:
    """The margins of every claim, (seeds, episodes) each."""
    with jax.enable_x64(True):
        built = recipe.resolve(problem, K).build()
        shares = (built.share_values, built.share_costs)
        probe = jax.tree.map(jnp.asarray, AheadProbe.of(problem, p=P))
        job = loop.Job(built.agent, jax.tree.map(jnp.asarray, problem.world), problem.sizes, *shares, probe=probe)
        carries = loop.start_seeds(built.agent, problem.sizes, *shares, options.seeds)
        seeds = jnp.arange(first_seed, first_seed + options.seeds, dtype=jnp.uint32)
        return jax.tree.map(np.asarray, loop.scan_seeds(job, carries, seeds, np.int32(K), K, False)[1].probed)


# --- 1. every step of the proofs ------------------------------------------------------------------------------------
own = {"radius": "coordinate", "p": P, "share_values": False}
part = lambda f: {"beta": f, "beta_cost": f, "beta_harm": f}
small = {"lam": 0.01, "lam_cost": 0.01}
ROWS = {
    "least, x 1": {},
    "least, x 0.3": part(0.3),
    "least, x 0.1": part(0.1),
    "least, x 0.01": part(0.01) | small,
    "plan, x 1": {"mode": "plan"},
    "plan, x 0.1": {"mode": "plan"} | part(0.1),
    "plan, x 0.01": {"mode": "plan"} | part(0.01) | small,
    "least, x 1, tolerance 0.1": {"tolerance": 0.1},
    "least, costs x 1, others x 0.01": part(0.01) | {"beta_cost": 1, "lam": 0.01},
    "least, x 1, shared": {"share_values": True},
}
CLAIMS = {
    "Ghat <= G*": ("led_to",),
    "C <= C*": ("harm_to_go",),
    "V >= V*, viable": ("value",),
    "elsewhere": ("value_elsewhere",),
    "errors": ("error",),
    "certified": ("certified_low", "certified_up"),
}
runs: dict[str, list[Margins]] = {name: [] for name in ROWS}
for instance in range(1, 1 + options.instances):
    problem = with_dead_ends(instance)
    for name, settings in ROWS.items():
        runs[name].append(measured(problem, es.agents.lsvi_ahead(**own | settings), instance * options.seeds))

n = options.instances * options.seeds
head = ["radii", *CLAIMS, "harm", "sum of e", "price", "drift", "last 100", "safe ahead", "unsafe ahead"]
rows, numbers = [], {}
for name, parts in runs.items():
    run = Margins(*(np.concatenate(each) for each in zip(*parts, strict=True)))
    held = {
        claim: int(np.all([(getattr(run, field) >= -SLACK).all(1) for field in fields], 0).sum())
        for claim, fields in CLAIMS.items()
    }
    within = run.least + run.errors + run.permitted + run.drift - run.harm
    numbers[name] = {
        "held": held,
        "harm": float(run.harm.sum(1).mean()),
        "errors": float(run.errors.sum(1).mean()),
        "permitted": float(run.permitted.sum(1).mean()),
        "drift": float(run.drift.sum(1).mean()),
        "estimated_least": float(run.least.sum(1).mean()),
        "harm_per_episode_at_the_end": float(run.harm[:, -100:].mean()),
        "smallest_margin_of_an_episode": float(within.min()),
        "safe_ahead": float(run.safe_ahead[:, -1].mean()),
        "unsafe_ahead": float(run.unsafe_ahead[:, -1].mean()),
    }
    each = numbers[name]
    amounts = [each[key] for key in ("harm", "errors", "permitted", "drift", "harm_per_episode_at_the_end")]
    labels = [f"{each['safe_ahead']:.1f}", f"{each['unsafe_ahead']:.1f}"]
    rows.append([name, *map(str, held.values()), *map(tables.number, amounts), *labels])
print(f"runs of {n} in which each claim held at all times, p = {P}; means over runs of K = {K} episodes of H = {H}\n")
print(tables.aligned([head, *rows]))
print(
    "\nharm <= least + sum of e + price + drift held in every episode of "
    + ", ".join(name for name, each in numbers.items() if each["smallest_margin_of_an_episode"] >= -SLACK)
)


def bound_on_harm(S: int, A: int, J: int, H: int, K: int, p: float, sigma: float, m: int = 1) -> float:
    """The theorem for one-hot features, lam = 1, without tolerance: beyond the least harm, with probability 1 - 4 p."""
    of_costs, of_values = math.log(2 * m * S * A * H * K / p), math.log(S * A * H * K / p)
    uniform = J * math.log(2) + math.log(H * S * A * K * (K + 1) / p)
    root = H * math.sqrt(S * A * K)
    costs = 4 * m * root * (1 + sigma * math.sqrt(2 * of_costs))
    after = 2 * H * m * root * (2 + math.sqrt(of_values / 2) + math.sqrt(uniform / 2))
    return costs + after + H**2 * (2 + math.log(K)) + H * m * math.sqrt(K * H * math.log(1 / p) / 2)


theorem = lambda K: bound_on_harm(5, 3, 5, H, K, P, 0.1)
first = bounds.first_informative_K(theorem, H)
print(f"the bound of the theorem at K = {K}: {theorem(K):.4g}; below K H from K = {first} on")

# --- 2. a start that is not viable -----------------------------------------------------------------------------------
r, g = np.array([[1.0, 0.0]]), np.full((1, 2), 0.5)
tie = FiniteCMDP(np.ones((1, 2, 1)), r, g, horizon=1, noise=Noise(cost_sigma=0.3))
unviable = {}
for tolerance in (0.0, 0.2):
    recipe = es.agents.lsvi_ahead(radius="coordinate", tolerance=tolerance)
    regret = es.run(tie, recipe, episodes=4000, seeds=16).columns["lsvi-ahead"]["regret"]
    unviable[tolerance] = [float(regret[:, :k].sum(1).mean()) for k in (1000, 2000, 4000)]
    text = ", ".join(f"{each:.1f}" for each in unviable[tolerance])
    print(f"two actions of equal harm, tolerance {tolerance:g}: regret {text} after 1000, 2000 and 4000 episodes")


# --- 3. the radius of harm-to-go, linear case -----------------------------------------------------------------------
def harm_radius(d: int, H: int, K: int, p: float, m: int = 1, lam: float = 1.0) -> float:
    """beta_C of docs/look-ahead.md: the fixed point of its right-hand side, for costs in [-1, 1]."""
    B, eps = H * m, H * m * math.sqrt(lam) / K
    beta_cost = math.sqrt(lam * d) + math.sqrt(d * math.log((1 + K / lam) * H * m / p))
    beta = 1.0
    for _ in range(200):
        cover = (
            m * d * math.log1p(8 * m * math.sqrt(d * K / lam) / eps)
            + d * math.log1p(8 * B * math.sqrt(d * K / lam) / eps)
            + d**2 * math.log1p(32 * m**2 * math.sqrt(d) * beta_cost**2 / (lam * eps**2))
            + d**2 * math.log1p(32 * math.sqrt(d) * beta**2 / (lam * eps**2))
        )
        noise = d / 2 * math.log1p(K / (lam * d)) + cover + math.log(H / p)
        beta = B * (math.sqrt(lam * d) + 2 + math.sqrt(noise / 2))
    return beta


radii = {}
for d, horizon, episodes in ((2, 3, 5000), (10, 5, 100_000), (400, 15, 1000)):
    iota = math.log(2 * d * horizon * episodes / P)
    beta = harm_radius(d, horizon, episodes, P)
    c, name = beta / (d * horizon * math.sqrt(iota)), f"d = {d}, H = {horizon}, K = {episodes}"
    radii[name] = {"beta_C": beta, "c": c}
    print(f"{name}: beta_C = {beta:.4g} = c d H sqrt(iota) with c = {c:.3g}")

out = Path(options.out)
out.mkdir(parents=True, exist_ok=True)
settings = {key: value for key, value in vars(options).items() if key != "out"}
content = {"settings": settings, "runs": n, "rows": numbers, "unviable": unviable, "radii": radii}
(out / "look_ahead.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
print(f"\nWritten to {out / 'look_ahead.json'}")
