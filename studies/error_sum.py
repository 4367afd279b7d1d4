"""Does the sum of errors grow like sqrt(d), as the paper's abstract says, or like d, as its lemma gives?

    python studies/error_sum.py [--episodes 8192] [--draws 8] [--out DIR] [--figure PNG]

The object of Lemma err-linear, for one step h: sum_k e_k with e_k = 2 beta~_k ||phi_k||_{Lambda_k^-1} and the printed
radius beta~_k(p / H) = sqrt(lam d) + sqrt(d log((1 + k / lam) H / p)), lam = 1. (Realised violation cannot test an
upper bound; the sum of errors is what is bounded.) Along features that keep the potential high:

    round robin   e_1, ..., e_d, e_1, ...: what the lemma is tightest for
    random        unit vectors drawn at random
    greedy        of 16 such, the one of the largest norm: features chosen to stay uncertain
    agent         those that LSVI-AE with printed radii visits on random linear CMDPs (features of norm below 1)

and exponents of growth in d at fixed K, by least squares on log d; intervals are 95 % bootstrap over draws (agent: over
instances). The sum is a radius times norms, so its exponent is that of the radius plus that of the sum of norms:
nothing else depends on d.
"""

import argparse
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import everystep as es
from everystep.cli.shared import progress_bar
from everystep.experiments import experiment, figures, tables
from everystep.lsvi.radii import PaperCost
from everystep.reports.theory import bounds, diagnosis

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--episodes", type=int, default=8192)
parser.add_argument("--draws", type=int, default=8)
parser.add_argument("--d", default="2,4,8,16,32,64")
parser.add_argument("--agent-d", default="2,4,8,16,32")
parser.add_argument("--agent-episodes", type=int, default=2000)
parser.add_argument("--instances", type=int, default=4)
parser.add_argument("--out", default="out/studies/error_sum")
parser.add_argument("--figure", metavar="PNG")
options = parser.parse_args()
P, H = 0.05, 3
rng = np.random.default_rng(0)


def radii(d: int, K: int) -> np.ndarray:
    """beta~_k for k = 1..K: the program's own."""
    with jax.enable_x64(True):
        radius = PaperCost(1.0, float(d), 1.0, 1.0, float(H), P)
        return np.asarray(radius.width(jnp.ones(()), jnp.arange(1, K + 1)))


