"""Do the confidence sets of the paper hold as often as guaranteed, and how loose are its bounds?

    python studies/coverage.py [--instances 4] [--seeds 26] [--episodes 5000] [--out DIR] [--figure PNG]

Random linear CMDPs with few features (d = 2, 8 states, 4 actions, H = 3; instances 1 to 4), LSVI-AE exactly as
Theorem 1 has it: one estimator per step, lam = 1, radius = paper with c = 1, floor k. Condition 1 must hold at all
(k, h, x, a) in a share 1 - p of runs, and with it Q >= Q* in 1 - 2p. Then the same with both radii multiplied by a
factor below 1: how much of the width is needed on these problems, and what it costs. A run is one seed on one instance.

`lost` is the sum over episodes of max(V* - V, 0). Regret may be negative, because violations pay; the proof bounds the
sum of V_1^k - V, which is at least the value lost where V_1^k >= V*, so its bound covers `lost` as well.
"""

import argparse
import json
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import everystep as es
from everystep.cli.shared import progress_bar
from everystep.experiments import experiment, figures, tables
from everystep.reports.theory import bounds as theory
from everystep.reports.theory import diagnosis, table

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--instances", type=int, default=4)
parser.add_argument("--seeds", type=int, default=26)
parser.add_argument("--episodes", type=int, default=5000)
parser.add_argument("--factors", default="1,0.3,0.1,0.03")
parser.add_argument("--d", type=int, default=2)
parser.add_argument("--horizon", type=int, default=3)
parser.add_argument("--states", type=int, default=8)
parser.add_argument("--out", default="out/studies/coverage")
parser.add_argument("--figure", metavar="PNG")
options = parser.parse_args()
P, K, H = 0.05, options.episodes, options.horizon
factors = [float(factor) for factor in options.factors.split(",")]
own = {"radius": "paper", "share_values": False, "share_costs": False, "p": P}
AGENTS = [es.agents.lsvi_ae(beta=f, beta_cost=f, **own).called(f"{f:g}") for f in factors]

runs: dict[str, dict[str, list]] = {agent.label: {} for agent in AGENTS}
with progress_bar(options.instances * options.seeds * K * len(AGENTS)) as advanced:
    for instance in range(1, 1 + options.instances):
        problem = es.problems.linear(options.states, 4, options.d, H, seed=instance)
        # Other seeds on every instance: seeds share the world's draws.
        prepared = experiment.prepare(
            problem, AGENTS, K, range(instance * options.seeds, (instance + 1) * options.seeds)
        )
        optimal = es.planner.solve(problem).V[0]
        for label, each in diagnosis.diagnose(prepared, advanced).items():
            seen, metrics = each.measured, each.metrics
            beta = table.value_radius(each.resolved)(K)
            compared = table.TheoryComparison({}, each)
            regret = optimal[np.asarray(metrics.start)] - np.asarray(metrics.value)
            numbers = {
                "covered": np.full(options.seeds, not table.not_covered(each.resolved)),
                "condition": each.condition_held.all(1),
                "optimism": each.optimism_held.all(1),
                "at_start": each.optimism_held_at_start.all(1),
                "regret": regret.sum(1),
                "lost": regret.clip(min=0).sum(1),
                "violation": np.asarray(metrics.violation).sum((1, 2)),
                "errors": np.asarray(seen.error).sum(1),
                "lemma": compared.lemma[:, -1],
                "regret_bound": np.full(options.seeds, theory.regret_bound(K, H, options.d, beta, P, repaired=True)),
                "lost_curve": np.cumsum(regret.clip(min=0), 1).mean(0)[None],
                "violation_curve": np.cumsum(np.asarray(metrics.violation).sum(-1), 1).mean(0)[None],
            }
            for name, values in numbers.items():
                runs[label].setdefault(name, []).append(values)

