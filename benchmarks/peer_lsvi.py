"""Time rlberry-scool's LSVIUCBAgent on a problem given as arrays. Runs in the peers' interpreter, prints JSON.

    python peer_lsvi.py problem.npz --episodes 1000 --at 5 10 20 40 80

The file holds P (S, A, S), r (S, A), phi (S, A, d), start and horizon. An episode of this agent is `run_episode` and
then least-squares value iteration over all observations so far, so its cost grows linearly with the episode's
number k. Every episode up to the last of --at is played, and those named by --at are also planned after (the best of
three times; only the number of observations matters for the cost). The time at k is that plan plus the median time of
playing. A line a + b k through these gives the cost of all episodes: a K + b K (K + 1) / 2. That is an extrapolation,
and the output separates it from the measurements.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # one core, like what it is compared with

import argparse
import json
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any

import numpy as np
import rlberry
from rlberry.envs.finite_mdp import FiniteMDP
from rlberry_scool.agents.features import FeatureMap
from rlberry_scool.agents.linear import LSVIUCBAgent


class Problem(FiniteMDP):
    """Rewards and transitions from arrays."""

    def _check(self) -> None:
        """Ask for sums of 1 up to rounding; the original asks for 1e-15, which is less than the rounding of a sum."""
        assert np.abs(self.P.sum(-1) - 1).max() < 1e-12


class Table(FeatureMap):
    """phi(x, a), looked up."""

    def __init__(self, phi: np.ndarray) -> None:
        self.phi = phi
        self.shape = phi.shape[-1:]

    def map(self, observation: int, action: int) -> np.ndarray:
        return self.phi[observation, action]


def seconds(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problem", help="an .npz file with P, r, phi, start and horizon")
    parser.add_argument("--episodes", type=int, default=1000, help="how many to extrapolate to")
    parser.add_argument("--at", type=int, nargs="+", default=[5, 10, 20, 40, 80], help="the episodes to time")
    args = parser.parse_args()
    rlberry.logger.setLevel("ERROR")

    given = np.load(args.problem, allow_pickle=False)
    phi, horizon = given["phi"], int(given["horizon"])
    agent = LSVIUCBAgent(
        Problem(given["r"], given["P"], int(given["start"])),
        horizon=horizon,
        feature_map_fn=lambda env: Table(phi),
        gamma=1.0,
        bonus_scale_factor=0.3,
        reg_factor=0.1,
    )
    agent.reseed(0)
    agent.n_episodes = max(args.at)
    agent.reset()

    played, planned = [], {}
    for k in range(1, max(args.at) + 1):
        played.append(seconds(agent.run_episode))
        if k in args.at:
            plan = lambda: setattr(agent, "w_vec", agent._run_lsvi(agent.bonus_scale_factor))
            planned[k] = min(seconds(plan) for _ in range(3))

    k, t = np.array(list(planned)), np.median(played) + np.array(list(planned.values()))
    slope, constant = np.polyfit(k, t, 1)
    K = args.episodes
    found = {
        "version": metadata.version("rlberry-scool"),
        "episode": k.tolist(),
        "seconds": t.tolist(),
        "constant": constant,
        "slope": slope,
        "misfit": float(np.abs((constant + slope * k) / t - 1).max()),
        "episodes": K,
        "total": constant * K + slope * K * (K + 1) / 2,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