def unit(shape: tuple[int, ...]) -> np.ndarray:
    vectors = rng.normal(size=shape)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def norms(kind: str, d: int, K: int, draws: int) -> np.ndarray:
    """||phi_k|| in Lambda_k^-1, (draws, K)."""
    if kind == "round robin":
        return np.broadcast_to(1 / np.sqrt(1 + np.arange(K) // d), (1, K))
    inverse = np.broadcast_to(np.eye(d), (draws, d, d)).copy()
    seen = np.zeros((draws, K))
    for k in range(K):
        candidates = unit((draws, 1 if kind == "random" else 16, d))
        along = candidates @ inverse  # (draws, c, d)
        squared = (along * candidates).sum(-1)
        chosen = squared.argmax(1)
        each = np.arange(draws)
        seen[:, k] = np.sqrt(squared[each, chosen])
        u = along[each, chosen]
        inverse -= u[:, :, None] * u[:, None] / (1 + squared[each, chosen])[:, None, None]
    return seen


def exponent(d: list[int], samples: list[np.ndarray]) -> dict[str, float]:
    """The slope of log(mean over draws) on log d, and its interval from resampling the draws of each d."""
    x = np.log(d) - np.log(d).mean()
    slope = lambda means: float(np.log(means) @ x / (x @ x))
    again = [slope(np.array([s[rng.integers(len(s), size=len(s))].mean() for s in samples])) for _ in range(1000)]
    low, high = np.quantile(again, [0.025, 0.975])
    return {"value": slope(np.array([s.mean() for s in samples])), "low": float(low), "high": float(high)}


def by_agent(d: int, K: int, instances: int, advanced) -> tuple[np.ndarray, np.ndarray]:
    """The sums of errors and of norms of LSVI-AE with printed radii, a step's share of them, (instances,)."""
    agent = es.agents.lsvi_ae(radius="paper", share_values=False, share_costs=False, p=P)
    curves = []
    for seed in range(instances):
        problem = es.problems.linear(states=100, actions=4, d=d, horizon=H, seed=seed)
        (run,) = diagnosis.diagnose(experiment.prepare(problem, [agent], K, [seed]), advanced).values()
        curves.append(np.asarray(run.measured.error)[0])
    errors = np.array(curves)
    return errors.sum(1) / H, (errors / (2 * radii(d, K))).sum(1) / H


dims, K = [int(d) for d in options.d.split(",")], options.episodes
agent_dims, agent_episodes = [int(d) for d in options.agent_d.split(",") if d], options.agent_episodes
rows, said, drawn = [], {}, {}
work = dict.fromkeys(("round robin", "random", "greedy"), dims) | ({"agent": agent_dims} if agent_dims else {})
with progress_bar(options.instances * agent_episodes * len(agent_dims)) as advanced:
    for kind, used in work.items():
        errors, sums, lemma = [], [], []
        for d in used:
            if kind == "agent":
                total, plain = by_agent(d, agent_episodes, options.instances, advanced)
            else:
                each = norms(kind, d, K, options.draws)
                total, plain = 2 * (radii(d, K) * each).sum(1), each.sum(1)
            errors.append(total)
            sums.append(plain)
            episodes = agent_episodes if kind == "agent" else K
            lemma.append(bounds.linear_errors(episodes, d, float(radii(d, episodes)[-1])))
        last = [radii(d, agent_episodes if kind == "agent" else K)[-1:] for d in used]
        fits = {"errors": exponent(used, errors), "norms": exponent(used, sums), "radius": exponent(used, last)}
        means = [float(each.mean()) for each in errors]
        assert (np.array(means) <= lemma).all()
        said[kind] = {"d": used, "errors": means, "lemma": lemma, "exponents": fits}
        drawn[kind] = (used, means, lemma)
        shown = lambda fit: f"{fit['value']:.3f} [{fit['low']:.3f}, {fit['high']:.3f}]"
        holds = "d" if fits["errors"]["low"] > 0.75 else "sqrt(d)" if fits["errors"]["high"] < 0.75 else "neither"
        loose = [f"{mean / bound:.2f}" for mean, bound in zip(means, lemma, strict=True)]
        rows.append([kind, shown(fits["errors"]), shown(fits["radius"]), shown(fits["norms"]), holds, " ".join(loose)])

head = ["features", "sum of e ~ d^", "radius ~ d^", "sum of norms ~ d^", "nearer to", "sum of e / lemma, by d"]
print(tables.aligned([head, *rows]))
print(
    f"\nK = {K} and d = {options.d} (agent: K = {agent_episodes}, d = {options.agent_d}); "
    f"one step h, radius at p / H, H = {H}."
    "\nThe abstract's sqrt(d K) would need an exponent of 1/2; radius and norms have 1/2 each, and make 1 together."
)
out = Path(options.out)
out.mkdir(parents=True, exist_ok=True)
(out / "error_sum.json").write_text(
    json.dumps({"K": K, "agent_episodes": agent_episodes, "features": said}, indent=2) + "\n",
    encoding="utf-8",
)
print(f"\nWritten to {out / 'error_sum.json'}")

if options.figure:
    with mpl.rc_context(figures.STYLE):
        figure = Figure(figsize=(6.4, 4.2), layout="constrained")
        axes = figure.subplots()
        (blue, _), (orange, _) = figures.looks(["lsvi-ae", "lsvi"]).values()
        for kind, (used, means, _) in drawn.items():  # the three made sequences lie on each other
            label = {"agent": "agent", "greedy": "round robin,\nrandom, greedy"}.get(kind, "_")
            axes.plot(used, means, "o-", color=orange if kind == "agent" else blue, markersize=4, label=label)
        used, means, lemma = drawn["round robin"]
        axes.plot(used, lemma, color=figures.INK, linestyle=(0, (6, 2)), linewidth=1.3, label="lemma")
        d = np.array(used, float)
        for power, name in ((1.0, "~ d"), (0.5, "~ sqrt(d)")):
            axes.plot(d, 0.4 * means[0] * (d / d[0]) ** power, color=figures.FAINT, linewidth=0.9, label=name)
        axes.set(
            xscale="log", yscale="log", xlabel="number of features d", title=f"Sum of the errors of one step, K = {K}"
        )
        axes.set_xlim(right=max(dims))
        axes.set_xticks(dims, [str(d) for d in dims])
        axes.minorticks_off()
        figures.name_ends(axes)
        Path(options.figure).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(options.figure, dpi=200, facecolor="white")