n = options.instances * options.seeds
held = ["Condition 1", "Q >= Q*", "V_1 >= V*_1"]
head = ["radii x", *held, "regret", "lost", "/ bound", "violation", "/ bound", "sum e / lemma"]
rows, sums = [], {}
for label, numbers in runs.items():
    joined = {name: np.concatenate(values) for name, values in numbers.items()}
    mean = {name: float(values.mean()) for name, values in joined.items() if not name.endswith("curve")}
    bounds = joined["lemma"] + theory.price_term(K, H, repaired=True)
    under = {
        "lost_under_the_bound_on_regret": int((joined["lost"] <= joined["regret_bound"]).sum()),
        "violation_under_its_bound": int((joined["violation"] <= bounds).sum()),
    }
    share = lambda name, joined=joined: f"{int(joined[name].sum())} of {n}"
    sums[label] = mean | under | {"violation_bound": float(bounds.mean())}
    rows.append([
        label, share("condition"), share("optimism"), share("at_start"),
        tables.number(mean["regret"]), tables.number(mean["lost"]), f"{mean['lost'] / mean['regret_bound']:.1e}",
        tables.number(mean["violation"]), f"{mean['violation'] / bounds.mean():.1e}",
        f"{mean['errors'] / mean['lemma']:.3f}",
    ])  # fmt: skip
print(
    f"linear CMDPs, d = {options.d}, H = {H}, K = {K}, {options.instances} instances x {options.seeds} seeds, p = {P}: "
    f"promised {1 - P:.2f} (Condition 1) and {1 - 2 * P:.2f} (Q >= Q*) of runs\n"
)
print(tables.aligned([head, *rows]))
print(
    "\nruns in which the confidence set held at all times; means over runs; bounds are Theorem 1's, repaired, with the"
    f"\nradii of the row. K H = {K * H}; the first row's bounds are {sums[rows[0][0]]['regret_bound']:.3g} on regret, "
    f"{sums[rows[0][0]]['violation_bound']:.3g} on violation.\n"
    f"The first row is covered by Theorem 1: {bool(sums[rows[0][0]]['covered'])}. Runs under the bound, row by row: "
    + ", ".join(
        f"{each['lost_under_the_bound_on_regret']}/{each['violation_under_its_bound']}" for each in sums.values()
    )
    + " (lost/violation)."
)


def first_informative(d: int, H: int) -> dict[str, int | None]:
    """From which K on the repaired bounds, with the printed radii, are below K H."""
    beta = lambda K: theory.value_radius(1, d, H, K, P)
    errors = table.errors_bound(es.agents.lsvi_ae(**own).resolve(es.problems.linear(8, 4, d, H), K))
    return {
        "regret": theory.first_informative_K(lambda K: theory.regret_bound(K, H, d, beta(K), P, repaired=True), H),
        "violation": theory.first_informative_K(lambda K: theory.violation_bound(K, H, errors(K), repaired=True), H),
    }


tells = {f"d = {d}, H = {h}": first_informative(d, h) for d, h in ((options.d, H), (10, 5), (400, 15))}
print("\nThe bounds are below K H from these K on (the last is the lake, one-hot):")
for name, each in tells.items():
    print(f"  {name}: regret {each['regret']:.6g}, violation {each['violation']:.6g}")
out = Path(options.out)
out.mkdir(parents=True, exist_ok=True)
settings = {key: value for key, value in vars(options).items() if key not in ("out", "figure")}
(out / "coverage.json").write_text(
    json.dumps({"settings": settings, "runs": n, "radii": sums, "tells_from": tells}, indent=2) + "\n", encoding="utf-8"
)
print(f"\nWritten to {out / 'coverage.json'}")

if options.figure:
    with mpl.rc_context(figures.STYLE):
        figure = Figure(figsize=(9.6, 3.9), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        k = np.unique(np.geomspace(1, K, 200).astype(int))
        colours = [
            colour for colour, _ in (*figures.looks(["lsvi-ae", "lsvi", "lsvi-primal"]).values(), *figures.SPARE)
        ]
        for colour, (label, numbers) in zip(colours, runs.items(), strict=False):
            for axes, name in ((left, "lost_curve"), (right, "violation_curve")):
                curve = np.concatenate(numbers[name]).mean(0)[k - 1]
                axes.plot(k, np.where(curve > 0, curve, np.nan), color=colour, label=f"radii x {label}")
        for axes, title in ((left, "Value lost against the safe optimum"), (right, "Hard violation")):
            axes.plot([1, K], [H, K * H], color=figures.FAINT, linewidth=1, label="k H")
            axes.set(xscale="log", yscale="log", xlabel="episode", title=title, xlim=(1, K), ylim=(0.1, None))
            figures.name_ends(axes)
        left.set_ylabel("sum up to the episode, mean over runs")
        figure.savefig(options.figure, dpi=200, facecolor="white")
