"""Two constraints at once: hazards, and a limit on the power that a step may draw; each with its own model.

    python examples/two_limits.py [--seeds 32] [--out out/examples/two-limits]

On hills from `terrain`, climbing draws power and some cells are hazards. Three variants of LSVI-AE: one-hot costs
for both; one kernel on landing cells for both, which suits hazards and is wrong for power; the right kernel for each.
"""

import argparse
from pathlib import Path

import numpy as np

import everystep as es
from everystep.cli.shared import progress_bar
from everystep.experiments import tables
from everystep.mdp import planner
from everystep.mdp.cmdp import FiniteCMDP, Grid
from everystep.reports import certificates

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--seeds", type=int, default=32)
parser.add_argument("--episodes", type=int, default=600)
parser.add_argument("--out", default="out/examples/two-limits")
options = parser.parse_args()


def hills_with_hazards(seed: int = 20, hazards: int = 8) -> FiniteCMDP:
    """A terrain with hazards that leave every cell a safe action and the safe optimum nearly as high.

    g_1 = +1 if the cell aimed at is a hazard, else -1; g_2 = the climb, as on the terrain: power above its limit.
    """
    hills = es.problems.terrain(seed=seed)
    rng = np.random.default_rng(seed)
    width, cells = hills.grid.width, list("".join(hills.grid.rows))
    landing = (hills.coordinates["landing"] @ [width, 1]).astype(int)
    best = planner.solve(hills).value
    problem, placed = hills, []
    for cell in rng.permutation([i for i, letter in enumerate(cells) if letter == "."]):
        if len(placed) == hazards:
            break
        aimed = np.where(np.isin(landing, [*placed, cell]), 1.0, -1.0)
        g = np.stack([aimed, hills.g[0, 0]])
        if not (g <= 0).all(0).any(1).all():
            continue
        marked = ["H" if i in (*placed, cell) else letter for i, letter in enumerate(cells)]
        rows = tuple("".join(marked[i : i + width]) for i in range(0, len(marked), width))
        candidate = FiniteCMDP(
            hills.P, hills.r[0], g, start=hills.start, horizon=hills.horizon, noise=hills.noise, name="two-limits",
            state_names=hills.state_names, action_names=hills.action_names, coordinates=hills.coordinates,
            grid=Grid(rows, hills.grid.heights),
        )  # fmt: skip
        if planner.solve(candidate).value > 0.9 * best:
            problem, placed = candidate, [*placed, cell]
    return problem


problem = hills_with_hazards()
slopes = es.problems.terrain(seed=20).kernel
WIDTHS = {"beta": 0.07, "lam": 0.01}
agents = [
    es.agents.lsvi_ae(**WIDTHS).called("one-hot"),
    es.agents.lsvi_ae(**WIDTHS, cost="gp(categorical(on=landing))").called("one kernel for both"),
    es.agents.lsvi_ae(**WIDTHS, cost=[es.gp("categorical(on=landing)"), es.gp(slopes)]).called("a kernel for each"),
]
with progress_bar(len(agents) * options.seeds * options.episodes) as advanced:
    result = es.run(problem, agents, options.episodes, options.seeds, progress=advanced)
folder = result.save(Path(options.out))
print(tables.summary(result.summary))
rows = [
    [label, *(tables.number(curves[f"violation_{i}"].sum(-1).mean()) for i in (1, 2))]
    for label, curves in result.columns.items()
]
print(f"\n{tables.aligned([['total violations, mean over seeds', 'hazards', 'power'], *rows])}\n")
_, wrong, suited = result.columns
print(certificates.run(folder, [wrong, suited], seed=None, step="1"))
print(f"\nWritten to {folder}")
