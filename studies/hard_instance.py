"""What the printed instance of Theorem 2 covers: agents to which costs are hidden, and not those that observe them.

    python studies/hard_instance.py [--most 20] [--factor 4] [--draws 32] [--workers 1] [--out DIR] [--figure PNG]

For K = 2^least, ..., 2^most by the factor, every draw has its own u and its own randomness. Agents:

lsvi      observes rewards only, like the bandits of the proof: costs are hidden
lsvi-ae   observes costs as well, and estimates them by counts, because they are not linear in the features
cautious  the same with optimism=-1: it stays with the first safe action it finds
uniform   never learns; its numbers are exact, by the planner

Regret and violation are compared with both halves of Theorem 2, with the constants of the paper's appendix. Slopes are
of log(mean over draws) on log K, with 95 % bootstrap intervals over draws. The instance changes with K: D shrinks as
1 / sqrt(K), so that even an agent that never learns has a regret that grows as sqrt(K).

What is refuted is this instance, not the statement, which needs some problem for each algorithm: see docs/paper.md.

An episode takes about 20 us of a core, and the full study (K up to 2^20, 32 draws) half an hour; `--workers` shares it
among several cores. Sums are kept, not curves: memory does not grow with K.
"""

from __future__ import annotations

import argparse
import json
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import everystep as es
from everystep.experiments import figures, statistics, tables
from everystep.lsvi import loop
from everystep.mdp import planner
from everystep.reports.theory import bounds as theory

CHUNK = 4096  # episodes in one compiled call
D, H = 4, 3
WIDTHS = {"beta": 0.2, "lam": 0.01}
AGENTS = {
    "lsvi": es.agents.lsvi(**WIDTHS),
    "lsvi-ae": es.agents.lsvi_ae(**WIDTHS),
    "cautious": es.agents.lsvi_ae(optimism=-1, **WIDTHS),
}
WORDS = {
    "lsvi": "costs hidden (lsvi)",
    "lsvi-ae": "costs observed (lsvi-ae)",
    "cautious": "costs observed (optimism=-1)",
    "uniform": "uniform",
}


def bounds(K: int) -> tuple[float, float]:
    """Theorem 2: the least regret and the least violation."""
    return theory.regret_lower_bound(K, H, D), theory.violation_lower_bound(K, H)


def alone_on_a_core(cores: Any) -> None:
    """Programs this small are slower when XLA spreads them over cores."""
    if not cores.empty():
        os.sched_setaffinity(0, {cores.get()})


def totals(name: str, K: int, draw: int) -> tuple[float, float]:
    """Regret and violation over all K episodes of one draw."""
    problem = es.problems.hard_instance(D, H, episodes=K, seed=draw)
    best = planner.solve(problem).value
    if name == "uniform":
        even = planner.evaluate(problem, np.full((problem.states, problem.actions), 1 / problem.actions))
        return K * (best - even.value), K * even.violation
    with jax.enable_x64(True):  # the setting is one of each thread
        built = AGENTS[name].resolve(problem, K).build()
        world = jax.tree.map(jnp.asarray, problem.world)
        job = loop.Job(built.agent, world, problem.sizes, built.share_values, built.share_costs)
        carry = loop.start_seeds(built.agent, problem.sizes, built.share_values, built.share_costs, 1)
        regret = violation = 0.0
        for done in range(0, K, CHUNK):
            count = min(CHUNK, K - done)
            carry, metrics = loop.scan_seeds(job, carry, np.array([draw], np.uint32), np.int32(count), CHUNK, False)
            regret += float((best - np.asarray(metrics.value[:, :count])).sum())
            violation += float(metrics.violation[:, :count].sum())
    return regret, violation


def measured(totals: np.ndarray, uniform: np.ndarray, least: tuple[float, float]) -> dict[str, dict[str, float]]:
    """Regret and violation (draws, 2) with intervals, beside the bounds and an agent that never learns."""
    mean, low, high = statistics.mean_over_seeds(totals, np.random.default_rng(0))
    return {
        what: {
            "mean": float(mean[i]),
            "low": float(low[i]),
            "high": float(high[i]),
            "bound": least[i],
            "of_bound": float(mean[i] / least[i]),
            "of_uniform": float(mean[i] / uniform[i]),
        }
        for i, what in enumerate(("regret", "violation"))
    }


def interval(estimate: dict[str, float]) -> str:
    return f"{estimate['mean']:.3g} [{estimate['low']:.3g}, {estimate['high']:.3g}]"


