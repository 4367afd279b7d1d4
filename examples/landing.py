"""Costs that depend on the cell an action aims at: the paper's lake with costs learnt by landing cell.

    python examples/landing.py [--seeds 64] [--out out/examples/landing]

Four variants of LSVI-AE: one-hot costs and a Gaussian process on landing cells, each learning after the episode and
reacting within it. There are 10 hazards; an agent without prior knowledge must step towards each about once.
"""

import argparse

import everystep as es
from everystep.cli.shared import progress_bar
from everystep.experiments import tables
from everystep.reports import certificates

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--seeds", type=int, default=64)
parser.add_argument("--episodes", type=int, default=1000)
parser.add_argument("--out", default="out/examples/landing")
options = parser.parse_args()

lake = es.problems.frozen_lake()
agents = [
    es.agents.lsvi_ae().called("one-hot"),
    es.agents.lsvi_ae(react=True).called("one-hot, reacting"),
    es.agents.lsvi_ae(cost="gp").called("landing cells"),
    es.agents.lsvi_ae(cost="gp", react=True).called("landing cells, reacting"),
]
with progress_bar(len(agents) * options.seeds * options.episodes) as advanced:
    result = es.run(lake, agents, options.episodes, options.seeds, progress=advanced)
folder = result.save(options.out)
print(tables.summary(result.summary))
print()
print(certificates.run(folder, ["one-hot", "landing cells, reacting"], seed=None, step="1"))
print(f"\nWritten to {folder}")
