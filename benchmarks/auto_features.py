"""CartPole with the constraint of examples/cartpole.py: features and settings made by hand, and es.train's own.

    python benchmarks/auto_features.py [--seeds 5] [--steps 6000]

    by hand        features and settings of examples/cartpole.py
    auto           the constraint alone: features="auto", every setting at its default
    auto, by hand  features="auto", the settings of examples/cartpole.py

Each trains until the steps are used up; then 20 episodes of the policy. Needs gymnasium.
"""

from __future__ import annotations

import argparse
import sys
import time
import types
from pathlib import Path
from typing import Any

import numpy as np

import everystep as es

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
sys.modules.setdefault("rivals", types.ModuleType("rivals"))  # stable-baselines3, which is not needed here
import cartpole  # noqa: E402
from contest import EVALUATED, Recorder  # noqa: E402

HAND = cartpole.CONTEST
WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "by hand": (dict(HAND.settings), dict(HAND.learner)),
    "auto": ({}, {}),
    "auto, by hand": (
        dict(HAND.settings),
        {key: each for key, each in HAND.learner.items() if "features" not in key},
    ),
}


def run(way: str, seed: int, steps: int) -> tuple[float, float, float, float, str]:
    """Violation while learning; return and violation per episode of the policy; seconds; the choice."""
    began, (settings, options) = time.process_time(), WAYS[way]
    recorder = Recorder(HAND)
    learner = es.Learner(recorder, es.agents.lsvi_ae(**settings), constraint=HAND.constraint, seed=seed, **options)
    while len(recorder.violations) < steps:
        learner.play(1)
    policy, seconds = learner.policy(optimism=0.0), time.process_time() - began
    final = Recorder(HAND)
    for episode in range(EVALUATED):
        (x, _), t, over = final.reset(seed=1_000_000 + episode), 0, False
        while not over:
            x, _, terminated, truncated, _ = final.step(policy(x, t + 1))
            t, over = t + 1, terminated or truncated
    chosen = [each for each in learner.remarks if each.startswith("features were chosen")]
    return (
        float(np.sum(recorder.violations[:steps])),
        float(final.returns().mean()),
        float(np.sum(final.violations) / EVALUATED),
        seconds,
        "; ".join(chosen),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=HAND.steps)
    options = parser.parse_args()
    for way in WAYS:
        rows = []
        for seed in range(options.seeds):
            *numbers, chosen = run(way, seed, options.steps)
            rows.append(numbers)
            print(f"  {way}, seed {seed}: " + ", ".join(f"{each:.4g}" for each in numbers), chosen, flush=True)
        mean, low, high = np.mean(rows, 0), np.min(rows, 0), np.max(rows, 0)
        print(
            f"{way}: violation while learning {mean[0]:.3g} [{low[0]:.3g}, {high[0]:.3g}], final return {mean[1]:.4g} "
            f"[{low[1]:.4g}, {high[1]:.4g}], final violation per episode {mean[2]:.2g}, {mean[3]:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