def draw_figure(lengths: list[int], sums: dict[str, np.ndarray], path: Path) -> None:
    looks = figures.looks(["lsvi-ae", "lsvi", "lsvi-primal"]) | {
        "cautious": figures.SPARE[0],
        "uniform": figures.SPARE[3],
    }
    with mpl.rc_context(figures.STYLE):
        figure = Figure(figsize=(9.6, 3.9), layout="constrained")
        for i, (axes, title) in enumerate(zip(figure.subplots(1, 2), ("Regret", "Hard violation"), strict=True)):
            for name, each in sums.items():
                interval_over_draws = statistics.mean_over_seeds(each[:, :, i], np.random.default_rng(0))
                colour, dashes = looks[name]
                axes.plot(
                    lengths,
                    interval_over_draws.mean,
                    color=colour,
                    linestyle=dashes,
                    marker="o",
                    markersize=3,
                    label=WORDS[name],
                )
                axes.fill_between(
                    lengths, interval_over_draws.low, interval_over_draws.high, color=colour, alpha=0.2, linewidth=0
                )
            least = [bounds(K)[i] for K in lengths]
            axes.plot(lengths, least, color=figures.FAINT, linewidth=0.9, label="Theorem 2's lower bound")
            axes.set(
                xscale="log",
                yscale="log",
                title=f"{title} over K episodes",
                xlabel="K",
                xlim=(lengths[0], lengths[-1]),
            )
        figure.axes[0].legend(frameon=False, fontsize=8.5)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=200, facecolor="white")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--least", type=int, default=8, help="log2 of the shortest run (8)")
    parser.add_argument("--most", type=int, default=20, help="log2 of the longest run (20)")
    parser.add_argument("--factor", type=int, default=4, help="from one K to the next (4)")
    parser.add_argument("--draws", type=int, default=32, help="of u and of the randomness (32)")
    parser.add_argument("--workers", type=int, default=1, help="runs at the same time (1)")
    parser.add_argument("--out", type=Path, default=Path("out/hard-instance"))
    parser.add_argument("--figure", type=Path, metavar="PNG", help="draw it, such as docs/figures/hard-instance.png")
    options = parser.parse_args()

    steps = range(options.most - options.least + 1)
    lengths = [K for i in steps if (K := 2**options.least * options.factor**i) <= 2**options.most]
    jobs = [(name, K, draw) for name in WORDS for K in lengths for draw in range(options.draws)]
    longest_first = sorted(jobs, key=lambda job: -job[1])
    context = get_context("spawn")
    cores = context.Queue()
    for core in sorted(os.sched_getaffinity(0))[: options.workers]:
        cores.put(core)
    with ProcessPoolExecutor(options.workers, context, alone_on_a_core, (cores,)) as pool:
        came = dict(zip(longest_first, pool.map(totals, *zip(*longest_first, strict=True)), strict=True))
    done = [came[job] for job in jobs]
    shaped = np.array(done).reshape(len(WORDS), len(lengths), options.draws, 2).swapaxes(1, 2)
    sums = dict(zip(WORDS, shaped, strict=True))  # (draws, lengths, 2)

    rows, written = [], []
    for name, each in sums.items():
        for j, K in enumerate(lengths):
            row = measured(each[:, j], sums["uniform"][:, j].mean(0), bounds(K))
            written.append({"agent": name, "K": K, **row})
            regret, violation = row["regret"], row["violation"]
            shares = [f"{regret['of_bound']:.3g}", f"{regret['of_uniform']:.3f}"]
            rows.append(
                [WORDS[name], f"2^{K.bit_length() - 1}", interval(regret), *shares, interval(violation)]
                + [f"{violation['of_bound']:.3g}"]
            )
    head = ["", "K", "regret", "/ bound", "/ uniform", "violation", "/ bound"]
    print(tables.aligned([head, *rows]))
    print("\nbounds: " + "; ".join("2^{}: {:.3g} and {:.3g}".format(K.bit_length() - 1, *bounds(K)) for K in lengths))
    print("with costs observed the printed instance is below both bounds; other instances are not (docs/paper.md)")
    slopes = {}
    for name, each in sums.items():
        for i, what in enumerate(("regret", "violation")):
            slope = statistics.power(np.array(lengths), each[:, :, i], np.random.default_rng(0))
            slopes[f"{name} {what}"] = slope._asdict()
            print(f"slope of {what}, {WORDS[name]}: {slope.value:.2f} [{slope.low:.2f}, {slope.high:.2f}]")
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "study.json").write_text(
        json.dumps({"rows": written, "slopes": slopes}, indent=1) + "\n", encoding="utf-8"
    )
    if options.figure:
        draw_figure(lengths, sums, options.figure)


if __name__ == "__main__":
    main()
