"""LSVI-AE on stored data, d = 50, H = 15, A = 4, 1000 episodes, shared over steps: time by episode, memory, and a peer.

    python benchmarks/stored.py [--peer-python .venv-peers/bin/python] [--figure docs/figures/stored.png]

Two environments with features of the same size, both learnt by `everystep.Learner`, one episode, one plan:
    listed      the random linear CMDP of dense.py, 100 states, which the peer learns too; next states recur
    continuous  a walk in a square whose states never recur: every transition is stored

Times are of a second learner, with everything compiled by the first. Memory is the growth of the process between the
second and the last episode of the first, programs included, compared with 8 K H A d bytes, the features of all next
states.
The last row is the size published for OPSE-LCMDP (S = 100, A = 3, d = 5, H = 4), 10,000 episodes, one seed of the
compiled driver.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import common
import gymnasium
import numpy as np
from dense import ACTIONS, HORIZON, D, linear_problem
from gymnasium import spaces

import everystep as es
from everystep import features

EPISODES, AT = 1000, (10, 20, 40, 80, 160)


class Walk(gymnasium.Env):
    """A noisy walk in the unit square: the reward grows to the right, the constraint to the top."""

    observation_space, action_space = spaces.Box(-1, 1, (2,), np.float64), spaces.Discrete(ACTIONS)
    MOVES = 0.1 * np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.uniform(-0.5, 0.5, 2)
        return self.x, {}

    def step(self, action):
        self.x = np.clip(self.x + self.MOVES[action] + self.np_random.normal(0, 0.05, 2), -1, 1)
        info = {"constraint": np.array([np.clip(self.x[1] - 0.5, -1, 1)])}
        return self.x, float(self.x[0] + 1) / 2, False, False, info


def walk_features() -> features.Spec:
    """phi(x, a) of d = 50 numbers, not crossed: cosines of a random direction for each action."""
    rng = np.random.default_rng(0)
    W, b = rng.normal(0, 1.5, (ACTIONS, D, 2)), rng.uniform(0, 2 * np.pi, (ACTIONS, D))
    return features.function(lambda x: np.cos(W @ x + b) / np.sqrt(D), d=D)


def resident() -> float:
    """Bytes of this process in memory."""
    with open("/proc/self/statm", encoding="utf-8") as file:
        return float(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def learn(learner: es.Learner) -> tuple[np.ndarray, float]:
    """Seconds of every episode, and by how much memory grew."""
    times, began_with = [], 0.0
    for k in range(EPISODES):
        began = time.perf_counter()
        learner.play(1)
        times.append(time.perf_counter() - began)
        began_with = resident() if k == 1 else began_with
    return np.array(times), resident() - began_with


def draw(path: Path, times: dict[str, np.ndarray]) -> None:
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(5.5, 3), layout="constrained")
    for (name, each), colour in zip(times.items(), ("#0072B2", "#D55E00"), strict=True):
        smooth = [np.median(each[max(0, k - 25) : k + 1]) * 1000 for k in range(len(each))]
        ax.plot(np.arange(1, len(each) + 1), smooth, color=colour)
        above = max(smooth[-len(smooth) // 3 :])  # over the line's last third, where the words are
        ax.annotate(name, (len(each), above), xytext=(-4, 5), textcoords="offset points", ha="right", color=colour)
    ax.set(xlabel="episode k", ylabel="ms (median of 25)", ylim=(0, None), xlim=(0, EPISODES))
    ax.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=200)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer-python", type=Path, default=common.PEER_PYTHON, help="one with rlberry-scool")
    parser.add_argument("--figure", type=Path, default=Path("out/benchmarks/stored.png"))
    args = parser.parse_args()
    common.pin()
    problem = linear_problem()
    agent = es.agents.lsvi_ae(beta=0.3, lam=0.1)
    listed = lambda: es.Learner(es.gym.make_env(problem), agent, features=features.table(problem.features))
    continuous = lambda: es.Learner(Walk(), agent, features=walk_features(), horizon=HORIZON, length=HORIZON)
    times, grown = {}, {}
    for name, learner in (("listed states", listed), ("continuous states", continuous)):
        first, grown[name] = learn(learner())
        times[name] = each = learn(learner())[0]  # the same again, with everything compiled
        print(f"{name}: compiling {max(first.sum() - each.sum(), 0):.1f} s.")
        shown = "  ".join(f"{k}: {1000 * np.median(each[k - 50 : k]):.2f}" for k in (100, 250, 500, 750, 1000))
        print(f"{name}: {each.sum():.1f} s in total; ms per episode (median of the 50 before): {shown}")
    draw(args.figure, times)
    print(f"Drawn to {args.figure}.")

    expected = 8.0 * EPISODES * HORIZON * ACTIONS * D
    small = es.problems.linear(states=100, actions=3, d=5, horizon=4)
    es.run(small, "lsvi-ae", episodes=1, seeds=1)
    opse = common.seconds(lambda: es.run(small, "lsvi-ae", episodes=10_000, seeds=1))
    rows = [
        (f"memory grown, {name}; 8 K H A d = {expected / 1e6:.0f} MB", f"{size / 1e6:.0f} MB", "", "")
        for name, size in grown.items()
    ]
    found = common.peer(args.peer_python, problem.features, problem, EPISODES, at=AT)
    if found:
        print(common.describe_peer(found))
        ratio = {name: found["total"] / each.sum() for name, each in times.items()}
        rows.insert(
            0, common.at_least("LSVIUCBAgent's time / everystep's, listed", ratio["listed states"], 500, ",.0f")
        )
        rows.insert(1, ("LSVIUCBAgent's time / everystep's, continuous", f"{ratio['continuous states']:,.0f}", "", ""))
    rows.append(("S = 100, A = 3, d = 5, H = 4, K = 10,000: seconds a seed", f"{opse:.2f} s", "", ""))
    common.table("stored data, one core", rows)


if __name__ == "__main__":
    main()
